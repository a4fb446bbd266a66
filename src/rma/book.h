/* What this rank knows of the memory that another has attached to a dynamic window: regions by
 * address, and the keys by which they are reached.
 *
 * Read by any thread without a lock, written by the holder of the engine's baton alone. Regions of
 * a book do not overlap, and none is empty.
 */
#ifndef TUG_RMA_BOOK_H
#define TUG_RMA_BOOK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/seqlock.h"
#include "tugboat/llcl.h"

/* As it travels. */
struct tug_region {
    uint64_t base, bytes;
    struct tug_key key;
};

struct tug_book_page;

/* Zeroed: empty. */
struct tug_book {
    struct tug_seqlock lock;
    struct tug_book_page *_Atomic page;
};

static inline bool tug_region_holds(const struct tug_region *region, uint64_t address) {
    return address >= region->base && address - region->base < region->bytes;
}

/* The region around the address, if the book has it. Any thread. */
bool tug_book_find(const struct tug_book *book, uint64_t address, struct tug_region *region);

/* Enters a region; what it overlaps is older, and goes. Without memory for it nothing is entered.
 * Holder only. */
void tug_book_enter(struct tug_book *book, const struct tug_region *region);

/* Strikes out what overlaps the bytes. Holder only. */
void tug_book_strike_out(struct tug_book *book, uint64_t base, uint64_t bytes);

/* Frees what is in it. Nobody uses it any more. */
void tug_book_close(struct tug_book *book);

#endif
