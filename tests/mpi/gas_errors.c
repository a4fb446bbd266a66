/*
 * gas_errors: what is refused, and that nothing is lost by it.
 *
 * Parameters, ranges, pages, ranks, operations and handles that are wrong; a rank that has no room
 * for a page; a page that somebody holds; calls with the wrong array. Each is told by its code, in
 * the return value or the callback, and everything goes on working.
 */
#include "gas_check.h"
#include <stdatomic.h>

enum { PAGE = 128, PAGES = 10, BYTES = PAGE * PAGES };

static tug_array *array;
static _Atomic int told;

static void on_told(void *d, int status) {
    (void)d;
    CHECK(atomic_exchange(&told, status) == 1, "two callbacks");
}

/* The status that a try_ call, which was taken, tells. */
#define TOLD(call)                                                                                 \
    ({                                                                                             \
        atomic_store(&told, 1);                                                                    \
        while (!(call))                                                                            \
            tug_array_progress(array);                                                             \
        while (atomic_load(&told) == 1)                                                            \
            tug_array_progress(array);                                                             \
        atomic_load(&told);                                                                        \
    })

static const struct tug_callback callback = {on_told, NULL};

static void wrong_parameters(void) {
    const struct tug_array_params good = {.size_in_bytes = BYTES, .page_bytes = PAGE};
    struct tug_array_params params[] = {good, good, good, good, good, good, good, good};
    params[0].size_in_bytes = 0;
    params[1].page_bytes = 0;
    params[2].page_bytes = 32;
    params[3].page_bytes = 68;
    params[4].page_bytes = (size_t)1 << 31;
    params[5].placement = (enum tug_placement)9;
    params[6].pages_most = (size_t)(PAGES / check_nranks - 1);
    params[7].moves = (enum tug_moves)3;
    tug_array *none = NULL;
    for (size_t i = 0; i < sizeof params / sizeof *params; i++) {
        if (i == 6 && params[i].pages_most == 0)
            continue;
        FAILS(TUG_ERR_INVALID, tug_array_create(MPI_COMM_WORLD, &params[i], &none));
        CHECK(none == NULL, "an array of parameters %zu", i);
    }
    FAILS(TUG_ERR_INVALID, tug_array_create(MPI_COMM_WORLD, NULL, &none));
    FAILS(TUG_ERR_INVALID, tug_array_create(MPI_COMM_WORLD, &good, NULL));
    FAILS(TUG_ERR_INVALID, tug_array_create(MPI_COMM_NULL, &good, &none));
    params[0] = good;
    if (check_rank == 0)
        params[0].page_bytes *= 2;
    if (check_nranks > 1)
        FAILS(TUG_ERR_INVALID, tug_array_create(MPI_COMM_WORLD, &params[0], &none));
    params[0] = good;
    params[0].size_in_bytes = (size_t)1 << 60;
    params[0].page_bytes = (size_t)1 << 30;
    FAILS(TUG_ERR_NO_MEMORY, tug_array_create(MPI_COMM_WORLD, &params[0], &none));
}

static int outside(size_t page, int nranks, void *d) {
    (void)d;
    return page == PAGES - 1 ? nranks : 0;
}

static int before(size_t page, int nranks, void *d) {
    (void)nranks, (void)d;
    return page == 3 ? -1 : 0;
}

static int own_rank(size_t page, int nranks, void *d) {
    (void)page, (void)nranks;
    return *(int *)d;
}

static void wrong_homes(void) {
    struct tug_array_params params = {.size_in_bytes = BYTES, .page_bytes = PAGE, .home = outside};
    tug_array *none = NULL;
    FAILS(TUG_ERR_INVALID, tug_array_create(MPI_COMM_WORLD, &params, &none));
    params.home = before;
    FAILS(TUG_ERR_INVALID, tug_array_create(MPI_COMM_WORLD, &params, &none));
    params.home = own_rank; /* not the same everywhere */
    params.home_context = &check_rank;
    if (check_nranks > 1)
        FAILS(TUG_ERR_INVALID, tug_array_create(MPI_COMM_WORLD, &params, &none));
    params.home = check_rank == 0 ? own_rank : NULL;
    if (check_nranks > 1)
        FAILS(TUG_ERR_INVALID, tug_array_create(MPI_COMM_WORLD, &params, &none));
    CHECK(none == NULL, "an array without homes");
}

static void wrong_ranges(void) {
    char some[8];
    const size_t far = (size_t)-4;
    FAILS(TUG_ERR_RANGE, tug_array_get(array, BYTES - 7, some, 8));
    FAILS(TUG_ERR_RANGE, tug_array_put(array, BYTES + 1, some, 0));
    FAILS(TUG_ERR_RANGE, tug_array_get(array, far, some, 8));
    FAILS(TUG_ERR_RANGE, tug_array_own(array, 8, far));
    FAILS(TUG_ERR_RANGE, tug_array_forget(array, BYTES, 1));
    FAILS(TUG_ERR_RANGE, tug_array_invalidate(array, BYTES, 1));
    FAILS(TUG_ERR_RANGE, tug_array_fetch_and_op(array, BYTES, 8, TUG_ADD, 1, NULL));
    FAILS(TUG_ERR_RANGE, TOLD(tug_try_array_get_async(array, BYTES - 7, some, 8, callback)));
    FAILS(TUG_ERR_RANGE, TOLD(tug_try_array_put_async(array, BYTES - 7, some, 8, callback)));
    FAILS(TUG_ERR_RANGE, TOLD(tug_try_array_own_async(array, BYTES, 1, callback)));
    GOOD(tug_array_get(array, BYTES, NULL, 0));
    GOOD(tug_array_own(array, 5, 0));
    GOOD(TOLD(tug_try_array_get_async(array, 0, NULL, 0, callback)));
}

static void wrong_arguments(void) {
    char some[8];
    void *address;
    struct tug_page_place place;
    FAILS(TUG_ERR_INVALID, tug_array_get(array, 0, NULL, 8));
    FAILS(TUG_ERR_INVALID, tug_array_put(array, 0, NULL, 8));
    FAILS(TUG_ERR_INVALID, tug_array_fetch_and_op(array, 4, 8, TUG_ADD, 1, NULL));
    FAILS(TUG_ERR_INVALID, tug_array_fetch_and_op(array, 0, 2, TUG_ADD, 1, NULL));
    FAILS(TUG_ERR_INVALID, tug_array_fetch_and_op(array, 0, 8, (enum tug_atomic_op)9, 1, NULL));
    FAILS(TUG_ERR_INVALID, tug_array_hold(array, PAGES, &address));
    FAILS(TUG_ERR_INVALID, tug_array_hold(array, 0, NULL));
    FAILS(TUG_ERR_INVALID, tug_array_release(array, PAGES));
    FAILS(TUG_ERR_STATE, tug_array_release(array, 0));
    FAILS(TUG_ERR_INVALID, tug_array_locate(array, PAGES, &place));
    FAILS(TUG_ERR_INVALID, tug_array_locate(array, 0, NULL));
    FAILS(TUG_ERR_INVALID, tug_array_move(array, PAGES, 0));
    FAILS(TUG_ERR_INVALID, tug_array_move(array, 0, check_nranks));
    FAILS(TUG_ERR_INVALID, TOLD(tug_try_array_move_async(array, 0, -1, callback)));
    FAILS(TUG_ERR_UNSUPPORTED, tug_array_get_copy(array, 0, some, 8));
    FAILS(TUG_ERR_UNSUPPORTED, tug_array_refresh(array, 0, 8));
    GOOD(tug_array_invalidate(array, 0, 8));
}

static void no_array(void) {
    tug_array *none = NULL;
    struct tug_local_page it = {0};
    char some[8];
    FAILS(TUG_ERR_INVALID, tug_array_free(NULL));
    FAILS(TUG_ERR_INVALID, tug_array_free(&none));
    FAILS(TUG_ERR_INVALID, tug_array_get(NULL, 0, some, 8));
    FAILS(TUG_ERR_INVALID, tug_array_put(NULL, 0, some, 8));
    FAILS(TUG_ERR_INVALID, tug_array_own(NULL, 0, 8));
    FAILS(TUG_ERR_INVALID, tug_array_release(NULL, 0));
    FAILS(TUG_ERR_INVALID, tug_array_get_copy(NULL, 0, some, 8));
    FAILS(TUG_ERR_INVALID, TOLD(tug_try_array_get_async(NULL, 0, some, 8, callback)));
    CHECK(!tug_array_next(NULL, &it) && tug_array_size(NULL) == 0, "no array has pages");
}

/* A rank whose pages_most are there takes no more, and loses none. */
static void no_room(void) {
    const struct tug_array_params params = {
        .size_in_bytes = BYTES, .page_bytes = PAGE, .pages_most = (size_t)(PAGES - 1)};
    uint64_t words[BYTES / 8], there[BYTES / 8];
    GOOD(tug_array_create(MPI_COMM_WORLD, &params, &array));
    check_fill(words, sizeof words, 1, 1);
    if (check_rank == 0)
        GOOD(tug_array_put(array, 0, words, sizeof words));
    check_barrier(MPI_COMM_WORLD);
    if (check_rank == check_nranks - 1)
        FAILS(TUG_ERR_NO_MEMORY, tug_array_own(array, 0, BYTES));
    check_barrier(MPI_COMM_WORLD);
    GOOD(tug_array_get(array, 0, there, sizeof there));
    CHECK(memcmp(words, there, sizeof words) == 0, "something is lost");
    check_barrier(MPI_COMM_WORLD);
    if (check_rank == 0) { /* the page that found no room can be written and moved as before */
        GOOD(tug_array_put(array, 0, words, sizeof words));
        GOOD(tug_array_own(array, 0, PAGE));
        GOOD(tug_array_own(array, BYTES - PAGE, PAGE));
    }
    GOOD(tug_array_free(&array));
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "gas_errors");
    struct tug_array_params params = {.size_in_bytes = BYTES, .page_bytes = PAGE};
    void *address;
    wrong_parameters();
    wrong_homes();
    GOOD(tug_array_create(MPI_COMM_WORLD, &params, &array));
    wrong_ranges();
    wrong_arguments();
    no_array();
    /* somebody holds a page of his: the end is refused, to all */
    if (check_rank == 0)
        GOOD(tug_array_hold(array, 0, &address));
    else
        FAILS(TUG_ERR_STATE, tug_array_hold(array, 0, &address));
    FAILS(TUG_ERR_STATE, tug_array_free(&array));
    if (check_rank == 0)
        GOOD(tug_array_release(array, 0));
    GOOD(tug_array_free(&array));
    FAILS(TUG_ERR_INVALID, tug_array_free(&array));
    if (check_nranks > 1)
        no_room();
    GOOD(tug_array_create(MPI_COMM_WORLD, &params, &array)); /* left to MPI_Finalize */
    return check_end();
}
