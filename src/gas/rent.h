/* When is it worth the cost to move pages here? The rule of who rents skis or buys them.
 *
 * What a process has paid for its accesses to a page while the page was elsewhere is the page's
 * *rent*. Pages move in *runs*: up to TUG_RUN_MOST pages that stand side by side, all of which cost
 * hardly more than one. A run moves when the rents of its pages together are as much as the price.
 * So a process that uses a run alone pays at most twice what it would have paid had it known how
 * often it would use it (less than the price in vain, if it stops just after the move).
 *
 * Only *idle* rent buys at the price: rent of accesses between which the process has not used the
 * pages that are here. Such a process may have nothing to do here any more. A process that uses
 * pages here, and now and then others elsewhere, would take these from those who use them most; all
 * of its rent buys at TUG_CONTEST prices.
 *
 * A page has to serve its part of the price before it leaves again; otherwise it came in *vain*.
 * Then its price is doubled (`patience`), so that pages come to rest which several processes use,
 * and none of them for long. A page that has served its part has its first price again.
 *
 * Rent and price are measured, means of all accesses and moves. Before the first move the price is
 * a guess.
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

/* What one process has measured of one array. */
struct tug_rent {
    uint64_t access_ns, move_ns; /* means; move: of a run. 0: not known */
    uint32_t run;                /* pages, a power of two */
};

/* Pages side by side. */
struct tug_run_of_pages {
    uint64_t first;
    uint32_t npages;
};

void tug_rent_open(struct tug_rent *rent, size_t page_bytes);

/* Measured: an access to a page that was elsewhere; a move of a run. */
void tug_rent_accessed(struct tug_rent *rent, uint64_t ns);
void tug_rent_moved(struct tug_rent *rent, uint64_t ns);

/* The run that a page moves with, in an array of so many pages. */
struct tug_run_of_pages tug_rent_run(const struct tug_rent *rent, uint64_t page, uint64_t npages);

/* Is it worth the cost to move a run now? What its pages have cost together, what of that is idle,
 * and the patience of the page that is about to be used. */
bool tug_rent_buys(const struct tug_rent *rent, uint64_t rent_ns, uint64_t idle_ns,
                   uint8_t patience);

/* How many accesses a page has to serve when it comes with a run of so many: 1 at least. */
uint8_t tug_rent_least(const struct tug_rent *rent, uint32_t npages);

/* The patience of a page that leaves after it has served so many accesses of the `least` it had to;
 * or has not come at all (0). */
uint8_t tug_rent_patience(uint8_t patience, uint8_t uses, uint8_t least);

#endif
