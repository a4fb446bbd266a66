/* Pages: what a process shows to the others of its node, whatever they have in common with it.
 *
 * A process has one page, in lent memory (lent.h): it has no name, and stays until the process
 * ends. Who is told of it maps it, once for all who want it, and with it the list of what the
 * process has registered (live.h) and its inbox (inbox.h). It has the bell that peers ring when
 * they have put something where this process will find it: one for all contexts, so that one sleep
 * is enough for all of them. And it says until when a thread of this process looks for it, and on
 * which core one waits.
 *
 * Any thread.
 */
#ifndef TUG_NODE_PAGE_H
#define TUG_NODE_PAGE_H

#include "base/clock.h"
#include "base/cpu.h"
#include "engine/park.h"
#include "node/inbox.h"
#include "node/lent.h"
#include "node/live.h"
#include "node/tray.h"

struct tug_node_page {
    struct tug_bell bell __attribute__((aligned(TUG_CACHE_LINE))); /* shared */
    /* CLOCK_MONOTONIC, ns; written by its owner only, see tug_engine_show_looking() */
    _Atomic uint64_t looks_until __attribute__((aligned(TUG_CACHE_LINE)));
    /* where a thread of it waits, and when that was (spread.h); written by its owner only */
    _Atomic uint64_t waits __attribute__((aligned(TUG_CACHE_LINE)));
};

/* A page and what lies behind it. What is not used costs no memory. */
struct tug_node_memory {
    struct tug_node_page page;
    struct tug_live live[TUG_LIVE];
    struct tug_inbox inbox __attribute__((aligned(4096)));
    struct tug_tray tray;
};

/* Has a thread of that process looked in the last `ns`, and has not gone to sleep since? With 0:
 * does one look at this moment, as it waits or is in and out? Then a packet will be seen at once,
 * or when the thread is next given a core; else not before it is woken, or ends what it computes. A
 * hint: one who is stopped or killed in a wait is believed for 10 us more, one who has left the
 * library for 4 us. */
static inline bool tug_node_page_served_within(const struct tug_node_page *page, uint64_t ns) {
    const uint64_t until = atomic_load_explicit(&page->looks_until, memory_order_relaxed);
    return until != 0 && until + ns > tug_clock_ns();
}

/* This process's, made at the first call, and where it is for others. NULL: no such memory can be
 * had, or the program has closed the file that it is in. */
struct tug_node_page *tug_node_page_own(struct tug_offer *offer);

/* This process's, if it is made. */
struct tug_node_page *tug_node_page_made(void);

/* The process's that has offered it, until tug_node_page_close(). NULL: it cannot be opened. */
struct tug_node_page *tug_node_page_open(const struct tug_offer *offer);
void tug_node_page_close(const struct tug_offer *offer);

#endif
