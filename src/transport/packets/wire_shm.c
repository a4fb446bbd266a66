/* The shm wire: one inbox a process, in memory shared by its node, and beside it what
 * cross-memory attach needs to know of that process.
 *
 *     part of a process:  | pid, probe, page | live registrations | inbox | words from others |
 *
 * Who puts something into an inbox rings the bell in its owner's page (page.h), which all wires of
 * that process have in common; the bell in the part where a process of the node cannot map the page
 * of another.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/agreement.h"
#include "node/cma.h"
#include "node/lent.h"
#include "node/page.h"
#include "node/segment.h"
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
    _Atomic int pid;
    uint64_t probe_address; /* in its owner: a word that holds probe_value */
    uint64_t probe_value;
    struct tug_offer page;                                         /* all zeros: none */
    struct tug_bell bell __attribute__((aligned(TUG_CACHE_LINE))); /* without pages */
    struct live live[TUG_LIVE];
    struct tug_inbox inbox __attribute__((aligned(4096)));
    _Atomic uint64_t told[]; /* [node_size] by who tells */
};

/* How a process of the node is woken. */
struct neighbour {
    struct tug_bell *bell;
    struct tug_offer page; /* that is open; all zeros: none */
    const struct tug_node_page *open;
};

struct shm_wire {
    struct tug_wire wire;
    struct tug_segment segment;
    struct neighbour *neighbours; /* [node_size] */
    struct part *mine;
    uint64_t probe; /* see struct part */
    uint64_t head;  /* position of the next packet in mine */
    uint64_t packet[TUG_INBOX_PACKET_BYTES / 8];
};

static struct part *part_of(const struct shm_wire *shm, uint32_t node_rank) {
    return (struct part *)shm->segment.parts[node_rank].base;
}

static bool shm_send(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer) {
    struct shm_wire *shm = (struct shm_wire *)wire;
    uint32_t node_rank = tug_fabric_node_rank(wire->fabric, peer);
    if (!tug_inbox_put(&part_of(shm, node_rank)->inbox, shm->neighbours[node_rank].bell,
                       buffer->packet.memory, buffer->packet.used))
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
    (void)tug_bell_ring(shm->neighbours[node_rank].bell, true);
}

static uint64_t shm_told(const struct tug_wire *wire, uint32_t peer) {
    const struct shm_wire *shm = (const struct shm_wire *)wire;
    return atomic_load(&shm->mine->told[tug_fabric_node_rank(wire->fabric, peer)]);
}

/* ---- bells ---- */

static void close_pages(struct shm_wire *shm) {
    for (uint32_t r = 0; r < shm->wire.fabric->node_size; r++)
        if (shm->neighbours[r].page.name != 0)
            tug_node_page_close(&shm->neighbours[r].page);
}

/* False: not all of them can be had. */
static bool open_pages(struct shm_wire *shm) {
    const struct tug_fabric *fabric = shm->wire.fabric;
    bool all = true;
    for (uint32_t r = 0; r < fabric->node_size; r++) {
        const struct tug_offer offer = part_of(shm, r)->page;
        struct tug_node_page *page = all ? tug_node_page_open(&offer) : NULL;
        all = page != NULL;
        if (all)
            shm->neighbours[r] = (struct neighbour){&page->bell, offer, page};
    }
    return all;
}

/* The bells that all of the node can ring. Collective over the node. */
static void find_bells(struct shm_wire *shm, struct tug_node_page *own) {
    struct tug_fabric *fabric = shm->wire.fabric;
    const bool all = tug_all_agree(fabric->node_comm, own != NULL && open_pages(shm));
    if (!all)
        close_pages(shm);
    for (uint32_t r = 0; r < fabric->node_size && !all; r++)
        shm->neighbours[r] = (struct neighbour){.bell = &part_of(shm, r)->bell};
    fabric->bell = all ? &own->bell : &shm->mine->bell;
    fabric->bell_shared = true;
}

/* ---- opening and closing ---- */

static void shm_free(struct shm_wire *shm) {
    if (shm != NULL)
        free(shm->neighbours);
    free(shm);
}

static void shm_close(struct tug_wire *wire) {
    struct shm_wire *shm = (struct shm_wire *)wire;
    wire->fabric->bell = NULL;
    close_pages(shm);
    tug_segment_free(&shm->segment);
    tug_pool_fini(&wire->pool);
    shm_free(shm);
}

static const struct tug_wire_type shm_type = {.name = "shm",
                                              .send = shm_send,
                                              .poll = shm_poll,
                                              .tell = shm_tell,
                                              .told = shm_told,
                                              .close = shm_close};

static struct shm_wire *shm_make(struct tug_fabric *fabric) {
    struct shm_wire *shm = calloc(1, sizeof(*shm));
    if (shm == NULL)
        return NULL;
    shm->wire = (struct tug_wire){.type = &shm_type, .fabric = fabric};
    shm->wire.pool.bytes = TUG_INBOX_PACKET_BYTES;
    shm->neighbours = calloc(fabric->node_size, sizeof(*shm->neighbours));
    if (shm->neighbours != NULL)
        return shm;
    shm_free(shm);
    return NULL;
}

/* Fills in this process's part. NULL: it has no page. */
static struct tug_node_page *set_up_part(struct shm_wire *shm) {
    struct part *mine = shm->mine = part_of(shm, shm->wire.fabric->node_rank);
    tug_inbox_init(&mine->inbox);
    shm->probe = shm->wire.fabric->session ^ (uint64_t)getpid();
    mine->probe_address = (uint64_t)(uintptr_t)&shm->probe;
    mine->probe_value = shm->probe;
    atomic_store(&mine->pid, getpid());
    return tug_node_page_own(&mine->page);
}

static size_t part_bytes(uint32_t node_size) {
    return sizeof(struct part) + node_size * sizeof(uint64_t);
}

struct tug_wire *tug_wire_shm_open(struct tug_fabric *fabric, int *status) {
    struct shm_wire *shm = shm_make(fabric);
    *status = TUG_ERR_NO_MEMORY;
    if (tug_all_agree(fabric->comm, shm != NULL))
        *status = tug_segment_make(fabric->comm, fabric->node_comm, part_bytes(fabric->node_size),
                                   &shm->segment);
    if (*status != 0) {
        shm_free(shm);
        return NULL;
    }
    struct tug_node_page *own = set_up_part(shm);
    /* nobody writes into an inbox before its owner has set it up */
    (void)tug_all_agree(fabric->node_comm, true);
    if (fabric->node_size > 1) /* one who is alone rings for nobody but itself */
        find_bells(shm, own);
    else
        shm->neighbours[0].bell = &shm->mine->bell;
    return &shm->wire;
}

bool tug_wire_shm_serves(const struct tug_wire *wire, uint32_t node_rank) {
    const struct tug_node_page *page = ((const struct shm_wire *)wire)->neighbours[node_rank].open;
    return page != NULL && tug_node_page_served(page);
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

int tug_wire_shm_pid(const struct tug_wire *wire, uint32_t node_rank) {
    return atomic_load(&part_of((const struct shm_wire *)wire, node_rank)->pid);
}

bool tug_wire_shm_attachable(const struct tug_wire *wire, uint32_t node_rank) {
    const struct part *part = part_of((const struct shm_wire *)wire, node_rank);
    return tug_cma_probe(atomic_load(&part->pid), part->probe_address, part->probe_value);
}

size_t tug_wire_shm_footprint(uint32_t node_size) {
    return part_bytes(node_size) + sizeof(struct shm_wire) + node_size * sizeof(struct neighbour);
}

size_t tug_wire_shm_packet(void) {
    return sizeof(struct tug_buffer) + TUG_INBOX_PACKET_BYTES;
}
