/* Waiting for the host's operations without keeping others waiting.
 *
 * A thread that waits inside the host turns in its progress loop. It keeps the host's one lock
 * busy: the engine's thread, which has peers to answer through the same host, hardly gets at it.
 * And it keeps the core, which the rank that it waits for may want. So while the engine wants help
 * (tug_engine_wants_help), and always where ranks outnumber cores (world.h), a call that waits in
 * the host is done in another form: the nonblocking twin is started and looked at from outside, and
 * in between this thread drives the engine, if there is one, yields its core, and sleeps. As for
 * the program, it is the blocking call: data, status and errors are the same. Without that need it
 * is the host's own call.
 *
 * Collective calls choose their form alike on all ranks, see wait_group.h. Those without a twin,
 * and reductions by the program's functions, which are called by the program's thread, meet before
 * they enter the host: nobody waits long there for another's arrival.
 *
 * Any thread that may call MPI; never the engine's.
 */
#ifndef TUG_PMPI_BLOCKING_H
#define TUG_PMPI_BLOCKING_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "engine/host_progress.h"
#include "engine/service.h"

#define TUG_HOST_NAP_NS 20000 /* longest sleep of who waits for the host, which rings no bell */

/* A call that may wait inside the host; while a window is open the engine is told of it. An error
 * handler may throw or jump out of the host: the thread's next call makes up for what is left. */
#define TUG_INSIDE_HOST(call)                                                                      \
    ({                                                                                             \
        bool attended = __builtin_expect(tug_engine_attended(), 0);                                \
        if (attended)                                                                              \
            tug_engine_host_begin();                                                               \
        int result = (call);                                                                       \
        if (attended)                                                                              \
            tug_engine_host_end();                                                                 \
        if (__builtin_expect(tug_engine_looked_inside, 0))                                         \
            tug_engine_leave_inside();                                                             \
        result;                                                                                    \
    })

/* Waits are polite: of the world, from MPI_Init on (world.h); of sessions, where requests of this
 * process have nobody else to get them on. */
extern _Atomic bool tug_waits_polite;

/* True if a call that may wait in the host had better wait outside. */
static inline bool tug_waits_outside(void) {
    return __builtin_expect(atomic_load_explicit(&tug_waits_polite, memory_order_relaxed) ||
                                tug_engine_wants_help(),
                            0);
}

/* Returns when done(argument) is true, which looks into the host, and is not called again. */
void tug_blocking_until(bool (*done)(void *), void *argument);

/* MPI_Wait on a request of the host's, from outside. */
int tug_blocking_wait(MPI_Request *request, MPI_Status *status);

#define TUG_WITH_REQUEST(...) (__VA_ARGS__, &request)

/* A call's nonblocking twin, waited for from outside. */
#define TUG_TWIN(Twin, arguments)                                                                  \
    ({                                                                                             \
        MPI_Request request;                                                                       \
        int started = tug_host.Twin TUG_WITH_REQUEST arguments;                                    \
        started == MPI_SUCCESS ? tug_blocking_wait(&request, MPI_STATUS_IGNORE) : started;         \
    })

/* MPI_Waitall on requests of the host's, from outside. */
int tug_blocking_waitall(int n, MPI_Request requests[], MPI_Status statuses[]);

/* Before a collective call that waits inside the host: returns when all ranks of the communicator
 * have come, or at once if the call need not be polite. */
void tug_blocking_meet(MPI_Comm comm);

#endif
