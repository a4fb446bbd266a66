/* gas_sweep.c: from which access on does it pay to own a page?
 *
 * Work moves to rank 0 by load balancing: pages that rank 1 filled are swept there from now on. A
 * sweep adds one to every integer of a page. Left where they are, pages are got and put for each
 * sweep; owned, they are moved once and swept in place. An example of <tugboat/gas.h>; two ranks,
 * best between nodes: MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self mpiexec -n 2 gas_sweep
 */
#include <stdio.h>
#include <stdlib.h>
#include <tugboat/gas.h>

enum { PAGE = 4096, WORDS = PAGE / 8, PAGES = 64, SWEEPS = 6, HALF = PAGES / 2 };

static void must(int status) {
    if (status == 0)
        return;
    fprintf(stderr, "gas_sweep: %s\n", tug_strerror(status));
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void sweep(uint64_t *words) {
    for (int i = 0; i < WORDS; i++)
        words[i]++;
}

/* Microseconds for one sweep of a page that is far. */
static double sweep_far(tug_array *array, size_t page) {
    static uint64_t words[WORDS];
    double start = MPI_Wtime();
    must(tug_array_get(array, page * PAGE, words, PAGE));
    sweep(words);
    must(tug_array_put(array, page * PAGE, words, PAGE));
    return (MPI_Wtime() - start) * 1e6;
}

/* The same for a page that is moved here at the first one. */
static double sweep_here(tug_array *array, size_t page) {
    void *words;
    double start = MPI_Wtime();
    must(tug_array_own(array, page * PAGE, PAGE));
    must(tug_array_hold(array, page, &words));
    sweep(words);
    must(tug_array_release(array, page));
    return (MPI_Wtime() - start) * 1e6;
}

int main(int argc, char **argv) {
    const struct tug_array_params params = {
        .size_in_bytes = 2 * PAGES * PAGE, .page_bytes = PAGE, .pages_most = 2 * PAGES};
    double far[SWEEPS] = {0}, here[SWEEPS] = {0}, sum_far = 0, sum_here = 0;
    tug_array *array;
    MPI_Request all;
    int rank, done = 0, wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    must(tug_array_create(MPI_COMM_WORLD, &params, &array));
    for (size_t page = 0; rank == 0 && page < PAGES; page++)
        for (int i = 0; i < SWEEPS; i++)
            if (page < HALF)
                far[i] += sweep_far(array, PAGES + page) / HALF;
            else
                here[i] += sweep_here(array, PAGES + page) / HALF;
    for (int i = 0; rank == 0 && i < SWEEPS; i++)
        printf("after sweep %d: left far %7.1f us, owned %7.1f us\n", i + 1, sum_far += far[i],
               sum_here += here[i]);
    for (MPI_Ibarrier(MPI_COMM_WORLD, &all); !done; MPI_Test(&all, &done, MPI_STATUS_IGNORE))
        tug_array_progress(array);
    for (size_t page = PAGES; page < 2 * PAGES; page++) {
        uint64_t last;
        must(tug_array_get(array, page * PAGE + PAGE - 8, &last, 8));
        if (last != SWEEPS) {
            printf("page %zu is wrong: %llu\n", page, (unsigned long long)last);
            wrong = 1;
        }
    }
    must(tug_array_free(&array));
    MPI_Finalize();
    return wrong;
}
