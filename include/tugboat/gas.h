/* Relocatable global arrays: arrays whose pages move to the processes that use them.
 *
 * The design follows Endo and Taura's relocatable PGAS. A global array is one range of bytes. It is
 * divided into *pages* of a fixed size, and the pages are spread over the processes of a
 * communicator. Every process reads and writes the whole array by index (tug_array_get(), _put()),
 * and moves pages to the place of their use (tug_array_own()). A move does not change the indices.
 * Other processes continue to access the page. Its data are neither lost nor torn.
 *
 * Words
 *   page    page p holds the bytes [p * page_bytes, (p + 1) * page_bytes). The number p is its id.
 *   owner   the process whose memory holds the page at the moment.
 *   home    process p % size, or what the program's function says. The home of a page never
 *           changes. Only the home always knows the owner. It keeps the directory entry of the page
 *           (owner, place, generation, processes that have asked) and moves the page.
 *
 * Cost
 *   A process remembers the place of a page that it has used. A get or put of such a page takes one
 *   load or store on a node, and one RDMA operation or one packet between nodes. Before the first
 *   access to a page, the process finds the place in memory of the home: by loads and stores on a
 *   node, and by two RDMA operations if the card does all atomics (tug_context_cpu_atomics() is
 *   false). The home takes no part. Otherwise, before the first page of a home and while the page
 *   moves, the process asks the home by a message. The memory for places is bounded (`places`): a
 * process forgets places that it has not used for long. It does not forget the places of its own
 * pages.
 *
 * Effects of a move
 *   gets    continue while a page moves. They see the data before or after the move, and never
 *           anything else.
 *   puts    and also fetch_and_op and holds: the move waits for those that began before it. Later
 *           ones wait until the page has moved. They wait for one move only, even if many processes
 *           want the page.
 *   own     the home serves requests for a page in the order in which they reach it. A process has
 *           at most one request for a page under way, for all its threads. So a process that has
 *           asked waits for at most one move requested by each other process. An owner that asks
 *           again has the page at once if no process waits for it. Otherwise it queues behind the
 *           waiting processes. On the home's node, it does so as soon as they have asked. On other
 *           nodes, it does so as soon as word of their requests has arrived there, at the latest
 *           after 64 more calls of tug_array_own().
 *
 *   An aligned integer of 4 or 8 bytes is read and written as a whole. Larger gets and puts of the
 *   same bytes at the same time may mix, whether the page moves or not: the program must
 *   synchronise them. Every get that begins after a put is complete sees the data of the put.
 *
 * Threads
 *   Any number of threads may call all functions except tug_array_create(), _free(), _grow() and
 *   _shrink().
 *   Blocking calls (all calls without try_) may not be made in callbacks; try_ calls may. Callbacks
 *   are those of LLCL (llcl.h): each is called once, with 0 or a TUG_ERR_*. Any thread that drives
 *   the engine may call it, or the caller itself before its call returns. A try_ call returns false
 *   if there is no room. Then it has had no effect; try again after tug_array_progress(). The
 *   callback receives the errors of invalid arguments.
 *
 * Errors of all calls
 *   TUG_ERR_INVALID: array or buffer is NULL, a rank or page does not exist, an operation is
 *   unknown, or an integer is not aligned.
 *   TUG_ERR_RANGE: [index, index + size) is not inside the array.
 *   TUG_ERR_PEER: another process is lost.
 *   The descriptions of the calls name further errors. After an error of a put, some of its bytes
 *   may be written. After an error of own, some pages may have moved. Data are never lost.
 *
 * Creation and end are collective calls, as in MPI. All other calls use LLCL only.
 */
#ifndef TUGBOAT_GAS_H
#define TUGBOAT_GAS_H

#include <tugboat/llcl.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tug_array tug_array;

/* ---- creation ---- */

/* The first owner of a page. */
enum tug_placement {
    TUG_PLACE_BLOCK = 0, /* consecutive pages in equal shares, the first share to process 0 */
    TUG_PLACE_CYCLIC,    /* page p: process p % size */
};

/* Do pages move without a call of own or move?
 *
 * If they do, each process measures what its gets, puts and fetch_and_ops of pages have cost while
 * the pages were on another node. Up to eight pages side by side move together (64 KiB at most).
 * When the accesses to them have cost as much as a move, and the process has not used the pages
 * that are on its own node meanwhile, they move to the process before it accesses them again. So a
 * process that goes over to other pages pays at most twice the cost of the best choice in hindsight
 * (ski rental). A process that does use its own pages, and others' now and then, leaves them where
 * they are until they have cost as much as 32 moves. Pages that come and leave again without having
 * been used come more and more seldom. An access that sets pages in motion waits for its own, and
 * so do others of the process to pages that are on their way to it; gets of other processes
 * continue. Such a move waits for others like it, and for puts under way, but not for holds: a page
 * that is held, or that own or move has been called for, stays. Pages of processes on the same node
 * are used where they are. A move that finds no room (pages_most) is not made. */
enum tug_moves {
    TUG_MOVES_BY_SETTING = 0, /* as TUGBOAT_ARRAY_MOVES says; off without it */
    TUG_MOVES_BY_CALL,        /* no */
    TUG_MOVES_AUTOMATIC,      /* yes */
};

struct tug_array_params {
    size_t size_in_bytes; /* of the array, more than 0 */
    size_t page_bytes;    /* a multiple of 8 from 64 to 2^30; powers of two are a little faster */
    enum tug_placement placement;
    size_t pages_most;  /* most pages that one process may own at once; 0: twice its share of
                           size_most, plus 64. Pages take memory when they come; where a network
                           card locks memory, in pieces of 1 MiB, or a 64th of pages_most
                           if that is more, once a process elsewhere uses one of their pages. */
    size_t places;      /* number of places of other processes' pages to remember; 0: 4096 */
    size_t copies_most; /* number of pages in the read cache, see below; 0: no read cache */
    /* Returns the home of a page, from 0 to nranks - 1; NULL: page % nranks. All processes pass
     * functions that return the same. tug_array_create() calls it once for each page, in ascending
     * order, on its own thread, and keeps the results (16 bytes a page in every process). A home
     * near the users of a page makes its moves, and the first access, cheaper. */
    int (*home)(size_t page, int nranks, void *home_context);
    void *home_context; /* for `home` only; may differ between processes */
    size_t size_most;   /* size up to which tug_array_grow() can go; 0: size_in_bytes. Tables and
                           addresses are reserved for it, and `home` is asked for all its pages. */
    enum tug_moves moves;
};

/* Creates an array of zeros. Collective over comm; all processes pass the same parameters. The
 * array does not need comm afterwards. Returns the same in all processes: 0, TUG_ERR_INVALID
 * (params, comm; `home` returned a rank that does not exist, or not the same in all processes),
 * TUG_ERR_NO_MEMORY, TUG_ERR_MPI, TUG_ERR_STATE (MPI is not initialised, or TUGBOAT=off). */
TUG_API int tug_array_create(MPI_Comm comm, const struct tug_array_params *params,
                             tug_array **array);

/* Ends the array when the operations of all processes are complete, and sets *array to NULL.
 * Collective. TUG_ERR_INVALID: array or *array is NULL. TUG_ERR_STATE, in all processes: a process
 * holds a page, and the call has had no effect. */
TUG_API int tug_array_free(tug_array **array);

/* Changes the size of the array. Pages come and go at its end only. New bytes are zeros. New pages
 * belong to their homes first. Pages that go are freed wherever they are; memory that no page uses
 * goes back to the system, in units of 4096 bytes inside a page, unless a network card registers
 * it. Collective; all processes pass the same size. No other thread of the process may use the
 * array meanwhile. The operations of all processes are completed first. Returns the same in all
 * processes, and has no effect on errors: 0, TUG_ERR_INVALID (array is NULL, or not the same size),
 * TUG_ERR_RANGE (0, more than size_most, grow: less than the size, shrink: more), TUG_ERR_STATE
 * (shrink: a process holds a page), TUG_ERR_NO_MEMORY (grow: a home owns pages_most pages, or the
 * system has no memory). */
TUG_API int tug_array_grow(tug_array *array, size_t size_in_bytes);
TUG_API int tug_array_shrink(tug_array *array, size_t size_in_bytes);

TUG_API size_t tug_array_size(const tug_array *array); /* Bytes. These three return 0 for NULL. */
TUG_API size_t tug_array_page_bytes(const tug_array *array);
TUG_API size_t tug_array_pages(const tug_array *array);

/* ---- access ---- */

/* Copies [index, index + size) of the array to dest. */
TUG_API int tug_array_get(tug_array *array, size_t index, void *dest, size_t size_in_bytes);
TUG_API bool tug_try_array_get_async(tug_array *array, size_t index, void *dest,
                                     size_t size_in_bytes, struct tug_callback on_complete);

/* Copies src to [index, index + size). When the put is complete, gets of all processes see it. */
TUG_API int tug_array_put(tug_array *array, size_t index, const void *src, size_t size_in_bytes);
TUG_API bool tug_try_array_put_async(tug_array *array, size_t index, const void *src,
                                     size_t size_in_bytes, struct tug_callback on_complete);

/* Replaces the integer of 4 or 8 bytes at index by `integer op operand`. index must be a multiple
 * of that size. The old value goes to *result, which has the same size; if result is NULL, the old
 * value is dropped. These operations are atomic to each other, but not to puts. */
TUG_API int tug_array_fetch_and_op(tug_array *array, size_t index, size_t size_in_bytes,
                                   enum tug_atomic_op op, uint64_t operand, void *result);
TUG_API bool tug_try_array_fetch_and_op_async(tug_array *array, size_t index, size_t size_in_bytes,
                                              enum tug_atomic_op op, uint64_t operand, void *result,
                                              struct tug_callback on_complete);

/* Makes this process the owner of all pages of [index, index + size). When the call is complete,
 * this process has become the owner. Another process may have asked for the pages since. A process
 * that holds pages should not wait for other pages: two processes could wait for each other.
 * TUG_ERR_NO_MEMORY: this process owns pages_most pages, including those that are about to leave.
 */
TUG_API int tug_array_own(tug_array *array, size_t index, size_t size_in_bytes);
TUG_API bool tug_try_array_own_async(tug_array *array, size_t index, size_t size_in_bytes,
                                     struct tug_callback on_complete);

/* Makes some progress on operations, see tug_progress(). Not in callbacks. */
TUG_API void tug_array_progress(tug_array *array);

/* ---- pages here ---- */

/* Holds the page if this process owns it. The page stays here until it is released, and *address
 * points to it (on errors, *address is not set). The program may read and write the whole page
 * until then. The program must synchronise its own threads. A hold delays own() of other processes:
 * hold pages briefly. If the page is on its way here, the call waits. TUG_ERR_STATE: another
 * process owns the page. */
TUG_API int tug_array_hold(tug_array *array, size_t page, void **address);

/* Ends one hold of this process. TUG_ERR_STATE: this process does not hold the page. */
TUG_API int tug_array_release(tug_array *array, size_t page);

/* The position of tug_array_next(). All fields are zero before the first call. */
struct tug_local_page {
    size_t page;
    void *address;
    size_t next; /* for the library only */
};

/* Visits the pages of this process, in no particular order, and holds each one during its visit:
 *
 *     struct tug_local_page it = {0};
 *     while (tug_array_next(array, &it))
 *         work(it.page, it.address);
 *
 * Each call releases the page of the call before. A program that leaves the loop early must release
 * it.page. A page that arrives or leaves during the loop may be visited once, twice or not at all.
 * Returns false if there are no more pages (or array is NULL). */
TUG_API bool tug_array_next(tug_array *array, struct tug_local_page *it);

/* ---- pages anywhere: the low level ---- */

struct tug_page_place {
    int owner;
    int home;
    uint64_t generation; /* number of moves of the page, including attempts */
    struct tug_key key;  /* key of the memory that holds the page */
    size_t offset;       /* of the page in that memory, in bytes */
};

/* Gives the place of a page as this process remembers it. The page may have moved since. If this
 * process does not remember the place, the call finds it as a get does. */
TUG_API int tug_array_locate(tug_array *array, size_t page, struct tug_page_place *place);

/* Moves a page to a process. That process need not do anything. Otherwise the call is like own. */
TUG_API int tug_array_move(tug_array *array, size_t page, int process);
TUG_API bool tug_try_array_move_async(tug_array *array, size_t page, int process,
                                      struct tug_callback on_complete);

/* Forgets the places of those pages of [index, index + size) that are not in use. This call is
 * optional. It serves programs that know which pages they will not need, and measurements. */
TUG_API int tug_array_forget(tug_array *array, size_t index, size_t size_in_bytes);

/* ---- read cache ---- */

/* The read cache holds copies of whole pages. They stay until this process says otherwise.
 * The cache suits data that seldom change, if the program knows when they change. Only the calls
 * below read or change the copies.
 *
 * tug_array_get_copy() is like get, but reads from copies. It fetches and keeps pages that have no
 * copy; they replace others if there are copies_most copies. TUG_ERR_UNSUPPORTED: the array was
 * created without a read cache. */
TUG_API int tug_array_get_copy(tug_array *array, size_t index, void *dest, size_t size_in_bytes);

/* Drops the copies of these pages. The next get_copy sees the data of its own time. */
TUG_API int tug_array_invalidate(tug_array *array, size_t index, size_t size_in_bytes);

/* Fetches new copies of these pages, whether they have copies or not. TUG_ERR_UNSUPPORTED: as
 * above. */
TUG_API int tug_array_refresh(tug_array *array, size_t index, size_t size_in_bytes);

#ifdef __cplusplus
}
#endif

#endif
