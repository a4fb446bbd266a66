/* LLCL: the low-level communication layer, for those who write runtimes.
 *
 * One-sided reads, writes and atomics on registered memory of other processes, and active messages,
 * after Endo and Taura (SWoPP'16, listing 1): every operation is a `try_`, which starts it or says
 * at once that there is no room, and ends in a callback. The library's engine does the work: it
 * packs small operations to one process together, applies what comes in while the program computes,
 * and needs no call of the program's to make progress.
 *
 * Operations
 *   tug_try_*_async() returns false when there is no room now: nothing has happened, try again
 *   later, or help with tug_progress() meanwhile. It returns true when the operation was taken;
 *   then on_complete is called exactly once. It never waits, never allocates and takes no lock. Any
 *   thread, any number of threads, callbacks among them.
 *
 *   A mistake in the arguments (a process that is not there, an address outside a registration, a
 *   key of another context) is an error code in on_complete, as is a failure of the network: the
 *   call returns true and the callback may have been called before that.
 *
 *   No order is promised, neither of execution nor of callbacks: who needs one starts the second
 *   operation from the first one's callback. But active messages and calls of one thread to one
 *   process are handled in the order in which they were started.
 *
 * Completion
 *   read, atomics   the local memory holds the result.
 *   write           the data are in the remote memory: whoever is told so reads them there.
 *   active message  the handler has returned.
 *   call            the answer is there.
 *   on_local (writes and active messages, optional) is called once as well, not after on_complete:
 *   the local memory may be used again.
 *
 * Callbacks
 *   f(d, status), status 0 or a TUG_ERR_*. Called by the thread that made the call, before
 *   it returns, or by any thread that drives the engine: the library's own, or one of the program's
 *   inside any call of the library. No locks are held. A callback may start operations; it may not
 *   block, wait, or call any other function of a context. f may be NULL.
 *
 * Memory
 *   Both ends of a transfer are registered. Memory from tug_mem_allocate() is mapped by the other
 *   processes of its node, whose operations on it are then plain loads, stores and CPU atomics
 *   of the calling thread. Any other memory can be registered by tug_mem_register(); what
 *   MPI_Alloc_mem gave, from 64 KiB on, the node's other processes reach likewise.
 *
 * Atomics are atomic to each other whatever way they take. They are not atomic to plain writes, and
 * to CPU atomics of the program only if tug_context_cpu_atomics() says so.
 *
 * Collective operations are MPI's: use the communicator. tug_wait() and tug_progress() are optional
 * help. Creation and end of a context are collective calls of MPI's kind; everything else is local.
 */
#ifndef TUGBOAT_LLCL_H
#define TUGBOAT_LLCL_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tugboat/tugboat.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tug_context tug_context;           /* the processes of one communicator */
typedef struct tug_registration tug_registration; /* memory of this process that may be used */

/* ---- contexts ---- */

/* A context of all processes of comm (an intra-communicator), which is not needed afterwards.
 * Collective, the same answer everywhere; MPI must be initialised. The ways to the others (the
 * *transports*: mapped memory, packets through shared memory, packets by MPI, InfiniBand verbs)
 * are chosen per process, when it is first used, among those that TUGBOAT_TRANSPORTS allows.
 *
 * 0, TUG_ERR_INVALID (comm), TUG_ERR_NO_MEMORY, TUG_ERR_MPI, TUG_ERR_SETTING (a transport that was
 * asked for does not exist here), TUG_ERR_STATE (MPI is not initialised, or TUGBOAT=off). */
TUG_API int tug_context_create(MPI_Comm comm, tug_context **context);

/* Waits until all operations of all processes are complete and ends the context; registrations
 * that are left are ended too. Collective. No other thread may use the context. */
TUG_API int tug_context_free(tug_context **context);

TUG_API int tug_context_rank(const tug_context *context); /* of this process, from 0 */
TUG_API int tug_context_size(const tug_context *context); /* processes */

/* The name of the transport that takes operations of this size on memory that is not mapped, to
 * that process: "self", "shm", "tcp", "mpi", "verbs". Any thread. */
TUG_API const char *tug_context_transport(const tug_context *context, int process,
                                          size_t size_in_bytes);

/* True if remote atomics on this process's memory and CPU atomics are atomic to each other; false
 * if a network card does the former. The same for all processes. */
TUG_API bool tug_context_cpu_atomics(const tug_context *context);

/* ---- memory ---- */

/* What another process needs to reach a registration: plain bytes, to be sent by any means. */
struct tug_key {
    uint64_t word[6];
};

/* Registers size_in_bytes bytes at address. Local; not in callbacks. The memory must stay mapped
 * until deregistration. Memory that a network card refuses (too much is locked) is reached by other
 * ways. 0, TUG_ERR_INVALID, TUG_ERR_NO_MEMORY, TUG_ERR_SYSTEM, TUG_ERR_UNSUPPORTED (it is memory of
 * a CUDA, HIP or Level Zero device). */
TUG_API int tug_mem_register(tug_context *context, void *address, size_t size_in_bytes,
                             tug_registration **registration);

/* New zeroed memory, registered, at a page, mapped by all processes of the node. Collective over
 * the context; sizes may differ and be 0. 0, TUG_ERR_NO_MEMORY, TUG_ERR_MPI: the same everywhere.
 */
TUG_API int tug_mem_allocate(tug_context *context, size_t size_in_bytes,
                             tug_registration **registration);

/* Ends a registration: keys of it are refused from now on, at other processes and by network cards
 * too, whatever else covers the memory. TUG_ERR_STATE, and nothing happens, while
 * operations of this process use it as local memory, or a transfer that another process asked for
 * is under way in it, as far as this process has seen: tug_progress() and try again. Memory from
 * tug_mem_allocate() stays until the context ends: see tug_mem_free(). Local; not in callbacks. */
TUG_API int tug_mem_deregister(tug_registration **registration);

/* Ends what one tug_mem_allocate() made, on all processes, memory and all. Collective over the
 * context. TUG_ERR_INVALID (it is not from there), TUG_ERR_STATE: the same everywhere. */
TUG_API int tug_mem_free(tug_registration **registration);

TUG_API void *tug_mem_address(const tug_registration *registration);
TUG_API size_t tug_mem_size(const tug_registration *registration);
TUG_API void tug_mem_key(const tug_registration *registration, struct tug_key *key);

/* Where the remote memory of a key is mapped in this process, or NULL. Any thread. */
TUG_API void *tug_mem_map(const tug_context *context, const struct tug_key *key);

/* ---- operations ---- */

struct tug_callback {
    void (*f)(void *d, int status);
    void *d;
};

struct tug_remote_address {
    const struct tug_key *key; /* read during the call only */
    size_t offset;             /* bytes from the registration's start */
};

struct tug_local_address {
    tug_registration *registration;
    size_t offset;
};

struct tug_read_params {
    int src_proc;
    struct tug_remote_address src_raddr;
    struct tug_local_address dest_laddr;
    size_t size_in_bytes; /* any, 0 included */
    struct tug_callback on_complete;
};

struct tug_write_params {
    int dest_proc;
    struct tug_remote_address dest_raddr;
    struct tug_local_address src_laddr;
    size_t size_in_bytes;
    struct tug_callback on_local;
    struct tug_callback on_complete;
};

enum tug_atomic_op { TUG_ADD, TUG_AND, TUG_OR, TUG_XOR, TUG_SWAP };

/* The remote integer has 4 or 8 bytes and stands at a multiple of them. Its old value goes to
 * result_laddr (size_in_bytes bytes; registration NULL: nowhere). */
struct tug_fetch_and_op_params {
    int dest_proc;
    struct tug_remote_address dest_raddr;
    struct tug_local_address result_laddr;
    size_t size_in_bytes;
    enum tug_atomic_op op;
    uint64_t operand; /* its lowest size_in_bytes bytes */
    struct tug_callback on_complete;
};

/* Becomes `desired` if it is `expected`. */
struct tug_compare_and_swap_params {
    int dest_proc;
    struct tug_remote_address dest_raddr;
    struct tug_local_address result_laddr;
    size_t size_in_bytes;
    uint64_t expected;
    uint64_t desired;
    struct tug_callback on_complete;
};

TUG_API bool tug_try_read_async(tug_context *context, const struct tug_read_params *params);
TUG_API bool tug_try_write_async(tug_context *context, const struct tug_write_params *params);
TUG_API bool tug_try_fetch_and_op_async(tug_context *context,
                                        const struct tug_fetch_and_op_params *params);
TUG_API bool tug_try_compare_and_swap_async(tug_context *context,
                                            const struct tug_compare_and_swap_params *params);

/* ---- writes with a signal ---- */

#define TUG_SIGNAL_MAX_PAYLOAD 24 /* bytes */

/* A write and, when its data are in place, a signal at the same process: `value` is added to an
 * integer of 8 bytes there, at a multiple of 8 (signal_raddr), or, where signal_raddr.key is NULL,
 * the active message `handler` is handled. Whoever sees the signal sees the data. Signals of writes
 * that were started one after the other by one thread may come in another order. Signals are atomic
 * to one another, and to atomics where tug_context_cpu_atomics() says that those are the CPU's. If
 * the write fails there is no signal; on_complete is called when both are over, with the error.
 * Where the call returns false there is no signal either, but the data may be in place already.
 *
 * late: nobody waits for on_complete soon. Where it takes a word from the target, that comes with
 * what the target sends anyway, or after some such writes, instead of at once; the target's answer
 * costs nobody a wake. It comes when it is asked for: by tug_wait(), tug_counter_wait(),
 * tug_progress(), by an operation that needs the room, by tug_mem_deregister() of its memory (which
 * may have to be called again) and by tug_context_free(). Errors come as ever. */
struct tug_write_signal_params {
    int dest_proc;
    struct tug_remote_address dest_raddr;
    struct tug_local_address src_laddr;
    size_t size_in_bytes; /* any, 0 included */
    struct tug_remote_address signal_raddr;
    uint64_t value;
    unsigned handler;
    const void *payload; /* of the message; copied by the call */
    size_t payload_in_bytes;
    struct tug_callback on_local;
    struct tug_callback on_complete;
    bool late;
};

TUG_API bool tug_try_write_signal_async(tug_context *context,
                                        const struct tug_write_signal_params *params);

/* What signals have added to an integer of this process's memory: acquire. */
TUG_API uint64_t tug_signal_value(const uint64_t *signal);

/* Waits until that is at least `least`: tug_wait(). Not in callbacks. It is not known here who
 * sends: where that process is lost first, this does not return. Who must go on then asks that
 * process by a call that it answers in the end, and waits by tug_wait() for the signal or the end
 * of the call, which is TUG_ERR_PEER where sockets of ours go there (tcp). By the other ways, those
 * inside a node among them, a process that only waits does not find out. */
TUG_API void tug_signal_wait(tug_context *context, const uint64_t *signal, uint64_t least);

/* ---- active messages ---- */

#define TUG_AM_HANDLERS 256     /* ids 0 .. 255 */
#define TUG_AM_MAX_PAYLOAD 4096 /* bytes */

/* Called at the destination by whoever drives the engine there: rules as for callbacks. One handler
 * of a context runs at a time. payload is gone, and may be unaligned to more than 8, after. */
typedef void (*tug_am_handler)(tug_context *context, int src_proc, const void *payload,
                               size_t size_in_bytes, void *d);

/* Sets the handler of an id, NULL: none. Messages for an id without handler fail with
 * TUG_ERR_INVALID at their sender. Local; any thread, not in callbacks. */
TUG_API int tug_am_register(tug_context *context, unsigned id, tug_am_handler handler, void *d);

struct tug_am_params {
    int dest_proc;
    unsigned handler;
    const void *payload; /* need not be registered; unchanged until on_local */
    size_t size_in_bytes;
    struct tug_callback on_local;
    struct tug_callback on_complete;
};

TUG_API bool tug_try_am_async(tug_context *context, const struct tug_am_params *params);

/* ---- calls: active messages with an answer ---- */

/* Whom to answer. */
struct tug_caller {
    int process;
    uint32_t tag;
};

/* Called as a tug_am_handler is. The callee answers every call once, with tug_answer(): in the
 * handler, or later (a lock that is free again, a page that has moved). Until then the call is
 * outstanding at the caller. */
typedef void (*tug_call_handler)(tug_context *context, struct tug_caller caller,
                                 const void *payload, size_t size_in_bytes, void *d);

/* Sets the handler of an id, NULL: none. Calls have ids of their own, 0 .. TUG_AM_HANDLERS - 1.
 * Calls to an id without handler fail with TUG_ERR_INVALID. Local; any thread, not in callbacks. */
TUG_API int tug_call_register(tug_context *context, unsigned id, tug_call_handler handler, void *d);

/* Answers a call. In handlers and callbacks only. */
TUG_API void tug_answer(tug_context *context, struct tug_caller caller, const void *answer,
                        size_t size_in_bytes);

struct tug_call_params {
    int dest_proc;
    unsigned handler;
    const void *payload; /* at most TUG_AM_MAX_PAYLOAD bytes, need not be registered */
    size_t size_in_bytes;
    void *answer;           /* need not be registered; filled when on_complete is called */
    size_t answer_in_bytes; /* at most TUG_AM_MAX_PAYLOAD; TUG_ERR_RANGE if the callee answers with
                               another size */
    struct tug_callback on_local;
    struct tug_callback on_complete;
};

TUG_API bool tug_try_call_async(tug_context *context, const struct tug_call_params *params);

/* ---- helping and waiting ---- */

/* Gets everything of this process on a little: sends operations that wait for more of their kind,
 * looks for answers. If another thread does so already, gives the core away instead. Never sleeps.
 * Not in callbacks. */
TUG_API void tug_progress(tug_context *context);

/* Returns when done(d) is true: helps, then sleeps. done is called by this thread, often. Not in
 * callbacks. */
TUG_API void tug_wait(tug_context *context, bool (*done)(void *d), void *d);

/* The most common callback: counts completions and keeps the first error. Zero it, use
 * {tug_counter_add, &counter} as callback any number of times, then tug_counter_wait(). */
struct tug_counter {
    uint64_t completed; /* to be read by the functions below only */
    int status;
};

TUG_API void tug_counter_add(void *counter, int status);

/* How many have completed so far. Acquire: their results can be read. */
TUG_API uint64_t tug_counter_value(const struct tug_counter *counter);

/* Waits until `target` have completed. Returns the first error among them, or 0. */
TUG_API int tug_counter_wait(tug_context *context, struct tug_counter *counter, uint64_t target);

#ifdef __cplusplus
}
#endif

#endif
