/* Where pages are, as this process remembers it: the metadata cache of Endo and Taura.
 *
 * A table of entries found by page. The holder of the baton alone changes it; any thread looks
 * pages up without a lock and uses what it finds in one of two ways:
 *
 *   a get from mapped memory  copies under `lock`: if the reading counts the entry was of this
 * page, and the page in this place, until the copy was made. Nothing is written.
 *   a put, a hold             adds itself to `writers`: if it does not find NO_PUTS there and the
 * entry is of its page, neither changes until it has taken itself off.
 *
 *     writers:   31          30       29                           0
 *               +----------+---------+------------------------------+
 *               | NO_PUTS  | AWAITED | puts and holds under way     |
 *               +----------+---------+------------------------------+
 *      NO_PUTS  the page is about to move, has moved (ask the home whether others know), or the
 *               entry is nobody's
 *      AWAITED  whoever takes the last one off tells the holder (tug_deferred_post(entry->work))
 *
 * Bounded: entries of pages that this process does not own are used again, those first that were
 * not used for long: a hand goes round and takes the first one that nobody has used since it came
 * by last, and that nothing is under way with. Pages of its own never lose theirs.
 */
#ifndef TUG_GAS_PAGES_H
#define TUG_GAS_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/seqlock.h"
#include "engine/deferred.h"
#include "tugboat/llcl.h"

#define TUG_USES_MOST 15 /* are counted */
#define TUG_NO_PAGE UINT64_MAX
#define TUG_NO_OWNER UINT32_MAX

#define TUG_WRITERS_NO_PUTS (1u << 31)
#define TUG_WRITERS_AWAITED (1u << 30)
#define TUG_WRITERS_COUNT (TUG_WRITERS_AWAITED - 1)

struct tug_array;
struct tug_task;

/* The place of a page (gas.h), as processes tell it each other. */
struct tug_page_slot {
    uint64_t generation; /* grows by one whenever a move of the page ends, well or not */
    uint32_t owner;
    uint32_t slot; /* of the owner's pool */
};

struct tug_page {
    /* what every access reads */
    _Atomic uint64_t page;
    struct tug_seqlock lock;        /* of page, owner, address and place */
    _Atomic uint32_t owner;         /* TUG_NO_OWNER: not known */
    unsigned char *_Atomic address; /* of the page in this process; NULL: not mapped here */
    struct tug_page *_Atomic chain; /* the next of the same bucket */
    /* Accesses, TUG_USES_MOST at most: to a page that is here, since it came; to others, since the
     * search for entries to reuse came by. */
    _Atomic uint8_t used;
    /* what puts write, away from that */
    _Atomic uint32_t writers __attribute__((aligned(64)));
    _Atomic uint32_t holds;   /* those of `writers` that are holds of the program */
    _Atomic bool told;        /* the work is posted */
    struct tug_deferred work; /* run when no put or hold is under way and that is waited for */
    /* the holder's own */
    struct tug_array *array;
    struct tug_page_slot place;
    uint64_t puts_from;        /* the first generation that puts have not been stopped for */
    uint32_t gets;             /* under way from memory that is not mapped */
    bool asking;               /* the home has been asked for this page */
    bool stopping;             /* a stop is answered when no puts are under way */
    bool changing;             /* `next` comes into force when no gets are under way */
    bool coming;               /* the page is being copied to this process */
    bool turn;                 /* a move that others here have waited for has just been answered */
    struct tug_caller caller;  /* of stopping or changing: it is answered when that is over */
    struct tug_page_slot next; /* coming: where it is copied to; no owner before that has ended */
    struct tug_task *first, *last; /* calls that wait for the home, a stop, a change or a copy */
    /* follow.c */
    uint64_t rent_ns, idle_ns; /* paid for accesses while the page was elsewhere; see rent.h */
    uint8_t least;             /* uses it has to serve here; 0: it has not come by itself */
    uint8_t patience;          /* see rent.h */
    struct tug_page *before, *after; /* in the cycle; after: also the next free entry */
};

struct tug_pages {
    struct tug_page *_Atomic *buckets;
    struct tug_page *entries;
    size_t nentries;
    struct tug_page *free;         /* entries, by `after` */
    struct tug_page *hand;         /* where the search for entries to reuse is; NULL: no cycle */
    size_t nforeign, foreign_most; /* entries in the cycle of others' pages, and the most */
    unsigned shift;                /* of the hash, to the number of a bucket */
    uint32_t self;
};

/* foreign: entries for pages of others; own: for those of this process (self). 0 or
 * TUG_ERR_NO_MEMORY. */
int tug_pages_init(struct tug_pages *pages, size_t foreign, size_t own, uint32_t self);
void tug_pages_fini(struct tug_pages *pages);

static inline size_t tug_pages_bucket(const struct tug_pages *pages, uint64_t page) {
    return (size_t)((page * 0x9e3779b97f4a7c15u) >> pages->shift);
}

/* The entry of a page, or NULL. Any thread: what is found may be another page's a moment later, and
 * a page that is there may be missed while the table changes. The holder finds what is there. */
static inline struct tug_page *tug_pages_find(const struct tug_pages *pages, uint64_t page) {
    /* acquire: pair with the releases in tug_pages_take() */
    struct tug_page *entry =
        atomic_load_explicit(&pages->buckets[tug_pages_bucket(pages, page)], memory_order_acquire);
    while (entry != NULL && atomic_load_explicit(&entry->page, memory_order_relaxed) != page)
        entry = atomic_load_explicit(&entry->chain, memory_order_acquire);
    return entry;
}

/* Says that it was used. Any thread; threads at once may count as one. A page that has been used
 * often is not written to. */
static inline void tug_page_touch(struct tug_page *entry) {
    const uint8_t used = atomic_load_explicit(&entry->used, memory_order_relaxed);
    if (__builtin_expect(used < TUG_USES_MOST, 0))
        atomic_store_explicit(&entry->used, (uint8_t)(used + 1), memory_order_relaxed);
}

/* A new entry for a page that has none: not known, no puts. comes: it will be this process's own,
 * and does not wait for those of others, which may be waiting for it. NULL: something is under way
 * with all of them. Holder only. */
struct tug_page *tug_pages_take(struct tug_pages *pages, uint64_t page, bool comes);

/* Takes the entry out, if nothing is under way with it and the page is another's. Holder only. */
bool tug_pages_forget(struct tug_pages *pages, struct tug_page *entry);

/* The page is there now, for gets. Holder only. */
void tug_pages_set(struct tug_pages *pages, struct tug_page *entry,
                   const struct tug_page_slot *place, unsigned char *address);

static inline bool tug_page_known(const struct tug_page *entry) {
    return atomic_load_explicit(&entry->owner, memory_order_relaxed) != TUG_NO_OWNER;
}

/* ---- writers ---- */

/* Tells the holder, once, that no put or hold is under way. */
void tug_page_tell(struct tug_page *entry);

/* Ends what tug_page_enter() began. Any thread. */
static inline void tug_page_leave(struct tug_page *entry) {
    /* release, in seq_cst: whoever finds nobody under way sees what was put */
    uint32_t before = atomic_fetch_sub(&entry->writers, 1);
    if (__builtin_expect((before & TUG_WRITERS_AWAITED) && (before & TUG_WRITERS_COUNT) == 1, 0))
        tug_page_tell(entry);
}

/* Begins a put or a hold. False: not now, and nothing has begun. Any thread. */
static inline bool tug_page_enter(struct tug_page *entry, uint64_t page) {
    /* seq_cst: pairs with the exchanges of the holder (pages.c), see above */
    uint32_t before = atomic_fetch_add(&entry->writers, 1);
    if (__builtin_expect(!(before & TUG_WRITERS_NO_PUTS) &&
                             atomic_load_explicit(&entry->page, memory_order_relaxed) == page,
                         1))
        return true;
    tug_page_leave(entry);
    return false;
}

/* No put begins from now on. True if none is under way; otherwise the entry's work is run when
 * that is so. Holder only. */
bool tug_page_stop(struct tug_page *entry);

/* Puts may begin. Holder only. */
void tug_page_open(struct tug_page *entry);

#endif
