/* LLCL with more threads than cores, without MPI: the requesters, the ring, the engine and its
 * offload thread, packets and two real inboxes; the peer is a thread that serves.
 *
 * Every thread has a stripe of the peer's memory and of its own. It writes words there, reads them
 * back when the write is complete, and adds to counters that all share; callbacks start operations
 * now and then. What is read must be what was written, and the counters must count everything. A
 * small table and a small ring make calls find no room.
 */
#include "llcl/private.h"
#include "stress.h"
#include "tests/joined.h"
#include "node/inbox.h"
#include "transport/packets/packets.h"

#define MAX_THREADS 16
#define STRIPE ((size_t)4096)
#define COUNTERS 8
#define MEMORY (MAX_THREADS * STRIPE + COUNTERS * 8)

struct wire {
    struct tug_wire wire;
    struct tug_inbox *in, *out;
    struct tug_bell *rung;
    uint64_t packet[TUG_INBOX_PACKET_BYTES / 8];
};

static bool wire_send(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer) {
    (void)peer;
    const struct wire *ours = (const struct wire *)wire;
    struct tug_slot *slot = tug_inbox_reserve(ours->out);
    if (slot == NULL)
        return false;
    memcpy(slot->head, buffer->packet.memory, slot->bytes = buffer->packet.used);
    tug_inbox_commit(slot, ours->rung);
    tug_pool_give(&wire->pool, buffer);
    return true;
}

static bool wire_poll(void *state) {
    struct wire *wire = state;
    struct tug_wire *base = &wire->wire;
    struct tug_slot *slot;
    unsigned taken = 0;
    while (taken < 16 && (slot = tug_inbox_first(wire->in)) != NULL) {
        const uint32_t bytes = slot->bytes;
        memcpy(wire->packet, slot->head, bytes);
        if (!base->receive(base->receiver, base, wire->packet, bytes))
            break;
        tug_inbox_release(wire->in);
        taken++;
    }
    return taken > 0;
}

static const struct tug_transport type = {.name = "test", .send = wire_send, .poll = wire_poll};

/* One process: a context as tug_context_create() makes it, but for MPI. */
struct side {
    struct tug_context context;
    struct tug_packets packets;
    struct tug_stream *streams[2];
    struct wire wire;
    tug_registration *registration;
    unsigned char memory[MEMORY] __attribute__((aligned(64)));
};

static struct side *ours, *peers;
static struct tug_inbox *inboxes;
static struct tug_bell bells[2];
static struct tug_key key;
static _Atomic bool ending;

static _Atomic uint64_t messages;

static int deliver(struct tug_fabric *fabric, uint32_t source, unsigned handler,
                   const void *payloads, size_t bytes, size_t n) {
    (void)fabric, (void)source, (void)handler, (void)payloads, (void)bytes;
    atomic_fetch_add_explicit(&messages, (unsigned)n, memory_order_relaxed);
    return 0;
}

static bool service_poll(struct tug_service *service, bool more_comes) {
    (void)service;
    ours->context.fabric.more_comes = more_comes;
    const bool moved = tug_context_poll(&ours->context);
    ours->context.fabric.more_comes = false;
    return moved;
}

static void service_flush(struct tug_service *service) {
    (void)service;
    tug_context_flush(&ours->context);
}

static bool service_busy(struct tug_service *service) {
    (void)service;
    return tug_context_busy(&ours->context);
}

static bool service_arm(struct tug_service *service) {
    (void)service;
    return true;
}

static struct side *make_side(uint32_t rank, uint32_t operations) {
    struct side *side = aligned_alloc(64, (sizeof(*side) + 63) / 64 * 64);
    memset(side, 0, sizeof(*side));
    struct tug_fabric *fabric = &side->context.fabric;
    fabric->context = &side->context;
    STRESS_CHECK(joined_begin(fabric, rank, operations), "no memory");
    joined_by(fabric, &side->packets, side->streams, &side->wire.wire, &type,
              TUG_INBOX_PACKET_BYTES);
    fabric->deliver = deliver;
    fabric->counter = tug_counter_add;
    fabric->count = tug_counter_add_many;
    side->wire.in = &inboxes[rank];
    side->wire.out = &inboxes[1 - rank];
    side->wire.rung = &bells[1 - rank];
    STRESS_CHECK(tug_mem_register(&side->context, side->memory, MEMORY, &side->registration) == 0,
                 "no registration");
    return side;
}

static void *serve(void *argument) {
    (void)argument;
    struct tug_bell *bell = &bells[1];
    while (!atomic_load(&ending)) {
        uint32_t key_of_bell = tug_bell_prepare(bell);
        if (!tug_context_poll(&peers->context) && !atomic_load(&ending))
            tug_bell_wait(bell, key_of_bell, tug_context_busy(&peers->context) ? 100000 : -1, true);
    }
    return NULL;
}

struct thread {
    pthread_t thread;
    unsigned which;
    uint64_t deadline_ns;
    uint64_t operations, refusals, added;
    _Atomic uint64_t from_callbacks;
    struct tug_counter counter;
};

static void count_one(void *d, int status) {
    struct thread *thread = d;
    STRESS_CHECK(status == 0, "an addition from a callback: %s", tug_strerror(status));
    tug_counter_add(&thread->counter, status);
}

static struct tug_fetch_and_op_params addition(unsigned counter, struct tug_callback callback) {
    return (struct tug_fetch_and_op_params){
        .dest_proc = 1,
        .dest_raddr = {&key, MAX_THREADS * STRIPE + 8 * (size_t)counter},
        .size_in_bytes = 8,
        .op = TUG_ADD,
        .operand = 1,
        .on_complete = callback};
}

/* Starts another operation if there is room for it. */
static void add_again(void *d, int status) {
    struct thread *thread = d;
    STRESS_CHECK(status == 0, "a write: %s", tug_strerror(status));
    struct tug_fetch_and_op_params params =
        addition(thread->which % COUNTERS, (struct tug_callback){count_one, thread});
    if (tug_try_fetch_and_op_async(&ours->context, &params))
        atomic_fetch_add(&thread->from_callbacks, 1);
    tug_counter_add(&thread->counter, 0);
}

#define UNTIL_TAKEN(thread, call)                                                                  \
    while (!(call)) {                                                                              \
        (thread)->refusals++;                                                                      \
        tug_progress(&ours->context);                                                              \
    }

static void wait_all(struct thread *thread) {
    uint64_t all;
    do { /* callbacks may have started more */
        all = thread->operations + atomic_load(&thread->from_callbacks);
        int status = tug_counter_wait(&ours->context, &thread->counter, all);
        STRESS_CHECK(status == 0, "an operation: %s", tug_strerror(status));
    } while (all != thread->operations + atomic_load(&thread->from_callbacks));
}

static void burst(struct thread *thread, uint64_t *random) {
    const struct tug_callback count = {tug_counter_add, &thread->counter};
    const struct tug_callback again = {add_again, thread};
    size_t stripe = thread->which * STRIPE;
    unsigned n = 1 + (unsigned)(stress_random(random) % 60);
    uint64_t *mine = (uint64_t *)(ours->memory + stripe);
    for (unsigned i = 0; i < n; i++) {
        size_t bytes = 8 * (1 + stress_random(random) % 4);
        uint64_t value = stress_random(random);
        for (unsigned w = 0; w < 4; w++)
            mine[4 * i + w] = value + w;
        struct tug_write_params write = {.dest_proc = 1,
                                         .dest_raddr = {&key, stripe + 32 * i},
                                         .src_laddr = {ours->registration, stripe + 32 * i},
                                         .size_in_bytes = bytes,
                                         .on_complete = value % 16 == 0 ? again : count};
        UNTIL_TAKEN(thread, tug_try_write_async(&ours->context, &write));
        thread->operations++;
        if (value % 8 == 1) {
            struct tug_fetch_and_op_params add = addition((unsigned)(value >> 8) % COUNTERS, count);
            UNTIL_TAKEN(thread, tug_try_fetch_and_op_async(&ours->context, &add));
            thread->operations++;
            thread->added++;
        }
    }
    wait_all(thread);
    for (unsigned i = 0; i < n; i++) {
        struct tug_read_params read = {.src_proc = 1,
                                       .src_raddr = {&key, stripe + 32 * i},
                                       .dest_laddr = {ours->registration, stripe + 2048 + 8 * i},
                                       .size_in_bytes = 8,
                                       .on_complete = count};
        UNTIL_TAKEN(thread, tug_try_read_async(&ours->context, &read));
        thread->operations++;
    }
    wait_all(thread);
    for (unsigned i = 0; i < n; i++)
        STRESS_CHECK(mine[256 + i] == mine[4 * i], "thread %u reads what it did not write",
                     thread->which);
}

static void *work(void *argument) {
    struct thread *thread = argument;
    uint64_t random = stress_seed_of(thread->which);
    for (uint64_t rounds = 0; stress_goes_on(rounds, thread->deadline_ns); rounds++)
        burst(thread, &random);
    return NULL;
}

static void free_side(struct side *side) {
    for (int i = 0; i < 2; i++)
        free(side->streams[i]);
    tug_pool_fini(&side->wire.wire.pool);
    tug_registration_end(side->registration);
    joined_end(&side->context.fabric);
    free(side);
}

static void host_poll(void) {}

static void round_of(unsigned threads, uint32_t operations, uint64_t ring, double seconds) {
    static struct thread all[MAX_THREADS];
    pthread_t server;
    uint64_t sum = 0, refusals = 0, due = 0, counted = 0;
    memset(inboxes, 0, 2 * sizeof(*inboxes));
    tug_settings.ring_size = ring;
    STRESS_CHECK(tug_engine_start(host_poll) == 0, "the engine does not start");
    ours = make_side(0, operations);
    peers = make_side(1, operations);
    tug_mem_key(peers->registration, &key);
    ours->context.service = (struct tug_service){.poll = service_poll,
                                                 .flush = service_flush,
                                                 .busy = service_busy,
                                                 .arm = service_arm,
                                                 .bell = &bells[0],
                                                 .bell_shared = true,
                                                 .descriptor = -1};
    tug_engine_serve(&ours->context.service);
    atomic_store(&ending, false);
    pthread_create(&server, NULL, serve, NULL);
    uint64_t deadline = tug_clock_ns() + (uint64_t)(seconds * 1e9);
    for (unsigned t = 0; t < threads; t++) {
        all[t] = (struct thread){.which = t, .deadline_ns = deadline};
        pthread_create(&all[t].thread, NULL, work, &all[t]);
    }
    for (unsigned t = 0; t < threads; t++) {
        pthread_join(all[t].thread, NULL);
        sum += all[t].operations;
        refusals += all[t].refusals;
        due += all[t].added + atomic_load(&all[t].from_callbacks);
    }
    tug_engine_unserve(&ours->context.service);
    atomic_store(&ending, true);
    (void)tug_bell_ring(&bells[1], true);
    pthread_join(server, NULL);
    for (unsigned i = 0; i < COUNTERS; i++)
        counted += ((uint64_t *)(peers->memory + MAX_THREADS * STRIPE))[i];
    STRESS_CHECK(counted == due, "%llu additions, and %llu were counted", (unsigned long long)due,
                 (unsigned long long)counted);
    free_side(ours);
    free_side(peers);
    tug_engine_stop();
    printf("%u threads, %u operations, ring of %llu: %llu operations, %llu without room\n", threads,
           operations, (unsigned long long)ring, (unsigned long long)sum,
           (unsigned long long)refusals);
    fflush(stdout);
}

int main(int argc, char **argv) {
    static const struct {
        unsigned threads;
        uint32_t operations;
        uint64_t ring;
        uint32_t yields; /* before a waiter parks: with few, everything depends on wake-ups */
    } rounds[] = {{1, 4096, 1024, 1000}, {4, 4096, 1024, 1}, {16, 4096, 1024, 1000},
                  {8, 16, 16, 1000},     {16, 64, 16, 1},    {4, 1024, 16, 0}};
    const unsigned nrounds = sizeof(rounds) / sizeof(rounds[0]);
    stress_parse(argc, argv);
    stress_watchdog(450 + (unsigned)stress.seconds);
    inboxes = aligned_alloc(TUG_CACHE_LINE, 2 * sizeof(*inboxes));
    for (unsigned i = 0; i < nrounds; i++) {
        atomic_store(&tug_park_budget.yields, rounds[i].yields);
        round_of(rounds[i].threads, rounds[i].operations, rounds[i].ring, stress.seconds / nrounds);
    }
    free(inboxes);
    return 0;
}
