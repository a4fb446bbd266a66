#include "persistent/calibrate.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/park.h"
#include "host/agreement.h"
#include "host/host.h"
#include "host/polite.h"
#include "persistent/channel.h"
#include "persistent/copy.h"
#include "persistent/far.h"
#include "persistent/interpreter.h"
#include "schedule/bcast.h"
#include "tugboat/tugboat.h"

#define SEGMENT 65536
#define SEGMENT_CROWDED 262144
#define TINY 64
#define RUNS_MOST 64
#define BURST 8 /* messages of a stream */
#define TRIPS 4 /* there and back, timed together */
#define LARGE_FROM 65536
#define FAR_MESSAGE ((uint64_t)1 << 20)
#define SIZES 10 /* of messages between nodes */
#define RINGFULS 8
#define COPIERS_MOST 1024 /* what a file may say */
#define RINGS 2           /* of the channel, for two roots */

struct effort {
    uint64_t point_ns;   /* for each size, if it takes long */
    unsigned runs;       /* at least */
    uint64_t bytes_most; /* inside a node */
    uint64_t far_bytes;  /* between nodes, a stream that no cache holds */
};

static const struct effort efforts[] = {
    [TUG_EFFORT_SHORT] = {500000, 3, (uint64_t)4 << 20, (uint64_t)16 << 20},
    [TUG_EFFORT_THOROUGH] = {200000000, 9, (uint64_t)64 << 20, (uint64_t)64 << 20},
};

struct calibration {
    struct tug_team *team;
    const struct effort *effort;
    struct tug_channel *channel;
    struct tug_places node; /* the largest node, or its first ranks, as if they were all */
    uint32_t node_number;
    uint32_t ntakers; /* ranks of it that take part: a ring's reads of others stay as they are */
    int peer;         /* of the two that measure between nodes, the other one; < 0: neither */
    unsigned char *buffer; /* room for the longest; NULL: this rank measures nothing */
    uint64_t segment;
    struct tug_model_parameters *parameters;
    struct tug_far_stream *streams[2]; /* from, to the other rank that is measured; NULL: messages
                                          of the host's */
    struct tug_far_memory memory;      /* the buffer, for them */
};

/* ---- waiting ---- */

/* All ranks meet. Those that come early leave their cores to those who measure. */
static int meet(const struct tug_team *team) {
    return TUG_POLITE(Ibarrier, team->comm) == MPI_SUCCESS ? 0 : TUG_ERR_MPI;
}

static int by_time(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The lower quartile: what lies above has been held up by others on the machine. */
static double typical_s(uint64_t *times_ns, unsigned n) {
    qsort(times_ns, n, sizeof(*times_ns), by_time);
    return (double)times_ns[n / 4] * 1e-9;
}

/* ---- inside a node ---- */

/* A broadcast to rehearse. With two roots the first two ranks broadcast in turn, each when it has
 * the other's: that is how long a run takes. With one the first broadcasts all the time: that is
 * how much goes through. */
struct rehearsal {
    uint32_t roots;
    uint64_t bytes, segment;
    unsigned runs; /* that are timed together: a root alone can be a ring ahead of the others */
    struct tug_interpreter interpreters[2];
    double seconds; /* of one run, on the first rank */
};

#define REHEARSALS_MOST (2 + TUG_COPY_SPEEDS)

static int open_interpreter(const struct calibration *c, const struct rehearsal *rehearsal,
                            uint32_t root, const struct tug_area_memory *areas,
                            struct tug_interpreter *interpreter) {
    const struct tug_bcast_plan plan = {.algorithm = TUG_CHAIN,
                                        .phases = TUG_RELAY,
                                        .root = root,
                                        .elements = rehearsal->bytes,
                                        .segment = rehearsal->segment};
    interpreter->team = c->team;
    tug_interpreter_bind(interpreter, c->channel, true);
    interpreter->areas = areas;
    interpreter->streams = rehearsal->bytes >= tug_copy_cache_share(c->team->node_size);
    int error =
        tug_compile_bcast(&interpreter->schedule, &c->node, &plan, (uint32_t)c->team->node_rank);
    return error ? error : tug_interpreter_init(interpreter);
}

static void run(struct tug_interpreter *interpreter) {
    struct tug_backoff backoff = {0};
    bool done = false;
    tug_interpreter_start(interpreter);
    while (!done)
        if (tug_interpreter_advance(interpreter, &done))
            tug_backoff_reset(&backoff);
        else if (!done)
            tug_backoff_relax(&backoff);
}

static void rehearse(const struct calibration *c, struct rehearsal *rehearsal) {
    uint64_t times[RUNS_MOST];
    unsigned n = 0;
    unsigned char *last_byte = &c->buffer[rehearsal->bytes - 1];
    uint64_t begun = tug_clock_ns();
    /* the last byte says whether these are the last: the first rank looks at the clock */
    for (bool more = true; more; n++) {
        if (rehearsal->runs == 1 && c->team->node_rank == 0) /* programs write what they send */
            memset(c->buffer, (int)n, rehearsal->bytes);
        uint64_t start = tug_clock_ns();
        bool last =
            n + 1 == RUNS_MOST || (n >= c->effort->runs && start - begun > c->effort->point_ns);
        if (c->team->node_rank == 0)
            *last_byte = !last;
        for (unsigned i = 0; i < rehearsal->runs; i++)
            for (uint32_t root = 0; root < rehearsal->roots; root++)
                run(&rehearsal->interpreters[root]);
        more = *last_byte;
        times[n] = tug_clock_ns() - start;
    }
    double all_s = n > 1 ? typical_s(times + 1, n - 1) : 0; /* the first touches the memory */
    rehearsal->seconds = all_s / rehearsal->runs / rehearsal->roots;
}

static double at_least(double value, double least) {
    return value > least ? value : least;
}

/* From single ones, many tiny segments, and messages of growing size. What crowding adds is taken
 * out: the model adds it again. */
static void learn_inside(const struct calibration *c, const struct rehearsal *done, unsigned n) {
    struct tug_model_parameters *p = c->parameters;
    double crowd = (double)c->ntakers / p->copiers;
    crowd = crowd > 1 ? crowd : 1;
    p->inside.overhead_s = at_least((done[1].seconds - done[0].seconds) / (TINY - 1), 0) / crowd;
    p->inside.latency_s = at_least(done[0].seconds - (1 + crowd) * p->inside.overhead_s, 0);
    p->inside.gap_s = 0;
    p->ncopies = 0;
    for (unsigned i = 2; i < n; i++) {
        double copy_s = done[i].seconds / ((double)(done[i].bytes / done[i].segment) * crowd);
        /* where noise makes single segments slow, some of the time still is the copy's */
        double bare_s = copy_s - p->inside.overhead_s;
        bare_s = bare_s > copy_s / 4 ? bare_s : copy_s / 4;
        p->copies[p->ncopies++] =
            (struct tug_copy_speed){done[i].bytes, bare_s / (double)done[i].segment};
    }
    p->inside.byte_s = p->copies[0].byte_s;
    p->segment_most = c->segment;
}

static bool takes_part(const struct calibration *c) {
    const struct tug_team *team = c->team;
    return team->places.node_of[team->rank] == c->node_number &&
           (uint32_t)team->node_rank < c->ntakers;
}

/* Those of the node who have not taken part go on where those are who have. */
static int catch_up(const struct calibration *c) {
    struct tug_team *team = c->team;
    uint64_t at[RINGS];
    for (uint32_t i = 0; i < RINGS; i++)
        at[i] = c->channel->rings[i].position;
    if (TUG_POLITE(Ibcast, at, RINGS, MPI_UINT64_T, 0, team->node_comm) != MPI_SUCCESS)
        return TUG_ERR_MPI;
    for (uint32_t i = 0; i < RINGS && !takes_part(c); i++) {
        struct tug_segment_ring *ring = &c->channel->rings[i];
        ring->position = at[i];
        atomic_store(&ring->reads[team->node_rank].count, at[i]);
    }
    return 0;
}

static int rehearse_all(const struct calibration *c) {
    struct rehearsal list[REHEARSALS_MOST] = {
        {.roots = 2, .bytes = 8, .segment = 8, .runs = RINGFULS},
        {.roots = 2, .bytes = (uint64_t)TINY * TINY, .segment = TINY, .runs = 1},
    };
    struct tug_area_memory areas[TUG_AREA_BLOCKS];
    unsigned n = 2;
    int error = 0;
    for (int a = 0; a < TUG_AREA_BLOCKS; a++)
        areas[a] = (struct tug_area_memory){
            .base = c->buffer, .type = MPI_BYTE, .count = 1, .extent = 1, .dense = true};
    for (uint64_t bytes = c->segment; bytes <= c->effort->bytes_most; bytes *= 4) {
        uint64_t segment = bytes / 4 < c->segment ? bytes / 4 : c->segment;
        unsigned runs = (unsigned)(RINGFULS * TUG_SEGMENT_SLOTS * segment / bytes);
        list[n++] = (struct rehearsal){
            .roots = 1, .bytes = bytes, .segment = segment, .runs = runs > 0 ? runs : 1};
    }
    for (unsigned i = 0; i < n; i++)
        for (uint32_t root = 0; root < list[i].roots && !error; root++)
            error = open_interpreter(c, &list[i], root, areas, &list[i].interpreters[root]);
    if (!tug_all_agree(c->team->node_comm, !error))
        error = TUG_ERR_NO_MEMORY;
    for (unsigned i = 0; i < n && !error; i++)
        rehearse(c, &list[i]);
    for (unsigned i = 0; i < n; i++)
        for (uint32_t root = 0; root < list[i].roots; root++)
            tug_interpreter_fini(&list[i].interpreters[root]);
    if (!error)
        learn_inside(c, list, n);
    return error;
}

/* On all ranks of the node. */
static int measure_inside(const struct calibration *c) {
    if (takes_part(c)) {
        const int error = rehearse_all(c);
        if (error)
            return error;
    } else if (!tug_all_agree(c->team->node_comm, true)) {
        return TUG_ERR_NO_MEMORY;
    }
    return c->ntakers < (uint32_t)c->team->node_size ? catch_up(c) : 0;
}

/* ---- between nodes ---- */

enum { IN, OUT, WAYS };
enum { COMES = 1 << IN, GOES = 1 << OUT };

/* Of a stream, so many are under way at a time, as of an interpreter. */
struct under_way {
    bool out[WAYS];
    MPI_Request requests[WAYS]; /* by the host */
    uint64_t numbers[WAYS];     /* by streams */
};

/* One message; as interpreters send them. */
static bool begin(const struct calibration *c, int way, int peer, unsigned char *data,
                  uint64_t bytes, struct under_way *it) {
    const int tag = c->channel->index * TUG_CHANNEL_TAGS;
    const MPI_Count n = (MPI_Count)bytes;
    it->out[way] = true;
    if (c->streams[way] != NULL) {
        it->numbers[way] = tug_far_begin(c->streams[way], data, bytes,
                                         c->memory.registration != NULL ? &c->memory : NULL);
        return true;
    }
    return way == IN ? tug_host.Irecv_c(data, n, MPI_BYTE, peer, tag, c->team->comm,
                                        &it->requests[IN]) == MPI_SUCCESS
                     : tug_host.Isend_c(data, n, MPI_BYTE, peer, tag, c->team->comm,
                                        &it->requests[OUT]) == MPI_SUCCESS;
}

/* Looks once after all of them, and whether that one is over. */
static bool look(const struct calibration *c, struct under_way all[TUG_IN_FLIGHT_MOST],
                 struct under_way *it, bool *over) {
    bool moved;
    if (c->streams[OUT] != NULL)
        tug_far_look(c->team);
    for (int i = 0; i < TUG_IN_FLIGHT_MOST && c->streams[OUT] != NULL; i++)
        if (all[i].out[OUT])
            (void)tug_far_push(c->streams[OUT], all[i].numbers[OUT]);
    *over = true;
    for (int way = IN; way < WAYS; way++) {
        int flag = 0;
        if (!it->out[way])
            continue;
        if (c->streams[way] != NULL)
            flag = tug_far_move(c->streams[way], it->numbers[way], &moved);
        else if (tug_host.Test(&it->requests[way], &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return false;
        it->out[way] = !flag;
        *over &= flag;
    }
    return c->streams[OUT] == NULL || tug_far_error(&c->streams[OUT]->ring) == 0;
}

static bool wait_for(const struct calibration *c, struct under_way all[TUG_IN_FLIGHT_MOST],
                     struct under_way *it) {
    struct tug_backoff backoff = {0};
    bool over = false;
    for (;;) {
        if (!look(c, all, it, &over))
            return false;
        if (over)
            return true;
        tug_backoff_relax(&backoff);
    }
}

/* `n` messages, each way that is wanted, one behind another in the buffer. */
static bool pass(const struct calibration *c, unsigned ways, int peer, uint64_t bytes, unsigned n) {
    struct under_way all[TUG_IN_FLIGHT_MOST] = {0};
    for (unsigned i = 0; i < n + TUG_IN_FLIGHT_MOST; i++) {
        struct under_way *it = &all[i % TUG_IN_FLIGHT_MOST];
        if (i >= TUG_IN_FLIGHT_MOST && i - TUG_IN_FLIGHT_MOST < n && !wait_for(c, all, it))
            return false;
        for (int way = IN; way < WAYS && i < n; way++)
            if ((ways >> way & 1) != 0 &&
                !begin(c, way, peer, c->buffer + i % n * bytes, bytes, it))
                return false;
    }
    return true;
}

/* Times of messages of one size between two ranks: streams there and back at once; one there and
 * one back, a few times; a stream there and one back. */
enum { EXCHANGE, TRIP, STREAM, MEASURES };

struct point {
    uint64_t bytes;
    unsigned trips, burst;
    unsigned runs;
    uint64_t spent_ns;
    uint64_t times_ns[MEASURES][RUNS_MOST];
};

/* There, then back. */
static bool pass_both(const struct calibration *c, int peer, uint64_t bytes, unsigned n) {
    unsigned first = c->team->rank < peer ? GOES : COMES;
    return pass(c, first, peer, bytes, n) && pass(c, (COMES | GOES) & ~first, peer, bytes, n);
}

static bool time_point(const struct calibration *c, int peer, struct point *point) {
    uint64_t start = tug_clock_ns();
    if (!pass(c, COMES | GOES, peer, point->bytes, point->burst))
        return false;
    uint64_t exchanged = tug_clock_ns();
    for (unsigned i = 0; i < point->trips; i++)
        if (!pass_both(c, peer, point->bytes, 1))
            return false;
    uint64_t tripped = tug_clock_ns();
    if (!pass_both(c, peer, point->bytes, point->burst))
        return false;
    uint64_t end = tug_clock_ns();
    point->times_ns[EXCHANGE][point->runs] = exchanged - start;
    point->times_ns[TRIP][point->runs] = (tripped - exchanged) / 2 / point->trips;
    point->times_ns[STREAM][point->runs] = (end - tripped) / 2;
    point->spent_ns += end - start;
    point->runs++;
    return true;
}

/* All sizes in turn, so that what disturbs the machine for a while disturbs a run of each, until
 * each has had its share of time. The first of the two says who is next. */
static bool time_points(const struct calibration *c, int peer, struct point *points) {
    bool first = c->team->rank < peer;
    for (uint32_t wanted = 1; wanted != 0;) {
        wanted = 0;
        for (unsigned i = 0; i < SIZES; i++) {
            unsigned enough =
                points[i].spent_ns > c->effort->point_ns ? c->effort->runs : RUNS_MOST;
            wanted |= (uint32_t)(points[i].runs < enough) << i;
        }
        memcpy(c->buffer, &wanted, sizeof(wanted));
        if (!pass(c, first ? GOES : COMES, peer, sizeof(wanted), 1))
            return false;
        memcpy(&wanted, c->buffer, sizeof(wanted));
        for (unsigned i = 0; i < SIZES; i++)
            if ((wanted >> i & 1) != 0 && !time_point(c, peer, &points[i]))
                return false;
    }
    return true;
}

/* A stream through more memory than caches hold: seconds a byte, on the first of the two. */
static bool time_far(const struct calibration *c, int peer, double *byte_s) {
    unsigned n = (unsigned)(c->effort->far_bytes / FAR_MESSAGE);
    memset(c->buffer, 1, c->effort->far_bytes); /* as above */
    if (!pass_both(c, peer, 1, 1))
        return false;
    uint64_t start = tug_clock_ns();
    if (!pass_both(c, peer, FAR_MESSAGE, n))
        return false;
    *byte_s = (double)(tug_clock_ns() - start) * 1e-9 / 2 / ((double)n * FAR_MESSAGE);
    return true;
}

/* The first run has touched the memory. What a processor needs for a message is what it takes
 * longer to send while one comes in. Where noise makes single messages slow, some of the time still
 * is the stream's. */
static struct tug_transfer_speed learn_transfer(struct point *point) {
    double seconds[MEASURES];
    for (int m = 0; m < MEASURES; m++)
        seconds[m] = typical_s(point->times_ns[m] + 1, point->runs - 1);
    struct tug_transfer_speed speed = {.bytes = point->bytes, .trip_s = seconds[TRIP]};
    speed.interval_s = at_least((seconds[STREAM] - seconds[TRIP]) / (point->burst - 1),
                                seconds[STREAM] / (2 * point->burst));
    double both_s = (seconds[EXCHANGE] - seconds[TRIP]) / (point->burst - 1);
    speed.handle_s = at_least(both_s - speed.interval_s, 0);
    speed.handle_s = speed.handle_s < speed.interval_s ? speed.handle_s : speed.interval_s;
    return speed;
}

/* The line of LogGP for people and for the simulator's processors, as the shortest and the longest
 * message tell it; times are predicted by the table. */
static void draw_line(struct tug_model_parameters *p) {
    const struct tug_transfer_speed *least = &p->transfers[0], *most = &p->transfers[SIZES - 1];
    const double bytes = (double)(most->bytes - least->bytes);
    p->between = (struct tug_loggp){.latency_s = at_least(least->trip_s - 2 * least->handle_s, 0),
                                    .overhead_s = least->handle_s,
                                    .gap_s = least->interval_s,
                                    .byte_s = (most->interval_s - least->interval_s) / bytes};
    if (p->between.byte_s <= 0) /* noise alone: the longest trip was all data */
        p->between.byte_s = at_least(most->trip_s, 1e-9) / (double)most->bytes;
}

/* Streams between the two ranks, where collectives would have them; there and back. Collective over
 * the team. */
static int open_streams(struct calibration *c) {
    struct tug_team *team = c->team;
    const int peer = c->peer;
    bool ready = true;
    if (!tug_far_prepare(team))
        return 0;
    const bool direct =
        peer >= 0 && tug_far_register(team, c->buffer, c->effort->far_bytes, &c->memory);
    for (int way = IN; way < WAYS && peer >= 0; way++) {
        const struct tug_far_need need = {.peer = (uint32_t)peer,
                                          .sends = way == OUT,
                                          .direct = direct,
                                          .longest = c->effort->far_bytes};
        c->streams[way] = tug_far_want(team, c->channel, &need);
        ready &= c->streams[way] != NULL;
    }
    const int error = tug_far_open(team, c->channel, ready);
    if (error)
        c->streams[IN] = c->streams[OUT] = NULL;
    return error == TUG_ERR_NO_MEMORY ? 0 : error;
}

static int measure_between(const struct calibration *c) {
    static const uint64_t sizes[SIZES] = {8,     1024,  2048,  4096,   8192,
                                          16384, 32768, 65536, 262144, 1048576};
    struct tug_model_parameters *p = c->parameters;
    struct point points[SIZES] = {0};
    for (unsigned i = 0; i < SIZES; i++) {
        points[i].bytes = sizes[i];
        points[i].trips = sizes[i] < LARGE_FROM ? TRIPS : 1;
        points[i].burst = sizes[i] < LARGE_FROM ? BURST : BURST / 2;
    }
    if (!time_points(c, c->peer, points) || !time_far(c, c->peer, &p->far_byte_s))
        return TUG_ERR_MPI;
    p->ntransfers = SIZES;
    for (unsigned i = 0; i < SIZES; i++)
        p->transfers[i] = learn_transfer(&points[i]);
    draw_line(p);
    p->between_is_guess = 0;
    return 0;
}

/* ---- all ---- */

static uint32_t largest_node(const struct tug_places *places) {
    uint32_t best = 0;
    for (uint32_t n = 1; n < places->nnodes; n++)
        if (tug_places_node_size(places, n) > tug_places_node_size(places, best))
            best = n;
    return best;
}

/* Who measures: the first ranks of the largest node, and the first of two nodes. */
static void cast(struct calibration *c) {
    const struct tug_team *team = c->team;
    const struct tug_places *places = &team->places;
    c->node_number = largest_node(places);
    c->ntakers = tug_team_takers(team, tug_places_node_size(places, c->node_number));
    c->peer = -1;
    if (team->nnodes < 2)
        return;
    const int first = (int)tug_places_rank(places, 0, 0);
    const int second = (int)tug_places_rank(places, 1, 0);
    c->peer = team->rank == first ? second : team->rank == second ? first : -1;
}

static int prepare(struct calibration *c) {
    struct tug_team *team = c->team;
    cast(c);
    c->segment = team->oversubscribed ? SEGMENT_CROWDED : SEGMENT;
    const uint64_t bytes = c->peer >= 0    ? c->effort->far_bytes
                           : takes_part(c) ? c->effort->bytes_most
                                           : 0;
    c->buffer = bytes > 0 ? malloc(bytes) : NULL;
    if (c->buffer != NULL)
        memset(c->buffer, 1, bytes);
    int error = tug_places_uniform(&c->node, 1, c->ntakers);
    const struct tug_channel_needs needs = {.slot_bytes = c->segment,
                                            .rings = c->ntakers > 1 ? RINGS : 0};
    struct tug_ballot ballot = {.willing = (bytes == 0 || c->buffer != NULL) && !error};
    int taken = tug_channel_take(team, &needs, &ballot, &c->channel);
    if (taken)
        c->channel = NULL;
    return taken == TUG_ERR_INVALID ? TUG_ERR_NO_MEMORY : taken;
}

/* Each part while the other ranks wait. The first of those measured knows, and tells. */
static int measure(struct calibration *c) {
    struct tug_team *team = c->team;
    const struct tug_places *places = &team->places;
    struct tug_model_parameters *p = c->parameters;
    int error = 0;
    p->copiers = team->cores < COPIERS_MOST ? team->cores : COPIERS_MOST;
    if (c->ntakers > 1) {
        if (places->node_of[team->rank] == c->node_number)
            error = measure_inside(c);
        if (meet(team) != 0)
            return TUG_ERR_MPI;
        TUG_POLITE(Ibcast, p, sizeof(*p), MPI_BYTE, (int)tug_places_rank(places, c->node_number, 0),
                   team->comm);
    }
    if (team->nnodes > 1) {
        if (open_streams(c) != 0)
            return TUG_ERR_MPI;
        if (!error && c->peer >= 0)
            error = measure_between(c);
        if (meet(team) != 0)
            return TUG_ERR_MPI;
        TUG_POLITE(Ibcast, p, sizeof(*p), MPI_BYTE, (int)tug_places_rank(places, 0, 0), team->comm);
    }
    return error;
}

/* Times the ranks that share a core. Over TCP on two cores without other work a message of a
 * broadcast took 20 to 60 us longer than the pair that was measured with 1.5, 2 and 3 ranks to a
 * core, and 75 to 150 where the machine had other work; 35 us predicts both best. */
#define TURN_S 35e-6

void tug_calibrate_crowd(const struct tug_team *team, struct tug_model_parameters *parameters) {
    if (team->crowd <= 1)
        return;
    parameters->crowd = team->crowd;
    parameters->turn_s = TURN_S * team->crowd;
}

int tug_calibrate(struct tug_team *team, enum tug_effort effort,
                  struct tug_model_parameters *parameters) {
    struct calibration c = {.team = team, .effort = &efforts[effort], .parameters = parameters};
    (void)tug_model_named("default", parameters);
    int error = prepare(&c);
    if (!error)
        error = measure(&c);
    tug_calibrate_crowd(team, parameters);
    if (c.memory.registration != NULL)
        tug_far_release(team, &c.memory);
    if (c.channel != NULL)
        tug_channel_release(team, c.channel);
    tug_places_fini(&c.node);
    free(c.buffer);
    int64_t worst = -error; /* TUG_ERR_* are negative */
    (void)tug_agree(team->comm, MPI_MAX, &worst, 1);
    return -(int)worst;
}
