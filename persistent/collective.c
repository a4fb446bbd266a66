#include "persistent/collective.h"

#include <stdlib.h>

#include "base/settings.h"
#include "base/stats.h"
#include "host/agreement.h"
#include "host/device.h"
#include "host/handles.h"
#include "host/host.h"
#include "host/layout.h"
#include "host/polite.h"
#include "node/cma.h"
#include "node/segment.h"
#include "persistent/bcast.h"
#include "persistent/collective_private.h"
#include "persistent/collectives.h"
#include "persistent/copy.h"
#include "request/twin.h"
#include "schedule/collectives.h"
#include "tugboat/tugboat.h"

/* Messages from here on are worth more steps for less traffic. */
#define LARGE_ON_NODE ((size_t)16384)
#define LARGE_BETWEEN_NODES ((size_t)65536)
#define LARGE_BETWEEN_FEW ((size_t)524288) /* an allreduce of few nodes: doubling moves no more */
#define FEW_NODES 4
/* The host sends them at nearly its full rate, if each costs a meeting of sender and receiver too;
 * shorter where they go on through channels, whose slots they fill. */
#define SEGMENT_OF_MESSAGES ((size_t)1048576)
#define SEGMENT_OF_BOTH ((size_t)131072)
#define TREE_MOST ((size_t)4096) /* of a rank's part: Gather and Scatter by a tree */
/* Worth a call of the kernel's for every piece: bytes of a reduction, of a part of an Allgather. */
#define DIRECT_REDUCTION ((size_t)131072)
#define DIRECT_GATHERING ((size_t)65536)
#define DIRECT_PIECE ((size_t)65536)
#define DIRECT_COPY ((size_t)262144)
/* Messages to ranks of the node up to here are faster through pairs than by the host. */
#define NEAR_MOST ((size_t)131072)

/* ---- memory ---- */

int tug_collective_reserve(struct collective *c, uint32_t nblocks) {
    c->nareas = TUG_AREA_BLOCKS + nblocks;
    c->areas = calloc(c->nareas, sizeof(*c->areas));
    c->held = calloc(2 * (size_t)c->nareas, sizeof(*c->held));
    c->held_for = c->held + c->nareas;
    c->interpreter.areas = c->areas;
    if (c->areas == NULL || c->held == NULL)
        return TUG_ERR_NO_MEMORY;
    /* messages without content have a type too: Open MPI looks at it where nothing is sent */
    for (uint32_t i = 0; i < c->nareas; i++)
        tug_collective_bytes(c, i, NULL, 0);
    return 0;
}

static bool is_named(MPI_Datatype type) {
    int combiner = 0;
    MPI_Count n[4];
    return tug_host.Type_get_envelope_c(type, &n[0], &n[1], &n[2], &n[3], &combiner) ==
               MPI_SUCCESS &&
           combiner == MPI_COMBINER_NAMED;
}

static int hold(struct collective *c, MPI_Datatype type, MPI_Datatype *held) {
    *held = type;
    if (is_named(type))
        return 0;
    for (uint32_t i = 0; i < c->nheld; i++)
        if (c->held_for[i] == type) {
            *held = c->held[i];
            return 0;
        }
    int error = tug_type_hold(type, &c->held[c->nheld]);
    if (error)
        return error;
    *held = c->held[c->nheld];
    c->held_for[c->nheld++] = type;
    return 0;
}

int tug_collective_area(struct collective *c, uint32_t number, const void *base, MPI_Count count,
                        MPI_Datatype type) {
    struct tug_area_memory *area = &c->areas[number];
    MPI_Count lb, extent, size;
    tug_host.Type_get_extent_c(type, &lb, &extent);
    tug_host.Type_size_c(type, &size);
    *area = (struct tug_area_memory){.base = (unsigned char *)base,
                                     .count = count,
                                     .extent = (size_t)(count * extent),
                                     .packed = (size_t)(count * size),
                                     .dense = tug_type_is_dense(type)};
    return hold(c, type, &area->type);
}

void tug_collective_bytes(struct collective *c, uint32_t area, void *base, size_t element_bytes) {
    c->areas[area] = (struct tug_area_memory){.base = base,
                                              .type = MPI_BYTE,
                                              .count = (MPI_Count)element_bytes,
                                              .extent = element_bytes,
                                              .dense = true};
}

static int give_scratch(struct collective *c) {
    size_t bytes = (size_t)c->interpreter.schedule.scratch * c->areas[TUG_AREA_SCRATCH].extent;
    c->memory = calloc(1, bytes + 1); /* what is between the parts of pairs goes along */
    c->areas[TUG_AREA_SCRATCH].base = c->memory;
    return c->memory != NULL ? 0 : TUG_ERR_NO_MEMORY;
}

/* ---- one another's buffers ---- */

/* What a rank says of its buffers. */
struct buffers {
    uint64_t able;
    uint64_t shape; /* the same on all ranks, or nobody reaches */
    uint64_t input, output;
};

/* Tries both ends of a buffer of another rank. */
static bool is_in_reach(pid_t pid, uint64_t address, size_t bytes) {
    unsigned char byte;
    return address == 0 || (tug_cma_read(pid, &byte, address, 1) == 0 &&
                            tug_cma_read(pid, &byte, address + bytes - 1, 1) == 0);
}

/* May the node's ranks read one another's INPUT and OUTPUT where they lie? This rank's are so long,
 * output NULL: has none. Collective on one node, before this rank may fail by itself; true on all
 * ranks or none. */
static bool reach_out(struct collective *c, const void *input, size_t input_bytes,
                      const void *output, size_t output_bytes, uint64_t shape, bool able) {
    const struct tug_team *team = c->interpreter.team;
    struct buffers all[TUG_ATTACHERS_MOST];
    struct buffers mine = {able, shape, (uint64_t)(uintptr_t)input, (uint64_t)(uintptr_t)output};
    if (team->nnodes > 1 || !tug_team_reaches(team))
        return false;
    if (TUG_POLITE(Iallgather, &mine, sizeof(mine), MPI_BYTE, all, sizeof(mine), MPI_BYTE,
                   team->node_comm) != MPI_SUCCESS)
        return false;
    for (int r = 0; r < team->node_size; r++)
        if (!all[r].able || all[r].shape != shape)
            return false; /* so does every rank */
    bool reached = true;
    for (int r = 0; r < team->node_size && reached; r++) {
        reached = is_in_reach(team->pids[r], all[r].input, input_bytes) &&
                  is_in_reach(team->pids[r], all[r].output, output_bytes);
        c->theirs[r] = (struct tug_their_areas){all[r].input, all[r].output};
    }
    c->interpreter.theirs = c->theirs;
    return tug_all_agree(team->node_comm, reached);
}

/* ---- what is compiled ---- */

static bool on_one_node(const struct collective *c) {
    return c->interpreter.team->nnodes == 1;
}

/* Bytes in a segment: what suits a channel, or messages if there are any. */
static size_t segment_for(const struct collective *c, size_t bytes, bool through_channels) {
    const struct tug_team *team = c->interpreter.team;
    if (tug_settings.segment_bytes != 0 || (through_channels && on_one_node(c)))
        return tug_segment_for(team, bytes);
    bool both = through_channels && team->nnodes < team->nranks;
    return both ? SEGMENT_OF_BOTH : SEGMENT_OF_MESSAGES;
}

static size_t large_from(const struct collective *c, enum tug_collective_kind kind) {
    if (on_one_node(c))
        return LARGE_ON_NODE;
    bool few = kind == TUG_COLLECTIVE_ALLREDUCE && c->interpreter.team->nnodes <= FEW_NODES;
    return few ? LARGE_BETWEEN_FEW : LARGE_BETWEEN_NODES;
}

void tug_collective_need_pairs(struct collective *c) {
    c->interpreter.near_most = NEAR_MOST;
}

/* Channels for segments of so many bytes, if there is anybody to share them with. */
static void need_channel(struct collective *c, size_t segment_bytes) {
    const int most = c->interpreter.team->node_most;
    if (most > 1)
        c->needs = (struct tug_channel_needs){
            .slot_bytes = segment_bytes > TUG_SLOT_INLINE ? segment_bytes : 0,
            .rings = (uint32_t)most};
}

static int compile_reduction(struct collective *c, const struct tug_collective *call,
                             const struct tug_reduce_plan *plan) {
    const struct tug_team *team = c->interpreter.team;
    struct tug_schedule *schedule = &c->interpreter.schedule;
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
            counts[r] = call->receive.counts.items != NULL
                            ? (uint64_t)tug_list_at(&call->receive.counts, r)
                            : (uint64_t)call->receive.count;
        error = tug_compile_reduce_scatter(schedule, &team->places, plan, counts, rank);
        free(counts);
        return error;
    }
}

/* Predefined operations are ours; the program's are the host's to call, on plain elements only: a
 * channel carries all bytes of an element. */
static int set_operation(struct collective *c, const struct tug_collective *call, bool *commutes) {
    int flag = 0;
    c->interpreter.op = call->op;
    c->interpreter.op_type = call->receive.type; /* lives: what is held is made of it */
    c->interpreter.reduction = tug_reduction_find(call->op, call->receive.type);
    *commutes = true;
    if (c->interpreter.reduction != NULL)
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
    if (!all && call->kind != TUG_COLLECTIVE_REDUCE)
        return false;
    const void *output =
        all || c->interpreter.team->rank == call->root ? call->receive.buffer : NULL;
    size_t bytes = (size_t)call->receive.count * tug_type_bytes(call->receive.type);
    bool able = bytes >= DIRECT_REDUCTION && tug_type_is_dense(call->receive.type) &&
                tug_reduction_find(call->op, call->receive.type) != NULL;
    return reach_out(c, in_place ? call->receive.buffer : call->send.buffer, bytes, output, bytes,
                     bytes, able);
}

static int prepare_reduction(struct collective *c, const struct tug_collective *call) {
    struct tug_reduce_plan plan = {.elements = (uint64_t)call->receive.count,
                                   .root = (uint32_t)call->root,
                                   .in_place = call->send.buffer == MPI_IN_PLACE,
                                   .direct = reduces_directly(c, call)};
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
    bool shares = call->kind == TUG_COLLECTIVE_REDUCE || call->kind == TUG_COLLECTIVE_ALLREDUCE;
    size_t segment = plan.direct ? DIRECT_PIECE : segment_for(c, c->bytes, shares);
    plan.segment = extent > 0 && segment > extent ? segment / extent : 1;
    c->token = c->bytes << 3 | (uint64_t)plan.large << 1 | plan.commutes;
    if (plan.direct)
        need_channel(c, 0);
    else if (shares)
        need_channel(c, plan.segment < plan.elements ? plan.segment * extent : c->bytes);
    else
        tug_collective_need_pairs(c);
    error = compile_reduction(c, call, &plan);
    return error ? error : give_scratch(c);
}

static int prepare_allgather(struct collective *c, const struct tug_collective *call) {
    const struct tug_team *team = c->interpreter.team;
    bool in_place = call->send.buffer == MPI_IN_PLACE;
    size_t part = (size_t)call->receive.count * tug_type_bytes(call->receive.type);
    bool dense =
        tug_type_is_dense(call->receive.type) && (in_place || tug_type_is_dense(call->send.type));
    if (!tug_all_agree(team->comm, dense))
        return tug_collective_blocks(c, call);
    bool direct =
        reach_out(c, in_place ? NULL : call->send.buffer, part, call->receive.buffer,
                  part * (size_t)team->nranks, part << 1 | in_place, part >= DIRECT_GATHERING);
    int error = tug_collective_reserve(c, 0);
    if (error)
        return error;
    /* all write and read at once: a few long segments, as for a message of several times the size
     */
    struct tug_gather_plan plan = {.elements = part,
                                   .segment = direct ? DIRECT_COPY : segment_for(c, 4 * part, true),
                                   .in_place = in_place,
                                   .direct = direct};
    tug_collective_bytes(c, TUG_AREA_INPUT, (void *)call->send.buffer, 1);
    tug_collective_bytes(c, TUG_AREA_OUTPUT, (void *)call->receive.buffer, 1);
    tug_collective_bytes(c, TUG_AREA_THEIR_INPUT, NULL, 1);
    tug_collective_bytes(c, TUG_AREA_THEIR_OUTPUT, NULL, 1);
    c->bytes = part;
    c->token = (uint64_t)part << 3 | 1;
    need_channel(c, direct ? 0 : part < plan.segment ? part : plan.segment);
    return tug_compile_allgather(&c->interpreter.schedule, &team->places, &plan,
                                 (uint32_t)team->rank);
}

/* Gather and Scatter of small parts: a part is an element. */
static int prepare_tree(struct collective *c, const struct tug_collective *call) {
    const struct tug_team *team = c->interpreter.team;
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
    tug_collective_need_pairs(c);
    c->bytes = part;
    c->token = (uint64_t)part << 3 | 2;
    error = gathers ? tug_compile_gather(&c->interpreter.schedule, &team->places, &plan,
                                         (uint32_t)team->rank)
                    : tug_compile_scatter(&c->interpreter.schedule, &team->places, &plan,
                                          (uint32_t)team->rank);
    return error ? error : give_scratch(c);
}

static int prepare_barrier(struct collective *c) {
    const struct tug_team *team = c->interpreter.team;
    int error = tug_collective_reserve(c, 0);
    need_channel(c, 0);
    return error
               ? error
               : tug_compile_barrier(&c->interpreter.schedule, &team->places, (uint32_t)team->rank);
}

static int prepare_schedule(struct collective *c, const struct tug_collective *call) {
    switch (call->kind) {
    case TUG_COLLECTIVE_BARRIER:
        return prepare_barrier(c);
    case TUG_COLLECTIVE_REDUCE:
    case TUG_COLLECTIVE_ALLREDUCE:
    case TUG_COLLECTIVE_SCAN:
    case TUG_COLLECTIVE_EXSCAN:
    case TUG_COLLECTIVE_REDUCE_SCATTER:
    case TUG_COLLECTIVE_REDUCE_SCATTER_BLOCK:
        return prepare_reduction(c, call);
    case TUG_COLLECTIVE_ALLGATHER:
        return prepare_allgather(c, call);
    case TUG_COLLECTIVE_GATHER:
    case TUG_COLLECTIVE_SCATTER:
        return prepare_tree(c, call);
    default:
        return tug_collective_blocks(c, call);
    }
}

/* ---- the request ---- */

static bool advance(struct tug_job *job, bool *done) {
    struct collective *c = (struct collective *)job;
    bool moved = tug_interpreter_advance(&c->interpreter, done);
    if (*done)
        c->request.error = c->interpreter.error;
    return moved;
}

static void start(struct tug_request *request) {
    struct collective *c = (struct collective *)request;
    tug_stat_add(TUG_STAT_BYTES, c->bytes);
    tug_interpreter_start(&c->interpreter);
}

static void destroy(struct tug_request *request) {
    struct collective *c = (struct collective *)request;
    if (c->interpreter.channel != NULL)
        tug_channel_release(c->interpreter.team, c->interpreter.channel);
    tug_interpreter_fini(&c->interpreter);
    for (uint32_t i = 0; i < c->nheld; i++)
        tug_host.Type_free(&c->held[i]);
    if (c->host != MPI_REQUEST_NULL)
        tug_host.Request_free(&c->host);
    free(c->held);
    free(c->areas);
    free(c->memory);
    free(c);
}

/* Is some of what it reads or writes in memory of a device? */
static bool is_in_device(const struct collective *c) {
    for (uint32_t a = 0; a < c->nareas && tug_has_devices(); a++)
        if (tug_device_holds(c->areas[a].base, c->areas[a].count, c->areas[a].type))
            return true;
    return false;
}

/* All that this rank can prepare alone. */
static int prepare(struct collective *c, const struct tug_collective *call) {
    int error = prepare_schedule(c, call); /* in which ranks meet */
    if (!error && is_in_device(c))
        error = TUG_ERR_UNSUPPORTED;
    if (error)
        return error;
    c->interpreter.streams = c->bytes >= tug_copy_cache_share(c->interpreter.team->node_size);
    error = tug_interpreter_init(&c->interpreter);
    if (error)
        return error;
    return tug_request_register(&c->request);
}

/* All that travels lies as plain bytes. */
static bool is_plain(const struct collective *c) {
    for (uint32_t a = TUG_AREA_INPUT; a < c->nareas; a++)
        if (c->areas[a].count > 0 && !c->areas[a].dense)
            return false;
    return true;
}

/* The host's of these kinds do what they should from the second start on (Allgather's does not). */
static bool is_comparable(enum tug_collective_kind kind) {
    return kind == TUG_COLLECTIVE_BARRIER || kind == TUG_COLLECTIVE_REDUCE ||
           kind == TUG_COLLECTIVE_ALLREDUCE;
}

/* The host's request goes, unless the program's operation needs somebody to hold it, or it is to be
 * compared with ours. */
static void settle_host(struct collective *c, enum tug_collective_kind kind, MPI_Request *host) {
    if (c->interpreter.op != 0 && c->interpreter.reduction == NULL) {
        c->host = *host;
        return;
    }
    if (is_comparable(kind) && tug_twin_keep(&c->request, *host))
        return;
    tug_host.Request_free(host);
    tug_twin_keep(&c->request, MPI_REQUEST_NULL);
}

int tug_collective_create(const struct tug_collective *call, MPI_Request *host,
                          struct tug_request **request) {
    struct tug_team *team;
    int error = tug_collectives_team(call->comm, &team);
    if (!error)
        error = tug_team_share(team);
    if (error)
        return error;
    struct collective *c = calloc(1, sizeof(*c));
    struct tug_channel_needs needs = {0};
    struct tug_ballot ballot = {0};
    if (c != NULL) {
        c->interpreter.team = team;
        c->request = (struct tug_request){
            .job.advance = advance, .comm = call->comm, .start = start, .destroy = destroy};
        c->host = MPI_REQUEST_NULL;
        ballot.willing = prepare(c, call) == 0;
        ballot.plain = is_plain(c);
        ballot.near_bytes = c->interpreter.near_longest;
        ballot.bytes = c->token << 5 | call->kind;
        needs = c->needs;
    }
    struct tug_channel *channel;
    error = tug_channel_take(team, &needs, &ballot, &channel);
    if (error == TUG_ERR_NO_MEMORY && ballot.near_bytes > 0) {
        ballot.near_bytes = 0; /* all goes by the host's messages then */
        error = tug_channel_take(team, &needs, &ballot, &channel);
    }
    if (error) {
        if (c != NULL)
            tug_request_release(&c->request);
        return error;
    }
    tug_interpreter_bind(&c->interpreter, channel, ballot.plain);
    c->request.job.bell = c->interpreter.polls ? NULL : tug_team_own_bell(team);
    settle_host(c, call->kind, host);
    *request = &c->request;
    return 0;
}
