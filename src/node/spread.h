/* Spreading: two ranks do not wait for each other on one core while another is free.
 *
 * Linux may run both on one: it starts them there, or wakes one on the core of the other. A rank of
 * the host never sleeps, so the kernel soon sees two busy threads there and moves one. Ranks that
 * give their core away and sleep as they wait are not busy, and stay: each of their messages then
 * takes two changes of thread, 50 us in place of 0.5. (25 runs of eight persistent collectives by
 * two ranks on two cores, where such stretches last 50 ms to 300: 31 of 400 medians were above 20
 * us, and 4 with this.)
 *
 *      rank 0                  core 0                         rank 1
 *      waits, says so: core 0                                 waits, says so: core 0
 *      gives it away                                          sees that, leaves for another
 *
 * So whoever has waited for as long as it spins says in its page on which core that is, and when.
 * If a neighbour has just said the same of itself, one of the two, always the same, leaves: it may
 * not run there for a moment, by its affinity mask, and the kernel moves it. The mask is as before
 * then. Not where ranks outnumber cores, nor with TUGBOAT_AFFINITY=none.
 *
 * Any waiting thread, for itself alone. If another thread sets its mask in that very moment, that
 * is lost.
 */
#ifndef TUG_NODE_SPREAD_H
#define TUG_NODE_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "node/page.h"

/* From now on waits do so (park.h). Any thread, more than once. */
void tug_spread_begin(void);

/* Where a thread waits, and when that was, in one word: 0 if it cannot be said. */
uint64_t tug_spread_word(int core, uint64_t now_ns);

/* Does the word say that a thread waits on that core, or did within the last 2 ms? */
bool tug_spread_says(uint64_t word, int core, uint64_t now_ns);

/* This thread waits now: says so, and looks around, five times a millisecond at most. True: it has
 * left a core for a neighbour who waits there. */
bool tug_spread(void);

#endif
