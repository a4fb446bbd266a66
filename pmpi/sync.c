/* Synchronisation of taken windows. Native lane: whatever was queued before is issued first, then
 * the calling thread itself makes the host's call. The engine is never blocked by an epoch.
 * Deferred errors surface here. Lanes of ours: epoch.h. */
#include "base/stats.h"
#include "base/trace.h"
#include "engine/engine.h"
#include "engine/host_progress.h"
#include "host/handles.h"
#include "host/host.h"
#include "host/level.h"
#include "pmpi/shim.h"
#include "rma/epoch.h"
#include "rma/window.h"

/* What each call is in a lane of ours. */
#define OURS_Win_fence tug_epoch_fence(window, assert)
#define OURS_Win_start tug_epoch_start(window, group, assert)
#define OURS_Win_complete tug_epoch_complete(window)
#define OURS_Win_post tug_epoch_post(window, group, assert)
#define OURS_Win_wait tug_epoch_wait(window)
#define OURS_Win_test tug_epoch_test(window, flag)
#define OURS_Win_lock tug_epoch_lock(window, lock_type, rank, assert)
#define OURS_Win_unlock tug_epoch_unlock(window, rank)
#define OURS_Win_lock_all tug_epoch_lock_all(window, assert)
#define OURS_Win_unlock_all tug_epoch_unlock_all(window)
#define OURS_Win_flush tug_epoch_flush(window, rank, false)
#define OURS_Win_flush_all tug_epoch_flush_all(window, false)
#define OURS_Win_flush_local tug_epoch_flush(window, rank, true)
#define OURS_Win_flush_local_all tug_epoch_flush_all(window, true)
#define OURS_Win_sync MPI_SUCCESS

/* Before: what this rank has stored is there for those the call lets in, and for whoever looks
 * before this rank looks at what they have stored (seq_cst: a store, then another's load). After:
 * what the others have stored is there for this rank. In the direct lane the call stores nothing
 * for others but its own flags, so that acquire does; elsewhere it may do this rank's operations.
 */
#define SYNC_OURS(Name)                                                                            \
    atomic_thread_fence(memory_order_seq_cst);                                                     \
    const uint64_t begin_ns = tug_trace_begin(TUG_TRACE_##Name);                                   \
    int done = OURS_##Name;                                                                        \
    tug_trace_end(TUG_TRACE_##Name, TUG_TRACE_BY_UNSAID, begin_ns);                                \
    if (window->direct != NULL)                                                                    \
        atomic_thread_fence(memory_order_acquire);                                                 \
    else                                                                                           \
        atomic_thread_fence(memory_order_seq_cst);                                                 \
    return tug_window_report(window, done)

#define SYNC(Name, host_call, not_ours, parameters, arguments)                                     \
    int tug_shim_##Name parameters {                                                               \
        struct tug_window *window = tug_window_find(win);                                          \
        if (window == NULL || (not_ours)) {                                                        \
            tug_stat_add(TUG_STAT_SYNC_PASSED, 1);                                                 \
            return tug_host.Name arguments;                                                        \
        }                                                                                          \
        tug_stat_add(TUG_STAT_SYNC_TAKEN, 1);                                                      \
        if (window->lane != NULL) {                                                                \
            SYNC_OURS(Name);                                                                       \
        }                                                                                          \
        const uint64_t begin_ns = tug_trace_begin(TUG_TRACE_##Name);                               \
        if (tug_level.concurrent)                                                                  \
            tug_engine_drain();                                                                    \
        tug_engine_host_begin();                                                                   \
        int error = host_call arguments;                                                           \
        tug_engine_host_end();                                                                     \
        tug_trace_end(TUG_TRACE_##Name, TUG_TRACE_BY_UNSAID, begin_ns);                            \
        return tug_window_settle(window, error);                                                   \
    }
#define TUG_CALL_SYNC(Name, parameters, arguments)                                                 \
    SYNC(Name, tug_host.Name, false, parameters, arguments)
/* MPICH 4.0.2 over UCX keeps one mark per target of what a flush has to do. A local flush clears
 * it, and an operation that is complete at once overwrites that of one that is not: among threads,
 * a local flush then returns before the data of a get are there, and the next flush does nothing
 * for a put (one in ten runs of four threads). Several threads get a whole flush instead; UCX has
 * no other inside. May go when the host's local flush is right. */
#define WHOLE_Win_flush_local tug_host.Win_flush
#define WHOLE_Win_flush_local_all tug_host.Win_flush_all
#define TUG_CALL_SYNC_LOCAL(Name, parameters, arguments)                                           \
    SYNC(Name, (tug_level.concurrent ? WHOLE_##Name : tug_host.Name), false, parameters, arguments)
/* MPICH 4.0 tests the handle of the group before it looks at the window, and reports a bad one
 * through the communicator's handler itself. */
#define TUG_CALL_SYNC_GROUP(Name, parameters, arguments)                                           \
    SYNC(Name, tug_host.Name, !tug_group_is_one(group), parameters, arguments)
#include "host/calls.def"

/* A queued operation may name the datatype: MPI lets the program free it at once. */
#define TUG_CALL_TYPE(Name, parameters, arguments)                                                 \
    int tug_shim_##Name parameters {                                                               \
        if (TUG_UNLIKELY(tug_level.concurrent) && tug_engine_running())                            \
            tug_engine_drain();                                                                    \
        return tug_host.Name arguments;                                                            \
    }
#include "host/calls.def"
