/* Memory of the node's other processes, where this one can reach it.
 *
 * What tug_mem_allocate() gave is mapped by all of them. What was registered where it lay can be
 * viewed if it is lent (lent.h: MPI_Alloc_mem): its owner has published where, and who attaches to
 * the registration maps it, once, into the place of the registration's index. Anything else is for
 * cross-memory attach.
 *
 * Any thread. A view is used by who has attached to its registration, which keeps the owner from
 * ending it: so nobody uses the view that another registration of the same index displaces.
 */
#include <stdlib.h>
#include <string.h>

#include "llcl/private.h"
#include "node/cma.h"
#include "node/lent.h"
#include "node/team.h"
#include "transport/packets/wire.h"

struct view {
    _Atomic uint64_t id;          /* of the registration; 0: none */
    unsigned char *_Atomic place; /* of its first byte; NULL: it cannot be had */
    unsigned char *base;          /* of what is mapped; under the lock */
    size_t bytes;                 /* likewise */
};

struct tug_views {
    struct view views[TUG_LIVE]; /* by the index of the registration */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* making views */

/* ---- views ---- */

static void drop(struct view *view) {
    /* relaxed: whoever has used it has detached, and its owner has looked since */
    atomic_store_explicit(&view->id, 0, memory_order_relaxed);
    if (view->base != NULL)
        tug_lent_unmap(view->base, view->bytes);
    view->base = NULL;
}

static void make(struct view *view, uint64_t id, const struct tug_offer *offer) {
    drop(view);
    view->base = tug_lent_map(offer);
    view->bytes = offer->bytes;
    atomic_store_explicit(&view->place, view->base != NULL ? view->base + offer->distance : NULL,
                          memory_order_relaxed);
    /* release: pairs with the acquire in view_place */
    atomic_store_explicit(&view->id, id, memory_order_release);
}

static struct view *find_slowly(struct tug_context *context, uint32_t node_rank, uint64_t id) {
    struct tug_views *_Atomic *of_rank = &context->views[node_rank];
    struct tug_views *views = atomic_load(of_rank);
    pthread_mutex_lock(&lock);
    if (views == NULL && (views = atomic_load(of_rank)) == NULL)
        atomic_store(of_rank, views = calloc(1, sizeof(*views)));
    struct view *view = views != NULL ? &views->views[(uint32_t)id] : NULL;
    if (view != NULL && atomic_load(&view->id) != id)
        make(view, id, tug_wire_shm_offer(context->shm, node_rank, id));
    pthread_mutex_unlock(&lock);
    return view;
}

/* Of the registration's first byte; NULL: it is not lent, or cannot be mapped. While attached. */
static unsigned char *view_place(struct tug_context *context, uint32_t node_rank, uint64_t id) {
    if (tug_wire_shm_offer(context->shm, node_rank, id)->name == 0)
        return NULL;
    struct tug_views *views =
        atomic_load_explicit(&context->views[node_rank], memory_order_acquire);
    struct view *view = views != NULL ? &views->views[(uint32_t)id] : NULL;
    /* acquire: pairs with the release in make */
    if (view == NULL || atomic_load_explicit(&view->id, memory_order_acquire) != id)
        view = find_slowly(context, node_rank, id);
    return view != NULL ? atomic_load_explicit(&view->place, memory_order_relaxed) : NULL;
}

/* ---- reaching ---- */

/* 0: it cannot be attached to. */
static pid_t pid_of(const struct tug_context *context, uint32_t node_rank) {
    return context->fabric.team->neighbours[node_rank]->pid;
}

bool tug_attachable(const struct tug_context *context, const struct tug_key *key, uint32_t owner,
                    uint32_t *node_rank) {
    const struct tug_fabric *fabric = &context->fabric;
    *node_rank = tug_key_node_rank(key);
    return context->shm != NULL && *node_rank < fabric->node_size &&
           fabric->node_ranks[*node_rank] == owner && owner != fabric->rank &&
           pid_of(context, *node_rank) != 0;
}

bool tug_peer_serves(const struct tug_context *context, uint32_t process) {
    const uint32_t node_rank = tug_fabric_node_rank(&context->fabric, process);
    return context->shm != NULL && node_rank != TUG_ELSEWHERE &&
           tug_node_page_served(context->fabric.team->neighbours[node_rank]->page);
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
        reach->place = tug_mapped_place(context, key, owner, offset, bytes);
    if (reach->place != NULL)
        return true;
    if ((mapped && tug_key_segment(key) != 0) ||
        !tug_attachable(context, key, owner, &reach->node_rank) ||
        tug_key_allows(key, fabric->session, owner, offset, bytes) != 0 ||
        !tug_wire_shm_attach(context->shm, reach->node_rank, id))
        return false;
    reach->id = id;
    unsigned char *first = mapped ? view_place(context, reach->node_rank, id) : NULL;
    if (first != NULL)
        reach->place = first + offset;
    if (first != NULL || (fabric->ways & TUG_WAY_CMA))
        return true;
    tug_reach_end(context, reach);
    return false;
}

void tug_reach_end(const struct tug_context *context, const struct tug_reach *reach) {
    if (reach->id != 0)
        tug_wire_shm_detach(context->shm, reach->node_rank, reach->id);
}

int tug_reach_read(const struct tug_context *context, const struct tug_reach *from, void *to,
                   size_t bytes) {
    if (from->place == NULL)
        return tug_cma_read(pid_of(context, from->node_rank), to, from->address, bytes);
    memmove(to, from->place, bytes);
    return 0;
}

int tug_reach_write(const struct tug_context *context, const struct tug_reach *to, const void *from,
                    size_t bytes) {
    if (to->place == NULL)
        return tug_cma_write(pid_of(context, to->node_rank), from, to->address, bytes);
    memmove(to->place, from, bytes);
    return 0;
}

/* ---- the end ---- */

void tug_reach_close(struct tug_context *context) {
    for (uint32_t i = 0; context->views != NULL && i < context->fabric.node_size; i++) {
        struct tug_views *views = atomic_load(&context->views[i]);
        for (uint32_t k = 0; views != NULL && k < TUG_LIVE; k++)
            drop(&views->views[k]);
        free(views);
    }
    free((void *)context->views);
    context->views = NULL;
}

size_t tug_reach_footprint(void) {
    return sizeof(struct tug_views);
}
