#include "transport/reach.h"

#include "node/live.h"
#include "node/team.h"
#include "node/view.h"

/* ---- attaching to registrations ---- */

static struct tug_neighbour *neighbour_of(const struct tug_fabric *fabric,
                                          const struct tug_key *key) {
    return fabric->team->neighbours[tug_key_node_rank(key)];
}

bool tug_fabric_attachable(const struct tug_fabric *fabric, const struct tug_key *key,
                           uint32_t owner) {
    const uint32_t node_rank = tug_key_node_rank(key);
    return fabric->live != NULL && node_rank < fabric->node_size &&
           fabric->node_ranks[node_rank] == owner && owner != fabric->rank &&
           neighbour_of(fabric, key)->pid != 0;
}

bool tug_fabric_only_attachable(const struct tug_fabric *fabric, const struct tug_key *key,
                                uint32_t owner) {
    return (fabric->ways & TUG_WAY_CMA) && tug_key_segment(key) == 0 && !tug_key_is_lent(key) &&
           tug_fabric_attachable(fabric, key, owner);
}

/* Keeps the registration from ending. */
static bool attach(const struct tug_fabric *fabric, const struct tug_key *key, uint32_t owner,
                   uint64_t offset, uint64_t bytes, struct tug_reach *reach) {
    if (!tug_fabric_attachable(fabric, key, owner) ||
        tug_key_allows(key, fabric->id, owner, offset, bytes) != 0)
        return false;
    const struct tug_neighbour *owners = neighbour_of(fabric, key);
    *reach = (struct tug_reach){.address = key->word[2] + offset, .pid = owners->pid};
    reach->entry = tug_live_attach(owners->live, fabric->id, key->word[0]);
    return reach->entry != NULL;
}

void tug_reach_end(const struct tug_reach *reach) {
    if (reach->entry != NULL)
        tug_live_detach(reach->entry);
}

bool tug_reach_is_protected(const struct tug_reach *reach, int status, uint64_t bytes) {
    if (__builtin_expect(status != TUG_ERR_RANGE || reach->mapped != NULL, 1) ||
        !tug_cma_is_mapped(reach->pid, reach->address, bytes))
        return false;
    if (reach->entry != NULL)
        tug_live_spoil(reach->entry);
    return true;
}

/* ---- the rows ---- */

static bool self_missing(char *reason) {
    (void)reason;
    return false;
}

static bool mapped_reach(const struct tug_fabric *fabric, const struct tug_key *key, uint32_t owner,
                         uint64_t offset, uint64_t bytes, struct tug_reach *reach) {
    *reach = (struct tug_reach){.mapped = tug_mapped_address(fabric, key, owner, offset, bytes)};
    if (reach->mapped != NULL)
        return true;
    if (!tug_key_is_lent(key) || !attach(fabric, key, owner, offset, bytes, reach))
        return false;
    unsigned char *first = tug_view_address(neighbour_of(fabric, key), reach->entry, key->word[0]);
    if (first == NULL) {
        tug_reach_end(reach);
        return false;
    }
    reach->mapped = first + offset;
    return true;
}

/* Allocated memory goes by this row only where it must not be mapped. */
static bool cma_reach(const struct tug_fabric *fabric, const struct tug_key *key, uint32_t owner,
                      uint64_t offset, uint64_t bytes, struct tug_reach *reach) {
    return (tug_key_segment(key) == 0 || !(fabric->ways & TUG_WAY_MAPPED)) &&
           attach(fabric, key, owner, offset, bytes, reach);
}

const struct tug_transport tug_transport_self = {
    .name = "self",
    .help = "memory of the process's own: loads, stores and CPU atomics by the calling thread",
    .missing = self_missing,
};

const struct tug_transport tug_transport_mapped = {
    .name = "mapped",
    .help = "memory of the node's processes that is mapped here: loads, stores and CPU atomics by "
            "the calling thread",
    .missing = tug_shm_missing,
};

const struct tug_transport tug_transport_cma = {
    .name = "cma",
    .help = "large blocks inside the node by cross-memory attach, by the calling thread",
    .missing = tug_cma_missing,
};

bool tug_fabric_reach(const struct tug_fabric *fabric, const struct tug_key *key, uint32_t owner,
                      uint64_t offset, uint64_t bytes, struct tug_reach *reach) {
    return ((fabric->ways & TUG_WAY_MAPPED) &&
            mapped_reach(fabric, key, owner, offset, bytes, reach)) ||
           ((fabric->ways & TUG_WAY_CMA) && cma_reach(fabric, key, owner, offset, bytes, reach));
}

/* ---- copies ---- */

int tug_reach_read(const struct tug_reach *from, void *to, size_t bytes) {
    if (from->mapped == NULL)
        return tug_cma_read(from->pid, to, from->address, bytes);
    memmove(to, from->mapped, bytes);
    return 0;
}

int tug_reach_write(const struct tug_reach *to, const void *from, size_t bytes) {
    if (to->mapped == NULL)
        return tug_cma_write(to->pid, from, to->address, bytes);
    memmove(to->mapped, from, bytes);
    return 0;
}

int tug_reach_read_pieces(const struct tug_reach *reach, struct tug_cma_pieces *here,
                          struct tug_cma_pieces *there) {
    return tug_cma_read_pieces(reach->pid, here, there);
}

int tug_reach_write_pieces(const struct tug_reach *reach, struct tug_cma_pieces *here,
                           struct tug_cma_pieces *there) {
    return tug_cma_write_pieces(reach->pid, here, there);
}
