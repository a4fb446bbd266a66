/* What a rank has attached to a dynamic window: regions by address, and the keys by which they are
 * reached.
 *
 * A rank keeps a book of its own regions. If it has neighbours the book is *shown*: its head lies
 * in node memory, and they read it where it is, asking nobody. Of a rank elsewhere this one keeps a
 * book of what has been asked for.
 *
 *     head: | version | n | page: its number | its size | where it is |
 *     page: | regions, by slot | bases, in order | slot of each |
 *
 * What moves when a region comes or goes are twelve bytes for each that is above it. A shown book's
 * first page lies behind its head. A page that is full is replaced by a longer one, in lent memory
 * (node/lent.h), or, where none can be had or opened, in the process's own: then neighbours cannot
 * say what is in the book, and ask. Pages are kept until the book is closed: they may be being
 * read.
 *
 * Pairing: a change is one of the head's version (base/seqlock.h). A program that has attached a
 * region tells the origin so, by what orders memory: a message, a barrier. The end of the change
 * comes before that, the origin's read of the version behind it, and so it reads this version or a
 * later one: what is not there then is not attached. What has been detached may be read by who was
 * not told to stop; the key is refused (transport/memory.h, node/live.h).
 *
 * Read by any thread without a lock, except that an owner's own shown book is read by the holder of
 * the engine's baton alone; written by the holder. Regions do not overlap. One of no bytes holds no
 * address.
 */
#ifndef TUG_RMA_BOOK_H
#define TUG_RMA_BOOK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"
#include "base/seqlock.h"
#include "node/lent.h"
#include "tugboat/llcl.h"

/* As it travels. */
struct tug_region {
    uint64_t base, bytes;
    struct tug_key key;
};

struct tug_book_head {
    struct tug_seqlock lock; /* of the rest, and of the page */
    _Atomic uint32_t n;      /* regions */
    _Atomic uint32_t page;   /* 0: none so far */
    _Atomic uint32_t size;   /* regions that the page has room for */
    /* a struct tug_offer; all zeros: the first page, or one of the process's own */
    _Atomic uint64_t where[sizeof(struct tug_offer) / sizeof(uint64_t)];
};

#define TUG_BOOK_FIRST 16u /* regions on the first page of one that is shown */
#define TUG_BOOK_PAGE_BYTES(size)                                                                  \
    ((size) * (sizeof(struct tug_region) + sizeof(uint64_t) + sizeof(uint32_t)))

/* In node memory, zeroed. */
struct tug_book_room {
    struct tug_book_head head __attribute__((aligned(TUG_CACHE_LINE)));
    unsigned char first[TUG_BOOK_PAGE_BYTES(TUG_BOOK_FIRST)]
        __attribute__((aligned(TUG_CACHE_LINE)));
};

struct tug_book_page;

struct tug_book {
    struct tug_book_room *room;         /* where it is shown; NULL: it is not */
    struct tug_book_page *_Atomic page; /* the newest known in this process; NULL: none */
    uint32_t used;                      /* writer: slots that have been used so far */
    struct tug_book_head own;           /* the head of one that is not shown */
};

static inline bool tug_region_holds(const struct tug_region *region, uint64_t address) {
    return address >= region->base && address - region->base < region->bytes;
}

enum tug_book_answer { TUG_BOOK_HAS, TUG_BOOK_HAS_NOT, TUG_BOOK_CANNOT_SAY };

/* The region around the address. TUG_BOOK_CANNOT_SAY: the book is not for this process to read, or
 * has been in change all the while: its owner may have been stopped in one. Any thread. */
enum tug_book_answer tug_book_find(struct tug_book *book, uint64_t address,
                                   struct tug_region *region);

#define TUG_BOOK_NOWHERE UINT32_MAX

/* The owner's, holder only. Slots are numbers, from 0 on, that stay a region's while it is in the
 * book. */

/* The slot of the region around the address, or TUG_BOOK_NOWHERE. */
uint32_t tug_book_slot(struct tug_book *book, uint64_t address, struct tug_region *region);

/* Is some of these bytes in a region? */
bool tug_book_overlaps(struct tug_book *book, uint64_t base, uint64_t bytes);

/* Enters a region, which overlaps none: its slot, TUG_BOOK_NOWHERE without memory. */
uint32_t tug_book_enter(struct tug_book *book, const struct tug_region *region);

/* Takes out the oldest region that begins there: its slot was that, or TUG_BOOK_NOWHERE. */
uint32_t tug_book_take_out(struct tug_book *book, uint64_t base);

/* Takes out all that overlap the bytes. */
void tug_book_strike_out(struct tug_book *book, uint64_t base, uint64_t bytes);

/* Nobody uses it any more. */
void tug_book_close(struct tug_book *book);

#endif
