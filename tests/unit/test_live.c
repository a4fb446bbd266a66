/* Lists of live registrations, as their owner and others of its node use them, and the views of
 * what is lent in them. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptors.h"
#include "check.h"
#include "node/live.h"
#include "node/neighbour.h"
#include "node/view.h"

#define CONTEXT UINT64_C(0x0123456789abcdef)
#define OTHER UINT64_C(0xfedcba9876543210)

static const struct tug_offer nowhere;
static struct tug_live *list;

static int begin(void **state) {
    (void)state;
    list = aligned_alloc(64, TUG_LIVE * sizeof(*list));
    memset(list, 0, TUG_LIVE * sizeof(*list));
    return 0;
}

static int end(void **state) {
    (void)state;
    free(list);
    return 0;
}

static uint64_t id_of(uint32_t index, uint32_t generation) {
    return (uint64_t)generation << 32 | index;
}

static void what_is_attached_to_is_not_withdrawn(void **state) {
    (void)state;
    const uint64_t id = id_of(3, 1);
    struct tug_live *mine = tug_live_publish(list, CONTEXT, id, &nowhere);
    assert_non_null(mine);
    assert_null(tug_live_attach(list, CONTEXT, id_of(3, 2)));
    assert_null(tug_live_attach(list, OTHER, id));
    struct tug_live *theirs = tug_live_attach(list, CONTEXT, id);
    assert_ptr_equal(theirs, mine);
    assert_false(tug_live_withdraw(mine));
    assert_ptr_equal(tug_live_attach(list, CONTEXT, id), mine);
    tug_live_detach(theirs);
    tug_live_detach(theirs);
    assert_true(tug_live_withdraw(mine));
    assert_null(tug_live_attach(list, CONTEXT, id));
    tug_live_restore(mine, id);
    theirs = tug_live_attach(list, CONTEXT, id);
    assert_ptr_equal(theirs, mine);
    tug_live_detach(theirs);
    tug_live_end(mine);
    assert_null(tug_live_attach(list, CONTEXT, id));
}

static void there_may_be_no_list(void **state) {
    (void)state;
    assert_null(tug_live_publish(NULL, CONTEXT, id_of(0, 1), &nowhere));
    assert_null(tug_live_attach(NULL, CONTEXT, id_of(0, 1)));
    assert_true(tug_live_withdraw(NULL));
    tug_live_restore(NULL, id_of(0, 1));
    tug_live_end(NULL);
}

/* Registrations of one context have the whole list. */
static void one_context_can_fill_it(void **state) {
    (void)state;
    static struct tug_live *entries[TUG_LIVE];
    for (uint32_t i = 0; i < TUG_LIVE; i++) {
        entries[i] = tug_live_publish(list, CONTEXT, id_of(i, 1), &nowhere);
        assert_non_null(entries[i]);
    }
    assert_null(tug_live_publish(list, CONTEXT, id_of(TUG_LIVE, 1), &nowhere));
    assert_null(tug_live_publish(list, OTHER, id_of(7, 1), &nowhere));
    for (uint32_t i = 0; i < TUG_LIVE; i++) {
        struct tug_live *entry = tug_live_attach(list, CONTEXT, id_of(i, 1));
        assert_ptr_equal(entry, entries[i]);
        tug_live_detach(entry);
        tug_live_end(entry);
    }
    struct tug_live *entry = tug_live_publish(list, OTHER, id_of(7, 1), &nowhere);
    assert_non_null(entry);
    tug_live_end(entry);
}

/* Ids of two contexts are alike. */
static void contexts_share_it(void **state) {
    (void)state;
    enum { EACH = TUG_LIVE / 4 };
    static struct tug_live *entries[2][EACH];
    const uint64_t contexts[2] = {CONTEXT, CONTEXT + 1}; /* which begin at almost the same places */
    for (uint32_t i = 0; i < EACH; i++)
        for (int s = 0; s < 2; s++) {
            entries[s][i] = tug_live_publish(list, contexts[s], id_of(i, 1), &nowhere);
            assert_non_null(entries[s][i]);
        }
    for (uint32_t i = 0; i < EACH; i++)
        for (int s = 0; s < 2; s++) {
            struct tug_live *entry = tug_live_attach(list, contexts[s], id_of(i, 1));
            assert_ptr_equal(entry, entries[s][i]);
            tug_live_detach(entry);
        }
}

/* ---- at the same time ---- */

enum { THREADS = 3, ROUNDS = 20000 };
static _Atomic uint64_t registered, attached;
static _Atomic int using, ending;

/* Attaches to whatever is there. Nobody ends it meanwhile. */
static void *attacher(void *argument) {
    (void)argument;
    while (!atomic_load(&ending)) {
        const uint64_t id = atomic_load(&registered);
        struct tug_live *entry = tug_live_attach(list, CONTEXT, id);
        if (entry == NULL)
            continue;
        atomic_fetch_add(&using, 1);
        assert_int_equal(entry->offer.distance, id);
        atomic_fetch_add(&attached, 1);
        atomic_fetch_sub(&using, 1);
        tug_live_detach(entry);
    }
    return NULL;
}

static void it_ends_when_nobody_is_attached(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, attacher, NULL), 0);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        const uint64_t id = id_of(5, round);
        struct tug_live *entry =
            tug_live_publish(list, CONTEXT, id, &(struct tug_offer){.distance = id});
        assert_non_null(entry);
        atomic_store(&registered, id);
        for (int look = 0; atomic_load(&attached) < round / 8 && look < 1000; look++)
            sched_yield();
        while (!tug_live_withdraw(entry))
            sched_yield();
        assert_int_equal(atomic_load(&using), 0);
        tug_live_end(entry);
    }
    atomic_store(&ending, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_true(atomic_load(&attached) > 0);
}

/* ---- views ---- */

static const unsigned char *view(struct tug_neighbour *of, uint64_t context, uint64_t id) {
    struct tug_live *entry = tug_live_attach(list, context, id);
    assert_non_null(entry);
    const unsigned char *address = tug_view_address(of, entry, id);
    assert_ptr_equal(tug_view_address(of, entry, id), address); /* found again */
    tug_live_detach(entry);
    return address;
}

static void a_view_goes_with_the_entry(void **state) {
    (void)state;
    struct tug_neighbour of = {.live = list};
    unsigned char *memory[2];
    for (int i = 0; i < 2; i++) {
        memory[i] = tug_lent_allocate(TUG_LENT_LEAST);
        assert_non_null(memory[i]);
        memory[i][100] = (unsigned char)(10 + i);
    }
    const struct tug_offer one = tug_lent_offer(memory[0] + 100, 8);
    const struct tug_offer two = tug_lent_offer(memory[1] + 100, 8);
    const uint64_t id = id_of(9, 1);
    struct tug_live *entry = tug_live_publish(list, CONTEXT, id, &one);
    assert_int_equal(*view(&of, CONTEXT, id), 10);
    assert_ptr_not_equal(view(&of, CONTEXT, id), memory[0] + 100);
    /* the same address, the same id, another context: it is another registration */
    tug_live_end(entry);
    assert_ptr_equal(tug_live_publish(list, CONTEXT + TUG_LIVE, id, &two), entry);
    assert_int_equal(*view(&of, CONTEXT + TUG_LIVE, id), 11);
    tug_live_end(entry);
    /* what is not lent has none */
    assert_ptr_equal(tug_live_publish(list, CONTEXT, id_of(9, 2), &nowhere), entry);
    assert_null(view(&of, CONTEXT, id_of(9, 2)));
    tug_live_end(entry);
    /* nor what cannot be opened */
    struct tug_offer closed = one;
    closed.name++;
    assert_ptr_equal(tug_live_publish(list, CONTEXT, id_of(9, 3), &closed), entry);
    assert_null(view(&of, CONTEXT, id_of(9, 3)));
    tug_live_end(entry);
    tug_views_drop(&of);
    for (int i = 0; i < 2; i++)
        assert_true(tug_lent_free(memory[i]));
}

#define WITH_LIST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_LIST(what_is_attached_to_is_not_withdrawn),
        WITH_LIST(there_may_be_no_list),
        WITH_LIST(one_context_can_fill_it),
        WITH_LIST(contexts_share_it),
        WITH_LIST(it_ends_when_nobody_is_attached),
        WITH_LIST(a_view_goes_with_the_entry),
    };
    return cmocka_run_group_tests_name("live", tests, NULL, NULL);
}
