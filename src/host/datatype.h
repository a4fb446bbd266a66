/* Where the bytes, and the elements, of a datatype lie: a derived type as a small tree of loops,
 * and a walk that yields its runs in the order in which MPI packs.
 *
 * Who sends an operation to another process has the target's datatype and not the target: it walks
 * the type and sends runs. The tree is built once per type and kept with it as an attribute; it
 * goes when the host frees the type, so whoever walks sees to it that the type is not freed
 * meanwhile. A tree never changes after it has been built. Any thread; a walk belongs to one.
 */
#ifndef TUG_HOST_DATATYPE_H
#define TUG_HOST_DATATYPE_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "host/datatype_tree.h"

struct tug_flat {
    MPI_Datatype element;  /* the predefined type that all of it is made of, or _NULL */
    size_t element_size;   /* bytes that are packed of an element; 1 without a predefined type */
    size_t element_extent; /* bytes from one element to the next; 1 without a predefined type */
    size_t size;           /* bytes of data in an item */
    MPI_Aint lb, extent;   /* as MPI has them */
    MPI_Aint first, end;   /* offset of an item's lowest byte, and of the one behind the highest */
    size_t nruns;          /* of elements (bytes without one type) in an item; neighbours count
                              twice where only the walk joins them */
    MPI_Aint first_told;   /* what the host says the offset of the lowest byte is */
    bool contiguous;       /* any number of items is one run of bytes from offset 0 */
    size_t gap_from, gap_to; /* in an element: the bytes [from, to) of a pair's gap, perhaps none */
    struct tug_node root;    /* an item */
};

/* The tree of a valid type, as long as the type lives. NULL without memory, and for a type that is
 * nested too deeply or in a way that cannot be expressed. May call the host; does not wait for
 * other processes. A bad handle is for the caller to find (tug_data_describe). */
const struct tug_flat *tug_flat_get(MPI_Datatype type);

/* The tree of a type that this thread has lately remembered (below), found without the host. NULL:
 * not known. A handle that has been freed is not known any more, whatever it stands for by now. */
const struct tug_flat *tug_flat_known(MPI_Datatype type);

/* The host has found that the type may be used (it is one, and committed), and this is its tree. */
void tug_flat_remember(MPI_Datatype type, const struct tug_flat *flat);

/* MPI ends: what is kept with types that are still there is no longer found. Call it before the
 * host's last MPI_Finalize or MPI_Session_finalize, with no other thread in here. */
void tug_flat_finalize(void);

/* The units of a walk: BYTES are runs without gaps, ELEMENTS are whole elements of flat->element,
 * element_extent apart (a pair stays whole, and has its gap where it is). */
enum tug_walk_mode { TUG_WALK_BYTES, TUG_WALK_ELEMENTS };

/* Where a walk is inside a node that repeats. */
struct tug_walk_frame {
    const struct tug_node *node;
    MPI_Aint base;  /* of the next repetition, or of all entries */
    size_t next;    /* repetitions or entries that have begun */
    MPI_Aint inner; /* TUG_NODE_BLOCKS: offset of the block's next child */
    size_t left;    /* TUG_NODE_BLOCKS: children that are left in the block */
};

/* Its fields are the walk's own. */
struct tug_walk {
    /* the leaf it is in: `left` runs of `span` bytes, `stride` apart from `at` on; or a list, from
     * at */
    size_t left;
    size_t span, span_units;
    MPI_Aint at, stride;
    const struct tug_block *list;
    bool quick; /* runs of this leaf can be given as they come */
    /* of the run found and not yet given */
    size_t rest;
    MPI_Aint rest_at;
    size_t unit; /* bytes that count as one */
    /* pairs whose gaps must be left out */
    const struct tug_flat *gaps;
    size_t pairs;
    MPI_Aint pair_at;
    bool second;
    unsigned nframes;
    struct tug_node top; /* all items */
    struct tug_walk_frame frames[TUG_NODE_DEPTH + 1];
};

/* Begins with the first byte of `count` items. ELEMENTS wants a flat->element. */
void tug_walk_begin(struct tug_walk *walk, const struct tug_flat *flat, size_t count,
                    enum tug_walk_mode mode);

/* The next run: *n bytes or elements, 1 to `limit` (at least 1) of them, `offset` bytes from the
 * address of the first item. Runs that touch and follow one another are one as far as the limit
 * allows. False at the end. Never allocates, never calls the host. */
bool tug_walk_next(struct tug_walk *walk, size_t limit, MPI_Aint *offset, size_t *n);

#endif
