/* The verdict's figures. See verdict.h. */
#include "pmpi/verdict.h"

#include <errno.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/settings.h"
#include "engine/engine.h"
#include "host/agreement.h"
#include "host/host.h"
#include "host/polite.h"
#include "request/twin.h"

enum { ALL_TIMED = 1024, ONE_IN = 64, RARE_NS = 100000 };

static _Atomic uint64_t time_ns[TUG_TIME_COUNT];
static uint64_t clock_ns; /* what two looks at the clock cost */
static uint64_t begun_ns;
static uint64_t engine_cpu_ns;

/* ---- timing ---- */

static _Thread_local struct {
    uint32_t depth;
    uint32_t operations;
} caller;

struct tug_timed tug_timed_begin(enum tug_time class) {
    struct tug_timed timed = {0};
    if (caller.depth++ > 0)
        return timed;
    timed.weight = 1;
    if (class == TUG_TIME_ONE_SIDED && caller.operations++ >= ALL_TIMED)
        timed.weight = caller.operations % ONE_IN == 0 ? ONE_IN : 0;
    if (timed.weight > 0)
        timed.begin_ns = tug_clock_ns();
    return timed;
}

void tug_timed_end(enum tug_time class, struct tug_timed timed) {
    caller.depth--;
    if (timed.begin_ns == 0)
        return;
    uint64_t ns = tug_clock_ns() - timed.begin_ns;
    ns = ns > clock_ns ? ns - clock_ns : 0;
    if (ns > RARE_NS)
        timed.weight = 1; /* put aside by the system: the calls it stands for were not */
    atomic_fetch_add_explicit(&time_ns[class], ns * timed.weight, memory_order_relaxed);
}

void tug_verdict_begin(void) {
    clock_ns = UINT64_MAX;
    for (int i = 0; i < 100; i++) {
        uint64_t begin_ns = tug_clock_ns(), ns = tug_clock_ns() - begin_ns;
        clock_ns = ns < clock_ns ? ns : clock_ns;
    }
    tug_twin_on = true;
    tug_entries_time();
    begun_ns = tug_clock_ns();
}

void tug_verdict_note_engine(void) {
    engine_cpu_ns = tug_engine_cpu_ns();
}

/* ---- the host's time for one-sided operations ---- */

enum { FAMILIES = 6, SCRATCH_BYTES = 65536 };

static const enum tug_stat taken[FAMILIES] = {
    TUG_STAT_PUT_TAKEN,          TUG_STAT_GET_TAKEN,
    TUG_STAT_ACCUMULATE_TAKEN,   TUG_STAT_GET_ACCUMULATE_TAKEN,
    TUG_STAT_FETCH_AND_OP_TAKEN, TUG_STAT_COMPARE_AND_SWAP_TAKEN};

/* Operations on a partner's part of a window of the host's. */
struct probe {
    MPI_Win win;
    int partner;
    int bytes;                /* of an operation, a multiple of 8 */
    uint64_t between_flushes; /* operations */
    char *origin, *result;
};

static void operate(const struct probe *p, enum tug_stat stat) {
    const int words = p->bytes / 8;
    const MPI_Datatype word = MPI_INT64_T;
    switch ((int)stat) {
    case TUG_STAT_PUT_TAKEN:
        tug_host.Put(p->origin, words, word, p->partner, 0, words, word, p->win);
        break;
    case TUG_STAT_GET_TAKEN:
        tug_host.Get(p->result, words, word, p->partner, 0, words, word, p->win);
        break;
    case TUG_STAT_ACCUMULATE_TAKEN:
        tug_host.Accumulate(p->origin, words, word, p->partner, 0, words, word, MPI_SUM, p->win);
        break;
    case TUG_STAT_GET_ACCUMULATE_TAKEN:
        tug_host.Get_accumulate(p->origin, words, word, p->result, words, word, p->partner, 0,
                                words, word, MPI_SUM, p->win);
        break;
    case TUG_STAT_FETCH_AND_OP_TAKEN:
        tug_host.Fetch_and_op(p->origin, p->result, word, p->partner, 0, MPI_SUM, p->win);
        break;
    default:
        tug_host.Compare_and_swap(p->origin, p->origin, p->result, word, p->partner, 0, p->win);
    }
}

/* ns of one operation with its share of a flush: batches for some milliseconds. */
static double probe_family(const struct probe *p, enum tug_stat stat) {
    const uint64_t until_ns = tug_clock_ns() + 3000000;
    uint64_t begin_ns = 0, end_ns, noperations = 0;
    for (int batch = 0; batch < 256; batch++) {
        if (batch == 1)
            begin_ns = tug_clock_ns(); /* the first one connects */
        for (uint64_t i = 0; i < p->between_flushes; i++)
            operate(p, stat);
        tug_host.Win_flush(p->partner, p->win);
        end_ns = tug_clock_ns();
        noperations += batch > 0 ? p->between_flushes : 0;
        if (batch > 0 && end_ns > until_ns)
            break;
    }
    return (double)(end_ns - begin_ns) / (double)noperations;
}

static uint64_t clamped(double value, uint64_t least, uint64_t most) {
    return value < (double)least ? least : value > (double)most ? most : (uint64_t)value;
}

static uint64_t probe_all(struct probe *p, const uint64_t stats[], uint64_t noperations) {
    double ns = 0;
    p->bytes = (int)clamped((double)stats[TUG_STAT_BYTES] / (double)noperations, 8, SCRATCH_BYTES);
    p->bytes = p->bytes / 8 * 8;
    p->between_flushes =
        clamped((double)noperations / (double)(stats[TUG_STAT_SYNC_TAKEN] + 1), 1, 1024);
    tug_host.Win_lock_all(0, p->win);
    for (int i = 0; i < FAMILIES; i++)
        if (stats[taken[i]] > 0)
            ns += (double)stats[taken[i]] * probe_family(p, taken[i]);
    tug_host.Win_unlock_all(p->win);
    return (uint64_t)ns;
}

/* What the host needs for this rank's one-sided calls. Collective. */
static uint64_t probe_host(const uint64_t stats[], MPI_Comm comm, int rank, int nranks) {
    uint64_t noperations = 0, ns = 0;
    int64_t most;
    /* not from the heap: a rank without it would miss what the others do together */
    static char scratch[2][SCRATCH_BYTES];
    struct probe probe = {
        .partner = (rank ^ 1) < nranks ? rank ^ 1 : 0, .origin = scratch[0], .result = scratch[1]};
    for (int i = 0; i < FAMILIES; i++)
        noperations += stats[taken[i]];
    if (nranks < 2)
        return 0;
    most = (int64_t)noperations;
    if (tug_agree(comm, MPI_MAX, &most, 1) != MPI_SUCCESS || most == 0)
        return 0;
    void *base;
    if (tug_host.Win_allocate(SCRATCH_BYTES, 8, MPI_INFO_NULL, comm, &base, &probe.win) !=
        MPI_SUCCESS)
        return 0;
    if (noperations > 0)
        ns = probe_all(&probe, stats, noperations);
    TUG_POLITE(Ibarrier, comm); /* serves who is not through */
    tug_host.Win_free(&probe.win);
    return ns;
}

/* ---- the end ---- */

static void fill(struct tug_verdict_rank *mine, MPI_Comm comm, int rank, int nranks) {
    memset(mine, 0, sizeof(*mine));
    mine->elapsed_ns = tug_clock_ns() - begun_ns;
    mine->engine_cpu_ns = engine_cpu_ns;
    tug_stats_snapshot(mine->stats);
    for (int i = 0; i < TUG_TIME_COUNT; i++)
        mine->time_ns[i] = atomic_load_explicit(&time_ns[i], memory_order_relaxed);
    mine->twin_runs = atomic_load(&tug_twin_sums.runs);
    mine->twin_own_ns = atomic_load(&tug_twin_sums.own_ns);
    mine->twin_host_ns = atomic_load(&tug_twin_sums.host_ns);
    mine->run_ns = atomic_load(&tug_twin_sums.run_ns);
    mine->call_ns = atomic_load(&tug_twin_sums.call_ns);
    mine->host_rma_ns = probe_host(mine->stats, comm, rank, nranks);
}

static void print(const struct tug_verdict_rank ranks[], int nranks) {
    tug_verdict_print(stderr, ranks, nranks);
    if (strcmp(tug_settings.stats, "1") == 0)
        return;
    FILE *file = fopen(tug_settings.stats, "w");
    if (file == NULL) {
        tug_log(TUG_VERBOSE_WARN,
                "cannot write the verdict to TUGBOAT_STATS=verdict,%s: %s; name a file in a folder "
                "that is there on rank 0's machine",
                tug_settings.stats, strerror(errno));
        return;
    }
    tug_verdict_print_json(file, ranks, nranks);
    fclose(file);
}

void tug_verdict_end(MPI_Comm comm) {
    struct tug_verdict_rank mine, *all = NULL;
    int rank = 0, nranks = 1;
    if (comm != MPI_COMM_NULL) {
        tug_host.Comm_rank(comm, &rank);
        tug_host.Comm_size(comm, &nranks);
    }
    fill(&mine, comm, rank, nranks);
    if (rank == 0)
        all = malloc((size_t)nranks * sizeof(*all));
    /* all or none: rank 0 may lack the memory */
    int enough = rank != 0 || all != NULL;
    if (nranks > 1) {
        TUG_POLITE(Ibcast, &enough, 1, MPI_INT, 0, comm);
        if (enough)
            TUG_POLITE(Igather, &mine, (int)TUG_VERDICT_WORDS, MPI_UINT64_T, all,
                       (int)TUG_VERDICT_WORDS, MPI_UINT64_T, 0, comm);
    } else if (all != NULL) {
        *all = mine;
    }
    if (all != NULL)
        print(all, nranks);
    free(all);
}
