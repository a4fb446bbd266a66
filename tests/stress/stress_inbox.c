/* An inbox with more producers than cores, of this process and of others, and an owner who falls
 * asleep whenever there is nothing.
 *
 * Slots carry producer, sequence and contents that follow from both, in their heads or behind them:
 * none is lost, doubled, torn or out of its producer's order. A wake-up that is lost ends in the
 * watchdog.
 */
#include <sys/mman.h>
#include <sys/wait.h>

#include "stress.h"
#include "node/inbox.h"

#define MAX_PRODUCERS 16
#define WORDS (TUG_INBOX_PACKET_BYTES / 8)

struct shared {
    struct tug_inbox inbox;
    struct tug_bell bell;
    uint64_t deadline_ns;
    _Atomic unsigned working;
    _Atomic uint64_t sent[MAX_PRODUCERS];
    _Atomic uint64_t refusals;
};

static struct shared *shared;

struct producer {
    unsigned which;
    pthread_t thread;
};

static uint64_t word(unsigned producer, uint64_t sequence, unsigned i) {
    return (producer + 1) * 0x9e3779b97f4a7c15ull + sequence * 0xbf58476d1ce4e5b9ull + i;
}

/* `head` bytes of the packet go into the slot's head, the others behind it. False: full. */
static bool put(const uint64_t *packet, uint32_t bytes, uint32_t head) {
    if (bytes - head > tug_slot_room(head))
        head = bytes;
    struct tug_slot *slot = tug_inbox_reserve(&shared->inbox);
    if (slot == NULL)
        return false;
    slot->bytes = head;
    slot->behind = bytes - head;
    memcpy(slot->head, packet, head);
    memcpy((char *)slot + tug_slot_data_at(head), (const char *)packet + head, bytes - head);
    tug_inbox_commit(slot, &shared->bell);
    return true;
}

/* Returns the packet's bytes. 0: there is none. */
static uint32_t take(uint64_t *packet) {
    struct tug_slot *slot = tug_inbox_first(&shared->inbox);
    if (slot == NULL)
        return 0;
    const uint32_t head = slot->bytes, bytes = head + slot->behind;
    STRESS_CHECK(bytes <= TUG_INBOX_PACKET_BYTES, "a slot of %u bytes", bytes);
    memcpy(packet, slot->head, head);
    memcpy((char *)packet + head, (const char *)slot + tug_slot_data_at(head), bytes - head);
    if (bytes == head)
        tug_inbox_pass(&shared->inbox);
    else
        tug_inbox_release(&shared->inbox);
    return bytes;
}

static void *produce(void *argument) {
    const struct producer *producer = argument;
    uint64_t random = stress_seed_of(producer->which);
    uint64_t packet[WORDS];
    uint64_t sequence = 0;
    while (tug_clock_ns() < shared->deadline_ns) {
        uint64_t draw = stress_random(&random);
        unsigned words = 2 + (unsigned)(draw % (draw & 256 ? WORDS - 2 : 8));
        packet[0] = producer->which;
        packet[1] = sequence;
        for (unsigned i = 2; i < words; i++)
            packet[i] = word(producer->which, sequence, i);
        while (!put(packet, words * 8, draw & 512 ? 16 : words * 8)) {
            atomic_fetch_add_explicit(&shared->refusals, 1, memory_order_relaxed);
            sched_yield();
        }
        sequence++;
        if (draw % 997 == 0) { /* the owner falls asleep */
            struct timespec pause = {0, 300000};
            nanosleep(&pause, NULL);
        }
    }
    atomic_store(&shared->sent[producer->which], sequence);
    atomic_fetch_sub(&shared->working, 1);
    (void)tug_bell_ring(&shared->bell, true);
    return NULL;
}

static void check(const uint64_t *packet, uint32_t bytes, uint64_t taken[]) {
    unsigned producer = (unsigned)packet[0];
    STRESS_CHECK(bytes >= 16 && bytes % 8 == 0 && producer < MAX_PRODUCERS, "a packet of %u bytes",
                 bytes);
    STRESS_CHECK(packet[1] == taken[producer], "producer %u: packet %llu comes where %llu was due",
                 producer, (unsigned long long)packet[1], (unsigned long long)taken[producer]);
    for (unsigned i = 2; i < bytes / 8; i++)
        STRESS_CHECK(packet[i] == word(producer, packet[1], i), "producer %u: word %u is torn",
                     producer, i);
    taken[producer]++;
}

static uint64_t consume(uint64_t taken[]) {
    uint64_t packet[WORDS], sleeps = 0;
    for (;;) {
        uint32_t bytes = take(packet);
        if (bytes > 0) {
            check(packet, bytes, taken);
            continue;
        }
        uint32_t key = tug_bell_prepare(&shared->bell);
        unsigned working = atomic_load(&shared->working);
        bytes = take(packet);
        if (bytes > 0) {
            check(packet, bytes, taken);
        } else if (working == 0) {
            return sleeps;
        } else {
            sleeps++;
            tug_bell_wait(&shared->bell, key, -1, true);
        }
    }
}

static void round_of(unsigned processes, unsigned threads, double seconds) {
    struct producer producers[MAX_PRODUCERS];
    uint64_t taken[MAX_PRODUCERS] = {0}, sum = 0;
    pid_t children[MAX_PRODUCERS];
    memset(shared, 0, sizeof(*shared));
    atomic_store(&shared->working, processes * threads);
    shared->deadline_ns = tug_clock_ns() + (uint64_t)(seconds * 1e9);
    for (unsigned p = 1; p < processes; p++) {
        children[p] = fork();
        if (children[p] != 0)
            continue;
        for (unsigned t = 0; t < threads; t++) {
            producers[t].which = p * threads + t;
            pthread_create(&producers[t].thread, NULL, produce, &producers[t]);
        }
        for (unsigned t = 0; t < threads; t++)
            pthread_join(producers[t].thread, NULL);
        _exit(0);
    }
    for (unsigned t = 0; t < threads; t++) {
        producers[t].which = t;
        pthread_create(&producers[t].thread, NULL, produce, &producers[t]);
    }
    uint64_t sleeps = consume(taken);
    for (unsigned t = 0; t < threads; t++)
        pthread_join(producers[t].thread, NULL);
    for (unsigned p = 1; p < processes; p++) {
        int status;
        waitpid(children[p], &status, 0);
        STRESS_CHECK(status == 0, "a producer's process ended with %d", status);
    }
    for (unsigned i = 0; i < processes * threads; i++) {
        STRESS_CHECK(taken[i] == atomic_load(&shared->sent[i]), "producer %u: packets are missing",
                     i);
        sum += taken[i];
    }
    printf("%u x %u producers: %llu packets, %llu refused, the owner slept %llu times\n", processes,
           threads, (unsigned long long)sum, (unsigned long long)atomic_load(&shared->refusals),
           (unsigned long long)sleeps);
}

int main(int argc, char **argv) {
    static const struct {
        unsigned processes, threads;
    } rounds[] = {{1, 1}, {1, 4}, {1, 16}, {4, 1}, {4, 4}};
    const unsigned nrounds = sizeof(rounds) / sizeof(rounds[0]);
    stress_parse(argc, argv);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    STRESS_CHECK(shared != MAP_FAILED, "no shared memory");
    alarm(450 + (unsigned)stress.seconds);
    for (unsigned i = 0; i < nrounds; i++)
        round_of(rounds[i].processes, rounds[i].threads, stress.seconds / nrounds);
    return 0;
}
