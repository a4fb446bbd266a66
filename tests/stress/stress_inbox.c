/* An inbox with more producers than cores, of this process and of others, and an owner who falls
 * asleep whenever there is nothing. Producers that find it full look again and again, or sleep
 * until there is room.
 *
 * Slots carry producer, sequence and contents that follow from both, in their heads or behind them:
 * none is lost, doubled, torn or out of its producer's order. A wake-up that is lost ends in the
 * watchdog.
 */
#include <sys/mman.h>
#include <sys/wait.h>

#include "stress.h"
#include "node/inbox.h"
#include "node/words.h"

#define MAX_PRODUCERS 80
#define ROW 128 /* the owner's words are behind the producers' */
#define ROUND 16
#define WORDS (TUG_INBOX_PACKET_BYTES / 8)

struct shared {
    struct tug_inbox inbox;
    struct tug_bell bell;
    uint64_t deadline_ns;
    _Atomic unsigned working;
    _Atomic uint64_t sent[MAX_PRODUCERS];
    _Atomic uint64_t refusals, sleeps;
    bool sleep; /* producers do */
    struct tug_bell bells[MAX_PRODUCERS];
    _Atomic uint8_t wait[(MAX_PRODUCERS + 1) * ROW];
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

static struct tug_words words_of(unsigned who) {
    return (struct tug_words){.row = ROW, .mine = who, .wait = shared->wait};
}

/* Sleeps until there is room, or puts the packet after all: true. */
static bool await_room(unsigned who, const uint64_t *packet, uint32_t bytes, uint32_t head) {
    struct tug_words words = words_of(who);
    const uint32_t key = tug_bell_prepare(&shared->bells[who]);
    tug_words_wait(&words, MAX_PRODUCERS);
    tug_inbox_await(&shared->inbox);
    if (put(packet, bytes, head))
        return true;
    atomic_fetch_add_explicit(&shared->sleeps, 1, memory_order_relaxed);
    tug_bell_wait(&shared->bells[who], key, -1, true);
    return false;
}

static void *produce(void *argument) {
    const struct producer *producer = argument;
    uint64_t random = stress_seed_of(producer->which);
    uint64_t packet[WORDS];
    uint64_t sequence = 0;
    while (stress_goes_on(sequence, shared->deadline_ns)) {
        uint64_t draw = stress_random(&random);
        unsigned words = 2 + (unsigned)(draw % (draw & 256 ? WORDS - 2 : 8));
        packet[0] = producer->which;
        packet[1] = sequence;
        for (unsigned i = 2; i < words; i++)
            packet[i] = word(producer->which, sequence, i);
        while (!put(packet, words * 8, draw & 512 ? 16 : words * 8)) {
            atomic_fetch_add_explicit(&shared->refusals, 1, memory_order_relaxed);
            if (!shared->sleep)
                sched_yield();
            else if (await_room(producer->which, packet, words * 8, draw & 512 ? 16 : words * 8))
                break;
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

/* As transport/shm.c does. */
static void tell_of_room(void) {
    static unsigned next;
    struct tug_words words = words_of(MAX_PRODUCERS);
    if (!tug_inbox_owes(&shared->inbox))
        return;
    uint32_t left = tug_inbox_has(&shared->inbox) ? 1 : UINT32_MAX;
    for (unsigned i = 0; i < MAX_PRODUCERS; i++, next = (next + 1) % MAX_PRODUCERS) {
        if (left == 0) {
            tug_inbox_still_owes(&shared->inbox);
            return;
        }
        if (tug_words_waits(&words, next))
            left -= tug_bell_ring(&shared->bells[next], true);
    }
}

/* Returns how many have been taken. */
static uint32_t take_a_round(uint64_t taken[]) {
    uint64_t packet[WORDS];
    uint32_t took = 0, bytes;
    while (took < ROUND && (bytes = take(packet)) > 0) {
        check(packet, bytes, taken);
        took++;
    }
    if (took == 0)
        tug_inbox_settle(&shared->inbox);
    tell_of_room();
    return took;
}

static uint64_t consume(uint64_t taken[]) {
    uint64_t sleeps = 0;
    for (;;) {
        if (take_a_round(taken) > 0)
            continue;
        uint32_t key = tug_bell_prepare(&shared->bell);
        unsigned working = atomic_load(&shared->working);
        if (take_a_round(taken) > 0)
            continue;
        if (working == 0)
            return sleeps;
        sleeps++;
        tug_bell_wait(&shared->bell, key, -1, true);
    }
}

static void round_of(unsigned processes, unsigned threads, bool sleep, double seconds) {
    struct producer producers[MAX_PRODUCERS];
    uint64_t taken[MAX_PRODUCERS] = {0}, sum = 0;
    pid_t children[MAX_PRODUCERS];
    memset((void *)shared, 0, sizeof(*shared));
    shared->sleep = sleep;
    atomic_store(&shared->working, processes * threads);
    fflush(stdout); /* once */
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
        STRESS_CHECK(taken[i] >= STRESS_LEAST, "producer %u sent %llu packets: nothing is tested",
                     i, (unsigned long long)taken[i]);
        sum += taken[i];
    }
    printf("%u x %u producers: %llu packets, %llu refused, slept for room %llu times, the owner "
           "%llu\n",
           processes, threads, (unsigned long long)sum,
           (unsigned long long)atomic_load(&shared->refusals),
           (unsigned long long)atomic_load(&shared->sleeps), (unsigned long long)sleeps);
}

int main(int argc, char **argv) {
    static const struct {
        unsigned processes, threads;
        bool sleep;
    } rounds[] = {{1, 1, false}, {1, 4, false}, {1, 16, false}, {4, 4, false},
                  {1, 2, true},  {4, 4, true},  {1, 80, true},  {5, 16, true}};
    const unsigned nrounds = sizeof(rounds) / sizeof(rounds[0]);
    stress_parse(argc, argv);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    STRESS_CHECK(shared != MAP_FAILED, "no shared memory");
    alarm(450 + (unsigned)stress.seconds);
    for (unsigned i = 0; i < nrounds; i++)
        round_of(rounds[i].processes, rounds[i].threads, rounds[i].sleep, stress.seconds / nrounds);
    return 0;
}
