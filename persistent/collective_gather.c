/* Persistent Allgather, and Gather and Scatter of small parts. */
#include "host/agreement.h"
#include "host/layout.h"
#include "persistent/collective_private.h"
#include "schedule/collectives.h"
#include "tugboat/tugboat.h"

#define TREE_MOST ((size_t)4096) /* of a rank's part: Gather and Scatter by a tree */
/* Bytes of a part of an Allgather that is worth a call of the kernel's for every piece. */
#define DIRECT_GATHERING ((size_t)65536)
#define DIRECT_COPY ((size_t)262144)

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
    bool direct =
        tug_collective_reach_out(c, &mine, part << 1 | in_place, part >= DIRECT_GATHERING);
    int error = tug_collective_reserve(c, 0);
    if (error)
        return error;
    /* all write and read at once: a few long segments, as for a message of several times the size
     */
    struct tug_gather_plan plan = {.elements = part,
                                   .segment = direct ? DIRECT_COPY
                                                     : tug_collective_segment(c, 4 * part, true),
                                   .in_place = in_place,
                                   .direct = direct};
    tug_collective_bytes(c, TUG_AREA_INPUT, (void *)call->send.buffer, 1);
    tug_collective_bytes(c, TUG_AREA_OUTPUT, (void *)call->receive.buffer, 1);
    tug_collective_bytes(c, TUG_AREA_THEIR_INPUT, NULL, 1);
    tug_collective_bytes(c, TUG_AREA_THEIR_OUTPUT, NULL, 1);
    c->bytes = part;
    c->token = (uint64_t)part << 3 | 1;
    tug_collective_need_channel(c, direct ? 0 : part < plan.segment ? part : plan.segment);
    return tug_compile_allgather(&c->ways->schedule, &team->places, &plan, (uint32_t)team->rank);
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
    tug_collective_need_pairs(c);
    c->bytes = part;
    c->token = (uint64_t)part << 3 | 2;
    error =
        gathers
            ? tug_compile_gather(&c->ways->schedule, &team->places, &plan, (uint32_t)team->rank)
            : tug_compile_scatter(&c->ways->schedule, &team->places, &plan, (uint32_t)team->rank);
    return error ? error : tug_collective_scratch(c);
}
