/* Where pages are: entries are found, bounded and used again in the right order, never while
 * something is under way with them; puts and stops meet; and what a reader copies between two equal
 * versions is of the page that it asked for, whatever the holder does meanwhile. */
#include <pthread.h>
#include <stdatomic.h>

#include "check.h"
#include "gas/array.h"

enum { FOREIGN = 6, OWN = 2, ALL = FOREIGN + OWN, SELF = 3 };

static struct tug_array array;
static struct tug_pages *pages = &array.pages;
static unsigned told;

void __wrap_tug_deferred_post(struct tug_deferred_list *deferred, struct tug_deferred *work);

void __wrap_tug_deferred_post(struct tug_deferred_list *deferred, struct tug_deferred *work) {
    (void)deferred, (void)work;
    told++;
}

static int make_pages(void **state) {
    (void)state;
    told = 0;
    int status = tug_pages_init(pages, FOREIGN, OWN, SELF);
    for (size_t i = 0; status == 0 && i < ALL; i++)
        pages->entries[i].array = &array;
    return status;
}

static int drop_pages(void **state) {
    (void)state;
    tug_pages_fini(pages);
    return 0;
}

/* A page that is known and may be written. */
static struct tug_page *add(uint64_t page, uint32_t owner) {
    struct tug_page *entry = tug_pages_take(pages, page, false);
    assert_non_null(entry);
    tug_pages_set(pages, entry, &(struct tug_page_slot){.owner = owner}, NULL);
    tug_page_open(entry);
    return entry;
}

/* ---- the table ---- */

static void finds_what_was_taken(void **state) {
    (void)state;
    assert_null(tug_pages_find(pages, 5));
    struct tug_page *entry = tug_pages_take(pages, 5, false);
    assert_ptr_equal(tug_pages_find(pages, 5), entry);
    assert_null(tug_pages_find(pages, 6));
    assert_false(tug_page_known(entry));
    assert_false(tug_page_enter(entry, 5));
    tug_pages_set(pages, entry, &(struct tug_page_slot){.owner = 1}, NULL);
    assert_true(tug_page_known(entry));
    assert_true(tug_pages_forget(pages, entry));
    assert_null(tug_pages_find(pages, 5));
    assert_true(tug_pages_forget(pages, entry));
}

static void forgets_what_was_not_used_for_longest(void **state) {
    (void)state;
    for (uint64_t page = 0; page < FOREIGN; page++)
        add(page, 1);
    /* the hand goes round once, and everything counts as not used */
    add(100, 1);
    unsigned kept = 0;
    for (uint64_t page = 0; page < FOREIGN; page++)
        kept += tug_pages_find(pages, page) != NULL;
    assert_int_equal(kept, FOREIGN - 1);
    uint64_t often = 0;
    while (tug_pages_find(pages, often) == NULL)
        often++;
    for (uint64_t page = 200; page < 300; page++) {
        tug_page_touch(tug_pages_find(pages, often));
        add(page, 1);
        assert_non_null(tug_pages_find(pages, often));
        assert_non_null(tug_pages_find(pages, page));
    }
}

static void keeps_its_own_pages(void **state) {
    (void)state;
    add(1, SELF);
    add(2, SELF);
    for (uint64_t page = 10; page < 100; page++)
        add(page, 1);
    assert_non_null(tug_pages_find(pages, 1));
    assert_non_null(tug_pages_find(pages, 2));
    assert_false(tug_pages_forget(pages, tug_pages_find(pages, 1)));
    assert_int_equal(pages->nforeign, FOREIGN);
    /* both go, and come back */
    for (uint64_t page = 1; page <= OWN; page++)
        tug_pages_set(pages, tug_pages_find(pages, page), &(struct tug_page_slot){.owner = 1},
                      NULL);
    assert_int_equal(pages->nforeign, ALL);
    for (uint64_t page = 100; page < 100 + OWN; page++)
        add(page, SELF);
    assert_true(pages->nforeign <= FOREIGN);
    for (uint64_t page = 200; page < 300; page++)
        add(page, 1);
    for (uint64_t page = 100; page < 100 + OWN; page++)
        assert_non_null(tug_pages_find(pages, page));
}

static void keeps_what_is_in_use(void **state) {
    (void)state;
    struct tug_task task;
    struct tug_page *busy[FOREIGN];
    for (uint64_t page = 0; page < FOREIGN; page++)
        busy[page] = add(page, 1);
    busy[0]->gets = 1;
    busy[1]->asking = true;
    busy[2]->changing = true;
    busy[3]->coming = true;
    busy[4]->first = &task;
    assert_true(tug_page_enter(busy[5], 5));
    assert_null(tug_pages_take(pages, 100, false));
    for (uint64_t page = 0; page < FOREIGN; page++)
        assert_ptr_equal(tug_pages_find(pages, page), busy[page]);
    /* a page that comes here does not wait for those of others */
    struct tug_page *comes = tug_pages_take(pages, 200, true);
    assert_non_null(comes);
    comes->coming = true;
    tug_page_leave(busy[5]);
    busy[5]->stopping = true;
    assert_null(tug_pages_take(pages, 100, false));
    tug_pages_set(pages, comes, &(struct tug_page_slot){.owner = SELF}, NULL);
    busy[5]->stopping = false;
    assert_ptr_equal(tug_pages_take(pages, 100, false), busy[5]);
    assert_null(tug_pages_find(pages, 5));
    assert_int_equal(told, 0);
}

/* ---- writers ---- */

static void stop_waits_for_writers(void **state) {
    (void)state;
    struct tug_page *entry = add(5, 1);
    assert_false(tug_page_enter(entry, 6));
    assert_true(tug_page_enter(entry, 5));
    assert_true(tug_page_enter(entry, 5));
    assert_false(tug_page_stop(entry));
    assert_false(tug_page_enter(entry, 5));
    tug_page_leave(entry);
    assert_int_equal(told, 0);
    tug_page_leave(entry);
    assert_int_equal(told, 1);
    assert_true(tug_page_stop(entry));
    assert_false(tug_page_enter(entry, 5)); /* nobody is told of one who was refused */
    assert_int_equal(told, 1);
    tug_page_open(entry);
    assert_true(tug_page_enter(entry, 5));
    tug_page_leave(entry);
    assert_int_equal(told, 1);
}

/* ---- readers and the holder ---- */

enum { READERS = 3, SLOTS = 16, PAGES = 24, CHANGES = 200000 };

static _Atomic uint64_t slots[SLOTS]; /* the page that is in it */
static _Atomic bool over;
static _Atomic uint64_t read_right;

static void *read_pages(void *argument) {
    uint64_t page = (uintptr_t)argument, right = 0;
    while (!atomic_load(&over)) {
        page = (page * 5 + 7) % PAGES;
        struct tug_page *entry = tug_pages_find(pages, page);
        if (entry == NULL)
            continue;
        const uint32_t version = tug_seqlock_read(&entry->lock);
        unsigned char *address = atomic_load_explicit(&entry->address, memory_order_relaxed);
        if (address == NULL || atomic_load_explicit(&entry->page, memory_order_relaxed) != page)
            continue;
        uint64_t found =
            atomic_load_explicit((_Atomic uint64_t *)(void *)address, memory_order_relaxed);
        if (!tug_seqlock_holds(&entry->lock, version))
            continue;
        assert_int_equal(found, page);
        right++;
    }
    atomic_fetch_add(&read_right, right);
    return NULL;
}

/* Gives pages places, and takes them away again, like moves do: a slot is written for another page
 * only after the entry that named it has changed. */
static void move_pages(void) {
    uint64_t random = 1;
    for (int i = 0; i < CHANGES; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint64_t page = (random >> 33) % PAGES;
        uint32_t slot = (uint32_t)(random >> 50) % SLOTS;
        uint64_t before = atomic_load_explicit(&slots[slot], memory_order_relaxed);
        struct tug_page *old = before < PAGES ? tug_pages_find(pages, before) : NULL;
        if (old != NULL && old->place.slot == slot && tug_page_known(old))
            assert_true(tug_pages_forget(pages, old));
        /* release: who reads this page reads the version after it changed */
        atomic_store_explicit(&slots[slot], page, memory_order_release);
        struct tug_page *entry = tug_pages_find(pages, page);
        if (entry == NULL)
            entry = tug_pages_take(pages, page, false);
        tug_pages_set(pages, entry, &(struct tug_page_slot){.owner = 1, .slot = slot},
                      (unsigned char *)(void *)&slots[slot]);
    }
}

static void readers_see_their_page_or_try_again(void **state) {
    (void)state;
    pthread_t readers[READERS];
    for (int i = 0; i < SLOTS; i++)
        atomic_store(&slots[i], UINT64_MAX);
    atomic_store(&over, false);
    for (uintptr_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_pages, (void *)i), 0);
    move_pages();
    atomic_store(&over, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    print_message("%llu right\n", (unsigned long long)atomic_load(&read_right));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(finds_what_was_taken, make_pages, drop_pages),
        cmocka_unit_test_setup_teardown(forgets_what_was_not_used_for_longest, make_pages,
                                        drop_pages),
        cmocka_unit_test_setup_teardown(keeps_its_own_pages, make_pages, drop_pages),
        cmocka_unit_test_setup_teardown(keeps_what_is_in_use, make_pages, drop_pages),
        cmocka_unit_test_setup_teardown(stop_waits_for_writers, make_pages, drop_pages),
        cmocka_unit_test_setup_teardown(readers_see_their_page_or_try_again, make_pages,
                                        drop_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
