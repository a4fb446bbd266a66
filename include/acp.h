/* ACP: global addresses that every process can copy between, for those who write runtimes.
 *
 * The basic layer of the Advanced Communication Primitives, version 1.x, by its own names and with
 * its own meaning (Saga et al., HPC-148, 2015), on the engine and the transports of Tugboat: a
 * program compiles unchanged and links -ltugboat.
 *
 * Global addresses
 *   A global address (GA) names a byte of some process's memory, the same in all processes:
 *
 *        63              43 42   41        34 33                                0
 *       +------------------+---+------------+-----------------------------------+
 *       | rank + 1         | c | key        | offset in the registration, bytes |
 *       +------------------+---+------------+-----------------------------------+
 *         21 bits           1     8 bits      34 bits: 16 GiB
 *
 *   c is the colour, the device that serves it: there is one, 0. Key 0 is the starter memory, 1 to
 *   255 are registrations. GAs add up: ga + n is the n-th byte behind. The cmake variables
 *   TUGBOAT_ACP_KEY_BITS and TUGBOAT_ACP_OFFSET_BITS widen keys and offsets, at the cost of ranks.
 *
 *   Keys are used again, the one that has been free for longest first. An access through a GA whose
 *   registration has ended fails, or, when its key is used again, reaches what it names then: never
 *   the memory of before.
 *
 * Global memory access (GMA)
 *   acp_copy and the atomics start an operation between any two processes and return its handle.
 *   They do not wait for it, but for room: 4096 of a process can be under way. The engine gets on
 *   with it while the program computes. An operation with both ends elsewhere is sent to the rank
 *   of the source, whose engine writes to the destination (third-party copy).
 *
 * Order
 *   Operations are ordered by their last argument alone, which names what has to be complete before
 *   they start:
 *       ACP_HANDLE_NULL  nothing
 *       a handle         that operation and all that were started before it
 *       ACP_HANDLE_ALL   all that were started before this one
 *       ACP_HANDLE_CONT  the same
 *   Handles of operations that are complete are as good as ACP_HANDLE_NULL.
 *
 * Errors
 *   What can be no operation is refused at once (a null GA, a rank, colour or order that is not
 *   there, what is not aligned): ACP_HANDLE_NULL, ACP_GA_NULL, ACP_ATKEY_NULL, NULL or -1, nothing
 *   has happened, and ACP_ERRNO says why. Memory that is not registered (a key of nothing, an
 *   offset behind the starter memory or the registration), at whichever end, is found out when the
 *   operation starts: it ends without having written anything, those that were to wait for it do
 *   not start, and the acp_complete() that passes it, or the acp_inquire() that finds it complete,
 *   sets ACP_ERRNO. acp_finalize() returns -1 when none of them has. Every failure is told on
 *   standard error, unless TUGBOAT_VERBOSE=quiet.
 *
 * Threads
 *   Any thread, any number. But acp_init, acp_finalize, acp_reset and acp_sync are for one thread
 *   at a time, and during the first three no other may be in a call. Handles count all threads'
 *   operations together. No calls from callbacks of <tugboat/llcl.h>.
 */
#ifndef __ACP_H__ /* the guard of the original header: a program has one of the two */
#define __ACP_H__

#include <stddef.h>
#include <stdint.h>

#include "tugboat/tugboat.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t acp_atkey_t; /* a registration of this process's */
typedef uint64_t acp_ga_t;    /* a global address */
typedef int64_t acp_handle_t; /* an operation of this process's; they grow by one */

/* Unsigned, though handles are not, and good in #if: as the original header has them. */
#define ACP_ATKEY_NULL 0LLU
#define ACP_GA_NULL 0LLU
#define ACP_HANDLE_NULL 0x0000000000000000LLU
#define ACP_HANDLE_ALL 0xffffffffffffffffLLU
#define ACP_HANDLE_CONT 0xfffffffffffffffeLLU

/* ---- infrastructure ---- */

/* Starts ACP among all processes of MPI_COMM_WORLD; collective, and returns when all have. argc and
 * argv are main's, and may be NULL. Initialises MPI (MPI_THREAD_MULTIPLE) if the program has not;
 * then acp_finalize() finalises it.
 *
 * Takes the original's options out of argv: --acp-size-smem BYTES is the size of starter memory
 * instead of TUGBOAT_ACP_STARTER; --acp-size-smem-cl BYTES and --acp-size-smem-dl BYTES, the
 * memory of libraries that stand on ACP, are added. Any other --acp-* is refused by name: ranks
 * and hosts are the MPI launcher's.
 *
 * 0, or -1: TUG_ERR_STATE (it runs already, MPI has been finalised, TUGBOAT=off),
 * TUG_ERR_INVALID (an option; argv is as it was), TUG_ERR_NO_MPI, TUG_ERR_NO_MEMORY, TUG_ERR_MPI,
 * TUG_ERR_RANGE (more ranks than a GA can name). */
TUG_API int acp_init(int *argc, char ***argv);

/* Completes this process's operations, waits for all processes and frees everything. Collective.
 * 0, or -1: TUG_ERR_STATE; the reason of an operation that failed and was not told before, and
 * everything is freed all the same. */
TUG_API int acp_finalize(void);

/* Ends and starts again, with the number `rank` for this process: registrations are gone, starter
 * memory is zero. Collective; the ranks must be 0 to acp_procs() - 1, each once. 0, or -1
 * everywhere: TUG_ERR_INVALID and nothing has changed, or an error of acp_init() and ACP has ended.
 */
TUG_API int acp_reset(int rank);

/* Prints `message` (may be NULL) and what ACP_ERRNO means, and ends all processes. Does not return.
 */
TUG_API void acp_abort(const char *message);

/* Returns when all processes have called it; says nothing about operations under way. Collective.
 * 0, or -1: TUG_ERR_STATE, TUG_ERR_PEER. */
TUG_API int acp_sync(void);

TUG_API int acp_rank(void);  /* of this process, from 0; -1: ACP does not run */
TUG_API int acp_procs(void); /* processes; -1: ACP does not run */

/* Why the last call of this thread that failed did: a TUG_ERR_*, 0 before the first. */
TUG_API int acp_errno(void);
#define ACP_ERRNO (acp_errno())

/* ---- global memory ---- */

/* The GA of the first byte of a process's starter memory: TUGBOAT_ACP_STARTER bytes, zero at first,
 * within reach of all from acp_init() on. The processes of a node have mapped each other's:
 * operations on it are loads and stores of the caller. ACP_GA_NULL: no such rank. */
TUG_API acp_ga_t acp_query_starter_ga(int rank);

/* Registers memory for all processes, who learn of it by being sent its GA. Local. It must stay
 * mapped until it is unregistered. What MPI_Alloc_mem gave, from 64 KiB on, the processes of the
 * node map at first use, and reach as they do starter memory. ACP_ATKEY_NULL: TUG_ERR_INVALID (no
 * memory, a colour that is not there), TUG_ERR_RANGE (longer than a GA's offset reaches),
 * TUG_ERR_FULL (255 are registered), TUG_ERR_UNSUPPORTED (memory of a device). */
TUG_API acp_atkey_t acp_register_memory(void *address, size_t size_in_bytes, int color);

/* Ends a registration, after this process's operations on it, and those of others that are under
 * way in it. Local. 0, or -1: TUG_ERR_KEY (there is none, or not any more). */
TUG_API int acp_unregister_memory(acp_atkey_t atkey);

/* The GA of an address inside a registration of this process's. ACP_GA_NULL: TUG_ERR_KEY,
 * TUG_ERR_RANGE. */
TUG_API acp_ga_t acp_query_ga(acp_atkey_t atkey, void *address);

/* The address of a GA of this process's own. NULL: TUG_ERR_INVALID (null, another process's),
 * TUG_ERR_KEY, TUG_ERR_RANGE. */
TUG_API void *acp_query_address(acp_ga_t ga);

TUG_API int acp_query_rank(acp_ga_t ga);  /* whose memory it is; -1: null, or no process's */
TUG_API int acp_query_color(acp_ga_t ga); /* its colour; -1 as above */
TUG_API int acp_colors(void);             /* how many there are: 1; -1: ACP does not run */

/* ---- global memory access ---- */

/* Copies between any two processes; in one's own memory they may overlap. Returns a handle, or
 * ACP_HANDLE_NULL: TUG_ERR_INVALID (a null GA, a rank or handle that is not there), TUG_ERR_STATE.
 * Later: TUG_ERR_KEY, TUG_ERR_RANGE, TUG_ERR_PEER, or the error of one it was to wait for. */
TUG_API acp_handle_t acp_copy(acp_ga_t dst, acp_ga_t src, size_t size_in_bytes, acp_handle_t order);

/* Atomic operations on the integer of 4 or 8 bytes at src; its old value is stored at dst, which
 * may be anywhere too (by plain writing). Both stand at a multiple of the size. They are atomic to
 * each other; to CPU atomics of the program as well, unless a network card does them
 * (tug_context_cpu_atomics() of <tugboat/llcl.h>). Returns and errors as acp_copy; TUG_ERR_INVALID
 * for what is not aligned. */
TUG_API acp_handle_t acp_cas4(acp_ga_t dst, acp_ga_t src, uint32_t oldval, uint32_t newval,
                              acp_handle_t order);
TUG_API acp_handle_t acp_cas8(acp_ga_t dst, acp_ga_t src, uint64_t oldval, uint64_t newval,
                              acp_handle_t order);
TUG_API acp_handle_t acp_swap4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order);
TUG_API acp_handle_t acp_swap8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order);
TUG_API acp_handle_t acp_add4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order);
TUG_API acp_handle_t acp_add8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order);
TUG_API acp_handle_t acp_xor4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order);
TUG_API acp_handle_t acp_xor8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order);
TUG_API acp_handle_t acp_or4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order);
TUG_API acp_handle_t acp_or8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order);
TUG_API acp_handle_t acp_and4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order);
TUG_API acp_handle_t acp_and8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order);

/* Waits until the operation and all that were started before it are complete: the data are at
 * their destination. ACP_HANDLE_ALL: all so far. Returns at once for ACP_HANDLE_NULL and handles
 * that were never given out. Helps the engine meanwhile, then sleeps. */
TUG_API void acp_complete(acp_handle_t handle);

/* 1 while acp_complete() would wait; helps the engine a little, and never waits. 0 otherwise, with
 * ACP_ERRNO as acp_complete() sets it. */
TUG_API int acp_inquire(acp_handle_t handle);

#ifdef __cplusplus
}
#endif

#endif
