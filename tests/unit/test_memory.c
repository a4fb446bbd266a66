/* The table of registered memory: an id finds its registration and no other, within its bytes and
 * as long as it is there; and keys that were damaged are refused. The last cases look while others
 * add and remove. */
#include <pthread.h>
#include <stdatomic.h>

#include "check.h"
#include "transport/memory.h"

#define MOST (1024u * 1024u) /* indices of a table */

static struct tug_memory_table table;
static bool no_memory; /* calloc() fails */

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

void *__wrap_calloc(size_t count, size_t bytes) {
    return no_memory ? NULL : __real_calloc(count, bytes);
}

static int make_table(void **state) {
    (void)state;
    return tug_memory_table_init(&table);
}

static int drop_table(void **state) {
    (void)state;
    tug_memory_table_fini(&table);
    return 0;
}

static uint32_t index_of(uint64_t id) {
    return (uint32_t)id;
}

static void assert_found(uint64_t id, uint64_t offset, uint64_t bytes,
                         const struct tug_registration *registration) {
    int status = 12345;
    assert_ptr_equal(tug_memory_find(&table, id, offset, bytes, &status), registration);
    assert_int_equal(status, 12345);
}

static void assert_refused(uint64_t id, uint64_t offset, uint64_t bytes, int error) {
    int status = 12345;
    assert_null(tug_memory_find(&table, id, offset, bytes, &status));
    assert_int_equal(status, error);
}

/* ---- ids ---- */

static void finds_within_the_bytes_only(void **state) {
    struct tug_registration registration = {.bytes = 100};
    (void)state;
    assert_int_equal(tug_memory_add(&table, &registration), 0);
    const uint64_t id = registration.id;
    assert_found(id, 0, 100, &registration);
    assert_found(id, 99, 1, &registration);
    assert_found(id, 100, 0, &registration);
    assert_found(id, 0, 0, &registration);
    assert_refused(id, 0, 101, TUG_ERR_RANGE);
    assert_refused(id, 1, 100, TUG_ERR_RANGE);
    assert_refused(id, 100, 1, TUG_ERR_RANGE);
    assert_refused(id, 101, 0, TUG_ERR_RANGE);
    assert_refused(id, UINT64_MAX, 1, TUG_ERR_RANGE); /* their sum wraps around */
    assert_refused(id, 1, UINT64_MAX, TUG_ERR_RANGE);
    assert_refused(id, 50, UINT64_MAX - 49, TUG_ERR_RANGE);
    tug_memory_remove(&table, &registration);
}

static void ids_that_were_never_given_are_refused(void **state) {
    struct tug_registration registration = {.bytes = 8};
    (void)state;
    assert_refused(0, 0, 0, TUG_ERR_KEY);
    assert_refused(UINT64_C(1) << 32, 0, 0, TUG_ERR_KEY);
    assert_int_equal(tug_memory_add(&table, &registration), 0);
    for (int bit = 0; bit < 64; bit++)
        assert_refused(registration.id ^ UINT64_C(1) << bit, 0, 0, TUG_ERR_KEY);
    for (uint32_t index = 1; index != 0; index *= 2)
        for (uint64_t generation = 0; generation < 3; generation++)
            assert_refused(generation << 32 | index, 0, 0, TUG_ERR_KEY);
    assert_refused(UINT64_MAX, 0, 0, TUG_ERR_KEY);
    assert_refused(0, 0, 0, TUG_ERR_KEY); /* an entry that is not in use has the id 0 */
    assert_refused(1, 0, 0, TUG_ERR_KEY);
    tug_memory_remove(&table, &registration);
    assert_refused(0, 0, 0, TUG_ERR_KEY);
}

static void an_ended_id_stays_refused_when_its_index_is_used_again(void **state) {
    struct tug_registration registration = {.bytes = 8};
    uint64_t ended[1000];
    (void)state;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(tug_memory_add(&table, &registration), 0);
        assert_int_equal(index_of(registration.id), 0); /* small tables stay small */
        assert_found(registration.id, 0, 8, &registration);
        for (int earlier = 0; earlier < i; earlier++)
            assert_refused(ended[earlier], 0, 8, TUG_ERR_KEY);
        ended[i] = registration.id;
        tug_memory_remove(&table, &registration);
        assert_refused(ended[i], 0, 8, TUG_ERR_KEY);
    }
}

/* The drawing in memory.c: the generation stands at byte 24 of 32. */
static void an_index_whose_generations_are_used_up_is_not_used_again(void **state) {
    struct tug_registration first = {.bytes = 8}, second = {.bytes = 16};
    (void)state;
    assert_int_equal(tug_memory_add(&table, &first), 0);
    tug_memory_remove(&table, &first);
    unsigned char *entry = (unsigned char *)atomic_load(&table.chunks[0]);
    const uint32_t last_but_one = UINT32_MAX - 1;
    memcpy(entry + 24, &last_but_one, sizeof(last_but_one));
    assert_int_equal(tug_memory_add(&table, &first), 0);
    assert_int_equal(first.id, UINT64_C(0xffffffff00000000));
    assert_found(first.id, 0, 8, &first);
    tug_memory_remove(&table, &first);
    assert_int_equal(tug_memory_add(&table, &second), 0);
    assert_int_equal(index_of(second.id), 1);
    assert_refused(first.id, 0, 8, TUG_ERR_KEY);
    assert_found(second.id, 0, 16, &second);
    tug_memory_remove(&table, &second);
}

static void a_million_at_once_and_no_more(void **state) {
    struct tug_registration registration = {.bytes = 8};
    uint32_t seen = 0;
    (void)state;
    for (uint32_t i = 0; i < MOST; i++) {
        assert_int_equal(tug_memory_add(&table, &registration), 0);
        seen += index_of(registration.id) == i;
    }
    assert_int_equal(seen, MOST);
    registration.id = 77;
    assert_int_equal(tug_memory_add(&table, &registration), TUG_ERR_NO_MEMORY);
    assert_int_equal(registration.id, 77);
    const uint64_t middle = UINT64_C(1) << 32 | 123456;
    registration.id = middle;
    tug_memory_remove(&table, &registration);
    assert_int_equal(tug_memory_add(&table, &registration), 0);
    assert_int_equal(registration.id, UINT64_C(2) << 32 | 123456);
    assert_refused(middle, 0, 0, TUG_ERR_KEY);
    assert_int_equal(tug_memory_add(&table, &registration), TUG_ERR_NO_MEMORY);
}

/* A million adds and removes in random order: all that are there are found, none else, and no id
 * comes twice. */
static void a_million_adds_and_removes(void **state) {
    enum { LIVE = 3000, TURNS = 1000000 };
    static struct tug_registration registrations[LIVE];
    static uint64_t ended[LIVE], last[2 * LIVE];
    uint64_t seed = (uint64_t)time(NULL);
    uint32_t highest = 0;
    (void)state;
    printf("seed %llu\n", (unsigned long long)seed);
    for (int turn = 0; turn < TURNS; turn++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const uint32_t which = (uint32_t)(seed >> 33) % LIVE;
        struct tug_registration *one = &registrations[which];
        if (one->id == 0) {
            one->bytes = which + 1;
            assert_int_equal(tug_memory_add(&table, one), 0);
            const uint32_t index = index_of(one->id);
            assert_in_range(index, 0, LIVE - 1);
            assert_true(one->id > last[index]); /* never given before */
            last[index] = one->id;
            highest = index > highest ? index : highest;
        } else {
            tug_memory_remove(&table, one);
            ended[which] = one->id;
            one->id = 0;
        }
        const uint32_t other = (uint32_t)(seed >> 13) % LIVE;
        if (registrations[other].id != 0) {
            assert_found(registrations[other].id, other, 1, &registrations[other]);
            assert_refused(registrations[other].id, other, 2, TUG_ERR_RANGE);
        }
        if (ended[other] != 0)
            assert_refused(ended[other], 0, 0, TUG_ERR_KEY);
    }
    assert_true(highest > LIVE / 3);
    memset(registrations, 0, sizeof(registrations));
}

static void no_memory_is_said_and_harmless(void **state) {
    struct tug_registration registration = {.bytes = 8, .id = 77};
    (void)state;
    no_memory = true;
    const int status = tug_memory_add(&table, &registration);
    no_memory = false;
    assert_int_equal(status, TUG_ERR_NO_MEMORY);
    assert_int_equal(registration.id, 77);
    assert_refused(UINT64_C(1) << 32, 0, 0, TUG_ERR_KEY);
    assert_int_equal(tug_memory_add(&table, &registration), 0);
    assert_found(registration.id, 0, 8, &registration);
    tug_memory_remove(&table, &registration);
}

/* ---- each ---- */

struct visit {
    unsigned count;
    uint64_t sum;
    bool remove;
};

static void visit_one(struct tug_registration *registration, void *argument) {
    struct visit *visit = argument;
    visit->count++;
    visit->sum += registration->bytes;
    if (visit->remove)
        tug_memory_remove(&table, registration);
}

static void each_visits_what_is_left_and_may_remove_it(void **state) {
    enum { COUNT = 2500 };
    static struct tug_registration registrations[COUNT];
    uint64_t sum = 0;
    (void)state;
    for (unsigned i = 0; i < COUNT; i++) {
        registrations[i] = (struct tug_registration){.bytes = i + 1};
        assert_int_equal(tug_memory_add(&table, &registrations[i]), 0);
        sum += i + 1;
    }
    for (unsigned i = 0; i < COUNT; i += 3) {
        tug_memory_remove(&table, &registrations[i]);
        sum -= i + 1;
    }
    struct visit visit = {.remove = true};
    tug_memory_each(&table, visit_one, &visit);
    assert_int_equal(visit.count, COUNT - (COUNT + 2) / 3);
    assert_int_equal(visit.sum, sum);
    visit = (struct visit){0};
    tug_memory_each(&table, visit_one, &visit);
    assert_int_equal(visit.count, 0);
}

/* ---- threads ---- */

enum { TURNS = 100000, LIVE_MOST = 32, FINDERS = 3 };

/* What the changing thread has given so far, for those who look. */
static struct {
    _Atomic uint64_t id;
    struct tug_registration *_Atomic registration; /* only compared */
    uint64_t bytes;
} given[TURNS];
static _Atomic uint32_t ngiven;
static _Atomic bool over;
static _Atomic unsigned mistakes;
static _Atomic uint64_t found, refused;

/* Adds and removes; what is removed is freed at once, so that a look at it is seen by the address
 * sanitizer. */
static void *change(void *argument) {
    struct tug_registration *live[LIVE_MOST] = {0};
    uint64_t seed = 88172645463325252u;
    (void)argument;
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        struct tug_registration **slot = &live[(seed >> 33) % LIVE_MOST];
        if (*slot != NULL) {
            tug_memory_remove(&table, *slot);
            free(*slot);
        }
        *slot = malloc(sizeof(**slot));
        **slot = (struct tug_registration){.bytes = 1 + (seed >> 40) % 1000};
        if (tug_memory_add(&table, *slot) != 0)
            atomic_fetch_add(&mistakes, 1);
        given[turn].bytes = (*slot)->bytes;
        atomic_store(&given[turn].registration, *slot);
        atomic_store(&given[turn].id, (*slot)->id);
        atomic_store(&ngiven, turn + 1);
    }
    atomic_store(&over, true);
    for (int i = 0; i < LIVE_MOST; i++)
        if (live[i] != NULL) {
            tug_memory_remove(&table, live[i]);
            free(live[i]);
        }
    return NULL;
}

/* Looks for recent ids, which end and are replaced meanwhile: an id finds its own registration and
 * its own size, or is refused. */
static void *look_for_recent(void *argument) {
    uint64_t seed = (uint64_t)(uintptr_t)argument;
    uint64_t hits = 0, misses = 0;
    while (!atomic_load(&over)) {
        const uint32_t count = atomic_load(&ngiven);
        if (count == 0)
            continue;
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const uint32_t back = (uint32_t)(seed >> 33) % (2 * LIVE_MOST);
        const uint32_t which = back < count ? count - 1 - back : 0;
        const uint64_t id = atomic_load(&given[which].id);
        const uint64_t more = seed >> 63; /* one byte too many */
        int status = 0;
        const struct tug_registration *one =
            tug_memory_find(&table, id, 0, given[which].bytes + more, &status);
        if (one != NULL) {
            hits++;
            if (one != atomic_load(&given[which].registration) || more != 0)
                atomic_fetch_add(&mistakes, 1);
        } else {
            misses += status == TUG_ERR_KEY;
            if (status != TUG_ERR_KEY && !(status == TUG_ERR_RANGE && more != 0))
                atomic_fetch_add(&mistakes, 1);
        }
    }
    atomic_fetch_add(&found, hits);
    atomic_fetch_add(&refused, misses);
    return NULL;
}

/* Looks for one registration that stays. */
static void *look_for_mine(void *argument) {
    struct tug_registration *mine = argument;
    while (!atomic_load(&over)) {
        int status = 0;
        if (tug_memory_find(&table, mine->id, 100, 28, &status) != mine)
            atomic_fetch_add(&mistakes, 1);
        if (tug_memory_find(&table, mine->id, 100, 29, &status) != NULL || status != TUG_ERR_RANGE)
            atomic_fetch_add(&mistakes, 1);
    }
    return NULL;
}

static void finding_while_others_add_and_remove(void **state) {
    struct tug_registration mine = {.bytes = 128};
    pthread_t changer, finders[FINDERS];
    (void)state;
    atomic_store(&over, false);
    assert_int_equal(tug_memory_add(&table, &mine), 0);
    for (uintptr_t i = 0; i < FINDERS; i++)
        assert_int_equal(pthread_create(&finders[i], NULL, i == 0 ? look_for_mine : look_for_recent,
                                        i == 0 ? (void *)&mine : (void *)(i * 977)),
                         0);
    assert_int_equal(pthread_create(&changer, NULL, change, NULL), 0);
    pthread_join(changer, NULL);
    for (int i = 0; i < FINDERS; i++)
        pthread_join(finders[i], NULL);
    printf("%llu found, %llu refused\n", (unsigned long long)atomic_load(&found),
           (unsigned long long)atomic_load(&refused));
    assert_int_equal(atomic_load(&mistakes), 0);
    assert_found(mine.id, 0, 128, &mine);
    tug_memory_remove(&table, &mine);
}

/* Two registrations take turns at one index: the generation says which it was. */
enum { SWAPS = 3000000 };

static struct tug_registration turns[2] = {{.bytes = 8}, {.bytes = 16}};
static _Atomic uint32_t generation;

static void *take_turns(void *argument) {
    (void)argument;
    for (uint32_t i = 1; i <= SWAPS; i++) {
        struct tug_registration *one = &turns[i % 2];
        if (tug_memory_add(&table, one) != 0 || one->id != (uint64_t)i << 32)
            atomic_fetch_add(&mistakes, 1);
        atomic_store_explicit(&generation, i, memory_order_relaxed);
        tug_memory_remove(&table, one);
    }
    atomic_store(&over, true);
    return NULL;
}

static void *look_at_turns(void *argument) {
    (void)argument;
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        const uint32_t now = atomic_load_explicit(&generation, memory_order_relaxed) + 1;
        for (uint32_t i = now; i < now + 4; i++) {
            int status = 0;
            const struct tug_registration *one =
                tug_memory_find(&table, (uint64_t)i << 32, 0, i % 2 == 0 ? 8 : 16, &status);
            if (one != NULL ? one != &turns[i % 2] : status != TUG_ERR_KEY)
                atomic_fetch_add(&mistakes, 1);
        }
    }
    return NULL;
}

static void finding_what_is_replaced_at_that_moment(void **state) {
    pthread_t changer, finders[2];
    (void)state;
    atomic_store(&over, false);
    atomic_store(&generation, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&finders[i], NULL, look_at_turns, NULL), 0);
    assert_int_equal(pthread_create(&changer, NULL, take_turns, NULL), 0);
    pthread_join(changer, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(finders[i], NULL);
    assert_int_equal(atomic_load(&mistakes), 0);
}

enum { ADDERS = 4, ADDS = 20000, ROUNDS = 15 };

static void *add_many(void *argument) {
    struct tug_registration *registrations = argument;
    while (!atomic_load(&over)) {
    }
    for (int round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < ADDS; i++) {
            registrations[i].bytes = (size_t)i;
            if (tug_memory_add(&table, &registrations[i]) != 0)
                atomic_fetch_add(&mistakes, 1);
        }
        /* half of them stay in the end */
        for (int i = 0; i < ADDS; i++)
            if (round < ROUNDS || i % 2 == 1)
                tug_memory_remove(&table, &registrations[i]);
    }
    return NULL;
}

static void threads_that_add_get_ids_of_their_own(void **state) {
    struct tug_registration *registrations = calloc(ADDERS * ADDS, sizeof(*registrations));
    pthread_t threads[ADDERS];
    (void)state;
    assert_non_null(registrations);
    atomic_store(&over, false);
    for (size_t i = 0; i < ADDERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, registrations + i * ADDS), 0);
    atomic_store(&over, true);
    for (size_t i = 0; i < ADDERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&mistakes), 0);
    for (size_t i = 0; i < ADDERS * ADDS; i += 2)
        assert_found(registrations[i].id, i % ADDS, 0, &registrations[i]);
    struct visit visit = {0};
    tug_memory_each(&table, visit_one, &visit);
    assert_int_equal(visit.count, ADDERS * ADDS / 2);
    free(registrations);
}

/* ---- keys ---- */

#define CONTEXT UINT64_C(0xfeedfacecafebeef)

static struct tug_key make_key(void) {
    struct tug_key key = {{UINT64_C(5) << 32 | 3, CONTEXT, 0x7f0012345000, 4096,
                           UINT64_C(6) << 32 | 0xabcd, UINT64_C(2) << 16 | 1}};
    key.word[5] |= (uint64_t)tug_key_check(&key) << 32;
    return key;
}

static void a_key_allows_its_bytes(void **state) {
    const struct tug_key key = make_key();
    (void)state;
    assert_int_equal(tug_key_owner(&key), 6);
    assert_int_equal(tug_key_segment(&key), 1);
    assert_int_equal(tug_key_node_rank(&key), 2);
    assert_false(tug_key_is_lent(&key));
    assert_int_equal(tug_key_allows(&key, CONTEXT, 6, 0, 4096), 0);
    assert_int_equal(tug_key_allows(&key, CONTEXT, 6, 4096, 0), 0);
    assert_int_equal(tug_key_allows(&key, CONTEXT, 6, 1, 4096), TUG_ERR_RANGE);
    assert_int_equal(tug_key_allows(&key, CONTEXT, 6, 4097, 0), TUG_ERR_RANGE);
    assert_int_equal(tug_key_allows(&key, CONTEXT, 6, UINT64_MAX, 2), TUG_ERR_RANGE);
    assert_int_equal(tug_key_allows(&key, CONTEXT, 6, 2, UINT64_MAX), TUG_ERR_RANGE);
    assert_int_equal(tug_key_allows(&key, CONTEXT + 1, 6, 0, 1), TUG_ERR_KEY);
    assert_int_equal(tug_key_allows(&key, CONTEXT, 5, 0, 1), TUG_ERR_KEY);
}

static void a_key_says_that_its_memory_is_lent(void **state) {
    struct tug_key key = make_key();
    (void)state;
    key.word[5] = (uint32_t)key.word[5] | TUG_KEY_LENT;
    key.word[5] |= (uint64_t)tug_key_check(&key) << 32;
    assert_true(tug_key_is_lent(&key));
    assert_int_equal(tug_key_segment(&key), 1);
    assert_int_equal(tug_key_node_rank(&key), 2);
    assert_int_equal(tug_key_allows(&key, CONTEXT, 6, 0, 4096), 0);
}

/* Whatever bit was turned over on the way, even one whose new meaning somebody would accept. */
static void a_key_with_a_wrong_bit_is_refused(void **state) {
    (void)state;
    for (int bit = 0; bit < 8 * 64; bit++) {
        struct tug_key key = make_key();
        key.word[bit / 64] ^= UINT64_C(1) << bit % 64;
        assert_int_equal(tug_key_allows(&key, CONTEXT, 6, 0, 1), TUG_ERR_KEY);
        assert_int_equal(tug_key_allows(&key, key.word[1], tug_key_owner(&key), 0, 1), TUG_ERR_KEY);
    }
}

static void a_key_with_two_wrong_bits_is_refused(void **state) {
    (void)state;
    for (int bit = 0; bit < 8 * 64; bit++)
        for (int other = 0; other < bit; other++) {
            struct tug_key key = make_key();
            key.word[bit / 64] ^= UINT64_C(1) << bit % 64;
            key.word[other / 64] ^= UINT64_C(1) << other % 64;
            assert_int_equal(tug_key_allows(&key, key.word[1], tug_key_owner(&key), 0, 1),
                             TUG_ERR_KEY);
        }
}

static void a_key_of_zeros_is_refused(void **state) {
    const struct tug_key key = {{0}};
    (void)state;
    assert_int_equal(tug_key_allows(&key, 0, 0, 0, 0), TUG_ERR_KEY);
}

#define WITH_TABLE(case) cmocka_unit_test_setup_teardown(case, make_table, drop_table)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_TABLE(finds_within_the_bytes_only),
        WITH_TABLE(ids_that_were_never_given_are_refused),
        WITH_TABLE(an_ended_id_stays_refused_when_its_index_is_used_again),
        WITH_TABLE(an_index_whose_generations_are_used_up_is_not_used_again),
        WITH_TABLE(a_million_at_once_and_no_more),
        WITH_TABLE(a_million_adds_and_removes),
        WITH_TABLE(no_memory_is_said_and_harmless),
        WITH_TABLE(each_visits_what_is_left_and_may_remove_it),
        WITH_TABLE(finding_while_others_add_and_remove),
        WITH_TABLE(finding_what_is_replaced_at_that_moment),
        WITH_TABLE(threads_that_add_get_ids_of_their_own),
        cmocka_unit_test(a_key_allows_its_bytes),
        cmocka_unit_test(a_key_says_that_its_memory_is_lent),
        cmocka_unit_test(a_key_with_a_wrong_bit_is_refused),
        cmocka_unit_test(a_key_with_two_wrong_bits_is_refused),
        cmocka_unit_test(a_key_of_zeros_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
