/* A shelf: what lies there is taken once, in the order of the ids, and no more than there are
 * places. The last case has several threads that make, keep and take. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/shelf.h"
#include "check.h"

#define PLACES 4

struct thing {
    struct tug_shelved shelved;
    int kind;
};

static struct thing things[2 * PLACES];

static bool is_of_kind(const struct tug_shelved *shelved, void *kind) {
    return ((const struct thing *)shelved)->kind == *(int *)kind;
}

static void keep(struct tug_shelf *shelf, unsigned i) {
    things[i] = (struct thing){.shelved.id = i + 1, .kind = (int)(i % 2)};
    assert_true(tug_shelf_reserve(shelf));
    tug_shelf_put(shelf, &things[i].shelved);
}

static void the_lowest_id_that_fits_is_first(void **state) {
    struct tug_shelf shelf = TUG_SHELF(PLACES);
    int odd = 1;
    (void)state;
    keep(&shelf, 2);
    keep(&shelf, 3);
    keep(&shelf, 0);
    keep(&shelf, 1);
    assert_ptr_equal(tug_shelf_borrow(&shelf, is_of_kind, &odd), &things[1]);
    assert_ptr_equal(tug_shelf_borrow(&shelf, NULL, NULL), &things[0]);
    assert_ptr_equal(tug_shelf_borrow(&shelf, is_of_kind, &odd), &things[3]);
    assert_null(tug_shelf_borrow(&shelf, is_of_kind, &odd));
    assert_ptr_equal(tug_shelf_borrow(&shelf, NULL, NULL), &things[2]);
    assert_null(tug_shelf_borrow(&shelf, NULL, NULL));
}

static void no_more_than_there_are_places(void **state) {
    struct tug_shelf shelf = TUG_SHELF(PLACES);
    (void)state;
    for (unsigned i = 0; i < PLACES; i++)
        keep(&shelf, i);
    assert_false(tug_shelf_reserve(&shelf));
    struct tug_shelved *borrowed = tug_shelf_borrow(&shelf, NULL, NULL);
    assert_false(tug_shelf_reserve(&shelf)); /* its place is kept for it */
    tug_shelf_put(&shelf, borrowed);
    assert_false(tug_shelf_reserve(&shelf));
    assert_ptr_equal(tug_shelf_borrow(&shelf, NULL, NULL), borrowed);
    tug_shelf_waive(&shelf);
    assert_true(tug_shelf_reserve(&shelf));
    assert_false(tug_shelf_reserve(&shelf));
}

static struct tug_shelf common = TUG_SHELF(PLACES);
static _Atomic int held; /* what the threads have made, and have not thrown away */

static void *make_keep_and_take(void *argument) {
    struct tug_shelved *have = argument;
    for (int i = 0; i < 20000; i++) {
        if (have != NULL && tug_shelf_reserve(&common)) {
            atomic_fetch_add(&held, 1);
            tug_shelf_put(&common, have);
            have = NULL;
        } else if (have == NULL && (have = tug_shelf_borrow(&common, NULL, NULL)) != NULL) {
            assert_in_range(atomic_fetch_sub(&held, 1), 1, PLACES);
            tug_shelf_waive(&common);
        }
    }
    while (have == NULL) /* as many things as threads: each ends with one */
        if ((have = tug_shelf_borrow(&common, NULL, NULL)) != NULL) {
            atomic_fetch_sub(&held, 1);
            tug_shelf_waive(&common);
        }
    return have;
}

static void every_thing_is_with_one(void **state) {
    enum { THREADS = 6 };
    pthread_t threads[THREADS];
    bool seen[THREADS] = {false};
    (void)state;
    for (unsigned t = 0; t < THREADS; t++) {
        things[t].shelved.id = t;
        assert_int_equal(pthread_create(&threads[t], NULL, make_keep_and_take, &things[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        void *last;
        assert_int_equal(pthread_join(threads[t], &last), 0);
        assert_false(seen[((struct thing *)last)->shelved.id]);
        seen[((struct thing *)last)->shelved.id] = true;
    }
    assert_int_equal(atomic_load(&held), 0);
    assert_null(tug_shelf_borrow(&common, NULL, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_id_that_fits_is_first),
        cmocka_unit_test(no_more_than_there_are_places),
        cmocka_unit_test(every_thing_is_with_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
