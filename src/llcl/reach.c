/* Memory of the node's other processes, where this one can reach it.
 *
 * What tug_mem_allocate() gave is mapped by all of them. What was registered where it lay can be
 * viewed if it is lent (view.h: MPI_Alloc_mem). Anything else is for cross-memory attach. Any
 * thread.
 */
#include <string.h>

#include "llcl/private.h"
#include "node/cma.h"
#include "node/live.h"
#include "node/team.h"
#include "node/view.h"

static struct tug_neighbour *neighbour(const struct tug_context *context, uint32_t node_rank) {
    return context->fabric.team->neighbours[node_rank];
}

bool tug_attachable(const struct tug_context *context, const struct tug_key *key, uint32_t owner,
                    uint32_t *node_rank) {
    const struct tug_fabric *fabric = &context->fabric;
    *node_rank = tug_key_node_rank(key);
    return context->live != NULL && *node_rank < fabric->node_size &&
           fabric->node_ranks[*node_rank] == owner && owner != fabric->rank &&
           neighbour(context, *node_rank)->pid != 0;
}

bool tug_only_attachable(const struct tug_context *context, const struct tug_key *key,
                         uint32_t owner) {
    uint32_t node_rank;
    return (context->fabric.ways & TUG_WAY_CMA) && tug_key_segment(key) == 0 &&
           !tug_key_is_lent(key) && tug_attachable(context, key, owner, &node_rank);
}

bool tug_peer_serves(const struct tug_context *context, uint32_t process) {
    const uint32_t node_rank = tug_fabric_node_rank(&context->fabric, process);
    return (context->fabric.ways & TUG_WAY_SHM) && node_rank != TUG_ELSEWHERE &&
           tug_node_page_served(neighbour(context, node_rank)->page);
}

bool tug_reach_possible(const tug_context *context, uint32_t process) {
    const struct tug_fabric *fabric = &context->fabric;
    return (fabric->ways & (TUG_WAY_MAPPED | TUG_WAY_CMA)) &&
           tug_fabric_node_rank(fabric, process) != TUG_ELSEWHERE;
}

bool tug_reach_begin(struct tug_context *context, const struct tug_key *key, uint32_t owner,
                     uint64_t offset, uint64_t bytes, struct tug_reach *reach) {
    const struct tug_fabric *fabric = &context->fabric;
    const uint64_t id = key->word[0];
    const bool mapped = fabric->ways & TUG_WAY_MAPPED;
    if (!(fabric->ways & (TUG_WAY_MAPPED | TUG_WAY_CMA)))
        return false;
    *reach = (struct tug_reach){.address = key->word[2] + offset};
    if (mapped)
        reach->mapped = tug_mapped_address(context, key, owner, offset, bytes);
    if (reach->mapped != NULL)
        return true;
    if ((mapped && tug_key_segment(key) != 0) ||
        !tug_attachable(context, key, owner, &reach->node_rank) ||
        tug_key_allows(key, fabric->id, owner, offset, bytes) != 0)
        return false;
    struct tug_neighbour *with = neighbour(context, reach->node_rank);
    reach->entry = tug_live_attach(with->live, fabric->id, id);
    if (reach->entry == NULL)
        return false;
    unsigned char *first = mapped ? tug_view_address(with, reach->entry, id) : NULL;
    if (first != NULL)
        reach->mapped = first + offset;
    if (first != NULL || (fabric->ways & TUG_WAY_CMA))
        return true;
    tug_reach_end(reach);
    return false;
}

void tug_reach_end(const struct tug_reach *reach) {
    if (reach->entry != NULL)
        tug_live_detach(reach->entry);
}

int tug_reach_read(const struct tug_context *context, const struct tug_reach *from, void *to,
                   size_t bytes) {
    if (from->mapped == NULL)
        return tug_cma_read(neighbour(context, from->node_rank)->pid, to, from->address, bytes);
    memmove(to, from->mapped, bytes);
    return 0;
}

int tug_reach_write(const struct tug_context *context, const struct tug_reach *to, const void *from,
                    size_t bytes) {
    if (to->mapped == NULL)
        return tug_cma_write(neighbour(context, to->node_rank)->pid, from, to->address, bytes);
    memmove(to->mapped, from, bytes);
    return 0;
}

int tug_reach_read_pieces(const struct tug_context *context, const struct tug_reach *reach,
                          struct tug_cma_pieces here, struct tug_cma_pieces there) {
    return tug_cma_read_pieces(neighbour(context, reach->node_rank)->pid, here, there);
}

int tug_reach_write_pieces(const struct tug_context *context, const struct tug_reach *reach,
                           struct tug_cma_pieces here, struct tug_cma_pieces there) {
    return tug_cma_write_pieces(neighbour(context, reach->node_rank)->pid, here, there);
}
