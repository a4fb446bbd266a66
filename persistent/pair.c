#include "persistent/pair.h"

#include <string.h>

#include "base/copy.h"

/* Of the data of all pairs of a channel: slots of 8 KiB, within these bounds. (16 ranks with a core
 * each, slots of 2 KiB and of 8: gatherv of 32 KiB 110 and 45 us, scatterv 80 and 47, alltoall 217
 * and 186. 8 ranks, slots of 8 KiB and of 32: alike.) */
#define MEMORY_OF_PAIR ((size_t)8192 * TUG_SEGMENT_SLOTS)
#define MEMORY_LEAST ((size_t)4 << 20)
#define MEMORY_MOST ((size_t)16 << 20)
/* Slots are few and long: a writer that is far ahead would otherwise take back cache lines that the
 * reader is about to read. */
#define SLOT_MOST ((size_t)32768)

size_t tug_pair_slot_bytes(int node_most, size_t most) {
    size_t npairs = (size_t)node_most * (size_t)node_most;
    size_t memory = npairs * MEMORY_OF_PAIR, bytes = TUG_SLOT_INLINE;
    memory = memory < MEMORY_LEAST ? MEMORY_LEAST : memory > MEMORY_MOST ? MEMORY_MOST : memory;
    if (node_most < 2 || node_most > TUG_PAIR_RANKS || most == 0)
        return 0;
    for (size_t next = 64; bytes < most && next <= SLOT_MOST; next *= 2)
        if (npairs * TUG_SEGMENT_SLOTS * next <= memory)
            bytes = next;
    return bytes;
}

/* What rides in a head needs no data. */
static size_t data_bytes(uint32_t slots, size_t slot_bytes) {
    return slot_bytes > TUG_SLOT_INLINE ? slots * slot_bytes : 0;
}

size_t tug_pair_memory(uint32_t slots, size_t slot_bytes) {
    return sizeof(struct tug_read_count) + sizeof(struct tug_rendezvous) +
           slots * sizeof(struct tug_slot_head) + data_bytes(slots, slot_bytes);
}

struct tug_segment_ring tug_pair_at(unsigned char *memory, uint32_t slots) {
    struct tug_read_count *reads = (struct tug_read_count *)memory;
    struct tug_rendezvous *rendezvous = (struct tug_rendezvous *)(reads + 1);
    struct tug_slot_head *heads = (struct tug_slot_head *)(rendezvous + 1);
    return (struct tug_segment_ring){.reads = reads,
                                     .rendezvous = rendezvous,
                                     .heads = heads,
                                     .data = (unsigned char *)(heads + slots),
                                     .slots = slots};
}

static struct tug_slot_head *head_of(const struct tug_segment_ring *ring) {
    return &ring->heads[ring->position & (ring->slots - 1)];
}

bool tug_pair_has_room(struct tug_segment_ring *ring, uint32_t slots) {
    const uint64_t end = ring->position + slots;
    if (end - ring->reads_seen <= ring->slots)
        return true;
    /* acquire: what it read below is over; seq_cst: the second look before we sleep. Pairs with
     * tell(). */
    ring->reads_seen = atomic_load(&ring->reads->count);
    return end - ring->reads_seen <= ring->slots;
}

bool tug_pair_is_read(struct tug_segment_ring *ring) {
    ring->reads_seen = atomic_load(&ring->reads->count); /* as above */
    return ring->reads_seen == ring->position;
}

bool tug_pair_has_news(const struct tug_segment_ring *ring) {
    /* acquire: pairs with the store in tug_pair_put(); seq_cst: the second look before sleeping on
     * our bell */
    return atomic_load(&head_of(ring)->number) == ring->position + 1;
}

/* Where the data of the slot at the ring's position are. */
static unsigned char *slot_of(const struct tug_segment_ring *ring, size_t slot_bytes,
                              size_t bytes) {
    const size_t slot = ring->position & (ring->slots - 1);
    return bytes <= TUG_SLOT_INLINE ? ring->heads[slot].data : ring->data + slot * slot_bytes;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* A message of no bytes takes a slot too. */
bool tug_pair_put(struct tug_segment_ring *ring, size_t slot_bytes, const void *message,
                  size_t bytes, size_t *done, struct tug_bell *readers) {
    while (tug_pair_has_room(ring, 1)) {
        size_t now = least(bytes - *done, slot_bytes);
        _Atomic uint64_t *number = &head_of(ring)->number;
        if (now > 0)
            tug_copy(slot_of(ring, slot_bytes, now), (const unsigned char *)message + *done, now);
        *done += now;
        ring->position++;
        /* release: the data before their number; seq_cst: before the look at the reader's bell */
        if (readers == NULL) {
            atomic_store_explicit(number, ring->position, memory_order_release);
        } else {
            atomic_store(number, ring->position);
            tug_bell_ring(readers, true);
        }
        if (*done == bytes)
            return true;
    }
    return false;
}

/* When half of the slots are read, the writer has as many to fill. Where there are more of them,
 * messages take several. */
static void tell(struct tug_segment_ring *ring, struct tug_bell *writers) {
    const uint32_t every = ring->slots / (ring->slots > TUG_SEGMENT_SLOTS ? 4 : 2);
    if ((ring->position & (every - 1)) != 0)
        return;
    /* release: our reads of what lies below are over; seq_cst: before the look at the bell. Pairs
     * with tug_pair_has_room(). */
    atomic_store(&ring->reads->count, ring->position);
    tug_bell_ring(writers, true);
}

bool tug_pair_take(struct tug_segment_ring *ring, size_t slot_bytes, void *message, size_t bytes,
                   size_t *done, struct tug_bell *writers) {
    while (tug_pair_has_news(ring)) {
        size_t now = least(bytes - *done, slot_bytes);
        if (now > 0)
            tug_copy((unsigned char *)message + *done, slot_of(ring, slot_bytes, now), now);
        *done += now;
        ring->position++;
        tell(ring, writers);
        if (*done == bytes)
            return true;
    }
    return false;
}
