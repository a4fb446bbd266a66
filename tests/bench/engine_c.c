/* The timed loops; see engine_c.h. Threads meet at a spinning gate so that all are running when the
 * clock starts. */
#include "engine_c.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/settings.h"
#include "engine/baton.h"
#include "engine/private.h"
#include "base/tags.h"

#define RING_SIZE 1024
#define BURST 64
#define MAX_PRODUCERS 64

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static uint64_t executed_sum; /* under the baton */
static uint64_t executed_count;

static void execute(struct tug_command *command) {
    executed_sum += command->payload.words[0];
    executed_count++;
}

static inline void fill(struct tug_command *cell, uint64_t value) {
    cell->execute = execute;
    cell->payload.words[0] = value;
    cell->payload.words[1] = value + 1;
    cell->payload.words[2] = value + 2;
}

static uint64_t drain_by_hand(struct tug_ring *ring) {
    struct tug_command *cell;
    uint64_t n = 0;
    while ((cell = tug_ring_next(ring)) != NULL) {
        cell->execute(cell);
        tug_ring_consume(ring, cell);
        n++;
    }
    return n;
}

static void enqueue_by_hand(struct tug_ring *ring, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        struct tug_ticket ticket;
        if (__builtin_expect(tug_ring_enter(ring, true, &ticket) != TUG_ENTRY_TICKET, 0))
            abort();
        fill(ticket.cell, i);
        tug_ring_commit(&ticket);
    }
}

/* The same commands go in and out in turns; one of the two sides is timed. */
static double ring_turns(uint64_t n, int time_enqueue) {
    struct tug_ring ring;
    double in_ns = 0, out_ns = 0;
    MUST(tug_ring_init(&ring, RING_SIZE) == 0);
    MUST(tug_baton_take(&ring));
    enqueue_by_hand(&ring, RING_SIZE); /* touches every cell */
    MUST(drain_by_hand(&ring) == RING_SIZE);
    for (uint64_t left = n; left > 0;) {
        uint64_t batch = left < RING_SIZE ? left : RING_SIZE;
        uint64_t start = tug_clock_ns();
        enqueue_by_hand(&ring, batch);
        uint64_t middle = tug_clock_ns();
        MUST(drain_by_hand(&ring) == batch);
        out_ns += (double)(tug_clock_ns() - middle);
        in_ns += (double)(middle - start);
        left -= batch;
    }
    tug_ring_fini(&ring);
    return time_enqueue ? in_ns : out_ns;
}

double bench_ring_enqueue(uint64_t n) {
    return ring_turns(n, 1);
}

double bench_ring_dequeue(uint64_t n) {
    return ring_turns(n, 0);
}

double bench_tags_take_give(uint64_t n) {
    struct tug_tags tags;
    MUST(tug_tags_init(&tags, 64) == 0);
    uint64_t start = tug_clock_ns();
    for (uint64_t i = 0; i < n; i++) {
        uint32_t tag;
        if (__builtin_expect(!tug_tags_take(&tags, &tag), 0))
            abort();
        tug_tags_give(&tags, tag);
    }
    double took = (double)(tug_clock_ns() - start);
    tug_tags_fini(&tags);
    return took;
}

/* ---- the engine ---- */

static void no_host(void) {}

static void start(enum tug_progress progress) {
    tug_settings.progress = progress;
    tug_settings.ring_size = RING_SIZE;
    MUST(tug_engine_start(no_host) == 0);
    executed_sum = executed_count = 0;
}

struct producer {
    pthread_t thread;
    uint64_t n;
    uint64_t *burst_ns; /* of the bursts that were not interrupted by a full ring */
    uint64_t nbursts;
};

static _Atomic unsigned at_gate;
static _Atomic bool gate_open;

/* One command: executed or queued. False if the ring was full. */
static inline bool hand_over(uint64_t value) {
    struct tug_ticket ticket;
    enum tug_entry entry = tug_engine_enter(&ticket);
    if (entry == TUG_ENTRY_BATON) {
        executed_sum += value;
        executed_count++;
        tug_engine_leave();
        return true;
    }
    if (__builtin_expect(entry == TUG_ENTRY_FULL, 0))
        return false;
    fill(ticket.cell, value);
    tug_engine_commit(&ticket);
    return true;
}

static void *produce(void *argument) {
    struct producer *self = argument;
    atomic_fetch_add(&at_gate, 1);
    while (!atomic_load(&gate_open))
        sched_yield();
    for (uint64_t i = 0; i < self->n;) {
        uint64_t end = i + BURST < self->n ? i + BURST : self->n;
        uint64_t begin = tug_clock_ns();
        while (i < end && hand_over(i))
            i++;
        uint64_t took = tug_clock_ns() - begin;
        if (i < end)
            tug_engine_poll();
        else if (i % BURST == 0)
            self->burst_ns[self->nbursts++] = took;
    }
    return NULL;
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The median over all bursts of all producers, for one entry. */
static double median_enqueue_ns(const struct producer *producers, unsigned nproducers,
                                uint64_t *all) {
    uint64_t n = 0;
    for (unsigned i = 0; i < nproducers; i++) {
        memmove(all + n, producers[i].burst_ns, producers[i].nbursts * sizeof(*all));
        n += producers[i].nbursts;
    }
    qsort(all, n, sizeof(*all), by_value);
    return n == 0 ? 0 : (double)all[n / 2] / BURST;
}

void bench_engine_produce(unsigned nproducers, int direct, uint64_t n, struct bench_round *round) {
    static struct producer producers[MAX_PRODUCERS];
    uint64_t max_bursts = n / BURST + 1;
    uint64_t *bursts = malloc(nproducers * max_bursts * sizeof(*bursts));
    uint64_t expected = 0;
    MUST(bursts != NULL && nproducers > 0 && nproducers <= MAX_PRODUCERS);
    memset(bursts, 0, nproducers * max_bursts * sizeof(*bursts));
    start(direct ? TUG_PROGRESS_AUTO : TUG_PROGRESS_THREAD);
    atomic_store(&at_gate, 0);
    atomic_store(&gate_open, false);
    for (unsigned i = 0; i < nproducers; i++) {
        producers[i] = (struct producer){.n = n, .burst_ns = bursts + i * max_bursts};
        MUST(pthread_create(&producers[i].thread, NULL, produce, &producers[i]) == 0);
    }
    while (atomic_load(&at_gate) < nproducers)
        sched_yield();
    uint64_t begin = tug_clock_ns();
    atomic_store(&gate_open, true);
    for (unsigned i = 0; i < nproducers; i++)
        pthread_join(producers[i].thread, NULL);
    tug_engine_drain();
    round->total_ns = (double)(tug_clock_ns() - begin);
    round->commands = n * nproducers;
    tug_engine_stop();
    for (unsigned i = 0; i < nproducers; i++)
        expected += n * (n - 1) / 2;
    MUST(executed_count == round->commands && executed_sum == expected);
    round->enqueue_ns = median_enqueue_ns(producers, nproducers, bursts);
    free(bursts);
}

double bench_engine_bypass(uint64_t n) {
    start(TUG_PROGRESS_AUTO);
    uint64_t begin = tug_clock_ns();
    for (uint64_t i = 0; i < n; i++)
        if (__builtin_expect(!hand_over(i), 0))
            abort();
    double took = (double)(tug_clock_ns() - begin);
    tug_engine_stop();
    MUST(executed_count == n);
    return took;
}

static void count(void *argument) {
    ++*(uint64_t *)argument;
}

double bench_engine_call(uint64_t n) {
    uint64_t calls = 0;
    start(TUG_PROGRESS_AUTO);
    uint64_t begin = tug_clock_ns();
    for (uint64_t i = 0; i < n; i++)
        tug_engine_call(count, &calls);
    double took = (double)(tug_clock_ns() - begin);
    tug_engine_stop();
    MUST(calls == n);
    return took;
}

double bench_engine_drain_idle(uint64_t n) {
    start(TUG_PROGRESS_AUTO);
    uint64_t begin = tug_clock_ns();
    for (uint64_t i = 0; i < n; i++)
        tug_engine_drain();
    double took = (double)(tug_clock_ns() - begin);
    tug_engine_stop();
    return took;
}

static uint64_t woken_at_ns; /* under the baton; read after the drain */

static void note_time(struct tug_command *command) {
    (void)command;
    woken_at_ns = tug_clock_ns();
}

void bench_engine_wake(uint64_t n, double *out_us) {
    start(TUG_PROGRESS_THREAD);
    for (uint64_t i = 0; i < n; i++) {
        struct timespec until_deep = {0, 30000000};
        struct tug_ticket ticket;
        nanosleep(&until_deep, NULL);
        uint64_t begin = tug_clock_ns();
        MUST(tug_engine_enter(&ticket) == TUG_ENTRY_TICKET);
        ticket.cell->execute = note_time;
        tug_engine_commit(&ticket);
        tug_engine_drain();
        out_us[i] = (double)(woken_at_ns - begin) / 1000;
    }
    tug_engine_stop();
}
