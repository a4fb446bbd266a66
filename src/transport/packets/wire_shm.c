/* The shm wire: one inbox a process, in memory shared by its node, and beside it the list of what
 * that process has registered.
 *
 *     part of a process:  | live registrations | inbox | words from others |
 *
 * Who puts something into an inbox rings the bell in its owner's page (page.h).
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "host/agreement.h"
#include "node/lent.h"
#include "node/segment.h"
#include "node/team.h"
#include "transport/packets/inbox.h"
#include "transport/packets/wire.h"

#define PACKETS_A_POLL 16

/* A live registration. Who attaches is counted first and looks at the id then; the owner withdraws
 * the id first and looks at the count then: either the one or the other sees it (seq_cst). */
struct live {
    _Atomic uint64_t id;        /* 0: none */
    _Atomic uint64_t attachers; /* transfers under way */
    struct tug_offer offer;     /* written before the id, read by attachers */
} __attribute__((aligned(TUG_CACHE_LINE)));

struct part {
    struct live live[TUG_LIVE];
    struct tug_inbox inbox __attribute__((aligned(4096)));
    _Atomic uint64_t told[]; /* [node_size] by who tells */
};

struct shm_wire {
    struct tug_wire wire;
    struct tug_segment segment;
    struct part *mine;
    uint64_t head; /* position of the next packet in mine */
    uint64_t packet[TUG_INBOX_PACKET_BYTES / 8];
};

static struct part *part_of(const struct shm_wire *shm, uint32_t node_rank) {
    return (struct part *)shm->segment.parts[node_rank].base;
}

static bool shm_send(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer) {
    struct shm_wire *shm = (struct shm_wire *)wire;
    uint32_t node_rank = tug_fabric_node_rank(wire->fabric, peer);
    if (!tug_inbox_put(&part_of(shm, node_rank)->inbox,
                       tug_team_bell(wire->fabric->team, (int)node_rank), buffer->packet.memory,
                       buffer->packet.used))
        return false;
    tug_pool_give(&wire->pool, buffer);
    return true;
}

static bool shm_poll(struct tug_wire *wire) {
    struct shm_wire *shm = (struct shm_wire *)wire;
    unsigned taken = 0;
    uint32_t bytes;
    while (taken < PACKETS_A_POLL &&
           (bytes = tug_inbox_take(&shm->mine->inbox, &shm->head, shm->packet)) > 0) {
        wire->receive(wire->receiver, wire, shm->packet, bytes);
        taken++;
    }
    return taken > 0;
}

/* seq_cst, as the inbox's: the look at the bell comes after the one, the second look of who is
 * about to sleep after its prepare. */
static void shm_tell(struct tug_wire *wire, uint32_t peer, uint64_t word) {
    struct shm_wire *shm = (struct shm_wire *)wire;
    const uint32_t node_rank = tug_fabric_node_rank(wire->fabric, peer);
    atomic_store(&part_of(shm, node_rank)->told[wire->fabric->node_rank], word);
    (void)tug_bell_ring(tug_team_bell(wire->fabric->team, (int)node_rank), true);
}

static uint64_t shm_told(const struct tug_wire *wire, uint32_t peer) {
    const struct shm_wire *shm = (const struct shm_wire *)wire;
    return atomic_load(&shm->mine->told[tug_fabric_node_rank(wire->fabric, peer)]);
}

/* ---- opening and closing ---- */

static void shm_close(struct tug_wire *wire) {
    struct shm_wire *shm = (struct shm_wire *)wire;
    wire->fabric->bell = NULL;
    tug_segment_free(&shm->segment);
    tug_pool_fini(&wire->pool);
    free(shm);
}

static const struct tug_wire_type shm_type = {.name = "shm",
                                              .send = shm_send,
                                              .poll = shm_poll,
                                              .tell = shm_tell,
                                              .told = shm_told,
                                              .close = shm_close};

static size_t part_bytes(uint32_t node_size) {
    return sizeof(struct part) + node_size * sizeof(uint64_t);
}

struct tug_wire *tug_wire_shm_open(struct tug_fabric *fabric, int *status) {
    struct shm_wire *shm = calloc(1, sizeof(*shm));
    *status = TUG_ERR_NO_MEMORY;
    if (tug_all_agree(fabric->comm, shm != NULL))
        *status = tug_segment_make(fabric->comm, fabric->node_comm, part_bytes(fabric->node_size),
                                   &shm->segment);
    if (*status != 0) {
        free(shm);
        return NULL;
    }
    shm->wire = (struct tug_wire){.type = &shm_type, .fabric = fabric};
    shm->wire.pool.bytes = TUG_INBOX_PACKET_BYTES;
    shm->mine = part_of(shm, fabric->node_rank);
    tug_inbox_init(&shm->mine->inbox);
    /* nobody writes into an inbox before its owner has set it up */
    (void)tug_all_agree(fabric->node_comm, true);
    if (fabric->node_size > 1) { /* one who is alone rings for nobody but itself */
        fabric->bell = tug_team_bell(fabric->team, (int)fabric->node_rank);
        fabric->bell_shared = true;
    }
    return &shm->wire;
}

/* ---- live registrations ---- */

static struct live *entry(const struct tug_wire *wire, uint32_t node_rank, uint64_t id) {
    const struct shm_wire *shm = (const struct shm_wire *)wire;
    uint32_t index = (uint32_t)id;
    return index < TUG_LIVE ? &part_of(shm, node_rank)->live[index] : NULL;
}

void tug_wire_shm_publish(struct tug_wire *wire, uint64_t id, const struct tug_offer *offer) {
    struct live *mine = entry(wire, wire->fabric->node_rank, id);
    if (mine == NULL)
        return;
    if (offer != NULL)
        mine->offer = *offer;
    atomic_store(&mine->id, id);
}

const struct tug_offer *tug_wire_shm_offer(const struct tug_wire *wire, uint32_t node_rank,
                                           uint64_t id) {
    return &entry(wire, node_rank, id)->offer;
}

bool tug_wire_shm_withdraw(struct tug_wire *wire, uint64_t id) {
    struct live *mine = entry(wire, wire->fabric->node_rank, id);
    if (mine == NULL)
        return true;
    atomic_store(&mine->id, 0);
    if (atomic_load(&mine->attachers) == 0)
        return true;
    atomic_store(&mine->id, id);
    return false;
}

bool tug_wire_shm_attach(const struct tug_wire *wire, uint32_t node_rank, uint64_t id) {
    struct live *theirs = entry(wire, node_rank, id);
    if (theirs == NULL)
        return false;
    atomic_fetch_add(&theirs->attachers, 1);
    if (atomic_load(&theirs->id) == id)
        return true;
    atomic_fetch_sub(&theirs->attachers, 1);
    return false;
}

void tug_wire_shm_detach(const struct tug_wire *wire, uint32_t node_rank, uint64_t id) {
    atomic_fetch_sub(&entry(wire, node_rank, id)->attachers, 1);
}

size_t tug_wire_shm_footprint(uint32_t node_size) {
    return part_bytes(node_size) + sizeof(struct shm_wire) +
           node_size * sizeof(struct tug_segment_part);
}

size_t tug_wire_shm_packet(void) {
    return sizeof(struct tug_buffer) + TUG_INBOX_PACKET_BYTES;
}
