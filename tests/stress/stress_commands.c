/* Commands and records of batches from 1 to 16 threads on however few cores, through rings of 16
 * and 1024 cells.
 *
 * Every command or record carries producer, sequence number, some words and a checksum over all of
 * it; the thread that executes it checks them against what that producer must have sent next. That
 * bookkeeping is plain memory, touched under the baton only: the thread sanitizer sees every place
 * where the baton does not order one driver after the other. Records find no room now and then.
 * Producers drain now and then and look that all of theirs is done.
 */
#include "llcl/batch.h"
#include "stress.h"

#define MAX_PRODUCERS 16
#define WORDS (TUG_COMMAND_PAYLOAD / 8)

/* Words of a command: producer, sequence, data ..., checksum. */
struct producer {
    uint64_t random;
    uint64_t sent;
    uint64_t full;   /* entries that were refused */
    uint64_t direct; /* operations under the caller's own baton */
    uint64_t written;
    unsigned me;
    pthread_t thread;
} __attribute__((aligned(128)));

static struct producer producers[MAX_PRODUCERS];
static uint64_t executed[MAX_PRODUCERS]; /* under the baton */
static uint64_t deadline_ns;

static uint64_t checksum(const uint64_t *words) {
    uint64_t sum = 0x9e3779b97f4a7c15ull;
    for (int i = 0; i < WORDS - 1; i++)
        sum = (sum ^ words[i]) * 0x100000001b3ull + (sum >> 29);
    return sum;
}

static void check_next(uint64_t producer, uint64_t sequence) {
    STRESS_CHECK(producer < MAX_PRODUCERS, "producer %llu", (unsigned long long)producer);
    STRESS_CHECK(executed[producer] == sequence,
                 "producer %llu: command %llu came where %llu was due",
                 (unsigned long long)producer, (unsigned long long)sequence,
                 (unsigned long long)executed[producer]);
    executed[producer]++;
}

static void execute(struct tug_command *command) {
    const uint64_t *words = command->payload.words;
    STRESS_CHECK(words[WORDS - 1] == checksum(words), "torn command of producer %llu",
                 (unsigned long long)words[0]);
    check_next(words[0], words[1]);
}

static unsigned without_room; /* under the baton */

static uint32_t start_run(const struct tug_batch_form *form, const unsigned char *run, uint32_t n) {
    for (uint32_t i = 0; i < n; i++, run += tug_batch_step(form->record)) {
        uint64_t words[3];
        if (++without_room % 64 == 0)
            return i;
        memcpy(words, run + sizeof(uint32_t), sizeof(words));
        STRESS_CHECK(words[2] == (words[0] ^ words[1]) * 0x100000001b3ull,
                     "torn record of producer %llu", (unsigned long long)words[0]);
        check_next(words[0], words[1]);
    }
    return n;
}

static bool write_one(struct producer *self) {
    static const unsigned hows[] = {0, TUG_BATCH_IN_ORDER, TUG_BATCH_PROMPT, TUG_BATCH_WAITS};
    const uint64_t words[] = {self->me, self->sent, (self->me ^ self->sent) * 0x100000001b3ull};
    const struct tug_batch_form form = {.start = start_run,
                                        .number = (uint32_t)stress_random(&self->random) % 2,
                                        .record = sizeof(words)};
    uint32_t distance;
    if (!tug_batch_begin(&form, hows[stress_random(&self->random) % 4], 0, &distance))
        return false;
    tug_batch_add(distance, words, sizeof(words));
    self->sent++;
    self->written++;
    return true;
}

static void fill(struct producer *self, uint64_t *words) {
    words[0] = self->me;
    words[1] = self->sent;
    for (int i = 2; i < WORDS - 1; i++)
        words[i] = stress_random(&self->random);
    words[WORDS - 1] = checksum(words);
}

static void send_one(struct producer *self) {
    struct tug_ticket ticket = {0};
    enum tug_entry entry;
    while ((entry = tug_engine_enter(&ticket)) == TUG_ENTRY_FULL) {
        self->full++;
        tug_engine_poll();
    }
    if (entry == TUG_ENTRY_BATON) {
        check_next(self->me, self->sent);
        self->direct++;
        tug_engine_leave();
    } else {
        ticket.cell->execute = execute;
        if (stress_random(&self->random) % 256 == 0)
            sched_yield(); /* preempted in mid-fill */
        fill(self, ticket.cell->payload.words);
        tug_engine_commit(&ticket);
    }
    self->sent++;
}

static void in_order_too(void *argument) {
    struct producer *self = argument;
    check_next(self->me, self->sent);
}

static void *produce(void *argument) {
    struct producer *self = argument;
    for (uint64_t rounds = 0; stress_goes_on(rounds, deadline_ns); rounds++) {
        uint64_t what = stress_random(&self->random) % 100;
        uint64_t records = stress_random(&self->random) % 3; /* none, half, most of them */
        for (uint64_t n = stress_random(&self->random) % 64; n > 0; n--)
            if (stress_random(&self->random) % 20 >= records * 9 || !write_one(self))
                send_one(self);
        if (what < 20) {
            tug_batch_settle();
            tug_engine_drain();
            /* head is past all of mine: what the driver wrote before is visible */
            STRESS_CHECK(executed[self->me] == self->sent, "producer %u: drained at %llu of %llu",
                         self->me, (unsigned long long)executed[self->me],
                         (unsigned long long)self->sent);
        } else if (what < 25) {
            tug_engine_call(in_order_too, self);
            self->sent++;
            STRESS_CHECK(executed[self->me] == self->sent, "producer %u: a call did not run",
                         self->me);
        } else if (what < 28) {
            tug_engine_poll();
        } else if (what < 30) {
            struct timespec pause = {0, (long)(stress_random(&self->random) % 200000)};
            nanosleep(&pause, NULL); /* lets the others fall idle, and come back from it */
        }
    }
    tug_batch_settle();
    tug_engine_drain();
    return NULL;
}

static void no_host(void) {}

static void round_of(unsigned nproducers, uint64_t ring_size, double seconds) {
    tug_settings.ring_size = ring_size;
    STRESS_CHECK(tug_engine_start(no_host) == 0, "the engine does not start");
    memset(executed, 0, sizeof(executed));
    deadline_ns = tug_clock_ns() + (uint64_t)(seconds * 1e9);
    for (unsigned i = 0; i < nproducers; i++) {
        producers[i] = (struct producer){.me = i, .random = stress_seed_of(i + ring_size)};
        STRESS_CHECK(pthread_create(&producers[i].thread, NULL, produce, &producers[i]) == 0,
                     "no thread");
    }
    uint64_t sent = 0, direct = 0, written = 0, full = 0;
    for (unsigned i = 0; i < nproducers; i++) {
        pthread_join(producers[i].thread, NULL);
        sent += producers[i].sent;
        direct += producers[i].direct;
        written += producers[i].written;
        full += producers[i].full;
    }
    uint64_t through_ring = tug_ring_tail(&tug_engine.ring);
    tug_engine_stop();
    for (unsigned i = 0; i < nproducers; i++)
        STRESS_CHECK(executed[i] == producers[i].sent, "producer %u: %llu executed of %llu", i,
                     (unsigned long long)executed[i], (unsigned long long)producers[i].sent);
    printf("%2u producers, %4llu cells: %9llu commands, %9llu direct, %9llu written, %6llu laps, "
           "full %llu\n",
           nproducers, (unsigned long long)ring_size, (unsigned long long)sent,
           (unsigned long long)direct, (unsigned long long)written,
           (unsigned long long)(through_ring / ring_size), (unsigned long long)full);
}

int main(int argc, char **argv) {
    static const unsigned counts[] = {1, 2, 4, 8, 16};
    const unsigned ncounts = sizeof(counts) / sizeof(counts[0]);
    stress_parse(argc, argv);
    stress_watchdog(450 + (unsigned)stress.seconds);
    for (unsigned i = 0; i < ncounts; i++) {
        round_of(counts[i], 16, stress.seconds / ncounts / 2);
        round_of(counts[i], 1024, stress.seconds / ncounts / 2);
    }
    return 0;
}
