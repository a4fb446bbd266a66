/* The shm wire: one inbox a process, in memory shared by its node.
 *
 *     part of a process:  | control | live registrations | slot 0 | slot 1 | ... | slot 63 |
 *
 *     slot:   | seq (8) | bytes (4) | - (4) | packet ...          |      8 KiB
 *
 * The slots are a ring with many producers and one consumer, its owner, in the manner of the
 * command ring: seq is the slot's position when it is free, position + 1 when it holds a packet,
 * position + SLOTS when it is free for the next turn. Producers reserve by compare-exchange on
 * tail, copy and commit without waiting for one another; a full inbox is an answer, not a wait.
 *
 * Pairings: commit stores seq (seq_cst), the owner's look acquires it (the packet's bytes); it is
 * sequentially consistent so that the producer's look at the bell comes after it (park.h). Giving
 * back releases seq, reserving acquires it (the slot may be written).
 *
 * A packet is copied out before anything in it is believed: its writer could still change it.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "transport/cma.h"
#include "transport/segment.h"
#include "transport/wire.h"

#define SLOTS 64u
#define SLOT_BYTES 8192u
#define PACKETS_A_POLL 16
#define LIVE 1024u /* registrations that cross-memory attach can know of, by index */

struct slot {
    _Atomic uint64_t seq;
    uint32_t bytes;
    uint32_t unused;
    unsigned char packet[SLOT_BYTES - 16];
};

struct inbox {
    struct tug_bell bell __attribute__((aligned(TUG_CACHE_LINE)));
    _Atomic int pid;
    uint64_t probe_address; /* in its owner: a word that holds probe_value */
    uint64_t probe_value;
    _Atomic uint64_t tail __attribute__((aligned(TUG_CACHE_LINE)));
    _Atomic uint64_t live[LIVE] __attribute__((aligned(TUG_CACHE_LINE))); /* ids, 0: none */
    struct slot slots[SLOTS] __attribute__((aligned(4096)));
};

_Static_assert(sizeof(struct slot) == SLOT_BYTES, "slots are drawn so");

struct shm_wire {
    struct tug_wire wire;
    struct tug_segment segment;
    struct inbox *mine;
    uint64_t probe; /* see the inbox */
    uint64_t head;  /* position of the next packet in mine */
    uint64_t packet[sizeof(((struct slot *)NULL)->packet) / 8];
};

/* The node rank of a peer of this node: node_ranks is in ascending order. */
static uint32_t place_of(const struct tug_fabric *fabric, uint32_t peer) {
    uint32_t low = 0, high = fabric->node_size - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (fabric->node_ranks[middle] < peer)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct inbox *inbox_of(const struct shm_wire *shm, uint32_t node_rank) {
    return (struct inbox *)shm->segment.parts[node_rank].base;
}

static bool shm_send(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer) {
    struct shm_wire *shm = (struct shm_wire *)wire;
    struct inbox *inbox = inbox_of(shm, place_of(wire->fabric, peer));
    uint64_t position = atomic_load_explicit(&inbox->tail, memory_order_relaxed);
    struct slot *slot;
    for (;;) {
        slot = &inbox->slots[position % SLOTS];
        /* acquire: pairs with the release in shm_poll */
        uint64_t seq = atomic_load_explicit(&slot->seq, memory_order_acquire);
        if ((int64_t)(seq - position) < 0)
            return false;
        if (seq != position)
            position = atomic_load_explicit(&inbox->tail, memory_order_relaxed);
        else if (atomic_compare_exchange_weak_explicit(&inbox->tail, &position, position + 1,
                                                       memory_order_relaxed, memory_order_relaxed))
            break;
    }
    slot->bytes = buffer->packet.used;
    memcpy(slot->packet, buffer->packet.memory, buffer->packet.used);
    atomic_store(&slot->seq, position + 1);
    (void)tug_bell_ring(&inbox->bell, true);
    tug_pool_give(&wire->pool, buffer);
    return true;
}

static bool shm_poll(struct tug_wire *wire) {
    struct shm_wire *shm = (struct shm_wire *)wire;
    unsigned taken = 0;
    for (; taken < PACKETS_A_POLL; taken++) {
        struct slot *slot = &shm->mine->slots[shm->head % SLOTS];
        /* seq_cst: after the bell's prepare this is the second look */
        if (atomic_load(&slot->seq) != shm->head + 1)
            break;
        size_t bytes = slot->bytes;
        if (bytes > sizeof(slot->packet))
            bytes = sizeof(slot->packet); /* its header will not agree */
        memcpy(shm->packet, slot->packet, bytes);
        atomic_store_explicit(&slot->seq, shm->head + SLOTS, memory_order_release);
        shm->head++;
        wire->receive(wire->receiver, wire, shm->packet, bytes);
    }
    return taken > 0;
}

static bool shm_busy(struct tug_wire *wire) {
    (void)wire;
    return false;
}

static void shm_close(struct tug_wire *wire) {
    struct shm_wire *shm = (struct shm_wire *)wire;
    wire->fabric->bell = NULL;
    tug_segment_free(&shm->segment);
    tug_pool_fini(&wire->pool);
    free(shm);
}

static const struct tug_wire_type shm_type = {
    .name = "shm", .send = shm_send, .poll = shm_poll, .busy = shm_busy, .close = shm_close};

struct tug_wire *tug_wire_shm_open(struct tug_fabric *fabric, int *status) {
    struct shm_wire *shm = calloc(1, sizeof(*shm));
    if (!tug_all_agree(fabric->comm, shm != NULL)) {
        *status = TUG_ERR_NO_MEMORY;
        free(shm);
        return NULL;
    }
    *status =
        tug_segment_make(fabric->comm, fabric->node_comm, sizeof(struct inbox), &shm->segment);
    if (*status != 0) {
        free(shm);
        return NULL;
    }
    shm->mine = inbox_of(shm, fabric->node_rank);
    for (uint64_t i = 0; i < SLOTS; i++)
        atomic_init(&shm->mine->slots[i].seq, i);
    shm->probe = fabric->session ^ (uint64_t)getpid();
    shm->mine->probe_address = (uint64_t)(uintptr_t)&shm->probe;
    shm->mine->probe_value = shm->probe;
    atomic_store(&shm->mine->pid, getpid());
    /* nobody writes into an inbox before its owner has set it up */
    (void)tug_all_agree(fabric->node_comm, true);
    shm->wire = (struct tug_wire){.type = &shm_type, .fabric = fabric};
    shm->wire.pool.bytes = sizeof(shm->mine->slots[0].packet);
    fabric->bell = &shm->mine->bell;
    fabric->bell_shared = true;
    return &shm->wire;
}

/* ---- live registrations ---- */

static _Atomic uint64_t *entry(const struct tug_wire *wire, uint32_t node_rank, uint64_t id) {
    const struct shm_wire *shm = (const struct shm_wire *)wire;
    uint32_t index = (uint32_t)id;
    return index < LIVE ? &inbox_of(shm, node_rank)->live[index] : NULL;
}

void tug_wire_shm_publish(struct tug_wire *wire, uint64_t id) {
    _Atomic uint64_t *mine = entry(wire, wire->fabric->node_rank, id);
    if (mine != NULL)
        atomic_store(mine, id);
}

void tug_wire_shm_withdraw(struct tug_wire *wire, uint64_t id) {
    _Atomic uint64_t *mine = entry(wire, wire->fabric->node_rank, id);
    if (mine != NULL)
        atomic_store(mine, 0);
}

bool tug_wire_shm_published(const struct tug_wire *wire, uint32_t node_rank, uint64_t id) {
    _Atomic uint64_t *theirs = entry(wire, node_rank, id);
    return theirs != NULL && atomic_load(theirs) == id;
}

int tug_wire_shm_pid(const struct tug_wire *wire, uint32_t node_rank) {
    return atomic_load(&inbox_of((const struct shm_wire *)wire, node_rank)->pid);
}

bool tug_wire_shm_attachable(const struct tug_wire *wire, uint32_t node_rank) {
    const struct inbox *inbox = inbox_of((const struct shm_wire *)wire, node_rank);
    return tug_cma_probe(atomic_load(&inbox->pid), inbox->probe_address, inbox->probe_value);
}

size_t tug_wire_shm_footprint(void) {
    return sizeof(struct inbox) + sizeof(struct shm_wire);
}

size_t tug_wire_shm_packet(void) {
    return sizeof(struct tug_buffer) + sizeof(((struct slot *)NULL)->packet);
}
