#include "schedule_runner.h"

#include <inttypes.h>

#include "check.h"
#include "schedule_check.h"

#define SLOTS 8
#define TAGS 16
#define DEPTH 16
#define GARBAGE 0xdeadbeefdeadbeefu

/* A send or receive that has been posted. */
struct transfer {
    uint64_t *memory;
    uint64_t elements;
    uint64_t *buffered; /* an eager send's data, once it has been read */
    bool lent, eager, done;
};

struct transfers {
    struct transfer **list;
    uint32_t first, count, capacity;
};

/* Messages from a rank to another with one tag: sends and receives that have no partner yet. */
struct wire {
    struct transfers sends, receives;
};

struct pair {
    struct transfer *send, *receive;
};

struct queue_state {
    uint32_t descriptor, segment; /* next to be begun */
    uint64_t begun, limit;
    uint32_t depth;
    struct transfer *flying[DEPTH]; /* a ring: begun but not complete */
    uint32_t flying_steps[DEPTH], flying_advances[DEPTH];
    uint32_t nflying, oldest;
    uint8_t flying_kind;
};

struct slot {
    uint64_t *data;
    uint64_t elements;
    bool empty; /* a signal */
};

struct rank_state {
    bool running;
    uint32_t run; /* that it is in, or will be in next */
    uint32_t slowness;
    struct queue_state queues[TUG_QUEUES_MOST];
    uint64_t *scratch;
    uint64_t *landing; /* the node's */
    uint64_t *base;    /* [node size] positions of the rings when this run began */
    uint64_t *counts;  /* [node size] positions below are not needed any more */
    struct slot slots[SLOTS];
    uint64_t published;
};

struct job {
    const struct runner *runner;
    const struct tug_places *places;
    uint64_t random;
    struct rank_state *ranks;
    struct wire *wires;
    struct pair *pairs;
    uint32_t npairs, pair_capacity;
    struct transfers eager; /* posted and not read yet */
    uint32_t nfinished;
};

uint64_t runner_draw(uint64_t *state) {
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void runner_fail(const struct runner *runner, const char *format, ...) {
    va_list arguments;
    print_error("%s, %" PRIu32 " ranks on %" PRIu32 " nodes (", runner->what,
                runner->places->nranks, runner->places->nnodes);
    for (uint32_t r = 0; r < runner->places->nranks; r++)
        print_error(" %" PRIu32, runner->places->node_of[r]);
    print_error(" ), seed %" PRIu64 ": ", runner->seed);
    va_start(arguments, format);
    vprint_error(format, arguments);
    va_end(arguments);
    print_error("\n");
    for (uint32_t r = 0; r < runner->places->nranks; r++) {
        fprintf(stderr, "rank %" PRIu32 "\n", r);
        tug_schedule_dump(&runner->schedules[r], stderr);
    }
    fail();
    abort();
}

static uint32_t below(struct job *job, uint32_t n) {
    return (uint32_t)(runner_draw(&job->random) % n);
}

static uint64_t *allocate(uint64_t elements) {
    uint64_t *memory = malloc((elements + 1) * sizeof(*memory));
    assert_non_null(memory);
    for (uint64_t i = 0; i <= elements; i++)
        memory[i] = GARBAGE;
    return memory;
}

/* ---- transfers ---- */

static void push(struct transfers *transfers, struct transfer *transfer) {
    if (transfers->count == transfers->capacity) {
        transfers->capacity = transfers->capacity == 0 ? 16 : 2 * transfers->capacity;
        transfers->list =
            realloc((void *)transfers->list, transfers->capacity * sizeof(*transfers->list));
        assert_non_null(transfers->list);
    }
    transfers->list[transfers->count++] = transfer;
}

static struct transfer *pop(struct transfers *transfers) {
    return transfers->list[transfers->first++];
}

static void match(struct job *job, struct wire *wire) {
    while (wire->sends.first < wire->sends.count && wire->receives.first < wire->receives.count) {
        struct pair pair = {pop(&wire->sends), pop(&wire->receives)};
        if (pair.send->elements != pair.receive->elements)
            runner_fail(job->runner,
                        "a message of %" PRIu64 " elements is expected to have %" PRIu64,
                        pair.send->elements, pair.receive->elements);
        if (pair.send->lent != pair.receive->lent)
            runner_fail(job->runner, "a message is lent at one end");
        if (job->npairs == job->pair_capacity) {
            job->pair_capacity = job->pair_capacity == 0 ? 16 : 2 * job->pair_capacity;
            job->pairs = realloc(job->pairs, job->pair_capacity * sizeof(*job->pairs));
            assert_non_null(job->pairs);
        }
        job->pairs[job->npairs++] = pair;
    }
}

static struct transfer *post(struct job *job, const struct tug_descriptor *descriptor,
                             uint32_t rank, uint64_t *memory, uint64_t elements) {
    const bool send = descriptor->kind == TUG_SEND;
    const uint32_t tag = descriptor->tag, peer = descriptor->peer;
    const uint32_t from = send ? rank : peer, to = send ? peer : rank;
    struct transfer *transfer = calloc(1, sizeof(*transfer));
    assert_non_null(transfer);
    assert_true(tag < TAGS);
    struct wire *wire = &job->wires[(from * job->places->nranks + to) * TAGS + tag];
    *transfer = (struct transfer){.memory = memory, .elements = elements};
    transfer->lent = (send ? descriptor->to_area : descriptor->from_area) == TUG_AREA_LENT;
    if (send && !transfer->lent && below(job, 2)) {
        transfer->eager = true;
        push(&job->eager, transfer);
    }
    for (uint64_t i = 0; !send && i < elements; i++)
        memory[i] = GARBAGE;
    push(send ? &wire->sends : &wire->receives, transfer);
    match(job, wire);
    return transfer;
}

/* A matched message arrives. */
static void move(struct job *job, uint32_t which) {
    struct pair pair = job->pairs[which];
    job->pairs[which] = job->pairs[--job->npairs];
    const uint64_t *from = pair.send->buffered != NULL ? pair.send->buffered : pair.send->memory;
    if (pair.send->elements > 0)
        memcpy(pair.receive->memory, from, pair.send->elements * sizeof(*from));
    pair.receive->done = true;
    pair.send->done = true;
}

/* An eager send is read ahead of its receive. */
static void read_ahead(struct job *job, uint32_t which) {
    struct transfer *transfer = job->eager.list[which];
    job->eager.list[which] = job->eager.list[--job->eager.count];
    if (transfer->done)
        return;
    transfer->buffered = allocate(transfer->elements);
    if (transfer->elements > 0)
        memcpy(transfer->buffered, transfer->memory,
               transfer->elements * sizeof(*transfer->memory));
    transfer->done = true;
}

/* ---- descriptors ---- */

static uint32_t neighbour(const struct job *job, uint32_t rank, uint32_t node_rank) {
    return tug_places_rank(job->places, job->places->node_of[rank], node_rank);
}

static uint64_t *place(struct job *job, uint32_t rank, uint32_t peer, uint32_t area,
                       uint64_t offset) {
    const struct runner_memory *memory = &job->runner->memory[rank];
    switch (area) {
    case TUG_AREA_NONE:
        return NULL;
    case TUG_AREA_INPUT:
        return memory->input + offset;
    case TUG_AREA_OUTPUT:
        return memory->output + offset;
    case TUG_AREA_SCRATCH:
        return job->ranks[rank].scratch + offset;
    case TUG_AREA_LANDING:
        return job->ranks[rank].landing + offset;
    case TUG_AREA_THEIR_INPUT:
        return job->runner->memory[neighbour(job, rank, peer)].input + offset;
    case TUG_AREA_THEIR_OUTPUT:
        return job->runner->memory[neighbour(job, rank, peer)].output + offset;
    default:
        if (area - TUG_AREA_BLOCKS >= memory->nblocks)
            runner_fail(job->runner, "rank %" PRIu32 ": block %" PRIu32 " does not exist", rank,
                        area - TUG_AREA_BLOCKS);
        return memory->blocks + (area - TUG_AREA_BLOCKS);
    }
}

static uint32_t node_size(const struct job *job, uint32_t rank) {
    return tug_places_node_size(job->places, job->places->node_of[rank]);
}

/* How far the slowest reader of a rank's ring is. */
static uint64_t slowest(const struct job *job, uint32_t rank) {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < node_size(job, rank); i++) {
        uint32_t reader = neighbour(job, rank, i);
        uint64_t count = job->ranks[reader].counts[job->places->node_rank_of[rank]];
        if (reader != rank && count < least)
            least = count;
    }
    return least;
}

static bool publish(struct job *job, uint32_t rank, const uint64_t *from, uint64_t elements) {
    struct rank_state *state = &job->ranks[rank];
    uint32_t me = job->places->node_rank_of[rank];
    if (slowest(job, rank) <= state->published && state->published - slowest(job, rank) >= SLOTS)
        return false;
    if (state->published >= state->base[me] + job->runner->schedules[rank].passes[me])
        runner_fail(job->runner, "rank %" PRIu32 " publishes more than it says", rank);
    struct slot *slot = &state->slots[state->published++ % SLOTS];
    free(slot->data);
    *slot = (struct slot){.data = allocate(elements), .elements = elements, .empty = from == NULL};
    if (from != NULL && elements > 0)
        memcpy(slot->data, from, elements * sizeof(*from));
    return true;
}

/* Takes a segment out of a ring; NULL if it is not there yet. */
static const struct slot *take(struct job *job, uint32_t rank,
                               const struct tug_descriptor *descriptor, uint32_t segment) {
    struct rank_state *state = &job->ranks[rank];
    const struct rank_state *writer = &job->ranks[neighbour(job, rank, descriptor->peer)];
    uint64_t position = state->base[descriptor->peer] + descriptor->position + segment;
    if (writer->published <= position)
        return NULL;
    if (state->counts[descriptor->peer] > position)
        runner_fail(job->runner, "rank %" PRIu32 " reads position %" PRIu64 " which it let go of",
                    rank, position - state->base[descriptor->peer]);
    if (writer->published > position + SLOTS)
        runner_fail(job->runner, "rank %" PRIu32 " reads a slot that was overwritten", rank);
    return &writer->slots[position % SLOTS];
}

static void let_go(struct rank_state *state, const struct tug_descriptor *descriptor,
                   uint32_t segment) {
    bool last = segment + 1 == tug_descriptor_segments(descriptor);
    uint64_t position = last ? descriptor->release : descriptor->position + segment + 1;
    uint64_t *count = &state->counts[descriptor->peer];
    position += state->base[descriptor->peer];
    *count = position > *count ? position : *count;
}

/* The n elements of a segment from one place to another. */
static void combine(struct job *job, uint8_t kind, uint64_t *to, const uint64_t *from, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        if (kind == TUG_REDUCE || kind == TUG_GATHER_REDUCE)
            to[i] = job->runner->op(from[i], to[i]);
        else if (kind == TUG_FOLD || kind == TUG_GATHER_FOLD)
            to[i] = job->runner->op(to[i], from[i]);
        else
            to[i] = from[i];
    }
}

/* A descriptor that is no message: true if it could be done. */
static bool execute(struct job *job, uint32_t rank, const struct tug_descriptor *descriptor,
                    uint32_t segment) {
    struct rank_state *state = &job->ranks[rank];
    uint64_t offset;
    uint64_t n = tug_descriptor_at(descriptor, segment, &offset);
    uint32_t peer = descriptor->peer;
    uint64_t *from = place(job, rank, peer, descriptor->from_area, descriptor->from + offset);
    uint64_t *to = place(job, rank, peer, descriptor->to_area, descriptor->to + offset);
    uint32_t me = job->places->node_rank_of[rank];
    const struct slot *slot;
    switch (descriptor->kind) {
    case TUG_NOP:
        return true;
    case TUG_WAIT:
        return state->queues[peer].limit >= descriptor->position;
    case TUG_COPY:
    case TUG_REDUCE:
    case TUG_FOLD:
        combine(job, descriptor->kind, to, from, n);
        return true;
    case TUG_PUBLISH:
        return publish(job, rank, from, n);
    case TUG_SIGNAL:
        return publish(job, rank, NULL, 0);
    case TUG_DRAIN:
        return slowest(job, rank) >= state->base[me] + descriptor->position;
    default:
        slot = take(job, rank, descriptor, segment);
        if (slot == NULL)
            return false;
        if (descriptor->kind != TUG_AWAIT && (slot->empty || slot->elements != n))
            runner_fail(job->runner,
                        "rank %" PRIu32 " reads %" PRIu64 " elements where are %" PRIu64, rank, n,
                        slot->elements);
        if (descriptor->kind != TUG_AWAIT)
            combine(job, descriptor->kind, to, slot->data, n);
        let_go(state, descriptor, segment);
        return true;
    }
}

/* ---- queues ---- */

static void step(struct rank_state *state, uint32_t steps, uint32_t advances) {
    for (uint32_t l = 0; l < TUG_QUEUES_MOST; l++)
        if (advances >> l & 1)
            state->queues[l].limit += steps;
}

static bool is_message(uint8_t kind) {
    return kind == TUG_SEND || kind == TUG_RECEIVE;
}

/* Begins the next segment of a queue, if it may. */
static bool begin(struct job *job, uint32_t rank, uint32_t number) {
    const struct tug_queue *queue = &job->runner->schedules[rank].queues[number];
    struct rank_state *state = &job->ranks[rank];
    struct queue_state *at = &state->queues[number];
    if (at->descriptor == queue->count || at->begun >= at->limit)
        return false;
    const struct tug_descriptor *descriptor = &queue->descriptors[at->descriptor];
    if (at->nflying > 0 && (descriptor->kind != at->flying_kind || at->nflying == at->depth))
        return false;
    if (is_message(descriptor->kind)) {
        bool send = descriptor->kind == TUG_SEND;
        uint64_t offset;
        uint64_t n = tug_descriptor_at(descriptor, at->segment, &offset);
        uint32_t area = send ? descriptor->from_area : descriptor->to_area;
        uint64_t *memory =
            place(job, rank, 0, area, (send ? descriptor->from : descriptor->to) + offset);
        uint32_t i = (at->oldest + at->nflying++) % DEPTH;
        at->flying[i] = post(job, descriptor, rank, memory, n);
        at->flying_steps[i] = descriptor->steps;
        at->flying_advances[i] = descriptor->advances;
        at->flying_kind = descriptor->kind;
    } else if (!execute(job, rank, descriptor, at->segment)) {
        return false;
    } else {
        step(state, descriptor->steps, descriptor->advances);
    }
    at->begun++;
    if (++at->segment == tug_descriptor_segments(descriptor)) {
        at->segment = 0;
        at->descriptor++;
    }
    return true;
}

/* Completes the oldest message of a queue, if it is through. */
static bool complete(struct job *job, uint32_t rank, uint32_t number) {
    struct rank_state *state = &job->ranks[rank];
    struct queue_state *at = &state->queues[number];
    if (at->nflying == 0 || !at->flying[at->oldest]->done)
        return false;
    step(state, at->flying_steps[at->oldest], at->flying_advances[at->oldest]);
    at->oldest = (at->oldest + 1) % DEPTH;
    at->nflying--;
    return true; /* transfers are few and stay until the test ends */
}

/* ---- runs ---- */

static bool start(struct job *job, uint32_t rank) {
    const struct tug_schedule *schedule = &job->runner->schedules[rank];
    struct rank_state *state = &job->ranks[rank];
    job->runner->begin(job->runner->state, rank, state->run);
    for (uint64_t i = 0; i < schedule->scratch; i++)
        state->scratch[i] = GARBAGE;
    for (uint32_t l = 0; l < schedule->nqueues; l++) {
        const struct tug_queue *queue = &schedule->queues[l];
        state->queues[l] = (struct queue_state){
            .limit = queue->limit == TUG_LIMIT_ALL ? UINT64_MAX / 2 : queue->limit,
            .depth = 1 + below(job, DEPTH),
        };
    }
    for (uint32_t w = 0; w < schedule->node_size; w++) {
        uint64_t first = state->base[w] + schedule->first[w];
        state->counts[w] = first > state->counts[w] ? first : state->counts[w];
    }
    state->running = true;
    return true;
}

static bool finish(struct job *job, uint32_t rank) {
    const struct tug_schedule *schedule = &job->runner->schedules[rank];
    struct rank_state *state = &job->ranks[rank];
    for (uint32_t l = 0; l < schedule->nqueues; l++)
        if (state->queues[l].descriptor < schedule->queues[l].count || state->queues[l].nflying > 0)
            return false;
    uint32_t me = job->places->node_rank_of[rank];
    for (uint32_t w = 0; w < schedule->node_size; w++) {
        state->base[w] += schedule->passes[w];
        state->counts[w] = state->base[w];
    }
    if (schedule->node_size > 1 && state->published != state->base[me])
        runner_fail(job->runner,
                    "rank %" PRIu32 " published %" PRIu64 " segments instead of %" PRIu64, rank,
                    state->published, state->base[me]);
    job->runner->end(job->runner->state, rank, state->run);
    state->running = false;
    if (++state->run == job->runner->runs)
        job->nfinished++;
    return true;
}

/* One thing that a rank can do. */
static bool act(struct job *job, uint32_t rank) {
    struct rank_state *state = &job->ranks[rank];
    uint32_t nqueues = job->runner->schedules[rank].nqueues;
    if (state->run == job->runner->runs)
        return false;
    if (!state->running)
        return start(job, rank);
    if (nqueues > 0) {
        uint32_t first = below(job, nqueues);
        for (uint32_t i = 0; i < nqueues; i++) {
            uint32_t queue = (first + i) % nqueues;
            bool early = below(job, 2);
            if ((early && begin(job, rank, queue)) || complete(job, rank, queue) ||
                (!early && begin(job, rank, queue)))
                return true;
        }
    }
    return finish(job, rank);
}

static void deadlock(struct job *job) {
    for (uint32_t r = 0; r < job->places->nranks; r++)
        for (uint32_t l = 0; l < job->runner->schedules[r].nqueues; l++) {
            const struct queue_state *at = &job->ranks[r].queues[l];
            if (at->descriptor < job->runner->schedules[r].queues[l].count || at->nflying > 0)
                print_error("run %" PRIu32 ": rank %" PRIu32 " queue %" PRIu32
                            " stands at descriptor %" PRIu32 " segment %" PRIu32 ", begun %" PRIu64
                            " limit %" PRIu64 ", %" PRIu32 " under way\n",
                            job->ranks[r].run, r, l, at->descriptor, at->segment, at->begun,
                            at->limit, at->nflying);
        }
    runner_fail(job->runner, "deadlock");
}

/* Lets one thing happen; false if nothing can. */
static bool happen(struct job *job) {
    uint32_t nranks = job->places->nranks;
    for (int attempt = 0; attempt < 8; attempt++) {
        uint32_t die = below(job, 8);
        if (die == 0 && job->npairs > 0) {
            move(job, below(job, job->npairs));
            return true;
        }
        if (die == 1 && job->eager.count > 0) {
            read_ahead(job, below(job, job->eager.count));
            return true;
        }
        uint32_t rank = below(job, nranks);
        if (below(job, job->ranks[rank].slowness) == 0 && act(job, rank))
            return true;
    }
    for (uint32_t i = 0, first = below(job, nranks); i < nranks; i++)
        if (act(job, (first + i) % nranks))
            return true;
    if (job->npairs > 0) {
        move(job, below(job, job->npairs));
        return true;
    }
    if (job->eager.count > 0) {
        read_ahead(job, below(job, job->eager.count));
        return true;
    }
    return false;
}

/* ---- all ---- */

static uint32_t count_sends(const struct tug_queue *queue, uint32_t peer, bool lent) {
    uint32_t count = 0;
    for (uint32_t d = 0; d < queue->count; d++)
        count += queue->descriptors[d].kind == TUG_SEND && queue->descriptors[d].peer == peer &&
                 (!lent || queue->descriptors[d].to_area == TUG_AREA_LENT);
    return count;
}

/* What is lent goes in one queue with all else for that rank. */
static bool lends_in_order(const struct tug_schedule *schedule, uint32_t peer) {
    uint32_t queues = 0, lent = 0;
    for (uint32_t l = 0; l < schedule->nqueues; l++) {
        queues += count_sends(&schedule->queues[l], peer, false) > 0;
        lent += count_sends(&schedule->queues[l], peer, true);
    }
    return lent == 0 || queues == 1;
}

static void check_schedules(const struct runner *runner) {
    const struct tug_places *places = runner->places;
    for (uint32_t r = 0; r < places->nranks; r++) {
        const struct tug_schedule *schedule = &runner->schedules[r];
        uint32_t node = places->node_of[r];
        const struct tug_schedule *other = &runner->schedules[tug_places_rank(places, node, 0)];
        char why[128];
        if (schedule_check(schedule, runner->memory[r].ninput, runner->memory[r].noutput, why) != 0)
            runner_fail(runner, "rank %" PRIu32 ": %s", r, why);
        for (uint32_t peer = 0; peer < places->nranks; peer++)
            if (!lends_in_order(schedule, peer))
                runner_fail(runner, "rank %" PRIu32 " lends to %" PRIu32 " in several queues", r,
                            peer);
        if (schedule->node_size != tug_places_node_size(places, node) ||
            schedule->landing != other->landing ||
            memcmp(schedule->passes, other->passes,
                   schedule->node_size * sizeof(*schedule->passes)) != 0)
            runner_fail(runner, "rank %" PRIu32 " sees its node in another way than its first", r);
    }
}

static void prepare(struct job *job) {
    const struct tug_places *places = job->places;
    for (uint32_t r = 0; r < places->nranks; r++) {
        struct rank_state *state = &job->ranks[r];
        uint32_t leader = tug_places_rank(places, places->node_of[r], 0);
        state->slowness = 1u << 2 * below(job, 4);
        state->scratch = allocate(job->runner->schedules[r].scratch);
        state->base = calloc(2 * (size_t)node_size(job, r), sizeof(*state->base));
        assert_non_null(state->base);
        state->counts = state->base + node_size(job, r);
        state->landing =
            leader == r ? allocate(job->runner->schedules[r].landing) : job->ranks[leader].landing;
    }
}

static void clean_up(struct job *job) {
    for (uint32_t r = 0; r < job->places->nranks; r++) {
        struct rank_state *state = &job->ranks[r];
        free(state->scratch);
        free(state->base);
        if (job->places->node_rank_of[r] == 0)
            free(state->landing);
        for (int i = 0; i < SLOTS; i++)
            free(state->slots[i].data);
    }
    for (size_t w = 0; w < (size_t)job->places->nranks * job->places->nranks * TAGS; w++) {
        struct transfers *both[2] = {&job->wires[w].sends, &job->wires[w].receives};
        for (int b = 0; b < 2; b++) {
            for (uint32_t i = 0; i < both[b]->count; i++) {
                free(both[b]->list[i]->buffered);
                free(both[b]->list[i]);
            }
            free((void *)both[b]->list);
        }
    }
    free((void *)job->eager.list);
    free(job->pairs);
    free(job->wires);
    free(job->ranks);
}

void runner_run(const struct runner *runner) {
    size_t n = runner->places->nranks;
    struct job job = {.runner = runner, .places = runner->places, .random = runner->seed};
    check_schedules(runner);
    job.ranks = calloc(n, sizeof(*job.ranks));
    job.wires = calloc(n * n * TAGS, sizeof(*job.wires));
    assert_true(job.ranks != NULL && job.wires != NULL);
    prepare(&job);
    while (job.nfinished < n)
        if (!happen(&job))
            deadlock(&job);
    for (size_t w = 0; w < n * n * TAGS; w++)
        if (job.wires[w].sends.first < job.wires[w].sends.count)
            runner_fail(runner, "a message was sent that nobody receives");
    clean_up(&job);
}
