/* ACP's beginning and end, and who is who. MPI is used here alone: to begin, to end, to renumber.
 */
#include <stdio.h>
#include <stdlib.h>

#include "acp/finalize.h"
#include "acp/layer.h"
#include "base/log.h"
#include "base/settings.h"
#include "host/agreement.h"
#include "host/host.h"
#include "host/report.h"

struct tug_acp tug_acp;

static _Thread_local int last_error;

void tug_acp_set_errno(int status) {
    last_error = status;
}

int acp_errno(void) {
    return last_error;
}

void tug_acp_fail(const char *what, int status) {
    last_error = status;
    tug_log(TUG_VERBOSE_WARN, "%s fails: %s; acp_errno() has the reason as a number", what,
            tug_strerror(status));
}

bool tug_acp_runs(const char *what) {
    /* acquire: pairs with the release in open_all, for threads that were there before acp_init */
    if (__builtin_expect(atomic_load_explicit(&tug_acp.running, memory_order_acquire), 1))
        return true;
    tug_acp_fail(what, TUG_ERR_STATE);
    return false;
}

static int refuse(const char *what, int status) {
    tug_acp_fail(what, status);
    return -1;
}

/* ---- MPI ---- */

static int begin_mpi(int *argc, char ***argv) {
    int provided;
    if (tug_host_family() != TUG_FAMILY_BUILT_FOR)
        return TUG_ERR_NO_MPI;
    if (tug_host_says("PMPI_Finalized"))
        return TUG_ERR_STATE;
    if (tug_host_says("PMPI_Initialized"))
        return 0;
    /* by its public name, as the program would: tools see it, and Tugboat begins with it */
    if (MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
        return TUG_ERR_MPI;
    tug_acp.initialised_mpi = true;
    return 0;
}

static int end_mpi(void) {
    bool ours = tug_acp.initialised_mpi;
    tug_acp.initialised_mpi = false;
    return ours && MPI_Finalize() != MPI_SUCCESS ? TUG_ERR_MPI : 0;
}

/* ---- beginning ---- */

static int open_local(void) {
    int status = tug_acp_commands_open();
    if (status == 0)
        status = tug_acp_cache_init(&tug_acp.cache, tug_acp.nranks, TUG_ACP_TABLES);
    if (status == 0)
        status = tug_acp_relay_open();
    return status != 0 ? status : tug_acp_sync_open();
}

/* Ranks of a group, so that there are at most TUGBOAT_ACP_KEYS groups. Collective, the same answer
 * everywhere. */
static uint32_t find_group(void) {
    int64_t most = (int64_t)tug_settings.acp_keys;
    (void)tug_agree(tug_context_comm(tug_acp.context), MPI_MAX, &most, 1);
    return (uint32_t)((tug_acp.nranks - 1) / most + 1);
}

/* The starter keys of the leaders come to all ranks, and those of a group to its leader.
 * Collective, the same answer everywhere. */
static int exchange_keys(uint32_t group) {
    const MPI_Comm comm = tug_context_comm(tug_acp.context);
    struct tug_key *keys = malloc(tug_acp.nranks * sizeof(*keys));
    if (!tug_all_agree(comm, keys != NULL)) {
        free(keys);
        return TUG_ERR_NO_MEMORY;
    }
    keys[tug_acp.rank] = tug_acp.entries[0].key;
    const int error =
        tug_host.Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, keys, sizeof(*keys), MPI_BYTE, comm);
    for (uint32_t i = 0; i < group && tug_acp.rank + i < tug_acp.nranks; i++)
        tug_acp_entry_write(&tug_acp.entries[TUG_ACP_KEYS + i], &keys[tug_acp.rank + i]);
    const uint32_t ngroups = (tug_acp.nranks - 1) / group + 1;
    for (uint32_t i = 0; i < ngroups; i++)
        keys[i] = keys[i * group];
    struct tug_key *leaders = realloc(keys, ngroups * sizeof(*keys));
    tug_acp.cache.leaders = leaders != NULL ? leaders : keys;
    tug_acp.cache.group = group;
    return tug_all_agree(comm, error == MPI_SUCCESS) ? 0 : TUG_ERR_MPI;
}

static void close_all(void) {
    (void)tug_context_free(&tug_acp.context);
    tug_acp_regions_close();
    tug_acp_cache_fini(&tug_acp.cache);
    tug_acp_commands_close();
}

/* On the processes of comm. Collective, the same answer everywhere. */
static int open_all(MPI_Comm comm) {
    int status = tug_context_create(comm, &tug_acp.context);
    if (status != 0)
        return status;
    tug_context_set_internal(tug_acp.context);
    tug_acp.rank = (uint32_t)tug_context_rank(tug_acp.context);
    tug_acp.nranks = (uint32_t)tug_context_size(tug_acp.context);
    const uint32_t ports = tug_context_ports(tug_acp.context);
    tug_acp.ncolors = ports < TUG_ACP_COLORS ? ports : TUG_ACP_COLORS;
    const uint32_t group = find_group();
    status = tug_acp.nranks > TUG_ACP_RANKS ? TUG_ERR_RANGE : tug_acp_regions_open(group);
    if (status == 0) {
        status = open_local();
        /* whoever leaves may ask the others for anything: all listen by then */
        if (!tug_all_agree(tug_context_comm(tug_acp.context), status == 0) && status == 0)
            status = TUG_ERR_NO_MEMORY;
    }
    if (status == 0)
        status = exchange_keys(group);
    if (status != 0) {
        close_all();
        return status;
    }
    tug_acp_queue_open();
    /* release: pairs with the acquire in tug_acp_runs */
    atomic_store_explicit(&tug_acp.running, true, memory_order_release);
    return 0;
}

int acp_init(int *argc, char ***argv) {
    if (atomic_load(&tug_acp.running))
        return refuse("acp_init", TUG_ERR_STATE);
    int status = tug_acp_options(argc, argv);
    if (status == 0)
        status = begin_mpi(argc, argv);
    if (status == 0)
        status = open_all(MPI_COMM_WORLD);
    if (status == 0)
        return 0;
    (void)end_mpi();
    return refuse("acp_init", status);
}

/* ---- the end ---- */

/* Our operations are complete, then everybody's. 0, or the status of one of ours that failed and
 * has not been told. */
static int end(void) {
    const int status = tug_acp_complete((acp_handle_t)ACP_HANDLE_ALL);
    (void)tug_acp_sync_all();
    atomic_store(&tug_acp.running, false);
    tug_acp_queue_close();
    close_all();
    return status;
}

int acp_finalize(void) {
    if (!tug_acp_runs("acp_finalize"))
        return -1;
    const int failed = end();
    const int status = end_mpi();
    if (status != 0 || failed != 0)
        return refuse("acp_finalize", status != 0 ? status : failed);
    return 0;
}

void tug_acp_finalize_left(void) {
    if (!atomic_load(&tug_acp.running))
        return;
    tug_warn_once(
        "MPI is finalised while ACP runs, so ACP ends: call acp_finalize() before MPI_Finalize");
    tug_acp.initialised_mpi = false;
    (void)end();
}

/* A communicator in which this process has that rank, or none: the ranks are not each there once.
 */
static MPI_Comm renumbered(int rank) {
    const MPI_Comm all = tug_context_comm(tug_acp.context);
    MPI_Comm comm = MPI_COMM_NULL;
    int now = -1;
    if (tug_host.Comm_split(all, 0, rank, &comm) != MPI_SUCCESS)
        return MPI_COMM_NULL;
    (void)tug_host.Comm_rank(comm, &now);
    if (!tug_all_agree(all, now == rank))
        tug_host.Comm_free(&comm);
    return comm;
}

int acp_reset(int rank) {
    if (!tug_acp_runs("acp_reset"))
        return -1;
    (void)tug_acp_complete((acp_handle_t)ACP_HANDLE_ALL);
    (void)tug_acp_sync_all(); /* nobody needs our help while we are in MPI */
    MPI_Comm comm = renumbered(rank);
    if (comm == MPI_COMM_NULL)
        return refuse("acp_reset", TUG_ERR_INVALID);
    (void)end();
    int status = open_all(comm);
    tug_host.Comm_free(&comm);
    return status != 0 ? refuse("acp_reset", status) : 0;
}

void acp_abort(const char *message) {
    tug_log(TUG_LOG_ERROR, "acp_abort: %s%s%s", message != NULL ? message : "",
            message != NULL ? ": " : "", tug_strerror(last_error));
    tug_report_end_job(1);
    abort();
}

/* ---- who is who ---- */

int acp_rank(void) {
    return tug_acp_runs("acp_rank") ? (int)tug_acp.rank : -1;
}

int acp_procs(void) {
    return tug_acp_runs("acp_procs") ? (int)tug_acp.nranks : -1;
}

int acp_colors(void) {
    return tug_acp_runs("acp_colors") ? (int)tug_acp.ncolors : -1;
}

acp_ga_t acp_query_starter_ga(int rank) {
    if (!tug_acp_runs("acp_query_starter_ga"))
        return ACP_GA_NULL;
    if (rank >= 0 && (uint32_t)rank < tug_acp.nranks)
        return tug_acp_ga((uint32_t)rank, 0, 0, 0);
    tug_acp_fail("acp_query_starter_ga", TUG_ERR_INVALID);
    return ACP_GA_NULL;
}

int acp_query_rank(acp_ga_t ga) {
    if (!tug_acp_runs("acp_query_rank"))
        return -1;
    if (tug_acp_ga_rank(ga) < tug_acp.nranks)
        return (int)tug_acp_ga_rank(ga);
    return refuse("acp_query_rank", TUG_ERR_INVALID);
}

int acp_query_color(acp_ga_t ga) {
    if (!tug_acp_runs("acp_query_color"))
        return -1;
    if (tug_acp_ga_rank(ga) < tug_acp.nranks && tug_acp_ga_color(ga) < tug_acp.ncolors)
        return (int)tug_acp_ga_color(ga);
    return refuse("acp_query_color", TUG_ERR_INVALID);
}
