/* Pairs: messages of all lengths come through whole and in order, however the two ends take turns
 * and slots are written; a full ring stops the writer and an empty one the reader, and both get on
 * afterwards. A measurement leaves a pair as it found it. */
#include <pthread.h>
#include <sched.h>

#include "check.h"
#include "persistent/pair.h"

#define MESSAGES 20000
#define LONGEST 3000 /* bytes: through slots of 256, more than a ringful */
#define SLOT ((size_t)256)

static struct tug_bell writers_bell, readers_bell;

/* Two views of one ring, as two processes have them. */
struct ends {
    unsigned char *memory;
    struct tug_segment_ring writer, reader;
    size_t slot;
};

static void open_ends(struct ends *ends, uint32_t slots, size_t slot) {
    size_t bytes = tug_pair_memory(slots, slot);
    ends->memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(ends->memory);
    memset(ends->memory, 0, bytes);
    ends->writer = ends->reader = tug_pair_at(ends->memory, slots);
    ends->slot = slot;
}

/* Lengths at all edges: nothing, what rides in a head, one slot, several, more than there are. */
static size_t length_of(uint64_t seed, uint64_t n, size_t slot) {
    uint64_t state = seed + (n + 1) * 0x9e3779b97f4a7c15u;
    uint64_t x = check_draw(&state);
    switch (x % 6) {
    case 0:
        return x / 6 % 3;
    case 1:
        return TUG_SLOT_INLINE - 1 + x / 6 % 3;
    case 2:
        return slot - 1 + x / 6 % 3;
    case 3:
        return 2 * slot - 1 + x / 6 % 3;
    default:
        return x / 6 % (LONGEST + 1);
    }
}

static void fill(unsigned char *message, size_t bytes, uint64_t n) {
    for (size_t i = 0; i < bytes; i++)
        message[i] = (unsigned char)(n * 31 + i * 7 + i / 256);
}

static bool is_filled(const unsigned char *message, size_t bytes, uint64_t n) {
    for (size_t i = 0; i < bytes; i++)
        if (message[i] != (unsigned char)(n * 31 + i * 7 + i / 256))
            return false;
    return true;
}

struct end_state {
    uint64_t n; /* messages that are through */
    size_t done;
    unsigned char message[LONGEST];
};

static void write_some(struct ends *ends, struct end_state *at, uint64_t seed) {
    size_t bytes = length_of(seed, at->n, ends->slot);
    fill(at->message, bytes, at->n);
    if (!tug_pair_put(&ends->writer, ends->slot, at->message, bytes, &at->done, &readers_bell))
        return;
    at->n++;
    at->done = 0;
}

static bool read_some(struct ends *ends, struct end_state *at, uint64_t seed) {
    size_t bytes = length_of(seed, at->n, ends->slot);
    if (!tug_pair_take(&ends->reader, ends->slot, at->message, bytes, &at->done, &writers_bell))
        return true;
    bool right = is_filled(at->message, bytes, at->n);
    at->n++;
    at->done = 0;
    return right;
}

/* ---- one thread, turns by chance ---- */

static void take_turns_with(struct ends *ends, uint64_t seed) {
    static struct end_state writer, reader;
    uint64_t random = seed;
    writer = reader = (struct end_state){0};
    for (uint64_t idle = 0; reader.n < MESSAGES; idle++) {
        uint64_t before = writer.n + reader.n + writer.done + reader.done;
        if ((check_draw(&random) >> 20) % 2 && writer.n < MESSAGES)
            write_some(ends, &writer, seed);
        else if (!read_some(ends, &reader, seed))
            fail_msg("seed %llu: message %llu is wrong", (unsigned long long)seed,
                     (unsigned long long)reader.n - 1);
        if (writer.n + reader.n + writer.done + reader.done != before)
            idle = 0;
        assert_true(idle < 1000);
    }
    assert_int_equal(writer.n, MESSAGES);
    assert_false(tug_pair_has_news(&ends->reader));
    free(ends->memory);
}

static void take_turns(size_t slot, uint64_t seed) {
    struct ends ends;
    open_ends(&ends, TUG_SEGMENT_SLOTS, slot);
    take_turns_with(&ends, seed);
}

static void comes_through_in_order(void **state) {
    (void)state;
    take_turns(SLOT, 1);
    take_turns(64, 2);
    take_turns(TUG_SLOT_INLINE, 3); /* nothing but heads */
}

/* The writer learns of room when the reader has read `told` slots. */
static void fill_and_empty(uint32_t slots, uint32_t told) {
    struct ends ends;
    unsigned char byte = 7;
    size_t done = 0;
    open_ends(&ends, slots, SLOT);
    assert_false(tug_pair_has_news(&ends.reader));
    assert_false(tug_pair_take(&ends.reader, SLOT, &byte, 1, &done, &writers_bell));
    for (uint32_t i = 0; i < slots; i++, done = 0)
        assert_true(tug_pair_put(&ends.writer, SLOT, &byte, 1, &done, &readers_bell));
    assert_false(tug_pair_has_room(&ends.writer, 1));
    assert_false(tug_pair_put(&ends.writer, SLOT, &byte, 1, &done, &readers_bell));
    assert_int_equal(done, 0);
    for (uint32_t i = 1; i <= slots; i++, done = 0) {
        assert_true(tug_pair_take(&ends.reader, SLOT, &byte, 1, &done, &writers_bell));
        assert_true(tug_pair_has_room(&ends.writer, i / told * told));
        assert_false(tug_pair_has_room(&ends.writer, i / told * told + 1));
    }
    free(ends.memory);
}

static void full_and_empty(void **state) {
    (void)state;
    fill_and_empty(TUG_SEGMENT_SLOTS, TUG_SEGMENT_SLOTS / 2);
    fill_and_empty(64, 16); /* a message takes several of more slots */
}

/* ---- two threads ---- */

struct job {
    struct ends ends;
    uint64_t seed;
};

static void *write_all(void *argument) {
    struct job *job = argument;
    static struct end_state at;
    for (at = (struct end_state){0}; at.n < MESSAGES;) {
        uint64_t n = at.n;
        write_some(&job->ends, &at, job->seed);
        if (at.n == n)
            sched_yield();
    }
    return NULL;
}

static void two_threads(void **state) {
    static struct end_state at;
    struct job job = {.seed = 4};
    pthread_t writer;
    (void)state;
    open_ends(&job.ends, TUG_SEGMENT_SLOTS, SLOT);
    at = (struct end_state){0};
    assert_int_equal(pthread_create(&writer, NULL, write_all, &job), 0);
    while (at.n < MESSAGES) {
        uint64_t n = at.n;
        if (!read_some(&job.ends, &at, job.seed))
            fail_msg("message %llu is wrong", (unsigned long long)n);
        if (at.n == n)
            sched_yield();
    }
    pthread_join(writer, NULL);
    free(job.ends.memory);
}

/* ---- sizes ---- */

static void slots_fit_messages_and_memory(void **state) {
    (void)state;
    assert_int_equal(tug_pair_slot_bytes(1, 8), 0);
    assert_int_equal(tug_pair_slot_bytes(2, 0), 0);
    assert_int_equal(tug_pair_slot_bytes(TUG_PAIR_RANKS + 1, 8), 0);
    assert_int_equal(tug_pair_slot_bytes(2, 1), TUG_SLOT_INLINE);
    assert_int_equal(tug_pair_slot_bytes(2, TUG_SLOT_INLINE), TUG_SLOT_INLINE);
    assert_int_equal(tug_pair_slot_bytes(2, TUG_SLOT_INLINE + 1), 64);
    assert_int_equal(tug_pair_slot_bytes(2, 4096), 4096);
    assert_int_equal(tug_pair_slot_bytes(16, SIZE_MAX), 8192);
    for (int n = 2; n <= TUG_PAIR_RANKS; n++) {
        size_t all = (size_t)n * (size_t)n *
                     tug_pair_memory(TUG_SEGMENT_SLOTS, tug_pair_slot_bytes(n, SIZE_MAX));
        assert_true(all <= (size_t)(n <= 8 ? 8 : 20) << 20);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_through_in_order),
        cmocka_unit_test(full_and_empty),
        cmocka_unit_test(two_threads),
        cmocka_unit_test(slots_fit_messages_and_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
