/* Relocatable global arrays, after Endo and Taura's relocatable PGAS.
 *
 * A global array is one range of bytes in *pages* of a fixed size, spread over the processes of a
 * communicator. Every process reads and writes all of it by index (tug_array_get(), _put()), and
 * moves pages to where they are used (tug_array_own()): their indices stay, accesses by others go
 * on, and what is in them is neither lost nor torn.
 *
 * Words
 *   page    page p holds the bytes [p * page_bytes, (p + 1) * page_bytes). Its number is its id.
 *   owner   the process whose memory the page is in at the moment.
 *   home    process p % size, for ever: it alone knows for sure who the owner is, keeps the
 *           directory entry (owner, place, generation, who has asked) and moves the page.
 *
 * Cost
 *   The place of a page is remembered where it was used. A get or put of such a page is one load or
 *   store on a node, one RDMA or packet between nodes; the first one asks the home before.
 *   The memory for places is bounded (`places`): those that were not used for long are forgotten.
 *   A process does not forget the places of its own pages.
 *
 * Moving, seen from outside
 *   gets   go on while a page moves, and see the data before or after; never anything else.
 *   puts, fetch_and_op and holds begun before are waited for, later ones wait until it has moved.
 *          They wait for one move, however many want the page.
 *   own    turns are given in the order in which they reach the page's home; a process asks for a
 *          page once at a time, for all its threads. So whoever has asked waits for at most one
 *          move that each other process has asked for. An owner that asks again has the page at
 *          once while nobody waits for it; else it stands behind those who do: on the home's node
 *          from the moment they have asked, elsewhere when word of them has come there, and after
 *          64 calls of tug_array_own() more at the latest.
 *   An aligned integer of 4 or 8 bytes is read and written as a whole. Larger gets and puts of the
 *   same bytes at the same time may mix, moving or not: synchronise. A put that is complete is seen
 *   by every get that begins after.
 *
 * Threads
 *   Everything but tug_array_create() and _free() may be called by any number of threads. Calls
 *   that block (all without try_) may not be made in callbacks; try_ calls may. Callbacks are those
 *   of LLCL (llcl.h): called once, with 0 or a TUG_ERR_*, by any thread that drives the engine, or
 *   by the caller before the call returns. A try_ call returns false when there is no room: nothing
 *   has happened, try again after tug_array_progress(). Mistakes are told to the callback.
 *
 * Errors of all calls
 *   TUG_ERR_INVALID: array or buffer is NULL, a rank or page does not exist, an operation is
 *   unknown, an integer is not aligned.
 *   TUG_ERR_RANGE: [index, index + size) is not inside of the array.
 *   TUG_ERR_PEER: another process is lost.
 *   Others are named where they occur. After an error of a put some of its bytes may be written;
 *   after an error of own some pages may have moved. Nothing is ever lost.
 *
 * Creation and end are collective calls of MPI's kind; everything else stands on LLCL alone.
 */
#ifndef TUGBOAT_GAS_H
#define TUGBOAT_GAS_H

#include <tugboat/llcl.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tug_array tug_array;

/* ---- creation ---- */

/* Who owns a page at first. */
enum tug_placement {
    TUG_PLACE_BLOCK = 0, /* the first process the first pages, and so on, shares alike */
    TUG_PLACE_CYCLIC,    /* page p: process p % size */
};

struct tug_array_params {
    size_t size_in_bytes; /* of the array, more than 0 */
    size_t page_bytes;    /* a power of two from 64 to 2^30 */
    enum tug_placement placement;
    size_t pages_most;  /* that one process may own at once; 0: twice its first share, and 64. Their
                           memory is taken at once, by every process. */
    size_t places;      /* of others' pages to be remembered; 0: 4096 */
    size_t copies_most; /* pages in the read cache, see below; 0: it has none */
};

/* A new array of zeros. Collective over comm, with the same parameters; comm is not needed
 * afterwards. 0, TUG_ERR_INVALID (params, comm), TUG_ERR_NO_MEMORY, TUG_ERR_MPI, TUG_ERR_STATE (MPI
 * is not initialised, or TUGBOAT=off): the same everywhere. */
TUG_API int tug_array_create(MPI_Comm comm, const struct tug_array_params *params,
                             tug_array **array);

/* Ends the array when everybody's operations are complete, and sets *array to NULL. Collective.
 * TUG_ERR_INVALID: array or *array is NULL; TUG_ERR_STATE, everywhere: somebody holds a page;
 * nothing has happened. */
TUG_API int tug_array_free(tug_array **array);

TUG_API size_t tug_array_size(const tug_array *array); /* bytes; of NULL 0, as below */
TUG_API size_t tug_array_page_bytes(const tug_array *array);
TUG_API size_t tug_array_pages(const tug_array *array);

/* ---- access ---- */

/* Copies [index, index + size) of the array to dest. */
TUG_API int tug_array_get(tug_array *array, size_t index, void *dest, size_t size_in_bytes);
TUG_API bool tug_try_array_get_async(tug_array *array, size_t index, void *dest,
                                     size_t size_in_bytes, struct tug_callback on_complete);

/* Copies src to [index, index + size). Complete: whoever gets it sees it. */
TUG_API int tug_array_put(tug_array *array, size_t index, const void *src, size_t size_in_bytes);
TUG_API bool tug_try_array_put_async(tug_array *array, size_t index, const void *src,
                                     size_t size_in_bytes, struct tug_callback on_complete);

/* The integer of 4 or 8 bytes at index, a multiple of them, becomes `it op operand`; its old value
 * goes to *result (that many bytes; NULL: nowhere). Atomic to each other, not to puts. */
TUG_API int tug_array_fetch_and_op(tug_array *array, size_t index, size_t size_in_bytes,
                                   enum tug_atomic_op op, uint64_t operand, void *result);
TUG_API bool tug_try_array_fetch_and_op_async(tug_array *array, size_t index, size_t size_in_bytes,
                                              enum tug_atomic_op op, uint64_t operand, void *result,
                                              struct tug_callback on_complete);

/* Makes this process the owner of all pages of [index, index + size). Complete: it was, though
 * another process may have asked in the meantime. Who holds pages had better not wait for others:
 * two processes could wait for one another. TUG_ERR_NO_MEMORY: this process owns pages_most,
 * those that are just leaving counted. */
TUG_API int tug_array_own(tug_array *array, size_t index, size_t size_in_bytes);
TUG_API bool tug_try_array_own_async(tug_array *array, size_t index, size_t size_in_bytes,
                                     struct tug_callback on_complete);

/* Gets operations on a little, see tug_progress(). Not in callbacks. */
TUG_API void tug_array_progress(tug_array *array);

/* ---- pages here ---- */

/* Holds the page if this process owns it: it stays, and *address (not set otherwise) may be read
 * and written until it is released, as may the rest of the page; by how many threads at once is the
 * program's to see to. A hold keeps own() of others waiting: be short. Waits if the page is on its
 * way here. TUG_ERR_STATE: another process owns it. */
TUG_API int tug_array_hold(tug_array *array, size_t page, void **address);

/* Ends one hold of this process. TUG_ERR_STATE: it has none. */
TUG_API int tug_array_release(tug_array *array, size_t page);

/* Where tug_array_next() is; all zero before the first. */
struct tug_local_page {
    size_t page;
    void *address;
    size_t next; /* the library's own */
};

/* Goes through the pages of this process, in no order, each held while it is at hand:
 *
 *     struct tug_local_page it = {0};
 *     while (tug_array_next(array, &it))
 *         work(it.page, it.address);
 *
 * The call releases the page before; who leaves the loop early releases it.page. A page that comes
 * or goes meanwhile is seen or not, or twice. False: no more (or array is NULL). */
TUG_API bool tug_array_next(tug_array *array, struct tug_local_page *it);

/* ---- pages anywhere: the low level ---- */

struct tug_page_place {
    int owner;
    int home;
    uint64_t generation; /* how often it has moved, or tried to */
    struct tug_key key;  /* key of the memory that the page is in */
    size_t offset;       /* of the page in that memory, in bytes */
};

/* Where a page is, or was a moment ago, as it is remembered here; asks the home if it is not. */
TUG_API int tug_array_locate(tug_array *array, size_t page, struct tug_page_place *place);

/* Moves a page to a process, which has nothing to do for it; otherwise as own. */
TUG_API int tug_array_move(tug_array *array, size_t page, int process);
TUG_API bool tug_try_array_move_async(tug_array *array, size_t page, int process,
                                      struct tug_callback on_complete);

/* Forgets the places of the pages of [index, index + size) that are not in use. Nobody has to; for
 * programs that know better what they will not need, and for measurements. */
TUG_API int tug_array_forget(tug_array *array, size_t index, size_t size_in_bytes);

/* ---- read cache ---- */

/* Copies of whole pages, kept by this process until it says otherwise: for data that seldom change,
 * where the program knows when. Nothing but these calls looks at them, or changes them.
 *
 * As get, from copies; pages that have none are fetched and kept (in place of others when there are
 * copies_most). TUG_ERR_UNSUPPORTED: the array was made without. */
TUG_API int tug_array_get_copy(tug_array *array, size_t index, void *dest, size_t size_in_bytes);

/* Drops the copies of these pages: the next get_copy sees what is there by then. */
TUG_API int tug_array_invalidate(tug_array *array, size_t index, size_t size_in_bytes);

/* Fetches these pages, whether there are copies or not. TUG_ERR_UNSUPPORTED as above. */
TUG_API int tug_array_refresh(tug_array *array, size_t index, size_t size_in_bytes);

#ifdef __cplusplus
}
#endif

#endif
