/* Requests of our own: the handle that the program holds for a persistent collective, or for a
 * one-sided operation of the packet lane (`once`: it ends with its operation).
 *
 * A handle must be told from the host's by one comparison, and must never be one of the host's.
 * MPICH's handles carry their kind in bits 31-30 and the object's type in 29-26; kind 0 is invalid,
 * and its only request is MPI_REQUEST_NULL, 0x2c000000. Ours are the rest of that kind:
 *
 *        31 30 29      26 25                      0
 *       +-----+----------+-------------------------+
 *       | 0 0 | 1 0 1 1  | 1 + index in the table  |
 *       +-----+----------+-------------------------+
 *
 * A request that escapes us (given to a call we do not know) is reported by the host as invalid,
 * not mistaken for another.
 *
 * Open MPI's handles are addresses of its requests, into which its Fortran bindings look. Ours are
 * those of requests that do nothing: persistent sends to nobody, kept until MPI ends and given out
 * again.
 *
 * States: inactive -> start -> active -> completed() by the engine -> complete -> a wait or test of
 * the program -> inactive. One thread at a time handles a request (MPI's rule); state is what the
 * engine's thread and that thread share.
 *
 * A run for which nobody waits any more is *kept*: the engine does not know of it, and whoever
 * waits or tests gets it on. A wait that takes long hands it over to the engine.
 */
#ifndef TUG_REQUEST_REQUEST_H
#define TUG_REQUEST_REQUEST_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"

#ifndef OPEN_MPI
#define TUG_REQUEST_MOST (1u << 20)
#define TUG_REQUEST_FIRST ((uint32_t)MPI_REQUEST_NULL + 1)

/* Below TUG_REQUEST_MOST for our handles alone. */
static inline uint32_t tug_request_index(MPI_Request handle) {
    return (uint32_t)handle - TUG_REQUEST_FIRST;
}
static inline MPI_Request tug_request_handle(uint32_t index) {
    return (MPI_Request)(TUG_REQUEST_FIRST + index);
}
#else
#define TUG_REQUEST_MOST (1u << 16)

/* Our handles by their addresses: an entry is where its hash says, or in one of those behind it, up
 * to an empty one. Entries never change once they are made, until MPI ends. */
#define TUG_REQUEST_ENTRIES (2 * TUG_REQUEST_MOST)
struct tug_request_entry {
    _Atomic MPI_Request handle;
    uint32_t index;
};
extern struct tug_request_entry tug_request_entries[TUG_REQUEST_ENTRIES];
extern MPI_Request tug_request_handles[TUG_REQUEST_MOST];

static inline uint32_t tug_request_hash(MPI_Request handle) {
    return (uint32_t)((uint64_t)((uintptr_t)handle >> 4) * 0x9e3779b97f4a7c15u >> 47);
}

/* Below TUG_REQUEST_MOST for our handles alone. */
static inline uint32_t tug_request_index(MPI_Request handle) {
    for (uint32_t i = tug_request_hash(handle);; i = (i + 1) % TUG_REQUEST_ENTRIES) {
        /* acquire: pairs with the release in enter_handle(); without it the index could be none */
        MPI_Request there =
            atomic_load_explicit(&tug_request_entries[i].handle, memory_order_acquire);
        if (there == handle && handle != NULL)
            return tug_request_entries[i].index;
        if (there == NULL)
            return UINT32_MAX;
    }
}
static inline MPI_Request tug_request_handle(uint32_t index) {
    return tug_request_handles[index];
}
#endif

#define TUG_REQUEST_COMPLETE 1u /* the operation of the last start is over */
#define TUG_REQUEST_FREED 2u    /* by the program while active: destroyed when complete */

/* Who gets a run on. */
enum tug_keeping {
    TUG_RUN_LAUNCHED, /* the engine; or it is over */
    TUG_RUN_KEPT,     /* the thread that waits or tests */
    TUG_RUN_HELD,     /* a thread, just now */
};

struct tug_request {
    struct tug_job job;
    MPI_Request handle; /* 0: none yet */
    MPI_Comm comm;      /* errors of the operation go to its handler */
    bool active;
    bool once;              /* active from the beginning; no job */
    MPI_Win win;            /* once: errors go to its handler, and not to comm's */
    int error;              /* of the operation, set before TUG_REQUEST_COMPLETE */
    bool passes;            /* the host's request does the present run, until the next start */
    MPI_Request host;       /* then it stands in this one's place, which is not active */
    _Atomic uint32_t state; /* TUG_REQUEST_COMPLETE, TUG_REQUEST_FREED */
    /* Prepares the job, and its bell, for another run; just before it is launched. Sets `passes`,
     * and `error` then, if it has started the host's request for it. */
    void (*start)(struct tug_request *request);
    /* After the first advance of a run, which the starting thread has made without the baton: may
     * the rest of it wait until the program waits? NULL: the engine makes the first advance too. */
    bool (*may_keep)(const struct tug_request *request);
    _Atomic uint32_t keeping; /* enum tug_keeping */
    /* Of a pending request that the program looks at: is the operation over, and only the engine
     * has not noticed yet? May get it on. Any thread. NULL: what has come is the engine's to find.
     */
    bool (*is_here)(struct tug_request *request);
    /* Fills a status, which is empty, in for an operation that is over. NULL: it stays empty. */
    void (*describe)(const struct tug_request *request, MPI_Status *status);
    /* Frees the request's memory; the program's handle is gone already. Requests that end once:
     * frees nothing, but is called then. */
    void (*destroy)(struct tug_request *request);
};

/* Of a request that ends once and what its owner has behind it. */
#define TUG_REQUEST_ONCE_BYTES (sizeof(struct tug_request) + 64)

/* How many handles have ever been given; 0 until the first persistent collective. */
extern _Atomic uint32_t tug_request_limit;

static inline bool tug_request_is_ours(MPI_Request handle) {
    uint32_t limit = atomic_load_explicit(&tug_request_limit, memory_order_relaxed);
    return limit > 0 && tug_request_index(handle) < limit;
}

/* The request behind a handle that is ours; NULL if it has been freed. */
struct tug_request *tug_request_find(MPI_Request handle);

/* Gives the request a handle and resets its state. 0 or TUG_ERR_NO_MEMORY. Any thread. */
int tug_request_register(struct tug_request *request);

/* A request that ends with its operation, active, with a handle, in TUG_REQUEST_ONCE_BYTES of
 * memory, which the next one is given when this one has gone. NULL: no memory. Any thread. */
struct tug_request *tug_request_begin_once(void (*let_go)(struct tug_request *request));

/* MPI ends, and nobody has a request left. */
void tug_requests_finalize(void);

/* The operation is over. Any thread; the request may be gone afterwards. */
void tug_request_complete(struct tug_request *request);

/* Starts an inactive request. */
void tug_request_start(struct tug_request *request);

/* Takes the handle back, if it was given one, and destroys the request, at once or when its
 * operation is complete. */
void tug_request_release(struct tug_request *request);

static inline bool tug_request_pending(const struct tug_request *request) {
    return request->active && !(atomic_load(&request->state) & TUG_REQUEST_COMPLETE);
}

static inline bool tug_request_is_kept(const struct tug_request *request) {
    return __builtin_expect(
        atomic_load_explicit(&request->keeping, memory_order_relaxed) != TUG_RUN_LAUNCHED, 0);
}

/* Advances a run that is kept. True if that has completed it. */
bool tug_request_look(struct tug_request *request);

/* One look of a caller that polls, at a pending request. */
void tug_request_poll(struct tug_request *request);

/* Call after a test that has found requests of ours pending. Each eighth such call of a thread lets
 * the host make progress: a peer may wait for a message of the host before it takes part, and a
 * program that tests our requests only makes no other call. */
void tug_request_look_in_vain(void);

/* The same for one request of an array, for which the caller polls the engine itself. */
void tug_request_look_at(struct tug_request *request);

/* A run that is kept is the engine's from now on, unless it completes at once, or, for a patient
 * caller, within a moment. True: it was not kept, or has completed. */
bool tug_request_hand_over(struct tug_request *request, bool patient);

/* Returns when it is not pending; helps, then sleeps, and has the host get on meanwhile. */
void tug_request_wait(struct tug_request *request);

/* The same for what done(argument) says of requests: it is called often, by this thread only. */
void tug_request_wait_until(bool (*done)(void *), void *argument);

#endif
