#include "schedule/compiler.h"

#include "tugboat/tugboat.h"

void tug_compiler_begin(struct tug_compiler *c, struct tug_schedule *schedule,
                        const struct tug_places *places, uint32_t rank) {
    c->schedule = schedule;
    c->places = places;
    c->rank = rank;
    c->node = places->node_of[rank];
    c->node_rank = places->node_rank_of[rank];
    c->node_size = tug_places_node_size(places, c->node);
    tug_schedule_init(schedule, c->node_size);
}

int tug_compiler_end(struct tug_compiler *c) {
    if (!c->schedule->failed)
        return 0;
    tug_schedule_fini(c->schedule);
    return TUG_ERR_NO_MEMORY;
}

/* ---- runs ---- */

uint32_t tug_run_segments(const struct tug_run *run) {
    struct tug_descriptor d = {.elements = run->elements, .segment = run->segment};
    return tug_descriptor_segments(&d);
}

uint32_t tug_run_chunks(const struct tug_run *run) {
    return (tug_run_segments(run) + TUG_CHUNK - 1) / TUG_CHUNK;
}

static struct tug_run cut(const struct tug_run *run, uint64_t from, uint64_t to) {
    to = to < run->elements ? to : run->elements;
    return (struct tug_run){run->begin + from, to - from, run->segment};
}

/* The n-th part, of so many segments each. */
static struct tug_run cut_nth(const struct tug_run *run, uint64_t n, uint64_t segments) {
    uint64_t most = run->segment == 0 ? run->elements : run->segment * segments;
    return cut(run, n * most, (n + 1) * most);
}

struct tug_run tug_run_segment(const struct tug_run *run, uint64_t n) {
    struct tug_run segment = cut_nth(run, n, 1);
    segment.segment = 0;
    return segment;
}

struct tug_run tug_run_chunk(const struct tug_run *run, uint32_t chunk) {
    return cut_nth(run, chunk, TUG_CHUNK);
}

struct tug_run tug_run_part(const struct tug_run *run, uint32_t parts, uint32_t n) {
    uint64_t whole = run->elements / parts, rest = run->elements % parts;
    uint64_t from = whole * n + (n < rest ? n : rest);
    return cut(run, from, from + whole + (n < rest));
}

/* ---- descriptors ---- */

struct tug_descriptor tug_describe(enum tug_kind kind, const struct tug_run *run, uint32_t from,
                                   uint32_t to, uint32_t advances) {
    return (struct tug_descriptor){
        .kind = (uint8_t)kind,
        .elements = run->elements,
        .segment = run->segment,
        .from_area = from,
        .to_area = to,
        .from = run->begin,
        .to = run->begin,
        .steps = 1,
        .advances = advances,
    };
}

void tug_add_nop(struct tug_compiler *c, uint32_t queue, uint32_t segments, uint32_t steps,
                 uint32_t advances) {
    if (segments > 0)
        tug_add(c, queue,
                (struct tug_descriptor){.kind = TUG_NOP,
                                        .elements = segments,
                                        .segment = 1,
                                        .steps = steps,
                                        .advances = advances});
}

void tug_add_message(struct tug_compiler *c, uint32_t queue, enum tug_kind kind, uint32_t peer,
                     uint8_t tag, const struct tug_run *run, uint32_t area, uint32_t advances) {
    struct tug_descriptor d = tug_describe(kind, run, area, area, advances);
    d.peer = peer;
    d.tag = tag;
    tug_add(c, queue, d);
}

void tug_add_ring(struct tug_compiler *c, uint32_t queue, enum tug_kind kind, uint32_t node_rank,
                  const struct tug_run *run, uint32_t to, uint32_t position, uint32_t advances) {
    struct tug_descriptor d = tug_describe(kind, run, TUG_AREA_NONE, to, advances);
    d.peer = node_rank;
    d.position = position;
    tug_add(c, queue, d);
}

/* ---- rings ---- */

static bool reads_ring(uint8_t kind) {
    return kind == TUG_COLLECT || kind == TUG_AWAIT || kind == TUG_GATHER_REDUCE ||
           kind == TUG_GATHER_FOLD;
}

void tug_compiler_settle(struct tug_compiler *c, uint32_t number) {
    struct tug_schedule *schedule = c->schedule;
    const struct tug_queue *queue = &schedule->queues[number];
    if (schedule->failed)
        return;
    /* from the end: `first` is what is needed next, and at last what is needed first */
    for (uint32_t w = 0; w < schedule->node_size; w++)
        schedule->first[w] = schedule->passes[w];
    for (uint32_t i = queue->count; i-- > 0;) {
        struct tug_descriptor *d = &queue->descriptors[i];
        if (!reads_ring(d->kind))
            continue;
        d->release = schedule->first[d->peer];
        schedule->first[d->peer] = d->position;
    }
}
