/* Lent memory: memory of a rank that other ranks of its node can reach where it lies.
 *
 * What MPI_Alloc_mem gives from TUG_LENT_LEAST on are pieces of one nameless file in memory, the
 * lender's; who is told where a piece is opens the file through /proc/PID/fd and maps the piece.
 * Nothing has a name that could outlive the processes. No part of the file is used twice, so a
 * view of what has been given back shows zeros, never another's data. Blocks of windows
 * (arena.h) are mapped by all ranks of their team already; offers of them go by their
 * names.
 *
 *     file: | piece | (given back: a hole) | piece | ... never used
 *
 * The child of a fork has a copy of each piece, as it was at the fork, in plain memory of its own
 * at the same address. A process that forks pays for that: the time to copy all pages of its pieces
 * that exist, and as much memory. Other threads and peers may store meanwhile.
 *
 * Views are shared by those who want the same piece; a few that nobody wants are kept, for requests
 * and windows made again and again on the same buffer.
 *
 * Any thread.
 */
#ifndef TUG_NODE_LENT_H
#define TUG_NODE_LENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TUG_LENT_LEAST ((size_t)65536) /* less is not worth pages of its own */

/* Where a buffer is, as others are told. All zeros: not lent. */
struct tug_offer {
    uint64_t name;     /* the name of the file (its inode) or of the block */
    uint64_t lender;   /* process << 32 | descriptor of the file; 0: a block */
    uint64_t offset;   /* the piece's offset in the file */
    uint64_t bytes;    /* bytes of the piece */
    uint64_t distance; /* from the beginning of the piece or block to the buffer */
};

/* Are so many bytes, from the buffer on, in the piece? Offers come from peers: the caller checks
 * one with this before it uses the memory; tug_lent_open() does it itself. */
static inline bool tug_lent_holds(const struct tug_offer *offer, uint64_t bytes) {
    return offer->distance <= offer->bytes && bytes <= offer->bytes - offer->distance;
}

/* Zeroed memory, at a page; NULL where none of the kind can be had. */
void *tug_lent_allocate(size_t bytes);

/* False: not from there. */
bool tug_lent_free(void *memory);

/* All zeros unless all of the buffer is in one piece. */
struct tug_offer tug_lent_offer(const void *buffer, size_t bytes);

/* The offered buffer of another process, of so many bytes, as mapped here: only to be read, until
 * tug_lent_close(), which does nothing for a block's. NULL if it cannot be opened. */
unsigned char *tug_lent_open(const struct tug_offer *offer, size_t bytes);
void tug_lent_close(const struct tug_offer *offer);

/* The offered buffer, to be read and written, mapped once for all in this process who share it,
 * until tug_lent_unshare(). NULL if it cannot be opened. Not of blocks. */
unsigned char *tug_lent_share(const struct tug_offer *offer);
void tug_lent_unshare(const struct tug_offer *offer);

#endif
