#include "model/simulate.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/flows.h"
#include "model/loggp.h"
#include "model/packed.h"
#include "model/radix.h"
#include "tugboat/tugboat.h"

#define SENDS_FLYING 2
#define CORES_MOST 1024u /* of a pool, each of which is looked at */

/* What an event tells: in its two lowest bits; above, of which queue, flow or rank. */
enum { QUEUE_COMPLETES, FLOW_ARRIVES, RING_SHOWS };

/* What a message between nodes costs: a processor at either end, the wires and engines, and what
 * passes until it has arrived. */
struct transfer_costs {
    uint64_t bytes;
    uint64_t overhead_ps; /* before it leaves, and after it has arrived */
    uint64_t handle_ps;   /* of a processor, at least as much */
    uint64_t turn_ps;     /* until the processor is the receiver's */
    uint64_t busy_ps;
    uint64_t gap_ps;
    uint64_t latency_ps;
};

struct machine {
    const struct tug_simulation *simulation;
    const struct tug_places *places;
    struct tug_packed packed;
    struct tug_flows flows;
    struct tug_network network;
    struct tug_radix events;
    uint64_t now_ps;
    struct tug_simulated result;
    uint64_t last_ps; /* when the last queue so far has ended */
    uint32_t queues_left;
    /* [nranks] */
    uint64_t *processor_ps; /* free at */
    uint32_t *written;      /* positions of the ring that have been begun */
    uint32_t *shown;        /* positions of the ring that readers can see */
    /* [nnodes][engines], [nnodes][copiers]: free at */
    uint64_t *out_ps, *in_ps, *copier_ps;
    uint64_t *core_ps; /* [pools][cores] free at */
    uint32_t cores;    /* of a pool; 0: every rank has a core */
    bool has_one_pool; /* else one for each node */
    /* costs */
    double copy_byte_ps;
    uint64_t inside_latency_ps, inside_overhead_ps;
    struct transfer_costs last_costs;
    uint32_t *ready; /* [nqueues] circular: queues to look at */
    uint32_t ready_first, nready;
    bool failed;
};

static uint64_t ps(double seconds) {
    return (uint64_t)(seconds * 1e12 + 0.5);
}

static uint64_t min_of(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t max_of(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* ---- what is scarce ---- */

/* The server of a pool to begin something at `ready_ps`: of those that are free by then the one
 * that became so last, so that none stands idle while a later one is taken; else the first to
 * become free. */
static uint64_t *pick(uint64_t *pool, uint32_t count, uint64_t ready_ps) {
    uint64_t *best = pool;
    for (uint32_t i = 1; i < count; i++) {
        bool in_time = pool[i] <= ready_ps;
        bool best_in_time = *best <= ready_ps;
        if (in_time != best_in_time ? in_time : in_time == (pool[i] > *best))
            best = &pool[i];
    }
    return best;
}

/* The core on which a rank can work first; NULL: it has one of its own. */
static uint64_t *core_of(struct machine *machine, uint32_t rank, uint64_t ready_ps) {
    const uint32_t node = machine->has_one_pool ? 0 : machine->places->node_of[rank];
    return machine->cores == 0
               ? NULL
               : pick(&machine->core_ps[(size_t)node * machine->cores], machine->cores, ready_ps);
}

/* Where sizes are measured one by one, a message is on the wire for as long as another would have
 * to wait, if that is part of the trip. */
static struct transfer_costs work_out(const struct machine *machine, uint64_t bytes) {
    const struct tug_model_parameters *p = machine->simulation->parameters;
    struct tug_transfer_speed speed = tug_transfer_at(
        p, bytes, tug_footprint(p, machine->simulation->message_bytes, machine->places->nranks));
    struct transfer_costs costs = {
        .bytes = bytes, .handle_ps = ps(speed.handle_s), .turn_ps = ps(p->turn_s)};
    if (p->ntransfers == 0) {
        costs.overhead_ps = ps(p->between.overhead_s);
        costs.gap_ps = ps(p->between.gap_s);
        costs.busy_ps = ps((double)bytes * p->between.byte_s);
        costs.latency_ps = ps(p->between.latency_s);
        return costs;
    }
    uint64_t trip = ps(speed.trip_s);
    uint64_t interval = ps(speed.interval_s);
    costs.overhead_ps = min_of(ps(p->between.overhead_s), min_of(costs.handle_ps, trip / 2));
    trip -= 2 * costs.overhead_ps;
    costs.busy_ps = min_of(interval, trip);
    costs.gap_ps = interval - costs.busy_ps;
    costs.latency_ps = trip - costs.busy_ps;
    return costs;
}

/* Messages of one size follow each other. */
static const struct transfer_costs *costs_of(struct machine *machine, uint64_t bytes) {
    if (machine->last_costs.bytes != bytes)
        machine->last_costs = work_out(machine, bytes);
    return &machine->last_costs;
}

/* A rank sends or receives a message that is there now. When it leaves, or has come. What costs
 * nothing is no work of a processor's. */
static uint64_t handle(struct machine *machine, uint32_t rank, const struct transfer_costs *costs,
                       bool receives) {
    if (costs->handle_ps == 0 && costs->turn_ps == 0)
        return machine->now_ps;
    uint64_t *processor = &machine->processor_ps[rank];
    uint64_t *core = core_of(machine, rank, max_of(*processor, machine->now_ps));
    const uint64_t idle = core != NULL ? max_of(*processor, *core) : *processor;
    const uint64_t begins = max_of(idle, machine->now_ps);
    const uint64_t ends =
        receives ? max_of(idle + costs->handle_ps, machine->now_ps + costs->overhead_ps)
                 : begins + costs->handle_ps;
    if (core != NULL)
        *core = ends;
    *processor = receives ? ends + costs->turn_ps : ends;
    return receives ? *processor : begins + costs->overhead_ps;
}

/* A rank copies, or reduces, which takes as long. */
static uint64_t copy(struct machine *machine, uint32_t rank, uint64_t bytes) {
    uint32_t copiers = machine->simulation->parameters->copiers;
    uint32_t node = machine->places->node_of[rank];
    uint64_t *processor = &machine->processor_ps[rank];
    uint64_t start = max_of(machine->now_ps, *processor);
    uint32_t size = tug_places_node_size(machine->places, node);
    uint64_t took = machine->inside_overhead_ps + (uint64_t)((double)bytes * machine->copy_byte_ps);
    uint64_t *core = core_of(machine, rank, start);
    start = core != NULL ? max_of(start, *core) : start;
    if (size > copiers) {
        uint64_t *copier = pick(&machine->copier_ps[(size_t)node * copiers], copiers, start);
        start = max_of(start, *copier);
        *copier = start + took;
    }
    if (core != NULL)
        *core = start + took;
    *processor = start + took;
    return *processor;
}

/* One engine of the rank's node copies a segment, from one rank to another as between nodes. */
static uint64_t copy_by_engine(struct machine *machine, uint32_t rank, uint64_t bytes) {
    const struct tug_loggp *between = &machine->simulation->parameters->between;
    uint64_t *engine = &machine->copier_ps[machine->places->node_of[rank]];
    *engine =
        max_of(machine->now_ps, *engine) + ps((double)bytes * between->byte_s + between->gap_s);
    return *engine;
}

/* Engine, links, engine. When the message has left, and *arrives_ps. */
static uint64_t transfer(struct machine *machine, uint32_t from, uint32_t to, uint64_t ready_ps,
                         const struct transfer_costs *costs, uint64_t *arrives_ps) {
    uint32_t engines = machine->simulation->parameters->engines;
    uint64_t *out = pick(&machine->out_ps[(size_t)from * engines], engines, ready_ps);
    uint64_t busy = costs->busy_ps;
    uint64_t start = max_of(ready_ps, *out);
    uint64_t head = tug_network_pass(&machine->network, from, to, start, busy);
    uint64_t *in = pick(&machine->in_ps[(size_t)to * engines], engines, head);
    uint64_t enters = max_of(head, *in);
    *out = start + busy + costs->gap_ps; /* the network holds what has to wait on its way */
    *in = enters + busy + costs->gap_ps;
    *arrives_ps = enters + busy + costs->latency_ps;
    machine->result.sent_bytes += costs->bytes;
    return start + busy;
}

/* ---- queues ---- */

static void look_at(struct machine *machine, uint32_t number) {
    struct tug_packed_queue *queue = &machine->packed.queues[number];
    if (queue->is_ready)
        return;
    queue->is_ready = true;
    uint32_t last = machine->ready_first + machine->nready++;
    machine->ready[last % machine->packed.nqueues] = number;
}

static void look_at_rank(struct machine *machine, uint32_t rank) {
    const uint32_t *queues_of = machine->packed.queues_of;
    for (uint32_t l = queues_of[rank]; l < queues_of[rank + 1]; l++)
        look_at(machine, l);
}

static bool reads_ring(unsigned kind) {
    return kind == TUG_COLLECT || kind == TUG_AWAIT || kind == TUG_GATHER_REDUCE ||
           kind == TUG_GATHER_FOLD;
}

static bool writes_ring(unsigned kind) {
    return kind == TUG_PUBLISH || kind == TUG_SIGNAL;
}

static uint64_t bytes_of(const struct machine *machine, const struct tug_packed_op *op,
                         uint32_t segment) {
    uint64_t left = op->elements - segment * op->segment;
    uint64_t elements = op->segment != 0 && left > op->segment ? op->segment : left;
    return elements * machine->simulation->element_bytes;
}

static struct tug_flow *flow_of(struct machine *machine, struct tug_packed_op *op, uint32_t from,
                                uint32_t to) {
    if (op->flow == TUG_NO_FLOW)
        op->flow = tug_flows_find(&machine->flows, from, to, op->tag);
    if (op->flow != TUG_NO_FLOW)
        return &machine->flows.flows[op->flow];
    machine->failed = true;
    return NULL;
}

static bool same_node(const struct machine *machine, uint32_t a, uint32_t b) {
    return machine->places->node_of[a] == machine->places->node_of[b];
}

static bool begin_send(struct machine *machine, struct tug_packed_queue *queue,
                       struct tug_packed_op *op, uint64_t bytes, uint64_t *ends_ps) {
    uint32_t rank = queue->rank;
    uint64_t arrives;
    if (flow_of(machine, op, rank, op->peer) == NULL)
        return false;
    if (same_node(machine, rank, op->peer)) {
        *ends_ps = machine->simulation->one_engine ? copy_by_engine(machine, rank, bytes)
                                                   : copy(machine, rank, bytes);
        arrives = *ends_ps + machine->inside_latency_ps;
    } else {
        const struct transfer_costs *costs = costs_of(machine, bytes);
        uint64_t ready = max_of(handle(machine, rank, costs, false), queue->wire_ps);
        *ends_ps = transfer(machine, machine->places->node_of[rank],
                            machine->places->node_of[op->peer], ready, costs, &arrives);
        queue->wire_ps = *ends_ps + costs->gap_ps;
    }
    tug_radix_add(&machine->events, arrives, (uint64_t)op->flow << 2 | FLOW_ARRIVES);
    return true;
}

static bool begin_receive(struct machine *machine, uint32_t number, struct tug_packed_op *op,
                          uint32_t rank, uint64_t bytes, uint64_t *ends_ps) {
    struct tug_flow *flow = flow_of(machine, op, op->peer, rank);
    if (flow == NULL)
        return false;
    if (flow->arrived == flow->taken) {
        flow->waiter = number;
        return false;
    }
    flow->taken++;
    if (!same_node(machine, rank, op->peer))
        *ends_ps = handle(machine, rank, costs_of(machine, bytes), true);
    else if (machine->simulation->one_engine)
        *ends_ps = machine->now_ps; /* the engine has put it where it belongs */
    else
        *ends_ps = copy(machine, rank, bytes);
    return true;
}

/* No other rank of the node needs anything below the position of this rank's ring. */
static bool all_past(const struct machine *machine, uint32_t rank, uint64_t position) {
    uint32_t node = machine->places->node_of[rank];
    uint32_t me = machine->places->node_rank_of[rank];
    uint32_t size = tug_places_node_size(machine->places, node);
    for (uint32_t r = 0; r < size; r++)
        if (r != me && *tug_packed_need(&machine->packed, node, r, me) < position)
            return false;
    return true;
}

static bool has_slot(const struct machine *machine, uint32_t rank) {
    uint64_t written = machine->written[rank], slots = machine->simulation->slots;
    return written < slots || all_past(machine, rank, written + 1 - slots);
}

static uint32_t rank_on_node(const struct machine *machine, uint32_t rank, uint32_t node_rank) {
    return tug_places_rank(machine->places, machine->places->node_of[rank], node_rank);
}

/* Begins the queue's next segment and says when it ends; false: it has to wait. */
static bool begin(struct machine *machine, uint32_t number, uint64_t *ends_ps) {
    struct tug_packed_queue *queue = &machine->packed.queues[number];
    struct tug_packed_op *op = &machine->packed.ops[queue->op];
    uint64_t bytes = bytes_of(machine, op, queue->segment);
    uint32_t rank = queue->rank;
    switch (op->kind) {
    case TUG_NOP:
        *ends_ps = machine->now_ps;
        return true;
    case TUG_WAIT:
        *ends_ps = machine->now_ps;
        return machine->packed.queues[machine->packed.queues_of[rank] + op->peer].limit >=
               op->position;
    case TUG_DRAIN:
        *ends_ps = machine->now_ps;
        return all_past(machine, rank, op->position);
    case TUG_SEND:
        return begin_send(machine, queue, op, bytes, ends_ps);
    case TUG_RECEIVE:
        return begin_receive(machine, number, op, rank, bytes, ends_ps);
    case TUG_PUBLISH:
    case TUG_SIGNAL:
        if (!has_slot(machine, rank))
            return false;
        machine->written[rank]++;
        *ends_ps = copy(machine, rank, op->kind == TUG_PUBLISH ? bytes : 0);
        return true;
    case TUG_COLLECT:
    case TUG_AWAIT:
    case TUG_GATHER_REDUCE:
    case TUG_GATHER_FOLD:
        if (machine->shown[rank_on_node(machine, rank, op->peer)] <= op->position + queue->segment)
            return false;
        *ends_ps = copy(machine, rank, op->kind == TUG_AWAIT ? 0 : bytes);
        return true;
    default: /* COPY, REDUCE, FOLD */
        *ends_ps = copy(machine, rank, bytes);
        return true;
    }
}

static void release(struct machine *machine, const struct tug_packed_op *op, uint32_t segment,
                    uint32_t rank) {
    uint32_t node = machine->places->node_of[rank];
    uint32_t *need =
        tug_packed_need(&machine->packed, node, machine->places->node_rank_of[rank], op->peer);
    uint32_t next = segment + 1 == op->segments ? op->release : op->position + segment + 1;
    if (next <= *need)
        return;
    *need = next;
    look_at_rank(machine, rank_on_node(machine, rank, op->peer));
}

static void step(struct machine *machine, const struct tug_packed_op *op, uint32_t rank) {
    uint32_t first = machine->packed.queues_of[rank];
    for (uint32_t left = op->advances; left != 0; left &= left - 1) {
        uint32_t number = first + (uint32_t)__builtin_ctz(left);
        struct tug_packed_queue *queue = &machine->packed.queues[number];
        if (queue->limit != TUG_LIMIT_ALL)
            queue->limit += op->steps;
        look_at(machine, number);
    }
}

static void complete(struct machine *machine, uint32_t number) {
    struct tug_packed_queue *queue = &machine->packed.queues[number];
    const struct tug_packed_op *op = &machine->packed.ops[queue->done_op];
    uint32_t segment = queue->done_segment++;
    queue->flying--;
    if (queue->done_segment == op->segments) {
        queue->done_segment = 0;
        queue->done_op++;
    }
    if (writes_ring(op->kind))
        tug_radix_add(&machine->events, machine->now_ps + machine->inside_latency_ps,
                      (uint64_t)queue->rank << 2 | RING_SHOWS);
    if (reads_ring(op->kind))
        release(machine, op, segment, queue->rank);
    step(machine, op, queue->rank);
    look_at(machine, number);
    if (queue->done_op < queue->end)
        return;
    machine->queues_left--;
    if (machine->now_ps > machine->last_ps || machine->result.events == 0) {
        machine->last_ps = machine->now_ps;
        machine->result.last_rank = queue->rank;
    }
}

/* In order; only sends overlap, and only with sends. */
static bool may_begin(const struct machine *machine, const struct tug_packed_queue *queue) {
    const struct tug_packed_op *ops = machine->packed.ops;
    if (queue->op == queue->end)
        return false;
    if (queue->limit != TUG_LIMIT_ALL && queue->posted >= queue->limit)
        return false;
    return queue->flying == 0 || (queue->flying < SENDS_FLYING && ops[queue->op].kind == TUG_SEND &&
                                  ops[queue->done_op].kind == TUG_SEND);
}

static void advance(struct machine *machine, uint32_t number) {
    struct tug_packed_queue *queue = &machine->packed.queues[number];
    while (may_begin(machine, queue)) {
        uint64_t ends;
        if (!begin(machine, number, &ends))
            return;
        queue->posted++;
        queue->flying++;
        queue->segment++;
        if (queue->segment == machine->packed.ops[queue->op].segments) {
            queue->segment = 0;
            queue->op++;
        }
        if (ends > machine->now_ps)
            tug_radix_add(&machine->events, ends, (uint64_t)number << 2 | QUEUE_COMPLETES);
        else
            complete(machine, number);
    }
}

/* The readers on the node that wait for this ring. */
static void show(struct machine *machine, uint32_t rank) {
    const struct tug_places *places = machine->places;
    uint32_t node = places->node_of[rank];
    machine->shown[rank]++;
    for (uint32_t i = places->node_first[node]; i < places->node_first[node + 1]; i++) {
        uint32_t reader = places->ranks[i];
        for (uint32_t l = machine->packed.queues_of[reader];
             l < machine->packed.queues_of[reader + 1]; l++) {
            const struct tug_packed_queue *queue = &machine->packed.queues[l];
            const struct tug_packed_op *op = &machine->packed.ops[queue->op];
            if (queue->op < queue->end && reads_ring(op->kind) &&
                op->peer == places->node_rank_of[rank])
                look_at(machine, l);
        }
    }
}

static void arrive(struct machine *machine, uint32_t number) {
    struct tug_flow *flow = &machine->flows.flows[number];
    flow->arrived++;
    if (flow->waiter != TUG_NO_WAITER)
        look_at(machine, flow->waiter);
    flow->waiter = TUG_NO_WAITER;
}

static void settle(struct machine *machine) {
    while (machine->nready > 0) {
        uint32_t number = machine->ready[machine->ready_first];
        machine->ready_first = (machine->ready_first + 1) % machine->packed.nqueues;
        machine->nready--;
        machine->packed.queues[number].is_ready = false;
        advance(machine, number);
    }
}

/* ---- a schedule that never ends ---- */

static void explain(const struct machine *machine, char *why, size_t why_bytes) {
    const struct tug_packed_queue *queue = machine->packed.queues;
    while (queue->done_op == queue->end)
        queue++;
    uint32_t number = (uint32_t)(queue - machine->packed.queues);
    const struct tug_packed_op *op = &machine->packed.ops[queue->op];
    char what[96];
    if (queue->limit != TUG_LIMIT_ALL && queue->posted >= queue->limit)
        snprintf(what, sizeof(what), "a step after %u segments", queue->posted);
    else if (op->kind == TUG_RECEIVE)
        snprintf(what, sizeof(what), "segment %u from rank %u with tag %u", queue->segment,
                 op->peer, op->tag);
    else if (writes_ring(op->kind))
        snprintf(what, sizeof(what), "a slot of its ring for position %u",
                 machine->written[queue->rank]);
    else
        snprintf(what, sizeof(what), "position %u of the ring of node rank %u",
                 op->position + queue->segment, op->peer);
    snprintf(why, why_bytes,
             "rank %u, queue %u waits for ever for %s; %u of %u queues have not ended", queue->rank,
             number - machine->packed.queues_of[queue->rank], what, machine->queues_left,
             machine->packed.nqueues);
}

/* ---- all ---- */

static void run(struct machine *machine) {
    struct tug_event event;
    for (uint32_t l = 0; l < machine->packed.nqueues; l++)
        look_at(machine, l);
    settle(machine);
    while (tug_radix_take(&machine->events, &event)) {
        uint32_t number = (uint32_t)(event.what >> 2);
        machine->now_ps = event.at_ps;
        machine->result.events++;
        switch (event.what & 3) {
        case QUEUE_COMPLETES:
            complete(machine, number);
            break;
        case FLOW_ARRIVES:
            arrive(machine, number);
            break;
        default:
            show(machine, number);
        }
        settle(machine);
    }
}

/* A zeroed table. */
static void *table(struct machine *machine, size_t count, size_t item) {
    void *memory = calloc(count + 1, item);
    machine->failed = machine->failed || memory == NULL;
    return memory;
}

static bool is_oversubscribed(const struct tug_places *places, uint32_t copiers) {
    uint32_t n = 0;
    while (n < places->nnodes && tug_places_node_size(places, n) <= copiers)
        n++;
    return n < places->nnodes;
}

/* A node that has less than a core shares those there are with the others: they are emulated on one
 * machine. */
static void share_cores(struct machine *machine) {
    const struct tug_places *places = machine->places;
    const double crowd = tug_crowd(machine->simulation->parameters);
    const double of_node = (double)places->nranks / places->nnodes / crowd;
    if (!tug_is_crowded(machine->simulation->parameters))
        return;
    machine->has_one_pool = of_node < 1;
    const double cores = machine->has_one_pool ? (double)places->nranks / crowd : of_node;
    machine->cores = cores < 1.5 ? 1 : cores > CORES_MOST ? CORES_MOST : (uint32_t)(cores + 0.5);
    machine->core_ps =
        table(machine, (size_t)machine->cores * (machine->has_one_pool ? 1 : places->nnodes),
              sizeof(uint64_t));
}

static int build(struct machine *machine, char *why, size_t why_bytes) {
    const struct tug_simulation *simulation = machine->simulation;
    const struct tug_model_parameters *p = simulation->parameters;
    const struct tug_places *places = machine->places;
    machine->last_costs.bytes = UINT64_MAX;
    machine->copy_byte_ps = tug_copy_byte_s(p, simulation->message_bytes) * 1e12;
    machine->inside_latency_ps = ps(p->inside.latency_s);
    machine->inside_overhead_ps = ps(p->inside.overhead_s);
    machine->processor_ps = table(machine, places->nranks, sizeof(uint64_t));
    machine->written = table(machine, places->nranks, sizeof(uint32_t));
    machine->shown = table(machine, places->nranks, sizeof(uint32_t));
    machine->out_ps = table(machine, (size_t)places->nnodes * p->engines, sizeof(uint64_t));
    machine->in_ps = table(machine, (size_t)places->nnodes * p->engines, sizeof(uint64_t));
    if (simulation->one_engine)
        machine->copier_ps = table(machine, places->nnodes, sizeof(uint64_t));
    else if (is_oversubscribed(places, p->copiers))
        machine->copier_ps = table(machine, (size_t)places->nnodes * p->copiers, sizeof(uint64_t));
    share_cores(machine);
    machine->network = simulation->network;
    if (machine->failed)
        return TUG_ERR_NO_MEMORY;
    int error = tug_network_init(&machine->network, places, p->hop_s, p->engines);
    if (error) {
        snprintf(why, why_bytes, "the network does not fit the places");
        return error;
    }
    error =
        tug_pack(&machine->packed, places, simulation->compile, simulation->state, why, why_bytes);
    if (error)
        return error;
    machine->ready = table(machine, machine->packed.nqueues, sizeof(uint32_t));
    for (uint32_t l = 0; l < machine->packed.nqueues; l++)
        machine->queues_left += machine->packed.queues[l].op < machine->packed.queues[l].end;
    return machine->failed ? TUG_ERR_NO_MEMORY : 0;
}

static void tear_down(struct machine *machine) {
    tug_packed_fini(&machine->packed);
    tug_flows_fini(&machine->flows);
    tug_network_fini(&machine->network);
    tug_radix_fini(&machine->events);
    free(machine->processor_ps);
    free(machine->written);
    free(machine->shown);
    free(machine->out_ps);
    free(machine->in_ps);
    free(machine->copier_ps);
    free(machine->core_ps);
    free(machine->ready);
}

int tug_simulate(const struct tug_simulation *simulation, struct tug_simulated *result, char *why,
                 size_t why_bytes) {
    struct machine machine = {.simulation = simulation, .places = simulation->places};
    int error = build(&machine, why, why_bytes);
    if (error)
        goto out;
    run(&machine);
    if (machine.failed || machine.events.failed) {
        error = TUG_ERR_NO_MEMORY;
    } else if (machine.queues_left > 0) {
        error = TUG_ERR_STATE;
        explain(&machine, why, why_bytes);
    } else {
        machine.result.seconds = simulation->parameters->start_s + (double)machine.last_ps * 1e-12;
        *result = machine.result;
    }
out:
    tear_down(&machine);
    return error;
}
