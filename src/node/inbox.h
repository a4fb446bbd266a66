/* Inboxes: packets for one process, put by the others of its node into memory that all have mapped
 * (page.h). Zeroed memory is an empty inbox.
 *
 *     slot:   | turn (8) | bytes (4) | - (4) | packet ...         |      8 KiB, 64 of them
 *
 * The slots are a ring with many producers and one consumer, its owner, in the manner of the
 * command ring: turn is the number of packets that have gone through the ring before this turn when
 * the slot is free, one more when it holds a packet, SLOTS more when it is free again. Producers
 * reserve by compare-exchange on tail, copy and commit without waiting for one another; a full
 * inbox is an answer, not a wait. A producer that dies between the two leaves the inbox stuck: a
 * job does not outlive its processes.
 *
 * Pairings: put stores turn (seq_cst), take loads it (the packet's bytes); both are sequentially
 * consistent so that the producer's look at the bell comes after the one and the owner's second
 * look after its prepare (park.h). Giving back releases turn, reserving acquires it (the slot may
 * be written).
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

struct tug_slot {
    _Atomic uint64_t turn;
    uint32_t bytes;
    uint32_t unused;
    unsigned char packet[TUG_INBOX_PACKET_BYTES];
};

_Static_assert(sizeof(struct tug_slot) == TUG_INBOX_SLOT_BYTES, "slots are drawn so");

struct tug_inbox {
    _Atomic uint64_t tail __attribute__((aligned(TUG_CACHE_LINE)));
    uint64_t head __attribute__((aligned(TUG_CACHE_LINE))); /* the owner's */
    struct tug_slot slots[TUG_INBOX_SLOTS] __attribute__((aligned(TUG_CACHE_LINE)));
};

/* Copies a packet in and rings the bell on which the owner sleeps, which processes share. False:
 * full. Any thread of any process. */
bool tug_inbox_put(struct tug_inbox *inbox, struct tug_bell *bell, const void *packet,
                   uint32_t bytes);

/* Takes the next packet out, to memory of TUG_INBOX_PACKET_BYTES: nothing in a packet is believed
 * while its writer can still change it. Returns its bytes; 0: there is none. Owner only. */
uint32_t tug_inbox_take(struct tug_inbox *inbox, void *packet);

#endif
