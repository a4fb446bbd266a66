/* Every compiler of schedules, for 1 to 9 ranks (exchanges: to 20) on nodes of any shape, in random
 * orders of events (schedule_runner.h), three runs each. Sums commute; products of 2 x 2 matrices
 * of 16-bit numbers do not, and so show the order in which they were taken. */
#include <inttypes.h>

#include "check.h"
#include "schedule/bcast.h"
#include "schedule/collectives.h"
#include "schedule_runner.h"

#define RANKS 20
#define RANKS_OF_OTHERS 9
#define RUNS 3
#define MESSAGES 24
#define BLOCKS (3 * MESSAGES)

enum what {
    BCAST,
    BARRIER,
    REDUCE,
    ALLREDUCE,
    SCAN,
    EXSCAN,
    REDUCE_SCATTER,
    ALLGATHER,
    GATHER,
    SCATTER,
    EXCHANGE,
    CYCLE
};

struct scene {
    enum what what;
    uint64_t seed;
    uint32_t n, root;
    struct tug_places places;
    struct tug_bcast_plan bcast;
    struct tug_reduce_plan reduce;
    struct tug_gather_plan gather;
    struct tug_exchange_plan exchange[RANKS];
    struct tug_message sends[RANKS][MESSAGES], receives[RANKS][MESSAGES];
    uint64_t counts[RANKS];
    uint64_t elements;
    bool in_place;
    struct tug_schedule schedules[RANKS];
    struct runner_memory memory[RANKS];
    struct runner_memory before[RANKS]; /* what was there when the run began */
    uint32_t entered[RANKS];            /* runs, for the barrier */
    struct runner runner;
};

/* ---- elements ---- */

static uint64_t add(uint64_t a, uint64_t b) {
    return a + b;
}

static uint64_t multiply(uint64_t a, uint64_t b) {
    uint64_t product = 0;
    for (int row = 0; row < 2; row++)
        for (int column = 0; column < 2; column++) {
            uint16_t sum = 0;
            for (int k = 0; k < 2; k++)
                sum = (uint16_t)(sum + (uint16_t)(a >> 16 * (2 * row + k)) *
                                           (uint32_t)(uint16_t)(b >> 16 * (2 * k + column)));
            product |= (uint64_t)sum << 16 * (2 * row + column);
        }
    return product;
}

/* Element i of a rank in run n: a matrix with an inverse, so that no product forgets. */
static uint64_t word(const struct scene *scene, uint32_t rank, uint32_t n, uint64_t i) {
    uint64_t state = scene->seed ^ (uint64_t)rank << 48 ^ (uint64_t)n << 40 ^ i;
    uint64_t draw = runner_draw(&state);
    uint16_t b = (uint16_t)draw, c = (uint16_t)(draw >> 16);
    return (uint64_t)(uint16_t)(1 + (uint32_t)b * c) | (uint64_t)b << 16 | (uint64_t)c << 32 |
           1ull << 48;
}

/* The reduction of element i over ranks [0, end). */
static uint64_t reduced(const struct scene *scene, uint32_t end, uint32_t n, uint64_t i) {
    uint64_t result = word(scene, 0, n, i);
    for (uint32_t r = 1; r < end; r++)
        result = scene->runner.op(result, word(scene, r, n, i));
    return result;
}

/* ---- what is right ---- */

static uint64_t offset_of(const struct scene *scene, uint32_t rank) {
    uint64_t offset = 0;
    for (uint32_t r = 0; r < rank; r++)
        offset += scene->counts[r];
    return offset;
}

/* How many of a rank's messages before the i-th are with the same peer. */
static uint32_t turn_of(const struct tug_message *messages, uint32_t i) {
    uint32_t turn = 0;
    for (uint32_t j = 0; j < i; j++)
        turn += messages[j].peer == messages[i].peer;
    return turn;
}

static uint32_t nth_to(const struct scene *scene, uint32_t from, uint32_t to, uint32_t turn) {
    const struct tug_exchange_plan *plan = &scene->exchange[from];
    for (uint32_t i = 0; i < plan->nsends; i++)
        if (plan->sends[i].peer == to && turn-- == 0)
            return plan->sends[i].block;
    return UINT32_MAX;
}

/* Writes the rank's result over what was in OUTPUT and the blocks. */
static void expect(const struct scene *scene, uint32_t rank, uint32_t n, uint64_t *output,
                   uint64_t *blocks) {
    uint64_t e = scene->elements;
    const struct tug_exchange_plan *plan = &scene->exchange[rank];
    bool root = rank == scene->root;
    switch (scene->what) {
    case BARRIER:
        return;
    case BCAST:
        for (uint64_t i = 0; i < e; i++)
            output[i] = word(scene, scene->root, n, i);
        return;
    case REDUCE:
    case ALLREDUCE:
        for (uint64_t i = 0; i < e && (root || scene->what == ALLREDUCE); i++)
            output[i] = reduced(scene, scene->n, n, i);
        return;
    case SCAN:
    case EXSCAN:
        for (uint64_t i = 0; i < e && (rank > 0 || scene->what == SCAN); i++)
            output[i] = reduced(scene, rank + (scene->what == SCAN), n, i);
        return;
    case REDUCE_SCATTER:
        for (uint64_t i = 0; i < scene->counts[rank]; i++)
            output[i] = reduced(scene, scene->n, n, offset_of(scene, rank) + i);
        return;
    case ALLGATHER:
    case GATHER:
        for (uint64_t i = 0; i < e * scene->n && (root || scene->what == ALLGATHER); i++)
            output[i] = word(scene, (uint32_t)(i / e), n, i % e);
        return;
    case SCATTER:
        for (uint64_t i = 0; i < e && !(root && scene->in_place); i++)
            output[i] = word(scene, scene->root, n, rank * e + i);
        return;
    case EXCHANGE:
        for (uint32_t i = 0; i < plan->nreceives; i++) {
            uint32_t from = plan->receives[i].peer;
            uint32_t block = nth_to(scene, from, rank, turn_of(plan->receives, i));
            blocks[plan->receives[i].block] = word(scene, from, n, block);
        }
        return;
    case CYCLE:
        for (uint32_t r = 0; r < scene->n; r++)
            blocks[r] = word(scene, r, n, scene->in_place ? r : scene->n);
        return;
    }
}

/* ---- one run of a rank ---- */

static void fill(const struct scene *scene, uint32_t rank, uint32_t n, uint64_t *memory,
                 uint64_t elements, uint64_t shift) {
    for (uint64_t i = 0; i < elements; i++)
        memory[i] = word(scene, rank, n, i - shift);
}

static void begin(void *state, uint32_t rank, uint32_t n) {
    struct scene *scene = state;
    struct runner_memory *memory = &scene->memory[rank];
    const struct runner_memory *before = &scene->before[rank];
    /* parts in OUTPUT count from where the rank's own begins */
    bool part = scene->in_place && (scene->what == ALLGATHER || scene->what == GATHER);
    fill(scene, rank, n, memory->output, memory->noutput, part ? rank * scene->elements : 0);
    fill(scene, rank, n, memory->input, memory->ninput,
         part && memory->ninput > scene->elements ? rank * scene->elements : 0);
    fill(scene, rank, n, memory->blocks, memory->nblocks, 0);
    if (scene->what == BCAST && rank != scene->root)
        memset(memory->output, 0x55, memory->noutput * sizeof(uint64_t));
    memcpy(before->input, memory->input, memory->ninput * sizeof(uint64_t));
    memcpy(before->output, memory->output, memory->noutput * sizeof(uint64_t));
    memcpy(before->blocks, memory->blocks, memory->nblocks * sizeof(uint64_t));
    scene->entered[rank] = n + 1;
}

static void compare(const struct scene *scene, uint32_t rank, uint32_t n, const char *what,
                    const uint64_t *got, const uint64_t *want, uint64_t elements) {
    for (uint64_t i = 0; i < elements; i++)
        if (got[i] != want[i])
            runner_fail(&scene->runner,
                        "run %" PRIu32 ", rank %" PRIu32 ": %s[%" PRIu64 "] is %" PRIx64
                        " instead of %" PRIx64,
                        n, rank, what, i, got[i], want[i]);
}

static void end(void *state, uint32_t rank, uint32_t n) {
    struct scene *scene = state;
    const struct runner_memory *memory = &scene->memory[rank], *before = &scene->before[rank];
    expect(scene, rank, n, before->output, before->blocks);
    compare(scene, rank, n, "output", memory->output, before->output, memory->noutput);
    if (memory->input != memory->output)
        compare(scene, rank, n, "input", memory->input, before->input, memory->ninput);
    compare(scene, rank, n, "block", memory->blocks, before->blocks,
            scene->exchange[rank].in_place ? scene->exchange[rank].staging : memory->nblocks);
    for (uint32_t r = 0; scene->what == BARRIER && r < scene->n; r++)
        if (scene->entered[r] <= n)
            runner_fail(&scene->runner,
                        "rank %" PRIu32 " left barrier %" PRIu32 " before %" PRIu32 " came", rank,
                        n, r);
}

/* ---- scenes ---- */

static uint32_t below(uint64_t *random, uint32_t n) {
    return (uint32_t)(runner_draw(random) % n);
}

/* Ranks on nodes: all on one, in order, or anywhere. */
static void place(struct scene *scene, uint64_t *random) {
    uint32_t node_of[RANKS], number[RANKS], next = 0, most = 1 + below(random, scene->n);
    uint32_t how = below(random, 4);
    memset(number, 0xff, sizeof(number));
    for (uint32_t r = 0; r < scene->n; r++) {
        uint32_t node = how == 0   ? 0
                        : how == 1 ? (r + below(random, 2)) * most / scene->n
                                   : below(random, most);
        node = node < RANKS ? node : RANKS - 1;
        if (how == 1 && r > 0 && node < node_of[r - 1])
            node = node_of[r - 1];
        node_of[r] = node;
    }
    for (uint32_t r = 0; r < scene->n; r++) {
        if (number[node_of[r]] == UINT32_MAX)
            number[node_of[r]] = next++;
        node_of[r] = number[node_of[r]];
    }
    assert_int_equal(tug_places_init(&scene->places, scene->n, node_of), 0);
    if (below(random, 2) && next % 2 == 0) {
        uint32_t position[RANKS]; /* at random */
        for (uint32_t i = 0; i < next; i++) {
            uint32_t j = below(random, i + 1);
            position[i] = position[j];
            position[j] = i;
        }
        assert_int_equal(tug_places_arrange(&scene->places, (uint32_t[]){next / 2, 2, 1},
                                            below(random, 2) ? position : NULL),
                         0);
    }
}

static uint64_t *words(uint64_t n) {
    uint64_t *memory = calloc(n + 1, sizeof(*memory));
    assert_non_null(memory);
    return memory;
}

static void give_memory(struct scene *scene, uint32_t rank, uint64_t input, uint64_t output,
                        bool in_place) {
    struct runner_memory *memory = &scene->memory[rank], *before = &scene->before[rank];
    memory->noutput = output;
    memory->output = words(output);
    memory->ninput = in_place ? output : input;
    memory->input = in_place ? memory->output : words(input);
    memory->nblocks = BLOCKS;
    memory->blocks = words(BLOCKS);
    *before = (struct runner_memory){words(memory->ninput), words(output), words(BLOCKS), 0, 0, 0};
}

static void draw_exchange(struct scene *scene, uint64_t *random) {
    uint32_t nmessages = below(random, MESSAGES * scene->n);
    for (uint32_t i = 0; i < nmessages; i++) {
        uint32_t from = below(random, scene->n), to = below(random, scene->n);
        struct tug_exchange_plan *sender = &scene->exchange[from], *receiver = &scene->exchange[to];
        if (sender->nsends == MESSAGES || receiver->nreceives == MESSAGES)
            continue;
        bool is_long = below(random, 2);
        scene->sends[from][sender->nsends] = (struct tug_message){to, sender->nsends, is_long};
        scene->receives[to][receiver->nreceives] = (struct tug_message){
            from, (scene->in_place ? 0 : MESSAGES) + receiver->nreceives, is_long};
        sender->nsends++;
        receiver->nreceives++;
    }
    bool lends = scene->places.nnodes == 1 && below(random, 2);
    for (uint32_t r = 0; r < scene->n; r++) {
        struct tug_exchange_plan *plan = &scene->exchange[r];
        plan->lends = lends;
        plan->sends = scene->sends[r];
        plan->receives = scene->receives[r];
        plan->in_place = scene->in_place;
        plan->staging = 2 * MESSAGES;
    }
}

static void draw(struct scene *scene, uint64_t *random) {
    static const uint64_t sizes[] = {0, 1, 2, 7, 40, 300};
    scene->n = 1 + below(random, scene->what == EXCHANGE ? RANKS : RANKS_OF_OTHERS);
    scene->root = below(random, scene->n);
    scene->in_place = below(random, 2);
    scene->elements = sizes[below(random, scene->what == BARRIER ? 1 : 6)];
    place(scene, random);
    uint64_t e = scene->elements, total = 0;
    uint64_t segment = below(random, 4) ? 1 + below(random, (uint32_t)e / 3 + 2) : 0;
    for (uint32_t r = 0; r < scene->n; r++) {
        scene->counts[r] = below(random, (uint32_t)e + 1);
        total += scene->counts[r];
    }
    if (segment > 0 && e / segment > 60)
        segment = e / 60;
    bool direct = scene->places.nnodes == 1 && scene->n > 1 && below(random, 2);
    scene->bcast = (struct tug_bcast_plan){
        below(random, TUG_ALGORITHMS), below(random, TUG_PHASES), scene->root, e, segment,
        below(random, 3) == 0};
    scene->reduce = (struct tug_reduce_plan){
        e, segment, scene->root, below(random, 2), below(random, 2), scene->in_place, direct};
    scene->gather = (struct tug_gather_plan){e, segment, scene->root, scene->in_place, direct};
    if (scene->what == EXCHANGE)
        draw_exchange(scene, random);
    for (uint32_t r = 0; r < scene->n; r++) {
        bool root = r == scene->root;
        bool here = scene->in_place && (root || (scene->what != REDUCE && scene->what != GATHER));
        uint64_t input = e, output = e;
        if (scene->what == BCAST || scene->what == BARRIER)
            here = true;
        else if (scene->what == REDUCE)
            output = root ? e : 0;
        else if (scene->what == REDUCE_SCATTER)
            input = total, output = here ? total : scene->counts[r];
        else if (scene->what == ALLGATHER)
            output = scene->n * e;
        else if (scene->what == GATHER)
            output = root ? scene->n * e : 0;
        else if (scene->what == SCATTER)
            input = root ? scene->n * e : 0, here = false;
        give_memory(scene, r, input, output, here);
    }
}

static int compile(struct scene *scene, uint32_t rank) {
    struct tug_schedule *schedule = &scene->schedules[rank];
    const struct tug_places *places = &scene->places;
    struct tug_reduce_plan reduce = scene->reduce;
    switch (scene->what) {
    case BCAST:
        return tug_compile_bcast(schedule, places, &scene->bcast, rank);
    case BARRIER:
        return tug_compile_barrier(schedule, places, rank);
    case REDUCE:
        reduce.in_place = reduce.in_place && rank == scene->root;
        return tug_compile_reduce(schedule, places, &reduce, rank);
    case ALLREDUCE:
        return tug_compile_allreduce(schedule, places, &scene->reduce, rank);
    case SCAN:
    case EXSCAN:
        return tug_compile_scan(schedule, places, &scene->reduce, scene->what == EXSCAN, rank);
    case REDUCE_SCATTER:
        return tug_compile_reduce_scatter(schedule, places, &scene->reduce, scene->counts, rank);
    case ALLGATHER:
        return tug_compile_allgather(schedule, places, &scene->gather, rank);
    case GATHER:
        return tug_compile_gather(schedule, places, &scene->gather, rank);
    case SCATTER:
        return tug_compile_scatter(schedule, places, &scene->gather, rank);
    case EXCHANGE:
        return tug_compile_exchange(schedule, places, &scene->exchange[rank], rank);
    default:
        return tug_compile_cycle(schedule, places, scene->in_place, rank);
    }
}

static void play(enum what what, const char *name, uint64_t seed) {
    struct scene *scene = calloc(1, sizeof(*scene));
    assert_non_null(scene);
    uint64_t random = seed;
    scene->what = what;
    scene->seed = seed;
    draw(scene, &random);
    scene->runner = (struct runner){
        .places = &scene->places,
        .schedules = scene->schedules,
        .memory = scene->memory,
        .op = scene->reduce.commutes ? add : multiply,
        .runs = RUNS,
        .seed = seed,
        .what = name,
        .begin = begin,
        .end = end,
        .state = scene,
    };
    for (uint32_t r = 0; r < scene->n; r++)
        assert_int_equal(compile(scene, r), 0);
    runner_run(&scene->runner);
    for (uint32_t r = 0; r < scene->n; r++) {
        struct runner_memory *memory = &scene->memory[r], *before = &scene->before[r];
        if (memory->input != memory->output)
            free(memory->input);
        free(memory->output);
        free(memory->blocks);
        free(before->input);
        free(before->output);
        free(before->blocks);
        tug_schedule_fini(&scene->schedules[r]);
    }
    tug_places_fini(&scene->places);
    free(scene);
}

/* CHECK_SEED=N plays scene N only, of every kind. */
static void play_many(enum what what, const char *name, uint32_t scenes) {
    const char *only = getenv("CHECK_SEED");
    if (only != NULL)
        play(what, name, strtoull(only, NULL, 0));
    for (uint64_t seed = 1; seed <= scenes && only == NULL; seed++)
        play(what, name, seed);
}

#define SCENES(name, what, scenes)                                                                 \
    static void name(void **state) {                                                               \
        (void)state;                                                                               \
        play_many(what, #name, scenes);                                                            \
    }

SCENES(bcast, BCAST, 1500)
SCENES(barrier, BARRIER, 1500)
SCENES(reduce, REDUCE, 1500)
SCENES(allreduce, ALLREDUCE, 2000)
SCENES(scan, SCAN, 700)
SCENES(exscan, EXSCAN, 700)
SCENES(reduce_scatter, REDUCE_SCATTER, 700)
SCENES(allgather, ALLGATHER, 700)
SCENES(gather, GATHER, 1000)
SCENES(scatter, SCATTER, 1000)
SCENES(exchange, EXCHANGE, 700)
SCENES(cycle, CYCLE, 500)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bcast),          cmocka_unit_test(barrier),   cmocka_unit_test(reduce),
        cmocka_unit_test(allreduce),      cmocka_unit_test(scan),      cmocka_unit_test(exscan),
        cmocka_unit_test(reduce_scatter), cmocka_unit_test(allgather), cmocka_unit_test(gather),
        cmocka_unit_test(scatter),        cmocka_unit_test(exchange),  cmocka_unit_test(cycle),
    };
    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
