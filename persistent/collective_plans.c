/* Persistent collectives that have a plan: reductions, Allgather, Gather and Scatter of small
 * parts, Barrier. */
#include <stdlib.h>

#include "base/settings.h"
#include "host/agreement.h"
#include "host/handles.h"
#include "host/host.h"
#include "host/layout.h"
#include "persistent/collective_private.h"
#include "persistent/rival.h"
#include "schedule/collectives.h"
#include "tugboat/tugboat.h"

/* Messages from here on are worth more steps for less traffic. */
#define LARGE_ON_NODE ((size_t)16384)
#define LARGE_BETWEEN_NODES ((size_t)65536)
#define LARGE_BETWEEN_FEW ((size_t)524288) /* an allreduce of few nodes: doubling moves no more */
#define FEW_NODES 4
/* Where all ranks write and read at once segments are few and long, as for a message of several
 * times the size. */
#define ALL_AT_ONCE 4
/* Bytes of a reduction that may be worth a call of the kernel's for every piece. */
#define DIRECT_REDUCTION ((size_t)131072)
#define DIRECT_PIECE ((size_t)65536)
#define TREE_MOST ((size_t)4096) /* of a rank's part: Gather and Scatter by a tree */
/* Bytes of a part of an Allgather that may be. */
#define DIRECT_GATHERING ((size_t)65536)
#define DIRECT_COPY ((size_t)262144)

/* The host sends segments of this size at nearly its full rate, though for each of them sender and
 * receiver have to meet. They are shorter where they go on through channels, whose slots they fill.
 */
#define SEGMENT_OF_MESSAGES ((size_t)1048576)
#define SEGMENT_OF_BOTH ((size_t)131072)

/* Bytes in a segment of a message: what suits a channel, or messages if there are any. */
static size_t segment_for(const struct collective *c, size_t bytes, bool through_channels) {
    const struct tug_team *team = c->team;
    if (tug_settings.segment_bytes != 0 || (through_channels && team->nnodes == 1))
        return tug_channel_segment(team, bytes, false);
    bool both = through_channels && team->nnodes < team->nranks;
    return both ? SEGMENT_OF_BOTH : SEGMENT_OF_MESSAGES;
}

/* Channels for segments of so many bytes, if there is anybody to share them with. */
static void need_channel(struct collective *c, size_t segment_bytes) {
    const int most = c->team->node_most;
    if (most > 1)
        c->needs = (struct tug_channel_needs){
            .slot_bytes = segment_bytes > TUG_SLOT_INLINE ? segment_bytes : 0,
            .rings = (uint32_t)most};
}

/* ---- reductions ---- */

static size_t large_from(const struct collective *c, enum tug_collective_kind kind) {
    if (c->team->nnodes == 1)
        return LARGE_ON_NODE;
    bool few = kind == TUG_COLLECTIVE_ALLREDUCE && c->team->nnodes <= FEW_NODES;
    return few ? LARGE_BETWEEN_FEW : LARGE_BETWEEN_NODES;
}

/* Elements that rank r is given. */
static uint64_t count_of(const struct tug_collective *call, uint32_t r) {
    const struct tug_side *receive = &call->receive;
    return receive->counts.items != NULL ? (uint64_t)tug_list_at(&receive->counts, r)
                                         : (uint64_t)receive->count;
}

static int compile_reduction(struct collective *c, const struct tug_collective *call,
                             const struct tug_reduce_plan *plan, uint32_t way) {
    const struct tug_team *team = c->team;
    struct tug_schedule *schedule = &c->ways[way].schedule;
    uint32_t rank = (uint32_t)team->rank;
    uint64_t *counts = NULL;
    int error;
    switch (call->kind) {
    case TUG_COLLECTIVE_REDUCE:
        return tug_compile_reduce(schedule, &team->places, plan, rank);
    case TUG_COLLECTIVE_ALLREDUCE:
        return tug_compile_allreduce(schedule, &team->places, plan, rank);
    case TUG_COLLECTIVE_SCAN:
    case TUG_COLLECTIVE_EXSCAN:
        return tug_compile_scan(schedule, &team->places, plan, call->kind == TUG_COLLECTIVE_EXSCAN,
                                rank);
    default:
        counts = malloc((size_t)team->nranks * sizeof(*counts));
        if (counts == NULL)
            return TUG_ERR_NO_MEMORY;
        for (uint32_t r = 0; r < (uint32_t)team->nranks; r++)
            counts[r] = count_of(call, r);
        error = tug_compile_reduce_scatter(schedule, &team->places, plan, counts, rank);
        free(counts);
        return error;
    }
}

/* Predefined operations are ours; the program's are the host's to call, on plain elements only: a
 * channel carries all bytes of an element. */
static int set_operation(struct collective *c, const struct tug_collective *call, bool *commutes) {
    int flag = 0;
    c->ways->op = call->op;
    c->ways->op_type = call->receive.type; /* lives: what is held is made of it */
    c->ways->reduction = tug_reduction_find(call->op, call->receive.type);
    *commutes = true;
    if (c->ways->reduction != NULL)
        return 0;
    bool predefined = tug_op_is_predefined(call->op);
    if (!tug_type_is_dense(call->receive.type) || (!predefined && !call->runs_user_code))
        return TUG_ERR_UNSUPPORTED;
    if (tug_host.Op_commutative(call->op, &flag) != MPI_SUCCESS)
        return TUG_ERR_MPI;
    *commutes = flag;
    return 0;
}

/* Areas of single elements: plain ones, or pairs, whose gaps are nobody's. */
static int set_reduction_areas(struct collective *c, const struct tug_collective *call) {
    const void *output = call->receive.buffer;
    const void *input = call->send.buffer == MPI_IN_PLACE ? output : call->send.buffer;
    int error = 0;
    for (uint32_t a = TUG_AREA_INPUT; a < TUG_AREA_BLOCKS && !error; a++) {
        error =
            tug_collective_area(c, a, a == TUG_AREA_OUTPUT ? output : input, 1, call->receive.type);
        c->areas[a].dense = true;
    }
    return error;
}

/* Everything that a reduction must be for its ranks to reach into one another's buffers; the same
 * answer on all. */
static bool reduces_directly(struct collective *c, const struct tug_collective *call) {
    bool all = call->kind == TUG_COLLECTIVE_ALLREDUCE, in_place = call->send.buffer == MPI_IN_PLACE;
    if (call->rebinds || (!all && call->kind != TUG_COLLECTIVE_REDUCE))
        return false;
    size_t bytes = (size_t)call->receive.count * tug_type_bytes(call->receive.type);
    const struct tug_buffers mine = {
        .input = in_place ? call->receive.buffer : call->send.buffer,
        .output = all || c->team->rank == call->root ? call->receive.buffer : NULL,
        .input_bytes = bytes,
        .output_bytes = bytes};
    bool able = bytes >= DIRECT_REDUCTION && tug_type_is_dense(call->receive.type) &&
                tug_reduction_find(call->op, call->receive.type) != NULL;
    return tug_collective_reach_out(c, &mine, bytes, able);
}

static bool scatters(const struct tug_collective *call) {
    return call->kind == TUG_COLLECTIVE_REDUCE_SCATTER ||
           call->kind == TUG_COLLECTIVE_REDUCE_SCATTER_BLOCK;
}

/* Elements that go from rank to rank, at most; the same on all ranks. */
static uint64_t elements_of(const struct collective *c, const struct tug_collective *call) {
    const uint32_t n = call->receive.counts.items != NULL ? (uint32_t)c->team->nranks : 1;
    uint64_t most = 0;
    for (uint32_t r = 0; r < n; r++)
        most = count_of(call, r) > most ? count_of(call, r) : most;
    return most;
}

static bool scans(const struct tug_collective *call) {
    return call->kind == TUG_COLLECTIVE_SCAN || call->kind == TUG_COLLECTIVE_EXSCAN;
}

/* Does it go through the rings of a node? */
static bool uses_rings(const struct collective *c, const struct tug_collective *call) {
    return scatters(call) ? c->team->nnodes == 1 : !scans(call);
}

/* Bytes in a segment of a reduction. A chain of ranks is busy on all its length when a message has
 * several segments for each; where they have no core each, a segment costs every rank a turn on
 * one. */
static size_t reduction_segment(const struct collective *c, const struct tug_collective *call) {
    const struct tug_team *team = c->team;
    if (scans(call) && team->nnodes == 1 && !team->oversubscribed)
        return tug_channel_segment(team, c->bytes / (size_t)team->nranks, false);
    return segment_for(c, c->bytes * (scatters(call) ? ALL_AT_ONCE : 1), uses_rings(c, call));
}

int tug_collective_reduction(struct collective *c, const struct tug_collective *call) {
    struct tug_reduce_plan plan = {.elements = elements_of(c, call),
                                   .root = (uint32_t)call->root,
                                   .in_place = call->send.buffer == MPI_IN_PLACE};
    const bool direct = reduces_directly(c, call);
    /* runs of one request do not differ in a bit: where ways would, there is one */
    const bool both = tug_rival_has_one_result(call->op, call->receive.type, c->team->nranks);
    plan.direct = direct && !both;
    int error = tug_collective_reserve(c, 0);
    if (!error)
        error = set_operation(c, call, &plan.commutes);
    if (!error)
        error = set_reduction_areas(c, call);
    if (error)
        return error;
    size_t extent = c->areas[TUG_AREA_OUTPUT].extent;
    c->bytes = plan.elements * extent;
    plan.large = c->bytes >= large_from(c, call->kind);
    size_t segment = plan.direct ? DIRECT_PIECE : reduction_segment(c, call);
    plan.segment = extent > 0 && segment > extent ? segment / extent : 1;
    c->token = c->bytes << 3 | (uint64_t)plan.large << 1 | plan.commutes;
    if (plan.direct)
        need_channel(c, 0);
    else if (uses_rings(c, call))
        need_channel(c, plan.segment < plan.elements ? plan.segment * extent : c->bytes);
    else
        c->ways->near_most = tug_collective_near_most(c->team);
    error = compile_reduction(c, call, &plan, 0);
    if (direct && both && !error) {
        plan.direct = true;
        plan.segment = DIRECT_PIECE / extent;
        error = compile_reduction(c, call, &plan, c->nways++);
    }
    return error ? error : tug_collective_scratch(c);
}

/* ---- others ---- */

int tug_collective_allgather(struct collective *c, const struct tug_collective *call) {
    const struct tug_team *team = c->team;
    bool in_place = call->send.buffer == MPI_IN_PLACE;
    size_t part = (size_t)call->receive.count * tug_type_bytes(call->receive.type);
    bool dense =
        tug_type_is_dense(call->receive.type) && (in_place || tug_type_is_dense(call->send.type));
    if (!tug_all_agree(team->comm, dense))
        return tug_collective_blocks(c, call);
    const struct tug_buffers mine = {.input = in_place ? NULL : call->send.buffer,
                                     .output = call->receive.buffer,
                                     .input_bytes = part,
                                     .output_bytes = part * (size_t)team->nranks};
    bool direct = !call->rebinds && tug_collective_reach_out(c, &mine, part << 1 | in_place,
                                                             part >= DIRECT_GATHERING);
    int error = tug_collective_reserve(c, 0);
    if (error)
        return error;
    struct tug_gather_plan plan = {.elements = part,
                                   .segment = segment_for(c, ALL_AT_ONCE * part, true),
                                   .in_place = in_place};
    tug_collective_bytes(c, TUG_AREA_INPUT, (void *)call->send.buffer, 1);
    tug_collective_bytes(c, TUG_AREA_OUTPUT, (void *)call->receive.buffer, 1);
    tug_collective_bytes(c, TUG_AREA_THEIR_INPUT, NULL, 1);
    tug_collective_bytes(c, TUG_AREA_THEIR_OUTPUT, NULL, 1);
    c->bytes = part;
    c->token = (uint64_t)part << 3 | 1;
    need_channel(c, part < plan.segment ? part : plan.segment);
    error = tug_compile_allgather(&c->ways->schedule, &team->places, &plan, (uint32_t)team->rank);
    if (!direct || error)
        return error;
    plan.direct = true;
    plan.segment = DIRECT_COPY;
    return tug_compile_allgather(&c->ways[c->nways++].schedule, &team->places, &plan,
                                 (uint32_t)team->rank);
}

/* Gather and Scatter of small parts: a part is an element. */
int tug_collective_tree(struct collective *c, const struct tug_collective *call) {
    const struct tug_team *team = c->team;
    bool gathers = call->kind == TUG_COLLECTIVE_GATHER;
    bool root = team->rank == call->root;
    const struct tug_side *everywhere = gathers ? &call->send : &call->receive;
    const struct tug_side *at_root = gathers ? &call->receive : &call->send;
    bool in_place = root && everywhere->buffer == MPI_IN_PLACE;
    const struct tug_side *any = root ? at_root : everywhere;
    size_t part = (size_t)any->count * tug_type_bytes(any->type);
    if (part > TREE_MOST || part == 0)
        return tug_collective_blocks(c, call);
    int error = tug_collective_reserve(c, 0);
    if (!error && !in_place)
        error = tug_collective_area(c, gathers ? TUG_AREA_INPUT : TUG_AREA_OUTPUT,
                                    everywhere->buffer, everywhere->count, everywhere->type);
    if (!error && root)
        error = tug_collective_area(c, gathers ? TUG_AREA_OUTPUT : TUG_AREA_INPUT, at_root->buffer,
                                    at_root->count, at_root->type);
    if (error)
        return error;
    struct tug_gather_plan plan = {
        .elements = 1, .root = (uint32_t)call->root, .in_place = in_place};
    tug_collective_bytes(c, TUG_AREA_SCRATCH, NULL, part);
    c->ways->near_most = tug_collective_near_most(c->team);
    c->bytes = part;
    c->token = (uint64_t)part << 3 | 2;
    error =
        gathers
            ? tug_compile_gather(&c->ways->schedule, &team->places, &plan, (uint32_t)team->rank)
            : tug_compile_scatter(&c->ways->schedule, &team->places, &plan, (uint32_t)team->rank);
    return error ? error : tug_collective_scratch(c);
}

int tug_collective_barrier(struct collective *c) {
    int error = tug_collective_reserve(c, 0);
    need_channel(c, 0);
    return error
               ? error
               : tug_compile_barrier(&c->ways->schedule, &c->team->places, (uint32_t)c->team->rank);
}
