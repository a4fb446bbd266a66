/* A lookout: where a thread sleeps until sockets have news, the host MPI's or our own, or it is
 * rung.
 *
 * A host that reaches its peers through sockets waits for them with epoll sets of its own, and an
 * epoll set can be watched by another. The lookout's set holds those of this process that have
 * connected internet sockets in them, edge-triggered, and a pipe as its bell. It never reads
 * from a socket nor touches the host's sets: it learns that something has come, and whoever then
 * polls the host takes it. Sockets that the host opens later are in its sets by themselves.
 *
 * A hint, no more: hosts also bring news without sockets (shared memory, devices), and the program
 * may have sets of its own. Who sleeps here still looks now and then, and sleeps blindly when what
 * it is woken for is never there for it. With descriptors of our own (the tcp wire's epoll set),
 * level-triggered, nothing is missed: who found nothing to do after having begun to sleep is woken.
 * A lookout whose descriptors the program has closed is *lost*: it sees nothing any more.
 *
 * Threads: open, scan and close by one thread at a time; sleep by one thread at a time; ring, add
 * and remove by any.
 */
#ifndef TUG_ENGINE_LOOKOUT_H
#define TUG_ENGINE_LOOKOUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/descriptors.h"

struct tug_lookout {
    int set;             /* our epoll set */
    struct tug_own bell; /* a member of it */
    _Atomic bool lost;   /* the program has closed one of them */
    _Atomic bool sees;   /* something of the host's is watched */
    _Atomic int ours;    /* descriptors of our own that are watched */
};

/* Until it is open it sees nothing, and it is not open if the kernel cannot. */
#define TUG_LOOKOUT_SHUT                                                                           \
    { .set = -1, .bell = TUG_OWN_NONE }

void tug_lookout_open(struct tug_lookout *lookout);
void tug_lookout_close(struct tug_lookout *lookout);

/* Looks through this process's descriptors for epoll sets with connected sockets and watches those
 * that are new. Tens of microseconds. */
void tug_lookout_scan(struct tug_lookout *lookout);

/* Watches a descriptor of our own, which is readable while there is something to do. False: it
 * cannot. */
bool tug_lookout_add(struct tug_lookout *lookout, int descriptor);
void tug_lookout_remove(struct tug_lookout *lookout, int descriptor);

/* News at a descriptor of our own that is watched end no sleep, until they are to again: then what
 * has come meanwhile does at once. */
void tug_lookout_mute(struct tug_lookout *lookout, int descriptor, bool mute);

/* Is there anything that would end a sleep here, the bell apart? */
static inline bool tug_lookout_useful(const struct tug_lookout *lookout) {
    return atomic_load_explicit(&lookout->sees, memory_order_relaxed) ||
           atomic_load_explicit(&lookout->ours, memory_order_relaxed) > 0;
}

/* Sleeps until there are news, the bell has been rung, or limit_ns (< 0: none) or TUG_OWN_LOOK_NS
 * is over; not at all, if the lookout is lost. True: news have come since the last sleep. */
bool tug_lookout_sleep(struct tug_lookout *lookout, int64_t limit_ns);

void tug_lookout_ring(struct tug_lookout *lookout);

#endif
