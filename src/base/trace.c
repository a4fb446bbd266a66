/*
 * The rings of records, what is passed over, and how they are printed. See trace.h.
 */
#include "base/trace.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"
#include "tugboat/tugboat.h"

#define PASSED_OVER_MOST 4095u

struct record {
    _Atomic uint64_t begin_ns, end_ns, amount;
    _Atomic uint16_t kind, why;
};

/* Of one kind on one thread. */
struct sample {
    uint64_t last_ns;  /* when the last record ended */
    uint64_t amount;   /* what has been passed over since */
    uint32_t passover; /* how many are passed over between two records */
    uint32_t left;     /* how many of them are to come */
};

struct ring {
    struct record records[TUG_TRACE_RECORDS];
    _Atomic uint64_t written; /* records so far; the newest TUG_TRACE_RECORDS of them are there */
    _Atomic(const char *) name;
    struct sample samples[TUG_TRACE_KIND_COUNT]; /* the thread's own */
};

struct look {
    const char *room, *name;
    enum tug_trace_shape shape;
};

#define LOOK_ROW(NAME, shape, room, name) {room, name, TUG_TRACE_##shape},
static const struct look looks[] = {TUG_TRACE_KINDS(LOOK_ROW)};

#define WHY_ROW(NAME, name) name,
static const char *const whys[] = {TUG_TRACE_WHYS(WHY_ROW)};

bool tug_trace_on;

static struct ring *rings;      /* TUG_TRACE_THREADS of them */
static _Atomic uint32_t nrings; /* taken, and asked for in vain */
static uint32_t generation;     /* of rings, for tests that begin anew */
static uint64_t began_ns;       /* CLOCK_MONOTONIC */
static uint64_t calendar_ns;    /* the same moment by CLOCK_REALTIME */

static _Thread_local struct ring *own;
static _Thread_local uint32_t own_generation;

static uint64_t calendar(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool tug_trace_start(void) {
    if (rings != NULL)
        return true;
    void *memory = mmap(NULL, TUG_TRACE_THREADS * sizeof(struct ring), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    rings = memory;
    generation++;
    calendar_ns = calendar();
    began_ns = tug_clock_ns();
    tug_trace_on = true;
    return true;
}

void tug_trace_stop(void) {
    tug_trace_on = false;
}

void tug_trace_reset(void) {
    tug_trace_stop();
    if (rings != NULL)
        munmap(rings, TUG_TRACE_THREADS * sizeof(struct ring));
    rings = NULL;
    atomic_store(&nrings, 0);
}

/* The first time of each thread. */
static void find_ring(void) {
    own_generation = generation;
    const uint32_t number = atomic_fetch_add_explicit(&nrings, 1, memory_order_relaxed);
    own = number < TUG_TRACE_THREADS ? &rings[number] : NULL;
}

/* NULL: this thread leaves no records. */
static struct ring *own_ring(void) {
    if (__builtin_expect(own_generation != generation, 0))
        find_ring();
    return own;
}

void tug_trace_name_thread(const char *name) {
    struct ring *ring = tug_trace_on ? own_ring() : NULL;
    if (ring != NULL)
        atomic_store_explicit(&ring->name, name, memory_order_relaxed);
}

/* Records nearer to one another than the gap: twice as many are passed over from now on, and half
 * as many where they are far apart. */
static void pace(struct sample *sample, uint64_t now_ns) {
    const uint64_t gap_ns = now_ns - sample->last_ns;
    if (gap_ns < TUG_TRACE_GAP_NS && sample->passover < PASSED_OVER_MOST)
        sample->passover = 2 * sample->passover + 1;
    else if (gap_ns > 4 * (uint64_t)TUG_TRACE_GAP_NS)
        sample->passover /= 2;
    sample->left = sample->passover;
    sample->last_ns = now_ns;
    sample->amount = 0;
}

static void append(struct ring *ring, enum tug_trace_kind kind, enum tug_trace_why why,
                   uint64_t begin_ns, uint64_t end_ns, uint64_t amount) {
    const uint64_t position = atomic_load_explicit(&ring->written, memory_order_relaxed);
    struct record *record = &ring->records[position % TUG_TRACE_RECORDS];
    atomic_store_explicit(&record->begin_ns, begin_ns, memory_order_relaxed);
    atomic_store_explicit(&record->end_ns, end_ns, memory_order_relaxed);
    atomic_store_explicit(&record->amount, amount, memory_order_relaxed);
    atomic_store_explicit(&record->kind, (uint16_t)kind, memory_order_relaxed);
    atomic_store_explicit(&record->why, (uint16_t)why, memory_order_relaxed);
    /* release: pairs with the acquire in print_ring: the record is there */
    atomic_store_explicit(&ring->written, position + 1, memory_order_release);
}

uint64_t tug_trace_now(void) {
    return tug_clock_ns();
}

uint64_t tug_trace_take(enum tug_trace_kind kind) {
    struct ring *ring = own_ring();
    if (ring == NULL)
        return 0;
    struct sample *sample = &ring->samples[kind];
    if (sample->left == 0)
        return tug_clock_ns();
    sample->left--;
    sample->amount++;
    return 0;
}

void tug_trace_write(enum tug_trace_kind kind, enum tug_trace_why why, uint64_t begin_ns) {
    struct ring *ring = own_ring();
    if (ring == NULL || !tug_trace_on)
        return;
    struct sample *sample = &ring->samples[kind];
    const uint64_t now_ns = tug_clock_ns();
    append(ring, kind, why, begin_ns, now_ns, sample->amount + 1);
    pace(sample, now_ns);
}

void tug_trace_count_more(enum tug_trace_kind kind, uint64_t amount) {
    struct ring *ring = own_ring();
    if (ring == NULL)
        return;
    struct sample *sample = &ring->samples[kind];
    sample->amount += amount;
    if (sample->left > 0) {
        sample->left--;
        return;
    }
    const uint64_t now_ns = tug_clock_ns();
    append(ring, kind, TUG_TRACE_BY_UNSAID, 0, now_ns, sample->amount);
    pace(sample, now_ns);
}

/* ---- printing ---- */

uint64_t tug_trace_began_ns(void) {
    return calendar_ns;
}

/* To where the timeline of this process is moved. */
struct place {
    int rank;
    int64_t shift_ns;
    uint64_t run; /* numbers runs */
};

/* Microseconds on the timeline, as JSON has them. */
static void print_time(FILE *out, const char *key, int64_t ns) {
    const uint64_t size = ns < 0 ? (uint64_t)-ns : (uint64_t)ns;
    fprintf(out, ",\"%s\":%s%" PRIu64 ".%03" PRIu64, key, ns < 0 ? "-" : "", size / 1000,
            size % 1000);
}

static void print_begin(FILE *out, const struct look *look, char phase, const struct place *place,
                        uint32_t thread) {
    fprintf(out, "{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"%c\",\"pid\":%d,\"tid\":%u", look->name,
            look->room, phase, place->rank, thread);
}

static void print_arguments(FILE *out, const char *key, uint64_t amount, unsigned why) {
    fprintf(out, ",\"args\":{\"%s\":%" PRIu64, key, amount);
    if (why != TUG_TRACE_BY_UNSAID && why < TUG_TRACE_WHY_COUNT)
        fprintf(out, ",\"ended by\":\"%s\"", whys[why]);
    fprintf(out, "}},\n");
}

static void print_record(FILE *out, const struct record *record, uint32_t thread,
                         struct place *place) {
    const unsigned kind = atomic_load_explicit(&record->kind, memory_order_relaxed);
    const unsigned why = atomic_load_explicit(&record->why, memory_order_relaxed);
    const uint64_t amount = atomic_load_explicit(&record->amount, memory_order_relaxed);
    const int64_t begin_ns =
        (int64_t)atomic_load_explicit(&record->begin_ns, memory_order_relaxed) + place->shift_ns;
    const int64_t end_ns =
        (int64_t)atomic_load_explicit(&record->end_ns, memory_order_relaxed) + place->shift_ns;
    const struct look *look = &looks[kind];
    switch (look->shape) {
    case TUG_TRACE_SPAN:
        print_begin(out, look, 'X', place, thread);
        print_time(out, "ts", begin_ns);
        print_time(out, "dur", end_ns - begin_ns);
        print_arguments(out, "stands for", amount, why);
        return;
    case TUG_TRACE_RUN:
        place->run++;
        print_begin(out, look, 'b', place, thread);
        fprintf(out, ",\"id\":\"%d.%" PRIu64 "\"", place->rank, place->run);
        print_time(out, "ts", begin_ns);
        print_arguments(out, "stands for", amount, why);
        print_begin(out, look, 'e', place, thread);
        fprintf(out, ",\"id\":\"%d.%" PRIu64 "\"", place->rank, place->run);
        print_time(out, "ts", end_ns);
        fprintf(out, "},\n");
        return;
    default:
        print_begin(out, look, 'i', place, thread);
        fprintf(out, ",\"s\":\"t\"");
        print_time(out, "ts", end_ns);
        print_arguments(out, "number", amount, why);
    }
}

static void print_name(FILE *out, const char *what, int rank, uint32_t thread, const char *name,
                       uint32_t number) {
    fprintf(out,
            "{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%d,\"tid\":%u,\"args\":{\"name\":\"%s %u\"}},\n",
            what, rank, thread, name, number);
}

static void print_number(FILE *out, int rank, uint32_t thread, const char *name, uint64_t number) {
    if (number > 0)
        fprintf(out,
                "{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%d,\"tid\":%u,\"args\":{\"number\":%" PRIu64
                "}},\n",
                name, rank, thread, number);
}

/* What is yet to be recorded of counts is told as of now. */
static void print_rest(FILE *out, const struct ring *ring, uint32_t number,
                       const struct place *place) {
    for (unsigned kind = 0; kind < TUG_TRACE_KIND_COUNT; kind++) {
        const uint64_t amount = ring->samples[kind].amount;
        if (looks[kind].shape != TUG_TRACE_COUNT || amount == 0)
            continue;
        print_begin(out, &looks[kind], 'i', place, number);
        fprintf(out, ",\"s\":\"t\"");
        print_time(out, "ts", (int64_t)tug_clock_ns() + place->shift_ns);
        print_arguments(out, "number", amount, TUG_TRACE_BY_UNSAID);
    }
}

static void print_ring(FILE *out, const struct ring *ring, uint32_t number, struct place *place) {
    /* acquire: pairs with the release in append */
    const uint64_t written = atomic_load_explicit(&ring->written, memory_order_acquire);
    const uint64_t first = written > TUG_TRACE_RECORDS ? written - TUG_TRACE_RECORDS : 0;
    const char *name = atomic_load_explicit(&ring->name, memory_order_relaxed);
    print_name(out, "thread_name", place->rank, number, name != NULL ? name : "thread", number);
    print_number(out, place->rank, number, "records overwritten", first);
    for (uint64_t i = first; i < written; i++)
        print_record(out, &ring->records[i % TUG_TRACE_RECORDS], number, place);
    print_rest(out, ring, number, place);
}

void tug_trace_print(FILE *out, int rank, uint64_t origin_ns) {
    struct place place = {.rank = rank,
                          .shift_ns = (int64_t)(calendar_ns - origin_ns) - (int64_t)began_ns};
    const uint32_t asked = atomic_load_explicit(&nrings, memory_order_relaxed);
    print_name(out, "process_name", rank, 0, "rank", (uint32_t)rank);
    if (asked > TUG_TRACE_THREADS)
        print_number(out, rank, 0, "threads without records", asked - TUG_TRACE_THREADS);
    for (uint32_t i = 0; i < asked && i < TUG_TRACE_THREADS; i++)
        print_ring(out, &rings[i], i, &place);
}

void tug_trace_print_head(FILE *out, int nranks) {
    fprintf(out,
            "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"tugboat\":\"%s\",\"ranks\":%d},\n"
            "\"traceEvents\":[\n",
            tug_version(), nranks);
}

void tug_trace_print_tail(FILE *out) {
    fprintf(out, "{\"name\":\"end\",\"ph\":\"M\",\"pid\":0,\"tid\":0,\"args\":{}}\n]}\n");
}
