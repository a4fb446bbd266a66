/* ACP: copies and atomics between the memories of any two processes.
 *
 * This is the basic layer of the Advanced Communication Primitives, version 1.x (Saga et al.,
 * HPC-148, 2015). The names and their meaning are the original ones. The layer uses Tugboat's
 * engine and transports. A program compiles unchanged and links with -ltugboat. ACP is meant for
 * authors of runtimes.
 *
 * Global addresses
 *   A global address (GA) names one byte of one process's memory. It is the same in all processes:
 *
 *        63              43 42   41        34 33                                0
 *       +------------------+---+------------+-----------------------------------+
 *       | rank + 1         | c | key        | offset in the registration, bytes |
 *       +------------------+---+------------+-----------------------------------+
 *         21 bits           1     8 bits      34 bits: 16 GiB
 *
 *   c is the colour: the port of the network cards that serves the address. There are two, 0 and 1,
 *   where every process has two ports or more, and one, 0, elsewhere. Copies of less than 128 KiB
 *   to and from memory of a colour go by that port. Longer ones go by all ports in any case, and
 *   atomics and third-party requests by the first. Colours change nothing about order.
 *
 *   Key 0 is the starter memory, of colour 0. Keys 1 to 255 are registrations. The GA of the byte n
 *   bytes after ga is ga + n. The CMake variables TUGBOAT_ACP_KEY_BITS and TUGBOAT_ACP_OFFSET_BITS
 *   widen keys and offsets. Fewer bits then remain for ranks.
 *
 *   Keys are reused. The key that has been free for the longest time is reused first. An access
 *   through a GA whose registration has ended fails. If the key has been reused, the access reaches
 *   the memory of the new registration. It never reaches the old memory.
 *
 * Global memory access (GMA)
 *   acp_copy and the atomics start an operation between any two processes and return its handle.
 *   They do not wait for the operation. They wait only for room: a process can have 4096 operations
 *   under way. The engine continues the operations while the program computes. If both ends of an
 *   operation are in other processes, the request goes to the rank of the source, and that rank's
 *   engine writes to the destination (third-party copy).
 *
 * Order
 *   The last argument alone orders operations. It says which operations must be complete before the
 *   new one starts:
 *       ACP_HANDLE_NULL  none
 *       a handle         that operation and all operations started before it
 *       ACP_HANDLE_ALL   all operations started before the new one
 *       ACP_HANDLE_CONT  the same as ACP_HANDLE_ALL
 *   The handle of a complete operation has the same effect as ACP_HANDLE_NULL.
 *
 * Errors
 *   Invalid arguments are refused at once: a null GA, a rank, colour or order that does not exist,
 *   or a GA that is not aligned. The call returns ACP_HANDLE_NULL, ACP_GA_NULL, ACP_ATKEY_NULL,
 *   NULL or -1, and has no effect. ACP_ERRNO gives the reason.
 *
 *   Access to memory that is not registered, at either end, is detected when the operation starts:
 *   a key without a registration, or an offset beyond the starter memory or the registration. The
 *   operation ends without writing anything. Operations that were to wait for it do not start. The
 *   acp_complete() that covers the operation, or the acp_inquire() that finds it complete, sets
 *   ACP_ERRNO. If no such call has reported the error, acp_finalize() returns -1.
 *
 *   Every failure is printed on standard error, unless TUGBOAT_VERBOSE=quiet.
 *
 * Threads
 *   Any number of threads may call these functions at the same time, with two exceptions. Only one
 *   thread at a time may be in acp_init, acp_finalize, acp_reset or acp_sync. During acp_init,
 *   acp_finalize and acp_reset, no other thread may be in any ACP call. Handles count the
 *   operations of all threads together. Callbacks of <tugboat/llcl.h> may not call these functions.
 */
#ifndef __ACP_H__ /* the guard of the original header: a program includes only one of the two */
#define __ACP_H__

#include <stddef.h>
#include <stdint.h>

#include "tugboat/tugboat.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t acp_atkey_t; /* a registration of this process */
typedef uint64_t acp_ga_t;    /* a global address */
typedef int64_t acp_handle_t; /* an operation of this process; each new handle is one higher */

/* These constants are unsigned, although handles are signed. They can be used in #if. The original
 * header does the same. */
#define ACP_ATKEY_NULL 0LLU
#define ACP_GA_NULL 0LLU
#define ACP_HANDLE_NULL 0x0000000000000000LLU
#define ACP_HANDLE_ALL 0xffffffffffffffffLLU
#define ACP_HANDLE_CONT 0xfffffffffffffffeLLU

/* ---- infrastructure ---- */

/* Starts ACP among all processes of MPI_COMM_WORLD. Collective; returns when all processes have
 * started. argc and argv are those of main, and may be NULL. If the program has not initialised
 * MPI, the call does so (MPI_THREAD_MULTIPLE), and acp_finalize() finalises MPI.
 *
 * The call removes the options of the original ACP from argv. --acp-size-smem BYTES sets the size
 * of the starter memory and overrides TUGBOAT_ACP_STARTER. --acp-size-smem-cl BYTES and
 * --acp-size-smem-dl BYTES, the memory of libraries above ACP, are added to that size. Any other
 * --acp-* option is refused, and the message names it: the MPI launcher sets ranks and hosts.
 *
 * Returns 0, or -1: TUG_ERR_STATE (ACP runs already, MPI has been finalised, or TUGBOAT=off),
 * TUG_ERR_INVALID (an option; argv is unchanged), TUG_ERR_NO_MPI, TUG_ERR_NO_MEMORY, TUG_ERR_MPI,
 * TUG_ERR_RANGE (more ranks than a GA can name). */
TUG_API int acp_init(int *argc, char ***argv);

/* Completes the operations of this process, waits for all processes and frees everything.
 * Collective. Returns 0, or -1: TUG_ERR_STATE, or the error of an operation that no call has
 * reported before. In the second case everything is freed as well. */
TUG_API int acp_finalize(void);

/* Ends ACP and starts it again. This process gets the number `rank`. Registrations are gone, and
 * the starter memory is zero. Collective. The ranks must be 0 to acp_procs() - 1, each used once.
 * Returns 0, or -1 in all processes: TUG_ERR_INVALID (nothing has changed), or an error of
 * acp_init() (ACP has ended). */
TUG_API int acp_reset(int rank);

/* Prints `message` (may be NULL) and the meaning of ACP_ERRNO, and ends all processes. Does not
 * return. */
TUG_API void acp_abort(const char *message);

/* Returns when all processes have called it. It guarantees nothing about operations under way.
 * Collective. Returns 0, or -1: TUG_ERR_STATE, TUG_ERR_PEER. */
TUG_API int acp_sync(void);

TUG_API int acp_rank(void);  /* The rank of this process, from 0. -1: ACP does not run. */
TUG_API int acp_procs(void); /* The number of processes. -1: ACP does not run. */

/* The error of this thread's last failed call: a TUG_ERR_*. 0 if no call of this thread has failed.
 */
TUG_API int acp_errno(void);
#define ACP_ERRNO (acp_errno())

/* ---- global memory ---- */

/* The GA of the first byte of a process's starter memory. The starter memory has
 * TUGBOAT_ACP_STARTER bytes, is zero at first, and can be accessed by all processes from acp_init()
 * on. The processes of a node map each other's starter memory. Operations on it are loads and
 * stores of the caller. In a job of at most TUGBOAT_ACP_KEYS ranks acp_init() gives every process
 * the keys of all starter memory. In a larger job the first operation on a process's starter memory
 * may read its key, as for registered memory. ACP_GA_NULL: the rank does not exist. */
TUG_API acp_ga_t acp_query_starter_ga(int rank);

/* Registers memory for access by all processes, which then has that colour. Local. The program
 * sends the GA of the memory to the processes that need it. The first operation of a process on it
 * reads its key from memory of the owner, which takes no part where a network card or loads do so.
 * The memory must stay mapped until it is unregistered. The processes of the node map memory of
 * MPI_Alloc_mem, from 64 KiB on, at first use. They then access it in the same way as starter
 * memory.
 *
 * Returns ACP_ATKEY_NULL on error: TUG_ERR_INVALID (no memory, or a colour that does not exist),
 * TUG_ERR_RANGE (the memory is longer than a GA's offset can reach), TUG_ERR_FULL (255
 * registrations exist), TUG_ERR_UNSUPPORTED (memory of a device). */
TUG_API acp_atkey_t acp_register_memory(void *address, size_t size_in_bytes, int color);

/* Ends a registration. First waits for this process's operations on the memory, and for operations
 * of other processes that are under way in it. Local. Returns 0, or -1: TUG_ERR_KEY (the
 * registration does not exist or has ended). */
TUG_API int acp_unregister_memory(acp_atkey_t atkey);

/* The GA of an address inside a registration of this process. ACP_GA_NULL: TUG_ERR_KEY,
 * TUG_ERR_RANGE. */
TUG_API acp_ga_t acp_query_ga(acp_atkey_t atkey, void *address);

/* The address of a GA in this process's own memory. NULL: TUG_ERR_INVALID (a null GA, or one of
 * another process), TUG_ERR_KEY, TUG_ERR_RANGE. */
TUG_API void *acp_query_address(acp_ga_t ga);

TUG_API int acp_query_rank(acp_ga_t ga);  /* The rank of its process. -1: null, or no process. */
TUG_API int acp_query_color(acp_ga_t ga); /* The colour of a GA. -1 in the same cases. */
TUG_API int acp_colors(void);             /* The number of colours: 1 or 2. -1: ACP does not run. */

/* ---- global memory access ---- */

/* Copies between the memories of any two processes. Source and destination may overlap if both are
 * in the caller's own memory. Returns a handle, or ACP_HANDLE_NULL: TUG_ERR_INVALID (a null GA, or
 * a rank or handle that does not exist), TUG_ERR_STATE. Errors that appear later: TUG_ERR_KEY,
 * TUG_ERR_RANGE, TUG_ERR_PEER, or the error of an operation that this one had to wait for. */
TUG_API acp_handle_t acp_copy(acp_ga_t dst, acp_ga_t src, size_t size_in_bytes, acp_handle_t order);

/* Atomic operations on the integer of 4 or 8 bytes at src. The old value is stored at dst by a
 * plain write; dst may be in any process, too. Both addresses must be multiples of the integer's
 * size. These operations are atomic to each other. They are also atomic to CPU atomics of the
 * program, unless a network card does them (tug_context_cpu_atomics() of <tugboat/llcl.h>). Return
 * value and errors are those of acp_copy. TUG_ERR_INVALID also: an address is not aligned. */
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

/* Waits until the operation and all operations started before it are complete: their data are at
 * the destination. ACP_HANDLE_ALL: waits for all operations started so far. Returns at once for
 * ACP_HANDLE_NULL and for handles that no call has returned. While it waits, the call first helps
 * the engine, then sleeps. */
TUG_API void acp_complete(acp_handle_t handle);

/* Returns 1 if acp_complete() would wait for this handle. Otherwise returns 0 and sets ACP_ERRNO as
 * acp_complete() does. Helps the engine a little, and never waits. */
TUG_API int acp_inquire(acp_handle_t handle);

#ifdef __cplusplus
}
#endif

#endif
