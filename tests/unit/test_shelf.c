/* A shelf: what lies there is taken once, in the order of the ids. The last case has several
 * threads that keep and take. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/shelf.h"
#include "check.h"

#define THINGS 8

struct thing {
    struct tug_shelved shelved;
    int kind;
};

static struct thing things[THINGS];

static bool is_of_kind(const struct tug_shelved *shelved, void *kind) {
    return ((const struct thing *)shelved)->kind == *(int *)kind;
}

static void keep(struct tug_shelf *shelf, unsigned i) {
    things[i] = (struct thing){.shelved.id = i + 1, .kind = (int)(i % 2)};
    tug_shelf_put(shelf, &things[i].shelved);
}

static void the_lowest_id_that_fits_is_first(void **state) {
    struct tug_shelf shelf = TUG_SHELF;
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

static struct tug_shelf common = TUG_SHELF;
static _Atomic int held; /* what lies there, or is about to */

static void *make_keep_and_take(void *argument) {
    struct tug_shelved *have = argument;
    for (int i = 0; i < 20000; i++) {
        if (have != NULL) {
            atomic_fetch_add(&held, 1);
            tug_shelf_put(&common, have);
            have = NULL;
        } else if ((have = tug_shelf_borrow(&common, NULL, NULL)) != NULL) {
            assert_in_range(atomic_fetch_sub(&held, 1), 1, THINGS);
        }
    }
    while (have == NULL) /* as many things as threads: each ends with one */
        if ((have = tug_shelf_borrow(&common, NULL, NULL)) != NULL)
            atomic_fetch_sub(&held, 1);
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
        cmocka_unit_test(every_thing_is_with_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
