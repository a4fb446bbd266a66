/* Persistent broadcasts: what init prepares. candidates.h says which way a run takes. */
#include <stdlib.h>

#include "base/log.h"
#include "host/agreement.h"
#include "host/device.h"
#include "host/handles.h"
#include "node/arena.h"
#include "persistent/candidates.h"
#include "persistent/collective_private.h"
#include "persistent/copy.h"
#include "schedule/bcast.h"
#include "tugboat/tugboat.h"

/* Below, passing it on through the ring is as fast. From here on the two are measured where all
 * ranks share a node. (2 MiB, 2 ranks: attached 84 us, through the ring 41 on one machine; on
 * another the ring takes longer.) On several nodes the messages between them decide, and attaching
 * begins where it has never been found slower. */
#define LENT_LEAST ((size_t)65536)
#define ATTACHED_LEAST ((size_t)524288)

/* By name: then all candidates are. */
static bool by_one_engine(const struct collective *c) {
    return c->candidates != NULL &&
           c->candidates->tuner.candidates[0].plan.phases == TUG_ONE_ENGINE;
}

static bool may_be_lent(const struct collective *c) {
    const struct tug_team *team = c->team;
    return !by_one_engine(c) && c->bytes >= LENT_LEAST && team->node_most > 1 &&
           team->node_most <= TUG_PAIR_RANKS;
}

/* Runs work on what is staged now. */
static void use_staging(struct collective *c) {
    bool staged = c->staging.type != MPI_DATATYPE_NULL;
    tug_collective_bytes(c, TUG_AREA_OUTPUT, c->staging.bytes, 1);
    for (uint32_t i = 0; i < c->nways; i++) {
        c->ways[i].staging = staged ? &c->staging : NULL;
        /* what is staged is unpacked at once: it had better be in the cache */
        c->ways[i].streams = !staged && c->bytes >= tug_copy_cache_share(c->team->node_size);
    }
}

/* Compiles what the candidate does. */
static int prepare_way(struct collective *c, uint32_t candidate, struct tug_interpreter *way) {
    int error = tug_compile_bcast(&way->schedule, &c->team->places,
                                  &c->candidates->tuner.candidates[candidate].plan,
                                  (uint32_t)c->team->rank);
    if (error)
        return error;
    way->team = c->team;
    way->areas = c->areas;
    way->near_most = SIZE_MAX;
    return tug_interpreter_init(way);
}

/* Room in a channel for any of the candidates. The same on all ranks. */
static struct tug_channel_needs needs_of(const struct collective *c) {
    const struct tug_team *team = c->team;
    struct tug_channel_needs needs = {0};
    if (team->nnodes == team->nranks || c->bytes == 0)
        return needs;
    for (uint32_t i = 0; i < c->nways; i++) {
        const struct tug_bcast_plan *plan = &c->candidates->tuner.candidates[i].plan;
        uint32_t pipelines = tug_pipelines(&team->places, plan->algorithm);
        const size_t segment = plan->segment < c->bytes ? plan->segment : c->bytes;
        if (c->bytes > TUG_SLOT_INLINE && segment > needs.slot_bytes)
            needs.slot_bytes = segment;
        if (plan->phases == TUG_TWO_PHASE && team->nnodes > 1)
            needs.landing_bytes = c->bytes;
        needs.rings = pipelines > needs.rings ? pipelines : needs.rings;
    }
    return needs;
}

int tug_collective_bcast(struct collective *c, const struct tug_collective *call,
                         const struct tug_model_parameters *parameters, bool compares) {
    const struct tug_side *data = &call->receive;
    int error = tug_staging_init(&c->staging, (void *)data->buffer, data->count, data->type);
    if (!error && tug_device_holds(data->buffer, data->count, data->type))
        error = TUG_ERR_UNSUPPORTED;
    if (!error)
        error = tug_collective_reserve(c, 0);
    if (error)
        return error;
    c->bytes = c->token = (size_t)(data->count * c->staging.size);
    c->staging.packs = c->team->rank == call->root;
    for (uint32_t a = 0; a < TUG_AREA_BLOCKS; a++)
        tug_collective_bytes(c, a, c->staging.bytes, 1);
    c->candidates = tug_candidates_create(c->team, c->bytes, (uint32_t)call->root, parameters,
                                          compares || may_be_lent(c));
    if (c->candidates == NULL)
        return TUG_ERR_NO_MEMORY;
    c->nways = c->candidates->tuner.ncandidates;
    c->needs = needs_of(c);
    for (uint32_t i = 0; i < c->nways && !error; i++)
        error = prepare_way(c, i, &c->ways[i]);
    use_staging(c);
    return error;
}

bool tug_bcast_lessen(struct collective *c, struct tug_ballot *ballot) {
    struct tug_tuner *tuner = &c->candidates->tuner;
    uint32_t kept = 0;
    if (by_one_engine(c)) {
        bool less = ballot->near_bytes > 0;
        ballot->near_bytes = 0; /* all goes by the host's messages then */
        return less;
    }
    if (c->needs.landing_bytes == 0)
        return false;
    for (uint32_t i = 0; i < c->nways; i++) {
        if (tuner->candidates[i].plan.phases == TUG_TWO_PHASE) {
            tug_interpreter_fini(&c->ways[i]);
            continue;
        }
        c->ways[kept] = c->ways[i];
        tuner->candidates[kept++] = tuner->candidates[i];
    }
    c->nways = tuner->ncandidates = kept;
    c->needs = needs_of(c);
    return kept > 0;
}

/* ---- the root's memory, lent ---- */

/* An offer to all who can attach to the root: who can is known. */
static const struct tug_offer attach = {.name = UINT64_MAX};

static bool is_attach(const struct tug_offer *offer) {
    return offer->name == attach.name;
}

static unsigned char *open_offer(const struct tug_offer *offer, size_t bytes) {
    return offer->lender == 0 ? tug_block_open(offer) : tug_lent_open(offer, bytes);
}

void tug_bcast_vote(const struct collective *c, bool rebinds, struct tug_ballot *ballot) {
    const struct tug_staging *staging = &c->staging;
    const struct tug_team *team = c->team;
    const size_t least = team->nnodes == 1 ? LENT_LEAST : ATTACHED_LEAST;
    if (by_one_engine(c))
        for (uint32_t i = 0; i < c->nways; i++)
            if (c->ways[i].near_longest > ballot->near_bytes)
                ballot->near_bytes = c->ways[i].near_longest;
    if (!may_be_lent(c))
        return;
    ballot->near_bytes = TUG_SLOT_INLINE;
    if (!staging->packs || staging->type != MPI_DATATYPE_NULL)
        return;
    if (!rebinds)
        ballot->offer = tug_offer_of(staging->bytes, c->bytes);
    if (ballot->offer.name == 0 && c->bytes >= least && tug_team_reaches(team))
        ballot->offer = attach;
}

/* Opens the root's memory, and compiles what runs on it instead. */
static bool borrow(struct collective *c, const struct tug_offer *offer,
                   struct tug_interpreter ways[]) {
    bool ready = true;
    tug_collective_bytes(c, TUG_AREA_LENT, NULL, 1);
    if (!c->staging.packs && !is_attach(offer)) {
        unsigned char *lent = open_offer(offer, c->bytes);
        if (lent == NULL)
            return false;
        c->borrowed = *offer;
        c->areas[TUG_AREA_LENT].base = lent;
    }
    for (uint32_t i = 0; i < c->nways && ready; i++)
        ready = prepare_way(c, i, &ways[i]) == 0;
    return ready;
}

static void set_lent(struct collective *c, bool lent) {
    for (uint32_t i = 0; i < c->nways; i++)
        c->candidates->tuner.candidates[i].plan.lent = lent;
}

/* What the ranks of other nodes run is the same either way. Where there are none, it is one more
 * way. */
void tug_bcast_take_offer(struct collective *c, const struct tug_offer *offer, int root) {
    const struct tug_team *team = c->team;
    struct tug_interpreter ways[TUG_CANDIDATES_MOST] = {0};
    const uint32_t *node_of = team->places.node_of;
    bool near = node_of[team->rank] == node_of[root];
    set_lent(c, true);
    bool agreed = tug_all_agree(team->comm, !near || borrow(c, offer, ways));
    set_lent(c, agreed && team->nnodes > 1);
    if (agreed && c->staging.packs)
        tug_log(TUG_VERBOSE_INFO, "broadcast of %zu bytes: lent to the node%s", (size_t)c->bytes,
                is_attach(offer) ? ", which attaches" : "");
    if (agreed && team->nnodes == 1) {
        c->ways[c->nways++] = ways[0];
        near = false;
    }
    for (uint32_t i = 0; near && i < c->nways; i++) {
        struct tug_interpreter unused = agreed ? c->ways[i] : ways[i];
        if (agreed)
            c->ways[i] = ways[i];
        tug_interpreter_fini(&unused);
    }
    use_staging(c);
}
