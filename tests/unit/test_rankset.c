/* Sets of ranks: they hold what a table of all ranks would, in any order of changes; they take
 * memory for what is in them; and a change for which there is no memory has not happened. */
#include "check.h"
#include "base/rankset.h"

enum { MILLION = 1000000 };

static struct tug_rankset set;
static long until_refusal = -1; /* allocations that succeed; negative: all */
static size_t largest;          /* bytes of one allocation */

void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);

static bool refused(size_t bytes) {
    if (bytes > largest)
        largest = bytes;
    return until_refusal >= 0 && until_refusal-- == 0;
}

void *__wrap_realloc(void *memory, size_t bytes) {
    return refused(bytes) ? NULL : __real_realloc(memory, bytes);
}

void *__wrap_calloc(size_t n, size_t bytes) {
    return refused(n * bytes) ? NULL : __real_calloc(n, bytes);
}

static int begin(void **state) {
    (void)state;
    until_refusal = -1;
    largest = 0;
    return 0;
}

static int end(void **state) {
    (void)state;
    tug_rankset_clear(&set);
    return 0;
}

static void expect_equal(const bool *model, uint32_t nranks) {
    uint32_t next = tug_rankset_next(&set, nranks, 0), count = 0;
    for (uint32_t rank = 0; rank < nranks; rank++) {
        if (!model[rank])
            continue;
        assert_int_equal(next, rank);
        next = tug_rankset_next(&set, nranks, rank + 1);
        count++;
    }
    assert_int_equal(next, TUG_RANKSET_END);
    assert_int_equal(set.count, count);
    assert_true(largest <= tug_rankset_bytes(nranks, nranks) || largest <= 16);
}

/* Fills it in a random order with changes back and forth, and empties it so. */
static void change_at_random(uint32_t nranks, uint64_t seed) {
    static bool model[4096];
    memset(model, 0, sizeof(model));
    largest = 0;
    for (int step = 0; step < 4000; step++) {
        const uint32_t rank = (uint32_t)(check_draw(&seed) % nranks);
        if (check_draw(&seed) % 3 != 0 ? step < 2000 : step >= 2000) {
            assert_true(tug_rankset_add(&set, nranks, rank));
            model[rank] = true;
        } else {
            tug_rankset_remove(&set, rank);
            model[rank] = false;
        }
        if (step % 100 == 0)
            expect_equal(model, nranks);
    }
    expect_equal(model, nranks);
    tug_rankset_clear(&set);
    assert_int_equal(tug_rankset_next(&set, nranks, 0), TUG_RANKSET_END);
}

static void holds_what_a_table_would(void **state) {
    (void)state;
    const uint32_t sizes[] = {1, 2, 5, 63, 64, 65, 128, 1000, 4096};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        change_at_random(sizes[i], 17 + i);
}

static void takes_memory_for_what_is_in_it(void **state) {
    (void)state;
    for (uint32_t count = 1; count <= 40000; count++) {
        assert_true(tug_rankset_add(&set, MILLION, (uint32_t)(count * 7919ul % MILLION)));
        assert_true(largest <= tug_rankset_bytes(MILLION, count));
        assert_true(largest <= 16 + 8ul * count && largest <= MILLION / 8);
    }
    assert_int_equal(set.count, 40000);
    assert_int_equal(tug_rankset_bytes(MILLION, 0), 0);
    assert_int_equal(tug_rankset_bytes(MILLION, 3), 16);
    assert_int_equal(tug_rankset_bytes(MILLION, MILLION), MILLION / 8);
}

/* Refuses every allocation in turn, of those that 100 ranks of 640 need: list and bits. */
static void says_when_there_is_no_memory(void **state) {
    (void)state;
    enum { NRANKS = 640, NADDED = 100 };
    long nth = 0;
    for (bool met = true; met; nth++) {
        static bool model[NRANKS];
        memset(model, 0, sizeof(model));
        met = false;
        until_refusal = nth;
        for (uint32_t i = 0; i < NADDED; i++) {
            const uint32_t rank = i * 77 % NRANKS;
            model[rank] = tug_rankset_add(&set, NRANKS, rank);
            met |= !model[rank];
        }
        expect_equal(model, NRANKS);
        tug_rankset_clear(&set);
    }
    assert_int_equal(nth - 1, 5); /* for 4, 8, 16 and 20 ranks, and for the bits */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(holds_what_a_table_would, begin, end),
        cmocka_unit_test_setup_teardown(takes_memory_for_what_is_in_it, begin, end),
        cmocka_unit_test_setup_teardown(says_when_there_is_no_memory, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
