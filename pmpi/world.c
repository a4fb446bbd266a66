#include "pmpi/world.h"

#include <limits.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/log.h"
#include "base/settings.h"
#include "engine/engine.h"
#include "host/wait_group.h"
#include "host/host.h"
#include "host/level.h"
#include "host/participants.h"
#include "host/polite.h"
#include "host/references.h"
#include "host/spin.h"
#include "persistent/partitioned.h"
#include "pmpi/blocking.h"
#include "pmpi/shim.h"

/* What a rank wants of which cores. */
struct want {
    uint64_t cores_id;
    uint32_t cores, threads;
};

/* What the ranks decide: the most of what each says. What is to be the same for all those that take
 * part is said twice, and the second time its complement. */
enum {
    NO_MEMORY,
    NATIVE,
    POLITE,
    CALLER,
    OFF,
    TAKING,
    NOT_TAKING,
    WINDOWS,
    COLLECTIVES = WINDOWS + 2,
    PARTITIONED = COLLECTIVES + 2,
    MAKES_PARTITIONED = PARTITIONED + 2,
    NO_ENGINE, /* of those that make them */
    HAD_SESSIONS,
    STATS,
    QUESTIONS = STATS + 2
};

static bool same_statistics = true;
static bool makes_partitioned; /* somebody, of those that take part */

static int by_cores(const void *left, const void *right) {
    const struct want *a = left, *b = right;
    if (a->cores_id != b->cores_id)
        return a->cores_id < b->cores_id ? -1 : 1;
    return (a->cores > b->cores) - (a->cores < b->cores);
}

/* True if somewhere those that share cores want more than there are. Sorts them. */
static bool is_oversubscribed(struct want *wants, int nranks) {
    uint64_t threads = 0;
    qsort(wants, (size_t)nranks, sizeof(*wants), by_cores);
    for (int r = 0; r < nranks; r++) {
        threads += wants[r].threads;
        if (r + 1 < nranks && wants[r + 1].cores_id == wants[r].cores_id)
            continue;
        if (threads > wants[r].cores) {
            tug_log(TUG_VERBOSE_DEBUG, "%llu threads share %u cores: waits are polite",
                    (unsigned long long)threads, wants[r].cores);
            return true;
        }
        threads = 0;
    }
    return false;
}

static void say_twice(int64_t said[2], int64_t value) {
    said[0] = tug_level.active ? value : INT64_MIN;
    said[1] = tug_level.active ? ~value : INT64_MIN;
}

static bool is_same(const int64_t said[2]) {
    return said[0] == ~said[1];
}

/* ---- waiting for all of them ---- */

/* The ranks have just left the host's MPI_Init together. */
#define LATE_NS 5000000000u

struct answers {
    struct tug_pending pending;
    uint64_t asked_ns;
};

static bool all_have_answered(void *argument) {
    struct answers *answers = argument;
    if (tug_pending_is_over(&answers->pending))
        return true;
    if (tug_clock_ns() - answers->asked_ns > LATE_NS)
        tug_warn_once(
            "MPI_Init waits for ranks that do not answer, perhaps because they run without "
            "Tugboat, or have only opened sessions: load it in all ranks of the job, or in "
            "none");
    return false;
}

static void agree(int64_t most[QUESTIONS]) {
    MPI_Request request;
    struct answers answers = {{.request = &request, .status = MPI_STATUS_IGNORE}, tug_clock_ns()};
    if (tug_host.Iallreduce(MPI_IN_PLACE, most, QUESTIONS, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD,
                            &request) == MPI_SUCCESS)
        tug_polite_until(all_have_answered, &answers);
}

/* ---- the questions ---- */

/* Asks them all. */
static void ask(int64_t most[QUESTIONS], bool memory, bool had_sessions) {
    most[NO_MEMORY] = !memory;
    most[OFF] = !tug_settings.enabled;
    most[NATIVE] = tug_settings.wait == TUG_WAIT_NATIVE;
    most[POLITE] = tug_settings.wait == TUG_WAIT_POLITE;
    most[CALLER] = tug_level.active && tug_settings.progress == TUG_PROGRESS_CALLER;
    most[TAKING] = tug_level.active;
    most[NOT_TAKING] = !tug_level.active;
    say_twice(&most[WINDOWS], tug_settings.rma);
    say_twice(&most[COLLECTIVES], tug_settings.collectives);
    say_twice(&most[PARTITIONED], tug_settings.partitioned);
    most[MAKES_PARTITIONED] =
        tug_level.active && tug_settings.partitioned && tug_references_make_partitioned();
    most[NO_ENGINE] = most[MAKES_PARTITIONED] && !tug_engine_bring_up();
    most[HAD_SESSIONS] = had_sessions;
    say_twice(&most[STATS],
              (int64_t)(tug_settings.stats != NULL) + 2 * (tug_settings.trace != NULL));
    agree(most);
}

/* Settings that differ: what wants all of those that take part alike is left to the host. */
static void settle_participants(const int64_t most[QUESTIONS]) {
    if (!tug_settings.enabled)
        return;
    /* who drives its requests itself has to wait politely, which not everybody can here */
    if (most[OFF] && most[CALLER]) {
        tug_engine_bring_down();
        tug_level.active = false;
    }
    if (!is_same(&most[WINDOWS]))
        tug_settings.rma = TUG_RMA_OFF;
    if (!is_same(&most[COLLECTIVES]))
        tug_settings.collectives = TUG_COLLECTIVES_OFF;
    tug_settings.partitioned &=
        is_same(&most[PARTITIONED]) && !most[HAD_SESSIONS] && !most[NO_ENGINE];
    makes_partitioned = most[MAKES_PARTITIONED] && tug_settings.partitioned && tug_level.active;
    same_statistics = is_same(&most[STATS]);
}

static unsigned count_sharing(const struct want *wants, int nranks, uint64_t cores_id) {
    unsigned n = 0;
    for (int r = 0; r < nranks; r++)
        n += wants[r].cores_id == cores_id;
    return n;
}

/* Shall the ranks wait politely? The same answer on all ranks. */
static bool wants_polite(const int64_t most[QUESTIONS], struct want *wants, int nranks) {
    struct tug_cores cores = tug_cores_find();
    const struct want mine = {cores.id, cores.count,
                              1 + (tug_settings.progress == TUG_PROGRESS_THREAD)};
    if (most[OFF] || most[CALLER])
        return !most[OFF];
    if (most[NATIVE] || most[POLITE] || most[NO_MEMORY])
        return !most[NATIVE] && most[POLITE];
    TUG_POLITE(Iallgather, &mine, 2, MPI_UINT64_T, wants, 2, MPI_UINT64_T, MPI_COMM_WORLD);
    tug_cores_shared_by(count_sharing(wants, nranks, cores.id), cores.count);
    return is_oversubscribed(wants, nranks);
}

/* All together. */
static bool settle(int nranks, bool had_sessions) {
    struct want *wants = malloc((size_t)nranks * sizeof(*wants));
    int64_t most[QUESTIONS];
    ask(most, wants != NULL, had_sessions);
    settle_participants(most);
    tug_participants_settle(most[TAKING] && !(most[OFF] && most[CALLER]), !most[NOT_TAKING]);
    bool polite = wants_polite(most, wants, nranks);
    free(wants);
    return polite;
}

static void wait_politely(void) {
    tug_wait_group_world();
    tug_waits_polite = true;
    if (!tug_spin_yield(tug_engine_driving))
        tug_log(TUG_VERBOSE_INFO, "calls without a nonblocking twin wait as the host does");
}

void tug_world_settle(bool had_sessions) {
    int nranks;
    tug_host.Comm_size(MPI_COMM_WORLD, &nranks);
    if (nranks == 1) {
        tug_participants_settle(tug_level.active, tug_level.active);
        tug_waits_polite = tug_settings.enabled && (tug_settings.wait == TUG_WAIT_POLITE ||
                                                    tug_settings.progress == TUG_PROGRESS_CALLER);
        return;
    }
    if (settle(nranks, had_sessions))
        wait_politely();
#if MPI_VERSION >= 4
    if (makes_partitioned)
        tug_partitioned_prepare(tug_participants_world());
#endif
}

bool tug_world_counts(void) {
    return same_statistics;
}
