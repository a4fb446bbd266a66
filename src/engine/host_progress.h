/* Progress of the host MPI: when the offload thread polls the host, and when it keeps out of the
 * way.
 *
 * This is the contract of code that calls the host or waits in it; that of callers is in engine.h.
 */
#ifndef TUG_ENGINE_HOST_PROGRESS_H
#define TUG_ENGINE_HOST_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* +1 / -1: something needs the host's progress without the program's help (a window of the native
 * lane). While the count is positive the offload thread polls the host. */
void tug_engine_attend(int change);

extern _Atomic uint32_t tug_attendance; /* that count */

/* Is the host polled? Then the calls below are worth their while. */
static inline bool tug_engine_attended(void) {
    return atomic_load_explicit(&tug_attendance, memory_order_relaxed) > 0;
}

/* No polls for TUG_SETTLE_NS: ranks that are about to leave the creation of a window together count
 * on staying together, and a poll can cost one of them its core. */
void tug_engine_keep_quiet(void);

/* Around a call in which the program waits inside the host. The host then makes progress by itself,
 * and the offload thread keeps out of its way. Any thread. Of nested pairs the first end counts. */
void tug_engine_host_begin(void);
void tug_engine_host_end(void);

/* Before a short call of the host. Any thread. */
void tug_engine_host_called(void);

/* Around every call that progresses the host and that the offload thread may make. False: the
 * call is not to be made, and there is nothing to leave. */
bool tug_engine_enter_host(void);
void tug_engine_leave_host(void);

/* Is the calling thread the offload thread? */
bool tug_engine_is_own_thread(void);

/* Progresses the host a little. The engine has been brought up. Any thread. */
void tug_engine_poll_host(void);

/* The host is about to have functions of the program's to call (reductions that do not block). From
 * now on the offload thread does not progress the host, unless the program has asked for
 * MPI_THREAD_MULTIPLE. */
void tug_engine_keep_functions(void);

/* A look from inside the host, by a thread that waits there. True if something moved. */
bool tug_engine_look_inside(void);

/* This thread has polled from inside the host for more than a beat. It calls
 * tug_engine_leave_inside() when it leaves the host. */
extern _Thread_local bool tug_engine_looked_inside;
void tug_engine_leave_inside(void);

#endif
