/* Free tags: all of them once, none twice, whatever the order in which they come back. The last
 * case has several takers and one giver at once. */
#include <pthread.h>
#include <sched.h>

#include "check.h"
#include "base/tags.h"

#define COUNT 16

static struct tug_tags tags;

static int make_tags(void **state) {
    (void)state;
    return tug_tags_init(&tags, COUNT);
}

static int drop_tags(void **state) {
    (void)state;
    tug_tags_fini(&tags);
    return 0;
}

static void take_all(uint32_t taken[COUNT]) {
    bool seen[COUNT] = {false};
    for (int i = 0; i < COUNT; i++) {
        assert_true(tug_tags_take(&tags, &taken[i]));
        assert_in_range(taken[i], 0, COUNT - 1);
        assert_false(seen[taken[i]]);
        seen[taken[i]] = true;
    }
}

static void every_tag_once_then_none(void **state) {
    (void)state;
    uint32_t taken[COUNT], none = 12345;
    take_all(taken);
    for (int i = 0; i < 3; i++)
        assert_false(tug_tags_take(&tags, &none));
    assert_int_equal(none, 12345); /* outputs are set only on success */
}

static void a_tag_given_back_is_the_next(void **state) {
    (void)state;
    uint32_t taken[COUNT], tag;
    take_all(taken);
    tug_tags_give(&tags, taken[5]);
    assert_true(tug_tags_take(&tags, &tag));
    assert_int_equal(tag, taken[5]);
    assert_false(tug_tags_take(&tags, &tag));
}

static void wraps_around_in_any_order(void **state) {
    (void)state;
    uint32_t taken[COUNT];
    for (int lap = 0; lap < 500; lap++) {
        take_all(taken);
        int step = 2 * (lap % 8) + 1; /* odd: visits all */
        for (int i = 0; i < COUNT; i++)
            tug_tags_give(&tags, taken[i * step % COUNT]);
    }
    assert_int_equal(atomic_load(&tags.head), 500 * COUNT);
    take_all(taken);
}

static void partly_out_for_long(void **state) {
    (void)state;
    uint32_t held[3], tag;
    for (int i = 0; i < 3; i++)
        assert_true(tug_tags_take(&tags, &held[i]));
    for (int i = 0; i < 1000; i++) {
        assert_true(tug_tags_take(&tags, &tag));
        for (int k = 0; k < 3; k++)
            assert_int_not_equal(tag, held[k]);
        tug_tags_give(&tags, tag);
    }
}

static void one_tag_works(void **state) {
    (void)state;
    struct tug_tags one;
    uint32_t tag = 9, other;
    assert_int_equal(tug_tags_init(&one, 1), 0);
    for (int i = 0; i < 10; i++) {
        assert_true(tug_tags_take(&one, &tag));
        assert_int_equal(tag, 0);
        assert_false(tug_tags_take(&one, &other));
        tug_tags_give(&one, tag);
    }
    tug_tags_fini(&one);
}

static void one_tag_stays_with_the_holder(void **state) {
    (void)state;
    uint32_t tag, mine = COUNT;
    assert_int_equal(tug_tags_keep_in_hand(&tags, COUNT / 4), 0);
    for (int i = 0; i < 10; i++) {
        int taken[COUNT], n = 0;
        for (; tug_tags_take(&tags, &tag); n++)
            taken[n] = (int)tag;
        assert_true(tug_tags_take_in_hand(&tags, &mine));
        tug_tags_give(&tags, mine); /* it stays in hand, while the others have all of theirs */
        assert_false(tug_tags_take(&tags, &tag));
        while (n > 0)
            tug_tags_give(&tags, (uint32_t)taken[--n]);
    }
}

/* Takers mark what they have; two owners of one tag find each other's mark. The tags travel to the
 * one giver through a mailbox each. */
#define TAKERS 4
#define ROUNDS 20000

static _Atomic int owner[COUNT];
static _Atomic int mailbox[TAKERS]; /* tag + 1, or 0 */
static _Atomic int finished;
static _Atomic int clashes;

static void *taker(void *argument) {
    int me = (int)(intptr_t)argument;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t tag;
        while (!tug_tags_take(&tags, &tag))
            sched_yield();
        int nobody = 0;
        if (!atomic_compare_exchange_strong(&owner[tag], &nobody, me + 1))
            atomic_fetch_add(&clashes, 1);
        while (atomic_load(&mailbox[me]) != 0)
            sched_yield();
        atomic_store(&mailbox[me], (int)tag + 1);
    }
    atomic_fetch_add(&finished, 1);
    return NULL;
}

static int collect(void) {
    int given = 0;
    for (int i = 0; i < TAKERS; i++) {
        int tag = atomic_exchange(&mailbox[i], 0) - 1;
        if (tag < 0)
            continue;
        atomic_store(&owner[tag], 0);
        tug_tags_give(&tags, (uint32_t)tag);
        given++;
    }
    return given;
}

static void takers_never_share_a_tag(void **state) {
    (void)state;
    pthread_t threads[TAKERS];
    uint32_t taken[COUNT];
    int given = 0;
    for (int i = 0; i < TAKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, taker, (void *)(intptr_t)i), 0);
    while (given < TAKERS * ROUNDS) {
        int some = collect();
        given += some;
        if (some == 0)
            sched_yield();
    }
    for (int i = 0; i < TAKERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&clashes), 0);
    assert_int_equal(atomic_load(&finished), TAKERS);
    take_all(taken); /* none was lost */
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, make_tags, drop_tags)
    const struct CMUnitTest tests[] = {
        CASE(every_tag_once_then_none),
        CASE(a_tag_given_back_is_the_next),
        CASE(wraps_around_in_any_order),
        CASE(partly_out_for_long),
        CASE(one_tag_works),
        CASE(one_tag_stays_with_the_holder),
        CASE(takers_never_share_a_tag),
    };
    return cmocka_run_group_tests_name("tags", tests, NULL, NULL);
}
