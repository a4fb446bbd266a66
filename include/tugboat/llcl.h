/* LLCL: the low-level communication layer, for authors of runtimes.
 *
 * LLCL offers one-sided reads, writes and atomics on registered memory of other processes, and
 * active messages. The design follows Endo and Taura (SWoPP'16, listing 1). Every operation begins
 * with a `try_` function. It starts the operation, or reports at once that there is no room. Every
 * operation ends with a callback. The library's engine does the work. It packs small operations to
 * the same process together, and applies incoming operations while the program computes. The
 * program need not make any call for progress.
 *
 * Operations
 *   tug_try_*_async() returns false if there is no room now. Then nothing has happened. The caller
 *   tries again later, or calls tug_progress() in between. The function returns true if it accepted
 *   the operation. Then on_complete is called exactly once. The function never waits for another
 *   process. Any number of threads may call it at once, also from callbacks. It copies at most 64
 *   KiB of memory that other processes of the node can access directly. The engine makes longer
 *   copies. If no thread drives the engine, the function sends packets itself, without waiting for
 *   room.
 *
 *   The function allocates nothing and takes no lock, except in these cases:
 *     the first operation on a process, or on a key: it makes what leads there (a connection, a
 *       queue pair of a network card, a mapping of memory that another process of the node has from
 *       MPI_Alloc_mem). tug_mem_open() does this earlier.
 *     more is under way than before: it allocates buffers for packets, and a few words for each
 *       long operation. The library keeps 1 MiB of buffers.
 *     long data have gone both ways between two processes over TCP: whichever thread drives the
 *       engine next makes a second connection, or accepts it, also in one of these functions.
 *     the transport "mpi" leads to the process, or "verbs" is used, whose connections are made by
 *       messages of the host MPI: whoever drives the engine calls functions of the host MPI, which
 *       allocate and lock.
 *
 *   Errors arrive as an error code in on_complete. This holds for failures of the network and for
 *   invalid arguments: a process that does not exist, an address outside a registration, a key of
 *   another context. The function then returns true, and may call the callback before it returns.
 *
 *   Neither operations nor callbacks have a guaranteed order. A program that needs an order starts
 *   the second operation in the callback of the first. There is one exception: active messages and
 *   calls of one thread to one process are handled in the order in which they were started.
 *
 * Completion
 *   read, atomics   the local memory holds the result.
 *   write           the data is in the remote memory. A process that is told so reads it there.
 *   active message  the handler has returned.
 *   call            the answer has arrived.
 *   Writes and active messages also have on_local, which is optional. It is called exactly once,
 *   and never after on_complete. From then on the local memory may be used again.
 *
 * Callbacks
 *   A callback is called as f(d, status). The status is 0 or a TUG_ERR_* code. The thread that
 *   starts the operation calls it, before the starting call returns, or any thread that drives the
 *   engine calls it. The engine is driven by threads of the library, and by threads of the program
 *   inside any call of the library. No locks are held during the callback. A callback may start
 *   operations and may call tug_answer(). It must not block, wait or call any other function of a
 *   context. The function f may be NULL.
 *
 * Memory
 *   The memory at both ends of a transfer must be registered. The other processes of a node map
 *   memory from tug_mem_allocate(). Their operations on it are plain loads, stores and CPU atomics
 *   of the calling thread, or of the engine if they have more than 64 KiB. The call
 *   tug_mem_register() registers any other memory. If that memory is from MPI_Alloc_mem and has
 *   64 KiB or more, the other processes of the node reach it in the same way.
 *
 * Atomics are atomic to each other, whatever transport they use. They are not atomic to plain
 * writes. They are atomic to CPU atomics of the program only if tug_context_cpu_atomics() is true.
 *
 * LLCL has no collective operations. Use those of MPI on the communicator. tug_wait() and
 * tug_progress() are optional; they help the engine. Four functions are collective, as in MPI:
 * tug_context_create(), tug_context_free(), tug_mem_allocate() and tug_mem_free(). All others are
 * local.
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
typedef struct tug_registration tug_registration; /* registered memory of this process */

/* ---- contexts ---- */

/* Creates a context of all processes of comm, an intra-communicator. The context does not need comm
 * after the call. Collective, with the same result on all processes. MPI must be initialised.
 *
 * A *transport* is a way to another process: mapped memory, packets through shared memory, packets
 * by MPI, InfiniBand verbs. The context chooses the transports for each process when the process is
 * first used. TUGBOAT_TRANSPORTS limits the choice.
 *
 * Returns 0, TUG_ERR_INVALID (comm), TUG_ERR_NO_MEMORY, TUG_ERR_MPI, TUG_ERR_SETTING (a requested
 * transport does not exist here) or TUG_ERR_STATE (MPI is not initialised, or TUGBOAT=off). */
TUG_API int tug_context_create(MPI_Comm comm, tug_context **context);

/* Waits until all operations of all processes are complete. Then it ends the context and all
 * registrations that remain. Collective. No other thread may use the context. */
TUG_API int tug_context_free(tug_context **context);

TUG_API int tug_context_rank(const tug_context *context); /* The rank of this process, from 0. */

TUG_API int tug_context_size(const tug_context *context); /* The number of processes. */

/* Returns the name of the transport for operations of this size to that process, on memory that is
 * not mapped: "self", "shm", "tcp", "mpi" or "verbs". Any thread may call it. */
TUG_API const char *tug_context_transport(const tug_context *context, int process,
                                          size_t size_in_bytes);

/* Returns true if remote atomics on this process's memory and CPU atomics are atomic to each other.
 * Returns false if a network card does the remote atomics. The result is the same on all processes.
 */
TUG_API bool tug_context_cpu_atomics(const tug_context *context);

/* ---- memory ---- */

/* Another process needs this key to access a registration. A key is plain bytes. The program may
 * send it by any means. */
struct tug_key {
    uint64_t word[8];
};

/* Registers size_in_bytes bytes at address. Local. Not allowed in callbacks. The memory must stay
 * mapped until deregistration. If a network card refuses the memory (too much memory is locked),
 * other transports are used for it.
 *
 * Returns 0, TUG_ERR_INVALID, TUG_ERR_NO_MEMORY, TUG_ERR_SYSTEM or TUG_ERR_UNSUPPORTED (the memory
 * belongs to a CUDA, HIP or Level Zero device). */
TUG_API int tug_mem_register(tug_context *context, void *address, size_t size_in_bytes,
                             tug_registration **registration);

/* Allocates and registers memory. The memory is zeroed and begins at a page boundary. All processes
 * of the node map it. Collective over the context. Sizes may differ between processes and may be 0.
 * Returns 0, TUG_ERR_NO_MEMORY or TUG_ERR_MPI, the same on all processes. */
TUG_API int tug_mem_allocate(tug_context *context, size_t size_in_bytes,
                             tug_registration **registration);

/* Ends a registration. From then on its keys are refused, also by other processes and by network
 * cards, even if another registration covers the same memory. Local. Not allowed in callbacks.
 *
 * Returns TUG_ERR_STATE and does nothing while the registration is in use: while operations of this
 * process use it as local memory, while the engine copies to or from it, or while a transfer that
 * another process requested accesses it, as far as this process has seen. Then call tug_progress()
 * and try again.
 *
 * Memory from tug_mem_allocate() stays until the context ends. The call tug_mem_free() frees it
 * earlier. */
TUG_API int tug_mem_deregister(tug_registration **registration);

/* Ends the registration and frees the memory of one tug_mem_allocate(), on all processes.
 * Collective over the context. Returns 0, TUG_ERR_INVALID (the registration is not from
 * tug_mem_allocate()) or TUG_ERR_STATE, the same on all processes. */
TUG_API int tug_mem_free(tug_registration **registration);

TUG_API void *tug_mem_address(const tug_registration *registration);
TUG_API size_t tug_mem_size(const tug_registration *registration);
TUG_API void tug_mem_key(const tug_registration *registration, struct tug_key *key);

/* Prepares operations on the memory of a key, and messages to its process, so that the first of
 * them need not (see try_ above). Optional. It waits for the process's answer, which needs no call
 * there if that process has an offload thread. Local. Any thread may call it, but not in callbacks.
 *
 * Returns 0, TUG_ERR_KEY (not a key of this context, or its registration has ended),
 * TUG_ERR_NO_MEMORY or TUG_ERR_PEER. */
TUG_API int tug_mem_open(tug_context *context, const struct tug_key *key);

/* Returns the address at which this process maps the remote memory of a key, or NULL if it does not
 * map it. Any thread may call it. */
TUG_API void *tug_mem_map(const tug_context *context, const struct tug_key *key);

/* ---- operations ---- */

struct tug_callback {
    void (*f)(void *d, int status);
    void *d;
};

struct tug_remote_address {
    const struct tug_key *key; /* read during the call only */
    size_t offset;             /* bytes from the start of the registration */
};

struct tug_local_address {
    tug_registration *registration;
    size_t offset;
};

struct tug_read_params {
    int src_proc;
    struct tug_remote_address src_raddr;
    struct tug_local_address dest_laddr;
    size_t size_in_bytes; /* any size, also 0 */
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

/* The remote integer has 4 or 8 bytes (size_in_bytes). Its address is a multiple of its size. Its
 * old value is stored at result_laddr. If result_laddr.registration is NULL, it is not stored. */
struct tug_fetch_and_op_params {
    int dest_proc;
    struct tug_remote_address dest_raddr;
    struct tug_local_address result_laddr;
    size_t size_in_bytes;
    enum tug_atomic_op op;
    uint64_t operand; /* the lowest size_in_bytes bytes are used */
    struct tug_callback on_complete;
};

/* The remote integer becomes `desired` if its value is `expected`. */
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

/* A write, followed by a signal at the same process when the data is in place. The signal adds
 * `value` to the integer of 8 bytes at signal_raddr. Its address is a multiple of 8. If
 * signal_raddr.key is NULL, the signal is an active message to `handler` instead. A thread that
 * sees the signal sees the data.
 *
 * Signals have no order, even if one thread started their writes one after the other. Signals are
 * atomic to each other. They are atomic to LLCL's atomics if tug_context_cpu_atomics() is true.
 *
 * If the write fails, there is no signal. on_complete is called when write and signal have ended,
 * with the error if there was one. If the function returns false, there is no signal, but the data
 * may be in place already.
 *
 * `late` means that no thread waits for on_complete soon. If completion needs an acknowledgement
 * from the target, the target does not send it at once. It sends it together with other data, or
 * after a number of such writes. The acknowledgement wakes no thread. These request it: tug_wait(),
 * tug_counter_wait(), tug_progress(), tug_context_free(), an operation that needs the room, and
 * tug_mem_deregister() of the memory (the program may have to call it again). Errors are reported
 * as without `late`. */
struct tug_write_signal_params {
    int dest_proc;
    struct tug_remote_address dest_raddr;
    struct tug_local_address src_laddr;
    size_t size_in_bytes; /* any size, also 0 */
    struct tug_remote_address signal_raddr;
    uint64_t value;
    unsigned handler;
    const void *payload; /* of the active message; the call copies it */
    size_t payload_in_bytes;
    struct tug_callback on_local;
    struct tug_callback on_complete;
    bool late;
};

TUG_API bool tug_try_write_signal_async(tug_context *context,
                                        const struct tug_write_signal_params *params);

/* Returns the value of an integer in this process's memory to which signals add. The read is an
 * acquire. */
TUG_API uint64_t tug_signal_value(const uint64_t *signal);

/* Waits, as tug_wait() does, until tug_signal_value() is at least `least`. Not allowed in
 * callbacks.
 *
 * The function does not know the sender of the signal. If the sender is lost before it has sent,
 * the function does not return. A program that must continue in this case uses a call: it calls the
 * sender with tug_try_call_async(), and the sender answers at the end. The program then uses
 * tug_wait() to wait for the signal or for the end of the call. If Tugboat's sockets (transport
 * "tcp") lead to the sender and the sender is lost, the call ends with TUG_ERR_PEER. With the other
 * transports, also inside a node, a process that only waits does not learn of the loss. */
TUG_API void tug_signal_wait(tug_context *context, const uint64_t *signal, uint64_t least);

/* ---- active messages ---- */

#define TUG_AM_HANDLERS 256     /* ids 0 .. 255 */
#define TUG_AM_MAX_PAYLOAD 4096 /* bytes of a call, of an answer, and of a short active message */
#define TUG_AM_MAX_LONG 1073741824 /* bytes of a long active message */

/* A handler is called at the destination, by a thread that drives the engine there. The rules for
 * callbacks hold. Only one handler of a context runs at a time. The payload is invalid after the
 * handler has returned. Do not rely on an alignment of more than 8 bytes. */
typedef void (*tug_am_handler)(tug_context *context, int src_proc, const void *payload,
                               size_t size_in_bytes, void *d);

/* Sets the handler of an id. NULL removes it. Messages to an id without a handler fail at the
 * sender with TUG_ERR_INVALID. Local. Any thread may call it, but not in callbacks. */
TUG_API int tug_am_register(tug_context *context, unsigned id, tug_am_handler handler, void *d);

struct tug_am_params {
    int dest_proc;
    unsigned handler;
    const void *payload; /* need not be registered; must not change until on_local */
    size_t size_in_bytes;
    struct tug_callback on_local;
    struct tug_callback on_complete;
};

/* Sends 0 to TUG_AM_MAX_LONG bytes to a handler. More than that is TUG_ERR_INVALID.
 *
 * A message of more than TUG_AM_MAX_PAYLOAD bytes is a long one. It is sent from the program's
 * memory, as long writes are, so on_local may come late. The destination gathers it in memory that
 * it allocates, at most one message from each process at a time. It calls the handler once, with
 * the whole payload. Long and short messages of one thread to one process keep their order. If the
 * destination has no memory for it, the message fails with TUG_ERR_NO_MEMORY. */
TUG_API bool tug_try_am_async(tug_context *context, const struct tug_am_params *params);

/* ---- calls: active messages with an answer ---- */

/* The process and the call to answer. */
struct tug_caller {
    int process;
    uint32_t tag;
};

/* The rules for tug_am_handler hold. The callee answers every call exactly once with tug_answer(),
 * in the handler or later (for example when a lock is free again, or a page has moved). Until then
 * the call is outstanding at the caller. */
typedef void (*tug_call_handler)(tug_context *context, struct tug_caller caller,
                                 const void *payload, size_t size_in_bytes, void *d);

/* Sets the handler of an id. NULL removes it. Ids are 0 .. TUG_AM_HANDLERS - 1. Calls and active
 * messages have separate ids. Calls to an id without a handler fail with TUG_ERR_INVALID. Local.
 * Any thread may call it, but not in callbacks. */
TUG_API int tug_call_register(tug_context *context, unsigned id, tug_call_handler handler, void *d);

/* Answers a call. Allowed only in handlers and callbacks. */
TUG_API void tug_answer(tug_context *context, struct tug_caller caller, const void *answer,
                        size_t size_in_bytes);

struct tug_call_params {
    int dest_proc;
    unsigned handler;
    const void *payload; /* at most TUG_AM_MAX_PAYLOAD bytes; need not be registered */
    size_t size_in_bytes;
    void *answer;           /* need not be registered; is filled when on_complete is called */
    size_t answer_in_bytes; /* at most TUG_AM_MAX_PAYLOAD; an answer of another size is
                               TUG_ERR_RANGE */
    struct tug_callback on_local;
    struct tug_callback on_complete;
};

TUG_API bool tug_try_call_async(tug_context *context, const struct tug_call_params *params);

/* ---- helping and waiting ---- */

/* Makes some progress on all operations of this process: sends operations that wait for others to
 * share a packet, and looks for answers. If another thread already does this, the function yields
 * the core instead. It never sleeps. Not allowed in callbacks. */
TUG_API void tug_progress(tug_context *context);

/* Waits until done(d) returns true. The thread first drives the engine, then sleeps. It calls done
 * often. Not allowed in callbacks. With tug_wait_hooks_set() other threads call done, too. */
TUG_API void tug_wait(tug_context *context, bool (*done)(void *d), void *d);

/* A counter for the most common callback, tug_counter_add(). It counts completions and keeps the
 * first error. Set it to zero, use {tug_counter_add, &counter} as the callback of any number of
 * operations, then call tug_counter_wait(). */
struct tug_counter {
    uint64_t completed; /* read it only with the functions below */
    int status;
};

TUG_API void tug_counter_add(void *counter, int status);

/* Returns the number of operations that have completed. The read is an acquire: their results can
 * be read after it. */
TUG_API uint64_t tug_counter_value(const struct tug_counter *counter);

/* Waits until `target` operations have completed. Returns their first error, or 0. */
TUG_API int tug_counter_wait(tug_context *context, struct tug_counter *counter, uint64_t target);

/* ---- waiting by user-level threads ---- */

/* A runtime with user-level threads (coroutines, tasks), of which many share an OS thread, sets
 * these functions. tug_wait(), tug_counter_wait() and tug_signal_wait() then do not put the OS
 * thread to sleep: they call block(), which lets another user-level thread run there. So do waits
 * for handles of ACP and for operations of arrays. Calls of MPI and collective functions wait with
 * their OS thread.
 *
 *   self   is called at the start of a wait, on the waiting thread. It returns what stands for the
 *          calling user-level thread, not NULL. NULL means that the caller is none. It waits as
 *          without hooks.
 *   block  is called on the user-level thread. It returns after wake() has been called for this
 *          one, also if that was before block(). It may return on another OS thread.
 *   wake   is called exactly once for each block(), by any thread, perhaps before block() or during
 *          it. The rules for callbacks hold: it must not wait for a user-level thread, and it may
 *          call no function of the library. It may take a short lock that no thread
 *          holds while it calls the library.
 *
 * While a user-level thread waits, the condition of its wait is called by any thread, one at a
 * time. For tug_wait() this is done(d): it must do no more than look. The library's own thread
 * drives the engine if no thread of the program does. It looks for conditions that become true
 * outside of the engine, by plain stores for example, at least once a millisecond.
 *
 * A scheduler that finds nothing to run may sleep in its own way, or wait for something by
 * tug_wait(), where self() returns NULL. Then its thread drives the engine, and operations that its
 * user-level threads have started share packets. */
struct tug_wait_hooks {
    void *(*self)(void *d);
    void (*block)(void *d, void *thread);
    void (*wake)(void *d, void *thread);
    void *d;
};

/* Sets the hooks of the process. NULL removes them. The call copies *hooks. No other thread may be
 * in a call of the library. Works before the first context exists.
 *
 * Returns 0, TUG_ERR_INVALID (a function is missing), TUG_ERR_STATE (a user-level thread waits) or
 * TUG_ERR_UNSUPPORTED (TUGBOAT_PROGRESS=caller: no thread would see that a wait is over). */
TUG_API int tug_wait_hooks_set(const struct tug_wait_hooks *hooks);

#ifdef __cplusplus
}
#endif

#endif
