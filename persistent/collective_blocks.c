/* Collectives whose data goes as blocks from rank to rank.
 *
 * An empty block is not sent: MPI wants the sizes at both ends alike, so both ends know. All ranks
 * order their messages by the distance from sender to receiver. So, however few a rank has in
 * flight, the message that it sends next is one that its receiver awaits next. */
#include <stdlib.h>

#include "host/agreement.h"
#include "host/host.h"
#include "host/layout.h"
#include "persistent/candidates.h"
#include "persistent/collective_private.h"
#include "tugboat/tugboat.h"

#define ROUND_LEAST ((size_t)65536) /* bytes of all parts of an Allgatherv that goes round */
/* Bytes of a block that may be worth a rendezvous. A power of two: whether some rank has one shows
 * in a vote that is less exact than a factor of two. */
#define LENT_LEAST ((size_t)65536)

struct ordered {
    struct tug_message message;
    uint32_t distance, turn;
};

struct blocks {
    struct collective *c;
    const struct tug_collective *call;
    uint32_t rank, n;
    uint32_t nblocks, nsends, nreceives;
    struct ordered *sends, *receives;
    size_t bytes; /* of what this rank sends */
};

static size_t bytes_of(const struct blocks *b, uint32_t block) {
    const struct tug_area_memory *area = &b->c->areas[TUG_AREA_BLOCKS + block];
    return (size_t)area->count * tug_type_bytes(area->type);
}

MPI_Count tug_side_place(const struct tug_side *side, uint32_t i) {
    MPI_Count lb, extent;
    if (side->types != NULL)
        return tug_list_at(&side->displs, i);
    tug_host.Type_get_extent_c(side->type, &lb, &extent);
    return extent * (side->displs.items == NULL ? (MPI_Count)i * side->count
                                                : tug_list_at(&side->displs, i));
}

/* The i-th block of a side becomes the next of ours. */
static int add_block(struct blocks *b, const struct tug_side *side, uint32_t i) {
    MPI_Datatype type = side->types != NULL ? side->types[i] : side->type;
    MPI_Count count = side->counts.items != NULL ? tug_list_at(&side->counts, i) : side->count;
    return tug_collective_area(b->c, TUG_AREA_BLOCKS + b->nblocks++,
                               (const unsigned char *)side->buffer + tug_side_place(side, i), count,
                               type);
}

static struct tug_message message_of(struct blocks *b, uint32_t peer, uint32_t block) {
    const size_t bytes = bytes_of(b, block);
    if (peer != b->rank && bytes > b->c->longest)
        b->c->longest = bytes;
    return (struct tug_message){peer, block, bytes >= LENT_LEAST};
}

static void add_send(struct blocks *b, uint32_t to, uint32_t block) {
    if (bytes_of(b, block) == 0)
        return;
    b->bytes += bytes_of(b, block);
    b->sends[b->nsends] =
        (struct ordered){message_of(b, to, block), (to + b->n - b->rank) % b->n, b->nsends};
    b->nsends++;
}

static void add_receive(struct blocks *b, uint32_t from, uint32_t block) {
    if (bytes_of(b, block) == 0)
        return;
    b->receives[b->nreceives] =
        (struct ordered){message_of(b, from, block), (b->rank + b->n - from) % b->n, b->nreceives};
    b->nreceives++;
}

static int compare(const void *left, const void *right) {
    const struct ordered *a = left, *b = right;
    if (a->distance != b->distance)
        return a->distance < b->distance ? -1 : 1;
    return a->turn < b->turn ? -1 : a->turn > b->turn;
}

/* ---- who sends what to whom ---- */

/* The root has a part for each rank, every rank has one. */
static int describe_rooted(struct blocks *b, bool gathers) {
    const struct tug_side *all = gathers ? &b->call->receive : &b->call->send;
    const struct tug_side *one = gathers ? &b->call->send : &b->call->receive;
    bool in_place = one->buffer == MPI_IN_PLACE;
    uint32_t root = (uint32_t)b->call->root;
    void (*add_ones)(struct blocks *, uint32_t, uint32_t) = gathers ? add_send : add_receive;
    void (*add_alls)(struct blocks *, uint32_t, uint32_t) = gathers ? add_receive : add_send;
    int error = 0;
    if (!in_place) {
        error = add_block(b, one, 0);
        if (!error)
            add_ones(b, root, b->nblocks - 1);
    }
    for (uint32_t r = 0; b->rank == root && r < b->n && !error; r++) {
        if (r == root && in_place)
            continue;
        error = add_block(b, all, r);
        if (!error)
            add_alls(b, r, b->nblocks - 1);
    }
    return error;
}

/* A block to and from each rank. In place what is sent is what is received into. */
static int describe_alltoall(struct blocks *b) {
    bool in_place = b->call->send.buffer == MPI_IN_PLACE;
    int error = 0;
    for (uint32_t r = 0; r < b->n && !error; r++) {
        error = add_block(b, &b->call->receive, r);
        if (!error)
            add_receive(b, r, b->nblocks - 1);
        if (!error && !in_place)
            error = add_block(b, &b->call->send, r);
        if (!error)
            add_send(b, r, b->nblocks - 1);
    }
    return error;
}

/* Every rank's block goes to all ranks. Our blocks: what is received, by rank; then what this rank
 * sends. */
static int describe_allgather(struct blocks *b) {
    bool in_place = b->call->send.buffer == MPI_IN_PLACE;
    int error = 0;
    for (uint32_t r = 0; r < b->n && !error; r++)
        error = add_block(b, &b->call->receive, r);
    if (!error && !in_place)
        error = add_block(b, &b->call->send, 0);
    for (uint32_t r = 0; r < b->n && !error; r++) {
        if (r == b->rank && in_place)
            continue;
        add_receive(b, r, r);
        add_send(b, r, in_place ? b->rank : b->n);
    }
    return error;
}

static int describe_neighbours(struct blocks *b, const struct tug_neighbours *neighbours,
                               bool one_for_all) {
    int error = one_for_all ? add_block(b, &b->call->send, 0) : 0;
    for (int i = 0; i < neighbours->nout && !error; i++) {
        if (!one_for_all)
            error = add_block(b, &b->call->send, (uint32_t)i);
        if (!error && neighbours->out[i] != MPI_PROC_NULL)
            add_send(b, (uint32_t)neighbours->out[i], one_for_all ? 0 : b->nblocks - 1);
    }
    uint32_t first = b->nblocks;
    for (int i = 0; i < neighbours->nin && !error; i++)
        error = add_block(b, &b->call->receive, (uint32_t)i);
    for (int i = 0; i < neighbours->nin && !error; i++) {
        int in = tug_neighbours_facing(neighbours, i);
        if (neighbours->in[in] != MPI_PROC_NULL)
            add_receive(b, (uint32_t)neighbours->in[in], first + (uint32_t)in);
    }
    return error;
}

static int describe(struct blocks *b, const struct tug_neighbours *neighbours) {
    switch (b->call->kind) {
    case TUG_COLLECTIVE_GATHER:
    case TUG_COLLECTIVE_GATHERV:
        return describe_rooted(b, true);
    case TUG_COLLECTIVE_SCATTER:
    case TUG_COLLECTIVE_SCATTERV:
        return describe_rooted(b, false);
    case TUG_COLLECTIVE_ALLTOALL:
    case TUG_COLLECTIVE_ALLTOALLV:
    case TUG_COLLECTIVE_ALLTOALLW:
        return describe_alltoall(b);
    case TUG_COLLECTIVE_ALLGATHER:
    case TUG_COLLECTIVE_ALLGATHERV:
        return describe_allgather(b);
    case TUG_COLLECTIVE_NEIGHBOR_ALLGATHER:
    case TUG_COLLECTIVE_NEIGHBOR_ALLGATHERV:
        return describe_neighbours(b, neighbours, true);
    default:
        return describe_neighbours(b, neighbours, false);
    }
}

/* ---- compiling ---- */

/* Memory for what is sent in place, as plain bytes: blocks behind all others. */
static int put_aside(struct blocks *b) {
    unsigned char *at = b->c->memory = malloc(b->bytes + 1);
    if (at == NULL)
        return TUG_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < b->nsends; i++) {
        size_t bytes = bytes_of(b, b->sends[i].message.block);
        tug_collective_bytes(b->c, TUG_AREA_BLOCKS + b->nblocks + i, at, bytes);
        at += bytes;
    }
    return 0;
}

/* All messages in the order of both queues. */
static int plan_exchange(struct blocks *b, bool in_place) {
    struct tug_message *messages = malloc((b->nsends + b->nreceives + 1) * sizeof(*messages));
    if (messages == NULL)
        return TUG_ERR_NO_MEMORY;
    qsort(b->sends, b->nsends, sizeof(*b->sends), compare);
    qsort(b->receives, b->nreceives, sizeof(*b->receives), compare);
    for (uint32_t i = 0; i < b->nsends; i++)
        messages[i] = b->sends[i].message;
    for (uint32_t i = 0; i < b->nreceives; i++)
        messages[b->nsends + i] = b->receives[i].message;
    b->c->messages = messages;
    b->c->exchange = (struct tug_exchange_plan){.sends = messages,
                                                .receives = messages + b->nsends,
                                                .nsends = b->nsends,
                                                .nreceives = b->nreceives,
                                                .in_place = in_place,
                                                .staging = b->nblocks};
    return in_place ? put_aside(b) : 0;
}

static bool is_allgather(const struct tug_collective *call) {
    return call->kind == TUG_COLLECTIVE_ALLGATHER || call->kind == TUG_COLLECTIVE_ALLGATHERV;
}

static bool is_alltoall(const struct tug_collective *call) {
    return call->kind == TUG_COLLECTIVE_ALLTOALL || call->kind == TUG_COLLECTIVE_ALLTOALLV ||
           call->kind == TUG_COLLECTIVE_ALLTOALLW;
}

static int compile(struct blocks *b, const struct tug_neighbours *neighbours) {
    const struct tug_team *team = b->c->team;
    bool in_place = b->call->send.buffer == MPI_IN_PLACE;
    int error = describe(b, neighbours);
    if (error)
        return error;
    b->c->bytes = b->bytes;
    size_t total = 0;
    for (uint32_t r = 0; is_allgather(b->call) && r < b->n; r++)
        total += bytes_of(b, r);
    error = plan_exchange(b, in_place && is_alltoall(b->call));
    if (error)
        return error;
    if (total >= ROUND_LEAST)
        return tug_compile_cycle(&b->c->ways->schedule, &team->places, in_place,
                                 (uint32_t)team->rank);
    return tug_compile_exchange(&b->c->ways->schedule, &team->places, &b->c->exchange,
                                (uint32_t)team->rank);
}

int tug_collective_blocks(struct collective *c, const struct tug_collective *call) {
    struct blocks b = {
        .c = c, .call = call, .rank = (uint32_t)c->team->rank, .n = (uint32_t)c->team->nranks};
    struct tug_neighbours neighbours = {0};
    uint32_t most = b.n + 1; /* sends or receives */
    int error = 0;
    if (call->kind >= TUG_COLLECTIVE_NEIGHBOR_ALLGATHER) {
        error = tug_neighbours_get(call->comm, &neighbours);
        most = (uint32_t)(neighbours.nin + neighbours.nout) + 1;
    }
    if (!error)
        error = tug_collective_reserve(c, 3 * most);
    c->ways->near_most = tug_collective_near_most(c->team);
    b.sends = calloc(2 * (size_t)most, sizeof(*b.sends));
    if (b.sends == NULL && !error)
        error = TUG_ERR_NO_MEMORY;
    if (!error) {
        b.receives = b.sends + most;
        error = compile(&b, &neighbours);
    }
    free(b.sends);
    free(neighbours.in);
    free(neighbours.out);
    return error;
}

/* ---- long blocks, lent ---- */

/* Crowded ranks too: one copy by who waits for it is less work than two. */
static bool may_lend(const struct collective *c) {
    const struct tug_team *team = c->team;
    return c->messages != NULL && team->nnodes == 1 && team->nranks > 1 && team->attaches &&
           team->node_most <= TUG_PAIR_RANKS;
}

void tug_blocks_vote(const struct collective *c, struct tug_ballot *ballot) {
    ballot->near_bytes = c->ways->near_longest;
    if (may_lend(c) && ballot->near_bytes < c->longest)
        ballot->near_bytes = c->longest;
}

void tug_blocks_lend(struct collective *c, const struct tug_ballot *ballot) {
    struct tug_interpreter *way = &c->ways[1];
    struct tug_exchange_plan plan = c->exchange;
    if (may_lend(c) && ballot->plain && ballot->near_bytes >= LENT_LEAST) {
        *way = (struct tug_interpreter){
            .team = c->team, .areas = c->areas, .near_most = SIZE_MAX, .streams = c->ways->streams};
        plan.lends = true;
        if (c->candidates == NULL)
            c->candidates = tug_candidates_one(c->team, c->bytes);
        const bool ready = c->candidates != NULL &&
                           tug_compile_exchange(&way->schedule, &c->team->places, &plan,
                                                (uint32_t)c->team->rank) == 0 &&
                           tug_interpreter_init(way) == 0;
        if (tug_all_agree(c->team->comm, ready))
            c->nways = 2;
        else
            tug_interpreter_fini(way);
    }
    free(c->messages);
    c->messages = NULL;
}
