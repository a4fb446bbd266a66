/* A shelf: things that are costly to make, kept for whoever wants the next one of their kind.
 *
 * For what the ranks of a communicator have together: all keep a thing or none, and all take the
 * same one. Threads may put things there in different orders, hence they lie in the order of their
 * ids, which are alike on all ranks, and each rank takes the first that fits.
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
};
#define TUG_SHELF                                                                                  \
    { .lock = PTHREAD_MUTEX_INITIALIZER }

void tug_shelf_put(struct tug_shelf *shelf, struct tug_shelved *thing);

/* Takes out the first that fits (fits NULL: any), or NULL. */
struct tug_shelved *tug_shelf_borrow(struct tug_shelf *shelf,
                                     bool (*fits)(const struct tug_shelved *, void *),
                                     void *argument);

#endif
