/*
 * What a window or an array asks for in memory is what `tugboat info --memory` says.
 *
 *   footprint window|array BYTES
 *
 * BYTES are those of one of them that has to do with all ranks. Some are made one after the other,
 * the first one apart: it brings the engine up and makes what all share. In each every rank reaches
 * every rank. Measured is what the library's code has asked the allocator for and has not given
 * back (tests/tools/scarce.c), the median. Not in it are memory that a node shares, and packets
 * (SCARCE_APART): how many a context keeps depends on how many were under way at a time.
 */
#include <tugboat/gas.h>

#include "llcl_check.h"

long scarce_held(void) __attribute__((weak));

enum {
    ROUNDS = 5, /* a table of windows grows by a page of 8 KiB in one of them */
    RANKS_MOST = 128,
    PUT = 1024, /* elements: so long puts are not gathered */
    PAGE = 64,
    PAGES = 8192 /* more than the places of an array */
};

static MPI_Win windows[ROUNDS + 1];
static tug_array *arrays[ROUNDS + 1];
static int nmade;
static int64_t cells[PUT], values[PUT];

static void make_window(void) {
    MPI_Win *win = &windows[nmade++];
    MUST(MPI_Win_create(cells, sizeof cells, 8, MPI_INFO_NULL, MPI_COMM_WORLD, win));
    MUST(MPI_Win_lock_all(0, *win));
    for (int r = 0; r < check_nranks; r++)
        MUST(MPI_Put(values, PUT, MPI_INT64_T, r, 0, PUT, MPI_INT64_T, *win));
    MUST(MPI_Win_unlock_all(*win));
}

static void make_array(void) {
    const struct tug_array_params params = {.size_in_bytes = (size_t)PAGE * PAGES,
                                            .page_bytes = PAGE,
                                            .pages_most = 2 * PAGES / check_nranks};
    tug_array *array;
    int status = tug_array_create(MPI_COMM_WORLD, &params, &array);
    CHECK(status == 0, "tug_array_create: %s", tug_strerror(status));
    for (int r = 0; r < check_nranks; r++) {
        const size_t at = (size_t)((check_rank + r) % check_nranks * (PAGES / check_nranks)) * PAGE;
        int64_t got = 1;
        status = tug_array_get(array, at, &got, sizeof got);
        CHECK(status == 0 && got == 0, "tug_array_get: %s", tug_strerror(status));
    }
    arrays[nmade++] = array;
}

/* What one more takes of a process: the median of the rounds, and of the processes. */
static double growth(void (*make)(void)) {
    double grown[ROUNDS], all[RANKS_MOST];
    for (int i = 0; i < ROUNDS; i++) {
        const long before = scarce_held();
        make();
        check_barrier(MPI_COMM_WORLD);
        grown[i] = (double)(scarce_held() - before);
    }
    const double each = check_median(grown, ROUNDS);
    MUST(MPI_Allgather(&each, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, MPI_COMM_WORLD));
    return check_median(all, (size_t)check_nranks);
}

int main(int argc, char **argv) {
    check_begin(&argc, &argv, "footprint");
    CHECK(scarce_held != NULL, "scarce is not preloaded");
    CHECK(check_nranks <= RANKS_MOST, "too many ranks");
    CHECK(argc == 3, "usage: footprint window|array BYTES");
    const bool of_windows = strcmp(argv[1], "window") == 0;
    const double computed = atof(argv[2]);
    void (*const make)(void) = of_windows ? make_window : make_array;
    make();
    const double each = growth(make);
    if (check_rank == 0)
        printf("%s: %.0f bytes measured, %.0f computed\n", argv[1], each, computed);
    check_barrier(MPI_COMM_WORLD);
    CHECK(each > 0.9 * computed && each < 1.1 * computed, "%.0f bytes, and %.0f were computed",
          each, computed);
    while (nmade-- > 0)
        if (of_windows)
            MUST(MPI_Win_free(&windows[nmade]));
        else
            CHECK(tug_array_free(&arrays[nmade]) == 0, "tug_array_free");
    return check_end();
}
