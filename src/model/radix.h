/* A radix heap: events by time, for a simulator that never goes back.
 *
 * Monotone: nothing may be added that lies before what was taken last. Bucket b holds times that
 * differ from that one in bit b - 1 at the highest; taking the next event opens the first bucket
 * that is not empty and spreads it over those below. Each event moves 64 times at most, in practice
 * a few; buckets are vectors, so a million events under way are a few tens of megabytes in order.
 * Events of one time come in the order in which they were added. One thread.
 */
#ifndef TUG_MODEL_RADIX_H
#define TUG_MODEL_RADIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tug_event {
    uint64_t at_ps; /* picoseconds */
    uint64_t what;
};

struct tug_bucket {
    struct tug_event *events;
    size_t count, capacity;
};

struct tug_radix {
    struct tug_bucket buckets[65];
    uint64_t last_ps;
    size_t next; /* of bucket 0: the first that has not been taken */
    bool failed; /* memory ran out: events are missing */
};

void tug_radix_add(struct tug_radix *radix, uint64_t at_ps, uint64_t what);

/* False: there are none. */
bool tug_radix_take(struct tug_radix *radix, struct tug_event *event);

void tug_radix_fini(struct tug_radix *radix);

#endif
