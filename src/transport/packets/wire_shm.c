/* The shm wire: one inbox a process, in memory shared by its node, and behind it words from the
 * others.
 *
 * Who puts something into an inbox rings the bell in its owner's page (page.h).
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "host/agreement.h"
#include "node/segment.h"
#include "node/team.h"
#include "transport/packets/inbox.h"
#include "transport/packets/wire.h"

#define PACKETS_A_POLL 16

struct part {
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

size_t tug_wire_shm_footprint(uint32_t node_size) {
    return part_bytes(node_size) + sizeof(struct shm_wire) +
           node_size * sizeof(struct tug_segment_part);
}

size_t tug_wire_shm_packet(void) {
    return sizeof(struct tug_buffer) + TUG_INBOX_PACKET_BYTES;
}
