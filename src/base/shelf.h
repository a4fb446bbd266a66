/* A shelf: things that are costly to make, kept for whoever wants the next one of their kind.
 *
 * For what the ranks of a communicator have together: all keep a thing or none, and all take the
 * same one. A rank reserves a place before they agree; after it the thing goes there, or the place
 * is given back. Threads may put things there in different orders, hence they lie in the order of
 * their ids, which are alike on all ranks, and each rank takes the first that fits.
 *
 * Any thread; no call of the host is made with the lock but the caller's fits().
 */
#ifndef TUG_BASE_SHELF_H
#define TUG_BASE_SHELF_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* The first member of what is kept. */
struct tug_shelved {
    uint64_t id; /* no other's on this shelf */
    struct tug_shelved *next;
};

struct tug_shelf {
    pthread_mutex_t lock;
    struct tug_shelved *first;
    unsigned taken; /* places, with those that are reserved */
    unsigned places;
};
#define TUG_SHELF(nplaces)                                                                         \
    { .lock = PTHREAD_MUTEX_INITIALIZER, .places = (nplaces) }

/* A place for one more: true if there was one. */
bool tug_shelf_reserve(struct tug_shelf *shelf);
void tug_shelf_waive(struct tug_shelf *shelf);

/* Puts a thing into a place that is its own: reserved, or the one it was borrowed from. Where
 * nothing bounds what is kept, without places. */
void tug_shelf_put(struct tug_shelf *shelf, struct tug_shelved *thing);

/* Takes out the first that fits (fits NULL: any), or NULL. Its place stays its own, until it is put
 * back or the place waived. */
struct tug_shelved *tug_shelf_borrow(struct tug_shelf *shelf,
                                     bool (*fits)(const struct tug_shelved *, void *),
                                     void *argument);

#endif
