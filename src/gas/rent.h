/* When is it worth the cost to move pages here? The rule of who rents skis or buys them.
 *
 * What a process has paid for its accesses to a page while the page was elsewhere is the page's
 * *rent*. Pages move in *runs*: 1, 2, 4, ... pages that stand side by side, all of which cost
 * hardly more than one. A run moves when the rents of its pages together are as much as the price.
 * So a process that uses a run alone pays at most twice what it would have paid had it known how
 * often it would use it (less than the price in vain, if it stops just after the move), and all
 * moves of a process together never take longer than its accesses before them.
 *
 * What came is judged when it leaves, or some time after: a page has *paid* if it served as many
 * accesses as its part of the price would have bought elsewhere, otherwise it came in *vain*.
 *
 * Two rents of a page count. What was paid since the process has stopped using what came here last
 * is its *idle rent*: such a process has nothing to do here, and goes to where its accesses are. A
 * process that uses pages here and now and then others elsewhere would take these from those who
 * use them most. It pays TUG_CONTEST times the price.
 *
 *   trust     grows with every run that has paid, and is lost when pages came in vain. Each step
 *             takes the idle price down to an eighth, but not below that of two accesses; of one
 *             from the second step on.
 *   foreseen  the process has stopped using what is here whenever it last used something elsewhere:
 *             then the next access elsewhere means the same, and one is enough.
 *   run       is halved when most of its pages came in vain, and grows again when all have paid.
 *   patience  of a page: doubles its price so many times. It grows when the page came in vain.
 *             A page that has paid several times over has its first price again. So pages that
 *             several processes use, and none of them for long, come to rest.
 *
 * A process whose runs keep paying pays hardly more than the best; when that ends it pays for one
 * run in vain, and then twice the best at most.
 *
 * Rent and price are measured. Before the first move the price is that of two accesses.
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

/* What one process has learnt about one array. */
struct tug_rent {
    uint64_t access_ns, move_ns; /* means; move: of a run. 0: not known */
    uint32_t run, run_most;      /* pages, powers of two */
    uint8_t trust;
    uint32_t paid, vain; /* pages judged since the last call of tug_rent_learn() */
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

/* The price of a run; all else apart. 0: nothing is known. */
uint64_t tug_rent_price(const struct tug_rent *rent);

/* The run that a page moves with, in an array of so many pages. */
struct tug_run_of_pages tug_rent_run(const struct tug_rent *rent, uint64_t page, uint64_t npages);

/* What is known of a run, for the page of which there was an access. */
struct tug_run_seen {
    uint64_t rent_ns, idle_ns; /* of its pages together */
    uint8_t patience;          /* of that page */
    bool foreseen;
    bool others_come; /* other runs are on their way here: they may be all that the process needs */
};

/* Is it worth the cost to move it? */
bool tug_rent_buys(const struct tug_rent *rent, const struct tug_run_seen *seen);

/* How many accesses a page has to serve when it comes with a run of so many. */
uint8_t tug_rent_least(const struct tug_rent *rent, uint32_t npages);

/* Judges a page that has served so many accesses of the `least` it had to, and counts it. */
enum tug_verdict tug_rent_judge(struct tug_rent *rent, uint8_t uses, uint8_t least);
uint8_t tug_rent_patience(uint8_t patience, enum tug_verdict verdict);

/* Draws the conclusions from what was judged, if that is half a run or more. */
void tug_rent_learn(struct tug_rent *rent);

#endif
