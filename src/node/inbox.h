/* Inboxes: packets for one process, put by the others of its node into memory that all have mapped
 * (page.h). Zeroed memory is an empty inbox.
 *
 *     slot:   | turn (8) | bytes (4) | behind (4) | head ...  | - | data ...  |    8 KiB, 64 of
 * them at a cache line
 *
 *   bytes    of the head, which is read where nobody changes it: it is copied first
 *   behind   bytes of data, which begin at the next cache line: they are copied once, from where
 *            they lie at the producer's, and once to where they shall lie at the owner's
 *
 * The slots are a ring with many producers and one consumer, its owner, in the manner of the
 * command ring: turn is the number of slots that have gone through the ring before this turn when
 * the slot is free, one more when it is filled, SLOTS more when it is free again. Producers reserve
 * by compare-exchange on tail, fill and commit without waiting for one another; a full inbox is an
 * answer, not a wait. A producer that dies between the two leaves the inbox stuck: a job does not
 * outlive its processes.
 *
 * Pairings: commit stores turn (seq_cst), first loads it (what is in the slot); both are
 * sequentially consistent so that the producer's look at the bell comes after the one and the
 * owner's second look after its prepare (park.h). Release releases turn, reserve acquires it (the
 * slot may be written).
 *
 * Room. A producer that finds the inbox full may sleep until there is room again:
 *
 *     producer                                  owner, after each round of taking
 *     prepares its bell                         releases the slots
 *     says who it is (words.h)                  fence, each half ring
 *     awaited = 1, fence      tug_inbox_await   awaited?              tug_inbox_owes
 *     looks again: full                         awaited = 0
 *     sleeps                                    rings for some of those who wait and still owes,
 *                                               for all if it is empty
 *
 * The fences are Dekker's: either the producer's look sees the slot released, or the owner's sees
 * that the producer waits. A fence each half ring is enough: who found it full has seen SLOTS
 * reserved slots which the owner must take before it may rest, and while it takes these it passes a
 * fence behind the first of them. Between two fences the owner's look is a hint, and mostly tells
 * it earlier. Who it is comes before awaited, and awaited is put back before it is asked who it is:
 * who says so later raises awaited again. The bell is prepared before it is said who waits, in the
 * owner's eyes too (a release, and the owner's acquire): the owner may be asking because another
 * one has raised awaited, and takes the word with the one ring there is for it.
 * tests/model/room.pml.
 */
#ifndef TUG_NODE_INBOX_H
#define TUG_NODE_INBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "engine/park.h"

#define TUG_INBOX_SLOTS 64u
#define TUG_INBOX_SLOT_BYTES 8192u
#define TUG_INBOX_PACKET_BYTES (TUG_INBOX_SLOT_BYTES - 16)
#define TUG_SLOT_LONE UINT32_MAX /* in the place of bytes: a lone operation, transport/lone.h */

struct tug_slot {
    _Atomic uint64_t turn;
    uint32_t bytes;
    uint32_t behind;
    unsigned char head[TUG_INBOX_PACKET_BYTES];
};

_Static_assert(sizeof(struct tug_slot) == TUG_INBOX_SLOT_BYTES, "slots are drawn so");

struct tug_inbox {
    _Atomic uint64_t tail __attribute__((aligned(TUG_CACHE_LINE)));
    _Atomic uint64_t head __attribute__((aligned(TUG_CACHE_LINE))); /* the owner's: the first */
    uint64_t released; /* the owner's: those before it may be filled again */
    uint64_t asked;    /* the owner's: the first when it last asked behind a fence who waits */
    bool owes;         /* the owner's: it has not rung for all who wait */
    _Atomic uint32_t awaited __attribute__((aligned(TUG_CACHE_LINE))); /* a producer waits */
    struct tug_slot slots[TUG_INBOX_SLOTS] __attribute__((aligned(TUG_CACHE_LINE)));
};

/* Where data begin behind a head of so many bytes, from the slot's beginning; and how many there
 * may be. */
static inline uint32_t tug_slot_data_at(uint32_t head_bytes) {
    const uint32_t line = TUG_CACHE_LINE;
    return (TUG_INBOX_SLOT_BYTES - TUG_INBOX_PACKET_BYTES + head_bytes + line - 1) / line * line;
}

static inline uint32_t tug_slot_room(uint32_t head_bytes) {
    return TUG_INBOX_SLOT_BYTES - tug_slot_data_at(head_bytes);
}

/* The next slot, to be filled by the caller, who commits it soon: what comes behind waits for it.
 * NULL: the inbox is full. Any thread of any process. */
struct tug_slot *tug_inbox_reserve(struct tug_inbox *inbox);

/* The caller will soon put something again: the line that says whether the next slot is free comes
 * from the owner's cache meanwhile. */
void tug_inbox_expect(struct tug_inbox *inbox);

/* The slot is filled. Rings the bell on which the owner sleeps, which processes share. */
void tug_inbox_commit(struct tug_slot *slot, struct tug_bell *bell);

/* The inbox is full, and the caller, who has prepared its bell and then said who it is (words.h),
 * is about to sleep until there is room: it must try again before it does. Any thread of any
 * process. */
void tug_inbox_await(struct tug_inbox *inbox);

/* Is the first slot filled? A hint, for any thread of the owner's. */
bool tug_inbox_has(const struct tug_inbox *inbox);

/* The first slot that is filled; NULL: there is none. It stays until it is passed or released. What
 * a producer has written it may still change: numbers are copied before they are checked. Owner
 * only, as the rest. */
struct tug_slot *tug_inbox_first(struct tug_inbox *inbox);

/* The first slot has been copied, and the next one is the first. It is released at the next call of
 * these three: the store that gives a cache line back would delay what the owner does next, the
 * answer to what was in it. */
void tug_inbox_pass(struct tug_inbox *inbox);

/* The first slot, and what was passed, may be filled again. */
void tug_inbox_release(struct tug_inbox *inbox);

/* What was passed may be filled again: for an owner who has nothing better to do. */
void tug_inbox_settle(struct tug_inbox *inbox);

/* Does a producer wait for room, whom the owner is to ring for now? What was passed may be filled
 * again then. To be asked after each round of taking. */
bool tug_inbox_owes(struct tug_inbox *inbox);

/* The owner has not rung for all: tug_inbox_owes() says so again. Only while something is in the
 * inbox, to which the owner comes back. */
void tug_inbox_still_owes(struct tug_inbox *inbox);

#endif
