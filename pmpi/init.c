/* Start and end of MPI: the thread level, the settings, the engine's life.
 *
 * The host is initialised at MPI_THREAD_MULTIPLE, whatever the program asked for, since the engine
 * may call it beside the program; the program is told what it asked for. Until the first window or
 * persistent request that is the only trace of us. A program in which nothing calls for the engine
 * gets the level that it asks for, and no trace but polite waits where its ranks share cores.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acp/finalize.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/stats.h"
#include "base/trace.h"
#include "base/sockets.h"
#include "engine/engine.h"
#include "host/agreement.h"
#include "host/wait_group.h"
#include "host/datatype.h"
#include "host/farewell.h"
#include "host/handles.h"
#include "host/host.h"
#include "host/keyval.h"
#include "host/level.h"
#include "host/pairs.h"
#include "host/participants.h"
#include "host/polite.h"
#include "host/reduction.h"
#include "host/references.h"
#include "host/spin.h"
#include "llcl/llcl.h"
#include "node/team.h"
#include "persistent/partitioned.h"
#include "pmpi/attributes.h"
#include "pmpi/blocking.h"
#include "pmpi/world.h"
#include "pmpi/shim.h"
#include "pmpi/timeline.h"
#include "request/request.h"
#include "rma/window.h"
#include "tugboat/tugboat.h"

/* A session that the program has open. */
struct session {
    MPI_Session handle;
    int level; /* the thread level that the program asked for and is told; -1: the host knows */
    struct session *next;
};

/* Of the program's ways into MPI and what they make of this process: sessions may be opened and
 * closed by several threads, and beside the world. */
static pthread_mutex_t ways_lock = PTHREAD_MUTEX_INITIALIZER;
static bool world;      /* MPI_Init or MPI_Init_thread was called: there is an MPI_COMM_WORLD */
static int world_level; /* the thread level that it asked for and is told */
static struct session *sessions;
static bool had_sessions; /* since MPI has started */
static bool ended;        /* MPI has, and has not started again */

/* ---- the settings ---- */

/* 0, or MPI_ERR_OTHER with the reason said. */
static int load_settings(void) {
    char reason[512];
    if (tug_settings_load(reason, sizeof(reason)) == 0) {
        if (tug_settings.enabled && tug_settings.stats != NULL)
            tug_stats_on = true; /* a tool may have had it on already, see mpit.c */
        if (tug_settings.enabled && tug_settings.trace != NULL && !tug_trace_start())
            tug_log(TUG_VERBOSE_WARN,
                    "no memory for the records of TUGBOAT_TRACE; nothing is traced here");
        return MPI_SUCCESS;
    }
    tug_log(TUG_LOG_ERROR, "%s", reason);
    return MPI_ERR_OTHER;
}

static void warn_unknown(const char *name, void *argument) {
    (void)argument;
    tug_log(TUG_VERBOSE_WARN,
            "%s is not a setting of Tugboat's and is ignored: take it out, or correct its name "
            "(tugboat info lists all)",
            name);
}

static void report_settings(void) {
    static bool reported;
    int rank = 0;
    if (world)
        tug_host.Comm_rank(MPI_COMM_WORLD, &rank);
    tug_log_set_rank(rank);
    if (rank == 0 && !reported)
        (void)tug_settings_unknown(warn_unknown, NULL);
    reported = true;
}

/* The level to ask the host for: no more than the program wants where the engine will not run, nor
 * counters be told. */
static int level_for(int requested) {
    bool engine = tug_settings.threads != 0 || tug_settings.stats != NULL ||
                  tug_settings.trace != NULL || tug_settings.collectives == TUG_COLLECTIVES_ON ||
                  tug_references_need_engine();
    return engine ? MPI_THREAD_MULTIPLE : requested;
}

static void say_why_not(void) {
    if (tug_level.own_level)
        tug_log(TUG_VERBOSE_DEBUG, "nothing here calls for the engine: MPI starts as it is asked");
    else if (!tug_host_complete())
        tug_warn_once(
            "the host MPI lacks MPI 4 calls that are needed: all calls pass through; run the "
            "program on a newer one, such as this library is built for (tugboat info)");
    else
        tug_warn_once("the host MPI has no MPI_THREAD_MULTIPLE: all calls pass through; run the "
                      "program on an MPI that is built with threads");
}

/* MPI is up at thread level provided; asked is what we wanted, requested what the program did. The
 * host keeps the level it was started with: what comes later changes nothing but how many threads
 * may call. With the lock. */
static void activate(int requested, int asked, int provided) {
    if (requested > tug_level.requested)
        tug_level.requested = requested;
    tug_level.concurrent =
        tug_level.requested == MPI_THREAD_MULTIPLE || tug_settings.progress == TUG_PROGRESS_THREAD;
#ifdef OPEN_MPI
    if (tug_host_complete())
        tug_openmpi_learn();
#endif
    tug_reduction_learn();
    if (ended)
        tug_pairs_reserve();
    ended = false;
    tug_team_finalize(false);
    tug_level.active |= provided == MPI_THREAD_MULTIPLE && tug_host_complete();
    tug_level.own_level =
        provided != MPI_THREAD_MULTIPLE && (tug_level.own_level || asked != MPI_THREAD_MULTIPLE);
    report_settings();
    if (!tug_level.active)
        say_why_not();
}

/* ---- initialisation ---- */

static void begin_world(int requested, int asked, int provided) {
    pthread_mutex_lock(&ways_lock);
    world = true;
    world_level = requested;
    activate(requested, asked, provided);
    pthread_mutex_unlock(&ways_lock);
}

/* The ranks agree on who takes part; those that are off have a say too. */
static void settle_world(void) {
    if (tug_host_complete())
        tug_world_settle(had_sessions);
}

/* Before the host starts, and with it threads. */
static void prepare(int asked) {
    (void)tug_farewell_prepare();
    tug_sockets_note_program();
    if (asked == MPI_THREAD_MULTIPLE)
        tug_descriptors_prepare();
}

int tug_shim_Init_thread(int *argc, char ***argv, int required, int *provided) {
    if (!tug_entries_resolve() || load_settings() != MPI_SUCCESS)
        return MPI_ERR_OTHER;
    if (tug_host_family() != TUG_FAMILY_BUILT_FOR)
        return tug_host.Init_thread(argc, argv, required, provided);
    bool ours = tug_settings.enabled && provided != NULL && required >= MPI_THREAD_SINGLE &&
                required <= MPI_THREAD_MULTIPLE;
    int got = MPI_THREAD_SINGLE, asked = ours ? level_for(required) : required;
    if (ours)
        prepare(asked);
    int error = tug_host.Init_thread(argc, argv, asked, ours ? &got : provided);
    if (error != MPI_SUCCESS)
        return error;
    if (ours) {
        begin_world(required, asked, got);
        *provided = required < got ? required : got;
    }
    settle_world();
    return MPI_SUCCESS;
}

int tug_shim_Init(int *argc, char ***argv) {
    if (!tug_entries_resolve() || load_settings() != MPI_SUCCESS)
        return MPI_ERR_OTHER;
    if (tug_host_family() == TUG_FAMILY_BUILT_FOR && tug_settings.enabled) {
        int provided;
        return tug_shim_Init_thread(argc, argv, MPI_THREAD_SINGLE, &provided);
    }
    int error = tug_host.Init(argc, argv);
    if (error == MPI_SUCCESS && tug_host_family() == TUG_FAMILY_BUILT_FOR)
        settle_world();
    return error;
}

int tug_shim_Query_thread(int *provided) {
    int error = tug_host.Query_thread(provided);
    if (error == MPI_SUCCESS && tug_level.active && world)
        *provided = world_level;
    return error;
}

/* ---- sessions ---- */

static const char level_key[] = "thread_level";

static const char *const names[] = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED",
                                    "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"};
static const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                             MPI_THREAD_MULTIPLE};

/* What the key says, or otherwise if there is none; -1: no level. */
static int level_of(MPI_Info info, int otherwise) {
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int flag = 0;
    if (info == MPI_INFO_NULL ||
        tug_host.Info_get(info, level_key, MPI_MAX_INFO_VAL, value, &flag) != MPI_SUCCESS || !flag)
        return otherwise;
    for (int i = 0; i < 4; i++)
        if (strcmp(value, names[i]) == 0)
            return levels[i];
    return -1; /* the host says what is wrong */
}

/* The level that the host has given a session. */
static int level_provided(MPI_Session session, int asked) {
    MPI_Info used = MPI_INFO_NULL;
    if (tug_host.Session_get_info(session, &used) != MPI_SUCCESS)
        return asked;
    int level = level_of(used, asked);
    if (used != MPI_INFO_NULL)
        tug_host.Info_free(&used);
    return level;
}

static struct session **find_session(MPI_Session handle) {
    struct session **at = &sessions;
    while (*at != NULL && (*at)->handle != handle)
        at = &(*at)->next;
    return at;
}

/* This process has nobody else to get the requests of its sessions on. With the lock. */
static bool waits_for_itself(void) {
    return sessions != NULL && tug_level.active && tug_settings.progress == TUG_PROGRESS_CALLER;
}

/* With the lock. */
static void enter_session(struct session *mine) {
    mine->next = sessions;
    sessions = mine;
    had_sessions = true;
}

/* One that is the host's alone: TUGBOAT=off, or a level that it has to refuse. */
static int pass_session(MPI_Info info, MPI_Errhandler errhandler, struct session *mine) {
    int error = tug_host.Session_init(info, errhandler, &mine->handle);
    if (error != MPI_SUCCESS)
        return error;
    mine->level = -1;
    pthread_mutex_lock(&ways_lock);
    enter_session(mine);
    pthread_mutex_unlock(&ways_lock);
    return MPI_SUCCESS;
}

static int open_session(MPI_Info info, int requested, MPI_Errhandler errhandler,
                        struct session *mine) {
    int asked = level_for(requested);
    prepare(asked);
    tug_host.Info_set(info, level_key, names[asked]);
    int error = tug_host.Session_init(info, errhandler, &mine->handle);
    if (error != MPI_SUCCESS)
        return error;
    int provided = level_provided(mine->handle, asked);
    mine->level = requested < provided ? requested : provided;
    pthread_mutex_lock(&ways_lock);
    enter_session(mine);
    activate(requested, asked, provided);
    tug_teams_keep_nothing();
    if (waits_for_itself())
        tug_waits_polite = true;
    pthread_mutex_unlock(&ways_lock);
    return MPI_SUCCESS;
}

int tug_shim_Session_init(MPI_Info info, MPI_Errhandler errhandler, MPI_Session *session) {
    if (!tug_entries_resolve() || load_settings() != MPI_SUCCESS)
        return MPI_ERR_OTHER;
    int requested = tug_settings.enabled ? level_of(info, MPI_THREAD_SINGLE) : -1;
    struct session *mine = session == NULL ? NULL : malloc(sizeof(*mine));
    MPI_Info ours = MPI_INFO_NULL;
    if (mine == NULL)
        return tug_host.Session_init(info, errhandler, session);
    if (requested >= 0 && (info == MPI_INFO_NULL ? tug_host.Info_create(&ours)
                                                 : tug_host.Info_dup(info, &ours)) != MPI_SUCCESS)
        requested = -1;
    int error = requested < 0 ? pass_session(info, errhandler, mine)
                              : open_session(ours, requested, errhandler, mine);
    if (ours != MPI_INFO_NULL)
        tug_host.Info_free(&ours);
    if (error == MPI_SUCCESS)
        *session = mine->handle;
    else
        free(mine);
    return error;
}

int tug_shim_Session_get_info(MPI_Session session, MPI_Info *info_used) {
    int error = tug_host.Session_get_info(session, info_used);
    if (error != MPI_SUCCESS)
        return error;
    pthread_mutex_lock(&ways_lock);
    const struct session *mine = *find_session(session);
    if (mine != NULL && mine->level >= 0)
        tug_host.Info_set(*info_used, level_key, names[mine->level]);
    pthread_mutex_unlock(&ways_lock);
    return MPI_SUCCESS;
}

/* ---- the end ---- */

/* This process's counters. */
static void print_counters(const uint64_t sum[], const uint64_t most[], int nranks) {
    if (strcmp(tug_settings.stats, "1") == 0) {
        tug_stats_print(stderr, sum, most, nranks);
        return;
    }
    FILE *file = fopen(tug_settings.stats, "w");
    if (file == NULL) {
        tug_log(TUG_VERBOSE_WARN,
                "cannot write the counters to TUGBOAT_STATS=%s: %s; name a file in a folder that "
                "is there on rank 0's machine",
                tug_settings.stats, strerror(errno));
        return;
    }
    tug_stats_print_json(file, sum, most, nranks);
    fclose(file);
}

/* Sums the counters of all ranks of the communicator, and prints them once; MPI_COMM_NULL: those of
 * this process. */
static void print_stats(MPI_Comm comm) {
    uint64_t mine[TUG_STAT_COUNT], sum[TUG_STAT_COUNT], most[TUG_STAT_COUNT];
    int rank = 0, nranks = 1;
    tug_stats_snapshot(mine);
    if (comm == MPI_COMM_NULL) {
        print_counters(mine, mine, nranks);
        return;
    }
    tug_host.Comm_rank(comm, &rank);
    tug_host.Comm_size(comm, &nranks);
    TUG_POLITE(Ireduce, mine, sum, TUG_STAT_COUNT, MPI_UINT64_T, MPI_SUM, 0, comm);
    TUG_POLITE(Ireduce, mine, most, TUG_STAT_COUNT, MPI_UINT64_T, MPI_MAX, 0, comm);
    if (rank == 0)
        print_counters(sum, most, nranks);
}

/* MPI ends for this process. alone: others of its world go on, and do not come to an end that all
 * make together. */
static void end_engine(bool alone) {
    if (!alone)
        tug_window_free_left_over();
    tug_team_finalize(true);
    tug_acp_finalize_left();
    if (!alone)
        tug_llcl_finalize();
    tug_engine_bring_down();
    tug_flat_finalize();
    tug_wait_group_finalize();
    if (!alone)
        tug_teams_free_memory();
}

/* Has any of those of the world that take part a session open? */
static bool somebody_goes_on(MPI_Comm comm) {
    return !tug_all_agree(comm, sessions == NULL);
}

/* Nothing of MPI is left, once the host has been told. A session may start it again. With the
 * lock. */
static void forget_mpi(void) {
#if MPI_VERSION >= 4
    tug_partitioned_finalize();
#endif
    tug_participants_finalize();
    tug_keyvals_finalize();
    tug_requests_finalize();
    had_sessions = false;
    ended = true;
}

/* The program's part of the world has ended; all of MPI is still there. */
static void end_world(void) {
    tug_blocking_meet(MPI_COMM_WORLD);
    tug_wait_group_end_world();
    tug_waits_polite = waits_for_itself();
    if (tug_level.active) {
        MPI_Comm comm = tug_participants_world();
        bool others = somebody_goes_on(comm);
        if (sessions == NULL)
            end_engine(others);
        else
            tug_team_finalize(true); /* the engine stays, for sessions */
        if (tug_settings.stats != NULL)
            print_stats(tug_world_counts() ? comm : MPI_COMM_NULL);
        if (sessions == NULL)
            tug_timeline_write(tug_world_counts() ? comm : MPI_COMM_NULL);
        tug_participants_end_world();
    }
    world = false;
    tug_level.active &= sessions != NULL;
    if (sessions == NULL)
        forget_mpi();
}

int tug_shim_Finalize(void) {
    if (world) {
        tug_attributes_finalize();
        end_world();
    }
    tug_farewell_begin();
    int error = tug_host.Finalize();
    tug_farewell_end();
    tug_spin_restore();
    if (sessions != NULL)
        tug_team_finalize(false);
    return error;
}

/* The last session of a process that has no world ends the engine too. */
int tug_shim_Session_finalize(MPI_Session *session) {
    pthread_mutex_lock(&ways_lock);
    struct session **at = session == NULL ? NULL : find_session(*session), *mine = NULL;
    if (at != NULL && *at != NULL) {
        mine = *at;
        *at = mine->next;
    }
    const bool last = mine != NULL && sessions == NULL && !world;
    if (last && tug_level.active) {
        end_engine(false);
        if (tug_settings.stats != NULL)
            print_stats(MPI_COMM_NULL);
        tug_timeline_write(MPI_COMM_NULL);
        tug_waits_polite = tug_level.active = false;
    }
    if (last)
        forget_mpi();
    pthread_mutex_unlock(&ways_lock);
    free(mine);
    tug_farewell_begin();
    int error = tug_host.Session_finalize(session);
    tug_farewell_end();
    return error;
}
