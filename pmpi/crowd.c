#include "pmpi/crowd.h"

#include <stdlib.h>

#include "base/cores.h"
#include "base/log.h"
#include "base/settings.h"
#include "host/host.h"
#include "host/polite.h"
#include "host/spin.h"
#include "pmpi/blocking.h"
#include "pmpi/circle.h"

/* What a rank wants of which cores. */
struct want {
    uint64_t cores_id;
    uint64_t threads;
};

/* What the ranks decide: the most of what each says. */
enum { NO_MEMORY, NATIVE, POLITE, CROWDED, QUESTIONS };

/* True if those that share this rank's cores want more than there are. */
static bool is_crowded(const struct want *wants, int nranks, struct tug_cores cores) {
    uint64_t threads = 0;
    for (int r = 0; r < nranks; r++)
        threads += wants[r].cores_id == cores.id ? wants[r].threads : 0;
    if (threads > cores.count)
        tug_log(TUG_VERBOSE_DEBUG, "%llu threads share %u cores: waits are polite",
                (unsigned long long)threads, cores.count);
    return threads > cores.count;
}

/* The same answer on all ranks. Settings that differ: native anywhere is native everywhere. */
static bool wants_polite(int nranks) {
    struct tug_cores cores = tug_cores_find();
    const struct want mine = {cores.id, 1 + (tug_settings.progress == TUG_PROGRESS_THREAD)};
    struct want *wants = malloc((size_t)nranks * sizeof(*wants));
    int most[QUESTIONS] = {[NO_MEMORY] = wants == NULL,
                           [NATIVE] = tug_settings.wait == TUG_WAIT_NATIVE,
                           [POLITE] = tug_settings.wait == TUG_WAIT_POLITE};
    TUG_POLITE(Iallreduce, MPI_IN_PLACE, most, QUESTIONS, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (!most[NO_MEMORY] && !most[NATIVE] && !most[POLITE]) {
        TUG_POLITE(Iallgather, &mine, 2, MPI_UINT64_T, wants, 2, MPI_UINT64_T, MPI_COMM_WORLD);
        most[CROWDED] = is_crowded(wants, nranks, cores);
        TUG_POLITE(Iallreduce, MPI_IN_PLACE, &most[CROWDED], 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    }
    free(wants);
    return !most[NATIVE] && (most[POLITE] || most[CROWDED]);
}

void tug_crowd_settle(void) {
    int nranks;
    tug_host.Comm_size(MPI_COMM_WORLD, &nranks);
    if (nranks == 1) {
        tug_waits_polite = tug_settings.wait == TUG_WAIT_POLITE;
        return;
    }
    if (!wants_polite(nranks))
        return;
    tug_circle_world();
    tug_waits_polite = true;
    if (!tug_spin_yield(tug_engine_driving))
        tug_log(TUG_VERBOSE_INFO, "calls without a nonblocking twin wait as the host does");
}

void tug_crowd_finalize(void) {
    tug_waits_polite = false;
}
