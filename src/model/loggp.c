#include "model/loggp.h"

#include "model/network.h"

#define NODES_LOOKED_AT 1024
#define FAR_BYTES ((uint64_t)8 << 20) /* messages that outgrow caches */

uint32_t tug_paper_segments(uint64_t bytes) {
    static const struct {
        uint64_t below;
        uint32_t segments;
    } table[] = {
        {64u << 10, 1},   {256u << 10, 4},  {1u << 20, 8},     {16u << 20, 16},
        {128u << 20, 32}, {256u << 20, 64}, {512u << 20, 128}, {1024u << 20, 256},
    };
    for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (bytes < table[i].below)
            return table[i].segments;
    return 512;
}

/* The root serves the pipelines one after another. The way to a node of a binomial tree has a hop
 * for every one in its place's binary number; where that is less than the rounds, its ancestors are
 * not the first to be served. */
static void set_depth(struct tug_tree_shape *shape, const struct tug_places *places,
                      enum tug_algorithm algorithm) {
    shape->depth = tug_pipeline_depth(places, algorithm);
    shape->late = shape->pipelines - 1;
    if (algorithm != TUG_BINOMIAL || (places->nnodes & (places->nnodes - 1)) == 0)
        return;
    shape->depth--;
    shape->late = 1;
}

/* What one node has to send, and how far. */
static void look_at_node(struct tug_tree_shape *shape, const struct tug_places *places,
                         enum tug_algorithm algorithm, uint32_t root_node, uint32_t node,
                         uint64_t *hops, uint64_t *links) {
    uint32_t sends = 0;
    uint32_t loads[TUG_TORUS_LINKS] = {0};
    for (uint32_t k = 0; k < shape->pipelines; k++) {
        uint32_t children[TUG_CHILDREN_MOST];
        uint32_t n = tug_pipeline_children(places, algorithm, k, root_node, node, children);
        for (uint32_t c = 0; c < n && places->torus[0] != 0; c++) {
            uint32_t load = ++loads[tug_network_first_link(places, node, children[c])];
            shape->load = load > shape->load ? load : shape->load;
            *links += tug_network_distance(places, node, children[c]);
        }
        *hops += n;
        shape->fan = n > shape->fan && node != root_node ? n : shape->fan;
        sends += n;
    }
    shape->sends = sends > shape->sends ? sends : shape->sends;
    uint32_t ppn = tug_places_node_size(places, node);
    shape->ppn = ppn > shape->ppn ? ppn : shape->ppn;
}

struct tug_tree_shape tug_tree_shape_of(const struct tug_places *places,
                                        enum tug_algorithm algorithm, uint32_t root) {
    struct tug_tree_shape shape = {.pipelines = tug_pipelines(places, algorithm),
                                   .nodes = places->nnodes};
    uint32_t root_node = places->node_of[root];
    uint32_t stride = places->nnodes / NODES_LOOKED_AT + 1;
    uint64_t hops = 0;
    uint64_t links = 0;
    set_depth(&shape, places, algorithm);
    for (uint32_t i = 0; i < places->nnodes;
         i += stride) { /* the root's first: often the busiest */
        uint32_t node = (root_node + i) % places->nnodes;
        look_at_node(&shape, places, algorithm, root_node, node, &hops, &links);
    }
    shape.links = links > 0 ? (double)links / (double)hops : 1;
    return shape;
}

/* The logarithm to base 2, linear between powers of it: enough to interpolate by. */
static double log2_of(uint64_t n) {
    int whole = 63 - __builtin_clzll(n);
    return whole + (double)n / (double)((uint64_t)1 << whole) - 1;
}

double tug_copy_byte_s(const struct tug_model_parameters *parameters, uint64_t bytes) {
    const struct tug_copy_speed *speeds = parameters->copies;
    uint32_t n = parameters->ncopies;
    if (n == 0)
        return parameters->inside.byte_s;
    if (bytes <= speeds[0].bytes)
        return speeds[0].byte_s;
    for (uint32_t i = 1; i < n; i++) {
        if (bytes > speeds[i].bytes)
            continue;
        double from = log2_of(speeds[i - 1].bytes);
        double way = (log2_of(bytes) - from) / (log2_of(speeds[i].bytes) - from);
        return speeds[i - 1].byte_s + way * (speeds[i].byte_s - speeds[i - 1].byte_s);
    }
    return speeds[n - 1].byte_s;
}

/* The measured one that is `way` of the distance between two. */
static struct tug_transfer_speed between_two(const struct tug_transfer_speed *a,
                                             const struct tug_transfer_speed *b, double way) {
    return (struct tug_transfer_speed){
        .trip_s = a->trip_s + way * (b->trip_s - a->trip_s),
        .interval_s = a->interval_s + way * (b->interval_s - a->interval_s),
        .handle_s = a->handle_s + way * (b->handle_s - a->handle_s),
    };
}

static struct tug_transfer_speed measured_transfer(const struct tug_model_parameters *parameters,
                                                   uint64_t segment) {
    const struct tug_transfer_speed *speeds = parameters->transfers;
    const struct tug_transfer_speed *last = &speeds[parameters->ntransfers - 1];
    if (segment >= last->bytes) { /* more of the same */
        double times = (double)segment / (double)last->bytes;
        return (struct tug_transfer_speed){
            .trip_s = last->trip_s + (times - 1) * last->interval_s,
            .interval_s = times * last->interval_s,
            .handle_s = times * last->handle_s,
        };
    }
    if (segment <= speeds[0].bytes)
        return speeds[0];
    while (segment > speeds[1].bytes)
        speeds++;
    return between_two(&speeds[0], &speeds[1],
                       (double)(segment - speeds[0].bytes) /
                           (double)(speeds[1].bytes - speeds[0].bytes));
}

static double most(double a, double b) {
    return a > b ? a : b;
}

bool tug_is_crowded(const struct tug_model_parameters *parameters) {
    return parameters->crowd > 1;
}

double tug_crowd(const struct tug_model_parameters *parameters) {
    return tug_is_crowded(parameters) ? parameters->crowd : 1;
}

uint64_t tug_footprint(const struct tug_model_parameters *parameters, uint64_t bytes,
                       uint64_t ranks) {
    return tug_is_crowded(parameters) ? bytes * ranks : bytes;
}

struct tug_transfer_speed tug_transfer_at(const struct tug_model_parameters *parameters,
                                          uint64_t segment, uint64_t footprint) {
    const struct tug_loggp *between = &parameters->between;
    double data_s = (double)segment * between->byte_s;
    struct tug_transfer_speed transfer = {
        .trip_s = between->latency_s + 2 * between->overhead_s + data_s,
        .interval_s = between->gap_s + data_s,
        .handle_s = between->overhead_s,
    };
    if (parameters->ntransfers > 0)
        transfer = measured_transfer(parameters, segment);
    double far_s = (double)segment * parameters->far_byte_s;
    if (footprint >= FAR_BYTES && transfer.interval_s < far_s) {
        transfer.trip_s += far_s - transfer.interval_s;
        transfer.interval_s = far_s;
    }
    if (tug_is_crowded(parameters)) {
        transfer.handle_s = most(transfer.handle_s, transfer.interval_s);
        transfer.trip_s = most(transfer.trip_s, transfer.handle_s);
    }
    transfer.bytes = segment;
    return transfer;
}

/* What one segment costs, wherever the time goes. */
struct segment_costs {
    double wire_s;   /* until the busiest node or link has passed it on, in all pipelines */
    double hop_s;    /* from a node to the next */
    double handle_s; /* of a processor, to send or receive it */
    double turn_s;   /* until the processor is this rank's, to receive it */
    double late_s;   /* until the next of several can leave a node */
    double copy_s;   /* into the memory that a node shares, or out of it, by all of its ranks */
    double alone_s;  /* into that memory or out of it, by one rank */
};

static struct segment_costs costs_of(const struct tug_tree_shape *shape, uint64_t bytes,
                                     uint64_t segment,
                                     const struct tug_model_parameters *parameters) {
    const uint64_t ranks = (uint64_t)shape->nodes * shape->ppn;
    const struct tug_transfer_speed transfer =
        tug_transfer_at(parameters, segment, tug_footprint(parameters, bytes, ranks));
    const double engines = most(shape->sends, shape->pipelines) / (double)parameters->engines;
    const double share = most(tug_crowd(parameters), (double)shape->ppn / parameters->copiers);
    const double copy_s =
        parameters->inside.overhead_s + (double)segment * tug_copy_byte_s(parameters, bytes);
    return (struct segment_costs){
        .wire_s = transfer.interval_s * most(most(1, shape->load), engines),
        .hop_s = transfer.trip_s + (shape->links - 1) * parameters->hop_s + parameters->turn_s,
        .handle_s = transfer.handle_s,
        .turn_s = parameters->turn_s,
        /* where ranks share cores those that were served before are at work then, and a rank takes
         * all that has come at its turn: about three messages need one */
        .late_s = most(transfer.handle_s, transfer.interval_s / parameters->engines) +
                  parameters->turn_s / 3,
        .copy_s = share * copy_s,
        .alone_s = copy_s,
    };
}

/* Messages between nodes that the cores which ranks share carry at a time: each takes one at either
 * end. */
static double at_once(const struct tug_tree_shape *shape,
                      const struct tug_model_parameters *parameters) {
    return (double)shape->nodes * shape->ppn / tug_crowd(parameters) / 2;
}

/* What the processors of all ranks have to do for one segment of every pipeline, on the cores that
 * they share; 0: they share none. */
static double work_s(const struct tug_tree_shape *shape, const struct segment_costs *costs,
                     bool relays, const struct tug_model_parameters *parameters) {
    const double messages_s = (shape->nodes - 1) / at_once(shape, parameters) * costs->handle_s;
    const double copies_s = shape->ppn > 1 && relays ? tug_crowd(parameters) * costs->alone_s : 0;
    return tug_is_crowded(parameters) ? shape->pipelines * (messages_s + copies_s) : 0;
}

/* From one segment of every pipeline to the next: the longest of what the wires need, the
 * processor of the root, that of a rank that holds the ends of pipelines elsewhere, and, where
 * ranks share cores, those of all. There each node has to have its turn, too, and a rank one for
 * every pipeline that it holds. relays: the other nodes put segments into their memory as they
 * come. */
static double interval_s(const struct tug_tree_shape *shape, const struct segment_costs *costs,
                         bool relays, const struct tug_model_parameters *parameters) {
    const uint32_t holders = shape->ppn < shape->pipelines ? shape->ppn : shape->pipelines;
    const uint32_t held = (shape->pipelines + holders - 1) / holders;
    const double copy_s = tug_is_crowded(parameters) ? costs->alone_s : costs->copy_s;
    const double local_s = shape->ppn > 1 ? shape->pipelines * copy_s : 0;
    const double root_s = costs->handle_s * shape->sends + local_s;
    const double holder_s = costs->handle_s * held * (shape->fan + 1) + (relays ? local_s : 0);
    if (shape->depth == 0)
        return shape->ppn > 1 ? shape->pipelines * costs->copy_s : 0;
    const double all_s = work_s(shape, costs, relays, parameters);
    const double turns = most(held, (shape->nodes - 1) / at_once(shape, parameters));
    return most(most(costs->wire_s, root_s), most(holder_s, all_s)) + costs->turn_s * turns;
}

bool tug_engines_carry(const struct tug_model_parameters *parameters) {
    return parameters->ntransfers == 0 && parameters->between.overhead_s == 0;
}

/* Every segment of all pipelines to each other rank of a node, one after another. */
static double one_engine_s(const struct tug_tree_shape *shape, const struct segment_costs *costs,
                           uint64_t segment, double rounds,
                           const struct tug_model_parameters *parameters) {
    const struct tug_loggp *between = &parameters->between;
    bool carries = tug_engines_carry(parameters);
    double copy_s = carries ? (double)segment * between->byte_s + between->gap_s : costs->alone_s;
    double copies_s = copy_s * shape->pipelines * (shape->ppn - 1);
    double pace_s = carries ? most(copies_s, costs->wire_s)
                            : most(interval_s(shape, costs, false, parameters),
                                   copies_s + costs->handle_s * shape->sends);
    double last_s = carries ? 0 : costs->alone_s; /* the last reader takes it out */
    return parameters->start_s + shape->depth * costs->hop_s + parameters->inside.latency_s +
           (rounds - 1) * pace_s + copies_s + last_s;
}

/* Segments that are sent to others before, on the way to the farthest node. Cores that ranks share
 * have all those to carry that are not on this way. */
static double late_of(const struct tug_tree_shape *shape,
                      const struct tug_model_parameters *parameters) {
    const double others = (double)shape->pipelines * (shape->nodes - 1) - shape->depth;
    return tug_is_crowded(parameters) ? most(shape->late, others / at_once(shape, parameters))
                                      : shape->late;
}

/* Until a segment has reached the farthest node. */
static double fill_s(const struct tug_tree_shape *shape, const struct segment_costs *costs,
                     const struct tug_model_parameters *parameters) {
    return shape->depth * costs->hop_s + late_of(shape, parameters) * costs->late_s;
}

/* Until the last of several segments, which may be a short one, has: it comes behind a whole one
 * there, or has left behind the others. Where each rank has a core it comes no earlier than a whole
 * one would, as the simulator finds. */
static double pipeline_s(const struct tug_tree_shape *shape, const struct segment_costs *costs,
                         uint64_t share, uint64_t segment, uint64_t bytes, bool relays,
                         const struct tug_model_parameters *parameters) {
    const uint64_t rest = tug_is_crowded(parameters) ? share % segment : 0;
    const uint64_t whole = (share - rest + segment - 1) / segment;
    const double pace_s = interval_s(shape, costs, relays, parameters);
    const double all_whole_s = fill_s(shape, costs, parameters) + (double)(whole - 1) * pace_s;
    if (rest == 0)
        return all_whole_s;
    const struct segment_costs last = costs_of(shape, bytes, rest, parameters);
    return most(all_whole_s + interval_s(shape, &last, relays, parameters),
                (double)whole * pace_s + fill_s(shape, &last, parameters));
}

double tug_predict_bcast(const struct tug_tree_shape *shape, enum tug_phases phases, uint64_t bytes,
                         uint64_t segment_bytes, const struct tug_model_parameters *parameters) {
    if (bytes == 0)
        return 0;
    uint64_t share = (bytes + shape->pipelines - 1) / shape->pipelines;
    uint64_t segment = segment_bytes > 0 && segment_bytes < share ? segment_bytes : share;
    bool relays = phases != TUG_TWO_PHASE || shape->depth == 0;
    struct segment_costs costs = costs_of(shape, bytes, segment, parameters);
    if (phases == TUG_ONE_ENGINE && shape->ppn > 1)
        return one_engine_s(shape, &costs, segment, (double)((share + segment - 1) / segment),
                            parameters);
    double seconds =
        parameters->start_s + pipeline_s(shape, &costs, share, segment, bytes, relays, parameters);
    if (shape->ppn == 1)
        return seconds;
    seconds += parameters->inside.latency_s;
    if (relays) /* the last segment, into the memory that a node shares and out of it */
        return seconds + costs.copy_s + costs.alone_s;
    struct segment_costs all = costs_of(shape, bytes, bytes, parameters);
    return seconds + 2 * parameters->inside.overhead_s + all.copy_s; /* signal, await, copy */
}
