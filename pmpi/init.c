/* Start and end of MPI: the thread level, the settings, the engine's life.
 *
 * The host is initialised at MPI_THREAD_MULTIPLE, whatever the program asked for, since the engine
 * may call it beside the program; the program is told what it asked for. Until the first window or
 * persistent request that is the only trace of us. A program in which nothing calls for the engine
 * gets the level that it asks for, and no trace but polite waits where its ranks share cores.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acp/finalize.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/stats.h"
#include "engine/engine.h"
#include "host/farewell.h"
#include "host/handles.h"
#include "host/host.h"
#include "host/polite.h"
#include "host/references.h"
#include "host/spin.h"
#include "llcl/finalize.h"
#include "persistent/team.h"
#include "pmpi/blocking.h"
#include "pmpi/circle.h"
#include "pmpi/crowd.h"
#include "pmpi/datatype.h"
#include "pmpi/reduction.h"
#include "pmpi/shim.h"
#include "pmpi/verdict.h"
#include "pmpi/window.h"
#include "tugboat/tugboat.h"

struct tug_shim tug_shim;

static bool world; /* MPI_Init or MPI_Init_thread was called: there is an MPI_COMM_WORLD */
static _Atomic int sessions;    /* open ones */
static MPI_Request poll_handle; /* while the engine runs */

/* ---- the settings ---- */

/* 0, or MPI_ERR_OTHER with the reason said. */
static int load_settings(void) {
    char reason[512];
    if (tug_settings_load(reason, sizeof(reason)) == 0) {
        if (tug_settings.enabled && tug_settings.stats != NULL)
            tug_stats_on = true; /* a tool may have had it on already, see mpit.c */
        return MPI_SUCCESS;
    }
    tug_log(TUG_LOG_ERROR, "%s", reason);
    return MPI_ERR_OTHER;
}

static void warn_unknown(const char *name, void *argument) {
    (void)argument;
    tug_log(TUG_VERBOSE_WARN, "%s is not a setting of Tugboat's and is ignored (see tugboat info)",
            name);
}

static void report_settings(void) {
    int rank = 0;
    if (world)
        tug_host.Comm_rank(MPI_COMM_WORLD, &rank);
    tug_log_set_rank(rank);
    if (rank == 0)
        (void)tug_settings_unknown(warn_unknown, NULL);
}

static bool bring_up(void) {
    return tug_shim_takes() && tug_shim_engine();
}

/* The level to ask the host for: no more than the program wants where the engine will not run, nor
 * counters be told. */
static int level_for(int requested) {
    bool engine = tug_settings.threads != 0 || tug_settings.stats != NULL || tug_settings.bcast ||
                  tug_references_need_engine();
    return engine ? MPI_THREAD_MULTIPLE : requested;
}

void tug_shim_note_passed(void) {
    tug_warn_once("nothing that was loaded when MPI started calls for windows or persistent "
                  "collectives, so it runs at the program's own thread level: those that come now "
                  "pass through to the host (TUGBOAT_THREADS=multiple takes them)");
}

/* MPI is up at thread level provided; asked is what we wanted, requested what the program did. */
static void activate(int requested, int asked, int provided) {
    tug_shim.requested = requested;
    tug_shim.concurrent =
        requested == MPI_THREAD_MULTIPLE || tug_settings.progress == TUG_PROGRESS_THREAD;
    tug_shim.active = provided == MPI_THREAD_MULTIPLE && tug_host_complete();
    tug_engine_bring_up = bring_up;
#ifdef OPEN_MPI
    if (tug_host_complete())
        tug_openmpi_learn();
#endif
    tug_reduction_learn();
    report_settings();
    if (tug_settings.verdict && tug_shim.active)
        tug_verdict_begin();
    tug_shim.own_level = asked != MPI_THREAD_MULTIPLE && provided != MPI_THREAD_MULTIPLE;
    if (tug_shim.own_level)
        tug_log(TUG_VERBOSE_DEBUG, "nothing here calls for the engine: MPI starts as it is asked");
    else if (provided != MPI_THREAD_MULTIPLE)
        tug_warn_once("the host MPI has no MPI_THREAD_MULTIPLE: all calls pass through");
    else if (!tug_shim.active)
        tug_warn_once("the host MPI lacks MPI 4 calls that are needed: all calls pass through");
}

/* ---- the engine ---- */

static int poll_query(void *state, MPI_Status *status) {
    (void)state;
    (void)status;
    return MPI_SUCCESS;
}

static int poll_free(void *state) {
    (void)state;
    return MPI_SUCCESS;
}

static int poll_cancel(void *state, int complete) {
    (void)state;
    (void)complete;
    return MPI_SUCCESS;
}

/* Testing a request that never completes is a progress call that needs no communicator. */
void tug_shim_poll_host(void) {
    int flag;
    MPI_Request handle = poll_handle;
    tug_spin_vain = 0;
    if (!tug_engine_enter_host())
        return;
    tug_host.Test(&handle, &flag, MPI_STATUS_IGNORE);
    tug_engine_leave_host();
}

void tug_shim_keep_functions(void) {
    if (tug_shim.active && tug_shim.requested < MPI_THREAD_MULTIPLE)
        tug_engine_reserve_host();
}

static void stop_at_exit(void) {
    tug_engine_abandon();
}

static void child_of_fork(void) {
    tug_engine_forked();
    tug_shim.active = false;
}

static void end_polls(void) {
    tug_host.Grequest_complete(poll_handle);
    tug_host.Wait(&poll_handle, MPI_STATUS_IGNORE);
}

static bool start_engine(void) {
    static bool hooked;
    if (tug_host.Grequest_start(poll_query, poll_free, poll_cancel, NULL, &poll_handle) !=
        MPI_SUCCESS)
        return false;
    const struct tug_engine_config config = {.host_poll = tug_shim_poll_host};
    int error = tug_engine_start(&config);
    if (error) {
        tug_warn_once("the engine does not start (%s): all calls pass through",
                      tug_strerror(error));
        end_polls();
        return false;
    }
    if (!hooked) {
        hooked = true;
        atexit(stop_at_exit);
        pthread_atfork(NULL, NULL, child_of_fork);
    }
    return true;
}

bool tug_shim_engine(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool refused;
    if (tug_engine_running())
        return true;
    pthread_mutex_lock(&lock);
    bool started = !refused && (tug_engine_running() || start_engine());
    refused = !started;
    pthread_mutex_unlock(&lock);
    return started;
}

static void stop_engine(void) {
    if (!tug_engine_running())
        return;
    tug_verdict_note_engine();
    tug_engine_stop();
    end_polls();
}

/* ---- initialisation ---- */

int tug_shim_Init_thread(int *argc, char ***argv, int required, int *provided) {
    if (!tug_entries_resolve() || load_settings() != MPI_SUCCESS)
        return MPI_ERR_OTHER;
    if (tug_host_family() != TUG_FAMILY_BUILT_FOR || !tug_settings.enabled || provided == NULL ||
        required < MPI_THREAD_SINGLE || required > MPI_THREAD_MULTIPLE)
        return tug_host.Init_thread(argc, argv, required, provided);
    int got = MPI_THREAD_SINGLE, asked = level_for(required);
    (void)tug_farewell_prepare();
    int error = tug_host.Init_thread(argc, argv, asked, &got);
    if (error != MPI_SUCCESS)
        return error;
    world = true;
    activate(required, asked, got);
    if (tug_shim.active || (tug_shim.own_level && tug_host_complete()))
        tug_crowd_settle();
    *provided = required < got ? required : got;
    return MPI_SUCCESS;
}

int tug_shim_Init(int *argc, char ***argv) {
    if (!tug_entries_resolve() || load_settings() != MPI_SUCCESS)
        return MPI_ERR_OTHER;
    if (tug_host_family() != TUG_FAMILY_BUILT_FOR || !tug_settings.enabled)
        return tug_host.Init(argc, argv);
    int provided;
    return tug_shim_Init_thread(argc, argv, MPI_THREAD_SINGLE, &provided);
}

int tug_shim_Query_thread(int *provided) {
    int error = tug_host.Query_thread(provided);
    if (error == MPI_SUCCESS && tug_shim.active && world)
        *provided = tug_shim.requested;
    return error;
}

/* ---- sessions ---- */

static const char level_key[] = "thread_level";

static const char *const names[] = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED",
                                    "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"};
static const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                             MPI_THREAD_MULTIPLE};

static int level_of(MPI_Info info) {
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int flag = 0;
    if (info == MPI_INFO_NULL ||
        tug_host.Info_get(info, level_key, MPI_MAX_INFO_VAL, value, &flag) != MPI_SUCCESS || !flag)
        return MPI_THREAD_SINGLE;
    for (int i = 0; i < 4; i++)
        if (strcmp(value, names[i]) == 0)
            return levels[i];
    return -1; /* the host says what is wrong */
}

int tug_shim_Session_init(MPI_Info info, MPI_Errhandler errhandler, MPI_Session *session) {
    if (!tug_entries_resolve() || load_settings() != MPI_SUCCESS)
        return MPI_ERR_OTHER;
    int requested = tug_settings.enabled ? level_of(info) : -1;
    MPI_Info ours;
    if (requested < 0 || (info == MPI_INFO_NULL ? tug_host.Info_create(&ours)
                                                : tug_host.Info_dup(info, &ours)) != MPI_SUCCESS)
        return tug_host.Session_init(info, errhandler, session);
    int asked = level_for(requested);
    (void)tug_farewell_prepare();
    tug_host.Info_set(ours, level_key, names[asked]);
    int error = tug_host.Session_init(ours, errhandler, session);
    tug_host.Info_free(&ours);
    if (error != MPI_SUCCESS)
        return error;
    atomic_fetch_add(&sessions, 1);
    int most = world || tug_shim.active ? tug_shim.requested : MPI_THREAD_SINGLE;
    activate(requested > most ? requested : most, asked, asked);
    return MPI_SUCCESS;
}

int tug_shim_Session_get_info(MPI_Session session, MPI_Info *info_used) {
    int error = tug_host.Session_get_info(session, info_used);
    for (int i = 0; i < 4 && error == MPI_SUCCESS && tug_shim.active; i++)
        if (levels[i] == tug_shim.requested)
            tug_host.Info_set(*info_used, level_key, names[i]);
    return error;
}

/* ---- the end ---- */

/* Sums the counters of all ranks where there is a world, and prints them once. */
static void print_stats(void) {
    uint64_t mine[TUG_STAT_COUNT], sum[TUG_STAT_COUNT], most[TUG_STAT_COUNT];
    int rank = 0, nranks = 1;
    tug_stats_snapshot(mine);
    if (world) {
        tug_host.Comm_rank(MPI_COMM_WORLD, &rank);
        tug_host.Comm_size(MPI_COMM_WORLD, &nranks);
    }
    if (tug_settings.verdict) {
        tug_verdict_end(rank, nranks);
        return;
    }
    if (world) {
        TUG_POLITE(Ireduce, mine, sum, TUG_STAT_COUNT, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
        TUG_POLITE(Ireduce, mine, most, TUG_STAT_COUNT, MPI_UINT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
    } else {
        memcpy(sum, mine, sizeof(sum));
        memcpy(most, mine, sizeof(most));
    }
    if (rank != 0)
        return;
    if (strcmp(tug_settings.stats, "1") == 0) {
        tug_stats_print(stderr, sum, most, nranks);
        return;
    }
    FILE *file = fopen(tug_settings.stats, "w");
    if (file == NULL) {
        tug_log(TUG_VERBOSE_WARN, "cannot write TUGBOAT_STATS=%s", tug_settings.stats);
        return;
    }
    tug_stats_print_json(file, sum, most, nranks);
    fclose(file);
}

/* Nobody waits politely from here on, and nobody long. */
static void end_waits(void) {
    if (world)
        tug_blocking_meet(MPI_COMM_WORLD);
    tug_circle_finalize();
    tug_crowd_finalize();
}

static void finish(void) {
    end_waits();
    tug_window_free_left_over();
    tug_team_finalize();
    tug_acp_finalize_left();
    tug_llcl_finalize();
    stop_engine();
    tug_flat_finalize();
    if (tug_settings.stats != NULL)
        print_stats();
    tug_shim.active = false;
}

int tug_shim_Finalize(void) {
    if (tug_shim.active)
        finish();
    else if (tug_waits_polite)
        end_waits();
    world = false;
    tug_farewell_begin();
    int error = tug_host.Finalize();
    tug_farewell_end();
    tug_spin_restore();
    return error;
}

/* The last session of a process that has no world ends the engine too. */
int tug_shim_Session_finalize(MPI_Session *session) {
    if (tug_shim.active && atomic_fetch_sub(&sessions, 1) == 1 && !world)
        finish();
    tug_farewell_begin();
    int error = tug_host.Session_finalize(session);
    tug_farewell_end();
    return error;
}
