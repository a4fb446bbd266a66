/* Lone operations by more threads than cores, of two contexts that share a tray, to a process that
 * falls asleep whenever there is nothing.
 *
 * Each thread writes words of its own that follow from a sequence, and reads them back: none is
 * lost, torn, or ended twice, and none ends before its buffer was free. Threads sleep until the
 * answer has come: a wake-up that is lost ends in the watchdog.
 */
#include "stress.h"
#include "node/page.h"
#include "node/team.h"
#include "transport/lone.h"
#include "transport/transport.h"

#define MAX_THREADS 16
#define WORDS (TUG_LONE_READ_MOST / 8)
#define CONTEXTS 2

static struct tug_node_memory *memory[2]; /* the origin's, the target's */
static struct tug_neighbour neighbours[2], *both[2] = {&neighbours[0], &neighbours[1]};
static struct tug_team teams[2];
static struct tug_fabric fabrics[2][CONTEXTS];
static struct tug_lone lone;
static struct tug_registration exposed[CONTEXTS];
static _Atomic bool over;
static _Atomic uint64_t done, refusals, sleeps;
static uint64_t deadline_ns;

struct worker {
    pthread_t thread;
    unsigned which;
    uint64_t words[WORDS], back[WORDS];
    _Atomic bool is_free;
    _Atomic unsigned ended;
};

static void set_up(void) {
    static uint32_t ranks[2] = {0, 1};
    for (int i = 0; i < 2; i++) {
        memory[i] = aligned_alloc(4096, (sizeof(*memory[i]) + 4095) / 4096 * 4096);
        memset((void *)memory[i], 0, sizeof(*memory[i]));
        neighbours[i].page = &memory[i]->page;
        tug_neighbour_use(&neighbours[i], memory[i]);
        teams[i] = (struct tug_team){.node_rank = i, .node_size = 2, .neighbours = both};
    }
    lone.tray = &memory[0]->tray;
    for (unsigned c = 0; c < CONTEXTS; c++) {
        for (uint32_t i = 0; i < 2; i++)
            fabrics[i][c] = (struct tug_fabric){.team = &teams[i],
                                                .rank = i,
                                                .node_rank = i,
                                                .nranks = 2,
                                                .node_size = 2,
                                                .node_ranks = ranks,
                                                .id = 7 + c};
        fabrics[0][c].lone = &lone;
        exposed[c].bytes = MAX_THREADS * sizeof(uint64_t[WORDS]);
        exposed[c].base = calloc(1, exposed[c].bytes);
        STRESS_CHECK(exposed[c].base != NULL && tug_memory_table_init(&fabrics[1][c].memory) == 0 &&
                         tug_memory_add(&fabrics[1][c].memory, &exposed[c]) == 0,
                     "no memory");
    }
}

static bool serve_one(void) {
    struct tug_inbox *inbox = &memory[1]->inbox;
    const struct tug_slot *slot = tug_inbox_first(inbox);
    if (slot == NULL)
        return false;
    const uint64_t context = ((const struct tug_label *)slot->head)->context;
    tug_lone_serve(&fabrics[1][context - 7], slot);
    tug_inbox_pass(inbox);
    return true;
}

static void *serve(void *argument) {
    struct tug_bell *bell = &memory[1]->page.bell;
    while (!atomic_load(&over)) {
        while (serve_one())
            ;
        tug_inbox_settle(&memory[1]->inbox);
        const uint32_t key = tug_bell_prepare(bell);
        if (!serve_one() && !atomic_load(&over))
            tug_bell_wait(bell, key, -1, true);
    }
    return argument;
}

static void is_free(void *d, int status) {
    struct worker *worker = d;
    STRESS_CHECK(status == 0, "a buffer is free with %d", status);
    atomic_store(&worker->is_free, true);
}

static void ends(void *d, int status) {
    struct worker *worker = d;
    STRESS_CHECK(status == 0, "an operation ends with %d", status);
    STRESS_CHECK(atomic_load(&worker->is_free), "it ends before its buffer is free");
    atomic_fetch_add(&worker->ended, 1);
    (void)tug_bell_ring(&memory[0]->page.bell, true); /* others sleep on it */
}

static void await(struct worker *worker, struct tug_fabric *fabric, unsigned ended) {
    struct tug_bell *bell = &memory[0]->page.bell;
    for (unsigned looks = 0; atomic_load(&worker->ended) != ended; looks++) {
        STRESS_CHECK(atomic_load(&worker->ended) <= ended, "it ends twice");
        if (tug_lone_collect(fabric) || looks % 16 != 15)
            continue;
        const uint32_t key = tug_bell_prepare(bell);
        if (tug_lone_collect(fabric) || atomic_load(&worker->ended) == ended)
            continue;
        atomic_fetch_add_explicit(&sleeps, 1, memory_order_relaxed);
        tug_bell_wait(bell, key, -1, true);
    }
}

static void refused(struct tug_fabric *fabric) {
    atomic_fetch_add_explicit(&refusals, 1, memory_order_relaxed);
    (void)tug_lone_collect(fabric);
    sched_yield();
}

static void *work(void *argument) {
    struct worker *worker = argument;
    const unsigned context = worker->which % CONTEXTS;
    struct tug_fabric *fabric = &fabrics[0][context];
    const uint64_t offset = worker->which * sizeof(worker->words), key = exposed[context].id;
    const struct tug_callback free_now = {is_free, worker}, end = {ends, worker};
    uint64_t random = stress_seed_of(worker->which), sequence = 0;
    unsigned started = 0;
    for (uint64_t rounds = 0; stress_goes_on(rounds, deadline_ns); rounds++) {
        const uint64_t draw = stress_random(&random);
        const unsigned words = 1 + (unsigned)(draw % (draw & 1024 ? WORDS : 4));
        for (unsigned i = 0; i < words; i++)
            worker->words[i] = ++sequence * 0x9e3779b97f4a7c15ull + worker->which;
        atomic_store(&worker->is_free, false);
        while (!tug_lone_write(fabric, 1, key, offset, worker->words, words * 8, &free_now, end))
            refused(fabric);
        await(worker, fabric, ++started);
        while (!tug_lone_read(fabric, 1, key, offset, worker->back, words * 8, end))
            refused(fabric);
        await(worker, fabric, ++started);
        STRESS_CHECK(memcmp(worker->words, worker->back, words * 8) == 0, "thread %u: torn",
                     worker->which);
    }
    atomic_fetch_add(&done, started);
    return NULL;
}

static void round_of(unsigned threads, double seconds) {
    static struct worker workers[MAX_THREADS];
    pthread_t target;
    memset((void *)workers, 0, sizeof(workers));
    atomic_store(&over, false);
    atomic_store(&done, 0);
    deadline_ns = tug_clock_ns() + (uint64_t)(seconds * 1e9);
    pthread_create(&target, NULL, serve, NULL);
    for (unsigned t = 0; t < threads; t++) {
        workers[t].which = t;
        pthread_create(&workers[t].thread, NULL, work, &workers[t]);
    }
    for (unsigned t = 0; t < threads; t++)
        pthread_join(workers[t].thread, NULL);
    atomic_store(&over, true);
    (void)tug_bell_ring(&memory[1]->page.bell, true);
    pthread_join(target, NULL);
    for (unsigned c = 0; c < CONTEXTS; c++)
        STRESS_CHECK(!tug_lone_out(&fabrics[0][c]), "something is left");
    printf("%u threads: %llu operations, %llu refused, they slept %llu times\n", threads,
           (unsigned long long)done, (unsigned long long)refusals, (unsigned long long)sleeps);
}

int main(int argc, char **argv) {
    static const unsigned rounds[] = {1, 2, 4, 16};
    const unsigned nrounds = sizeof(rounds) / sizeof(rounds[0]);
    stress_parse(argc, argv);
    alarm(450 + (unsigned)stress.seconds);
    set_up();
    for (unsigned i = 0; i < nrounds; i++)
        round_of(rounds[i], stress.seconds / nrounds);
    return 0;
}
