/* Vectors: small operations of a peer that computes next to this process, where cross-memory attach
 * reaches its memory. They wait for the next flush, and are done by a few calls of the kernel's.
 * Writes take one, reads one, and combinations two: all elements are read, combined here in the
 * order in which the operations were started, and written back, under a mutex of the peer's. An
 * element that several work on is read and written once.
 *
 * Reads, and writes that are not small, work on the program's memory itself until then. What waits
 * for longer than a beat or two the engine's thread does.
 *
 * A peer that works on memory itself comes into the library again and again. It sees packets then,
 * which cost a tenth of what is gathered if that is scattered, and is not held up at its own
 * elements by those who combine there. So nothing scattered is gathered for one that was there
 * within the time that gathering the burst would take. Two that gather for each other say that they
 * are there with each vector of that kind that they begin, or they would never find out.
 *
 * Any thread, not in callbacks.
 */
#ifndef TUG_LLCL_VECTOR_H
#define TUG_LLCL_VECTOR_H

#include "host/reduction.h"
#include "llcl/small.h"
#include "node/locks.h"

#define TUG_GATHERED_MOST 1024 /* in a burst; of more each is cheaper in packets */

/* May the next operation of this thread on the peer's memory be gathered? Whether the peer comes is
 * asked once between two flushes, and when a vector of scattered ones was full: to read its page
 * costs a cache miss. */
static inline bool tug_peer_may_gather(struct tug_peer *peer) {
    uint8_t gathers = atomic_load_explicit(&peer->gathers, memory_order_relaxed);
    if (gathers == TUG_GATHERS_NOT || !peer->beside || tug_burst_is_single() ||
        !tug_burst_is_at_most(TUG_GATHERED_MOST))
        return false;
    if (__builtin_expect(gathers == TUG_GATHERS_UNKNOWN, 0)) {
        const uint64_t each_ns = atomic_load_explicit(&peer->gathering_ns, memory_order_relaxed);
        const uint64_t ns = each_ns * tug_burst_expected();
        gathers = tug_peer_comes(peer->context, peer->process, ns) ? TUG_GATHERS_NOT : TUG_GATHERS;
        atomic_store_explicit(&peer->gathers, gathers, memory_order_relaxed);
    }
    return gathers == TUG_GATHERS;
}

/* Gathers a read or a write. False: it is for another way; nothing has happened. */
bool tug_vector_move(const struct tug_transfer *t, bool writes);

/* The same of an update of the element at an offset in what the key names, of a power of two of
 * bytes, at most 8, under the mutex, which is the same one for all of the peer. */
bool tug_vector_combine(struct tug_peer *peer, const struct tug_key *key, uint64_t offset,
                        const struct tug_update *c, struct tug_mutex *mutex);

/* Does what waits. What goes wrong the peer's flush says. */
void tug_vector_submit(struct tug_peer *peer);

static inline bool tug_peer_has_gathered(const struct tug_peer *peer) {
    /* acquire: pairs with the release where another thread, or the engine's, has done it */
    return atomic_load_explicit(&peer->gathered, memory_order_acquire) > 0;
}

/* What waits is done: the next messages come behind it. */
static inline void tug_peer_settle(struct tug_peer *peer) {
    if (tug_peer_has_gathered(peer))
        tug_vector_submit(peer);
}

/* The same for a flush. */
static inline void tug_peer_end_gathering(struct tug_peer *peer) {
    tug_peer_settle(peer);
    if (atomic_load_explicit(&peer->gathers, memory_order_relaxed) != TUG_GATHERS_UNKNOWN)
        atomic_store_explicit(&peer->gathers, TUG_GATHERS_UNKNOWN, memory_order_relaxed);
}

/* Bytes of a vector, at most: pages that no operation has needed are not there. */
size_t tug_vector_footprint(void);

#endif
