/*
 * mpmd: a job of two programs, of which only one makes windows and persistent requests.
 *
 *   mpmd [PLUGIN]         works among its own ranks with all that the library takes
 *   mpmd_plain [PLUGIN]   (built with PLAIN) calls for nothing of it
 *
 * Both meet in between. With a plugin (levels_plugin.c), which is opened when MPI is up, they also
 * make windows and persistent requests together: those are the host's on all of them.
 */
#include "check.h"
#include <dlfcn.h>

#ifdef PLAIN
enum { WORKS = 0 };
static void work_together(MPI_Comm comm) {
    int rank, nranks, sent, got = -1;
    MUST(MPI_Comm_rank(comm, &rank));
    MUST(MPI_Comm_size(comm, &nranks));
    sent = 70 + rank;
    MUST(MPI_Sendrecv(&sent, 1, MPI_INT, (rank + 1) % nranks, 3, &got, 1, MPI_INT,
                      (rank + nranks - 1) % nranks, 3, comm, MPI_STATUS_IGNORE));
    CHECK(got == 70 + (rank + nranks - 1) % nranks, "got %d", got);
}
#else
#include "work.h"
enum { WORKS = 1 };
static void work_together(MPI_Comm comm) {
    MPI_Win win;
    uint64_t *base;
    work_on(comm);
    MUST(MPI_Win_allocate(8, 8, MPI_INFO_NULL, comm, &base, &win));
    CHECK(work_has_lane(win) == work_is_taken(), "the window of those that work: lane %d",
          work_has_lane(win));
    MUST(MPI_Win_free(&win));
}
#endif

/* Windows and requests of all ranks. */
static void use_plugin(const char *plugin) {
    char lane[MPI_MAX_INFO_VAL + 1];
    void *opened = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
    CHECK(opened != NULL, "%s", dlerror());
    void (*use_window)(char *) = (void (*)(char *))dlsym(opened, "use_window");
    CHECK(use_window != NULL, "%s", dlerror());
    use_window(lane);
    CHECK(strcmp(lane, "none") == 0, "a window of all ranks is in lane %s", lane);
}

int main(int argc, char **argv) {
    MPI_Comm own, pair;
    int sum = 0;
    check_begin(&argc, &argv, WORKS ? "mpmd" : "mpmd_plain");
    MUST(MPI_Comm_split(MPI_COMM_WORLD, WORKS, check_rank, &own));
    work_together(own);
    MUST(MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == check_nranks * (check_nranks - 1) / 2, "sum %d", sum);
    if (argc > 1)
        use_plugin(argv[1]);
    /* somebody of both, in another order */
    MUST(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &pair));
    work_together(own);
    MUST(MPI_Barrier(pair));
    MUST(MPI_Comm_free(&pair));
    MUST(MPI_Comm_free(&own));
    return check_end();
}
