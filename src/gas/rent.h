/* When is it worth the cost to move pages here? The rule of who rents skis or buys them.
 *
 * What a process has paid for its accesses to a page while the page was elsewhere is the page's
 * *rent*. Pages move in *runs*: 1, 2, 4, ... pages that stand side by side, all of which cost
 * hardly more than one. A run moves when the rents of its pages together are as much as the price.
 * So a process that uses a run alone pays at most twice what it would have paid had it known how
 * often it would use it (less than the price in vain, if it stops just after the move).
 *
 * What was paid right after another access elsewhere, with no use of what is here between the two,
 * is *idle rent* too: such a process may have nothing to do here any more. Idle rent alone buys at
 * the price. A process that uses pages here and now and then others elsewhere would take these from
 * those who use them most; of its rent little is idle, and all of it buys at TUG_CONTEST prices.
 *
 * Better than to wait for the price is to foresee. Accesses elsewhere come in *streaks*, between
 * uses of what is here. A streak is either a *change*, of a process that has work elsewhere now, or
 * the process *returns* to what is here. What streaks have been so far says after how many accesses
 * a streak is a change: a run moves then, at once, if
 *
 *   - changes were at least twice as many as the longest streaks that were none, and
 *   - no longer wait would have been better: it costs an access more at each change, and saves the
 *     moves at all streaks that would have returned meanwhile. A move in vain costs TUG_IN_VAIN
 *     prices: there, back, and the accesses of who has lost the pages.
 *
 * Which run it is that the process has gone to, the streak says, too: no other run has been used
 * more often in it. So a lone access to somewhere else in a streak that is a change takes nothing
 * from anybody.
 *
 * One of sixteen streaks that return is taken to be an access longer by chance where fewer have
 * been seen. So a process that goes to other pages whenever it leaves those that are here pays for
 * one access and the move; one that draws one of twenty accesses elsewhere waits until chance
 * hardly explains the streak. Old streaks count less and less.
 *
 * What came is judged. A run was a change if its pages have served as many accesses together as its
 * price would have bought elsewhere, and most of the process's are there. A page has *paid* if it
 * has served its part when it leaves, or some time after it came; otherwise it came in *vain*.
 *
 *   run       is halved when most of its pages came in vain, and grows again when all have paid.
 *   patience  of a page: doubles its price so many times, where nothing is foreseen. It grows when
 *             the page came in vain. A page that has paid several times over has its first price
 *             again. So pages that several processes use, and none of them for long, come to rest.
 *
 * Rent and price are measured. The first move comes by the second access of a streak at the
 * earliest; until then one change counts as seen, and a guess as the price.
 *
 * Pure: no messages, no clock. Threading: the caller's.
 */
#ifndef TUG_GAS_RENT_H
#define TUG_GAS_RENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TUG_RUN_MOST 8u /* pages of a run, a power of two */
#define TUG_PATIENCE_MOST 4
#define TUG_CONTEST 32
#define TUG_IN_VAIN 4
#define TUG_STREAK_MOST 8 /* accesses; longer ones are not told apart */

/* What one process has learnt about one array. */
struct tug_rent {
    uint64_t access_ns, move_ns;           /* means; move: of a run. 0: not known */
    uint32_t run, run_most;                /* pages, powers of two */
    uint32_t changes;                      /* weights */
    uint32_t returns[TUG_STREAK_MOST + 1]; /* of streaks of so many accesses or more */
    uint32_t paid, vain; /* pages counted since the last call of tug_rent_learn() */
};

/* Pages side by side. */
struct tug_run_of_pages {
    uint64_t first;
    uint32_t npages;
};

enum tug_verdict { TUG_CAME_IN_VAIN, TUG_HAS_PAID, TUG_HAS_PAID_OFTEN };

void tug_rent_open(struct tug_rent *rent, size_t page_bytes);

/* Measured: an access to a page that was elsewhere; a move of a run. */
void tug_rent_accessed(struct tug_rent *rent, uint64_t ns);
void tug_rent_moved(struct tug_rent *rent, uint64_t ns);

/* The price of a run; all else apart. 0: not known. */
uint64_t tug_rent_price(const struct tug_rent *rent);

/* The run that a page moves with, in an array of so many pages. */
struct tug_run_of_pages tug_rent_run(const struct tug_rent *rent, uint64_t page, uint64_t npages);

/* The run of the last page used: has no other run been used more often? Pages in the order of their
 * use, one or more. */
bool tug_rent_leads(const struct tug_rent *rent, const uint64_t pages[], uint32_t npages);

/* What is known of a run, for the page of which there was an access. */
struct tug_run_seen {
    uint64_t rent_ns, idle_ns; /* of its pages together */
    uint32_t streak;           /* accesses, this one included */
    uint8_t patience;          /* of that page */
    bool leads;                /* no other run has been used more often in the streak */
    bool others_come; /* other runs are on their way here: they may be all that the process needs */
};

/* Is it worth the cost to move it? */
bool tug_rent_buys(const struct tug_rent *rent, const struct tug_run_seen *seen);

/* A streak of so many accesses was no change: it has ended without a move, or the run that was
 * moved then was not needed. */
void tug_rent_returned(struct tug_rent *rent, uint32_t accesses);

/* A streak in which a run was moved was a change. */
void tug_rent_changed(struct tug_rent *rent);

/* Was it? Uses of the run, how many are due, and accesses elsewhere since it has come. */
bool tug_rent_was_change(uint32_t uses, uint32_t due, uint32_t elsewhere);

/* How many accesses a run of so many pages has to serve to have been a change: countable ones. */
uint32_t tug_rent_due(const struct tug_rent *rent, uint32_t npages);

/* How many accesses a page has to serve when it comes with a run of so many. */
uint8_t tug_rent_least(const struct tug_rent *rent, uint32_t npages);

/* Judges a page that has served so many accesses of the `least` it had to. */
enum tug_verdict tug_rent_judge(uint8_t uses, uint8_t least);
uint8_t tug_rent_patience(uint8_t patience, enum tug_verdict verdict);

/* Counts a page of a run that was a change; others say nothing of the length of runs. */
void tug_rent_count(struct tug_rent *rent, enum tug_verdict verdict);

/* Draws the conclusions from what was counted, if that is half a run or more. */
void tug_rent_learn(struct tug_rent *rent);

#endif
