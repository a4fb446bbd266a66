/* Rendezvous: long messages come through whole and in order, whoever copies how much, also where
 * the kernel refuses one end or both, and among short ones. */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "check.h"
#include "persistent/pair.h"
#include "persistent/rendezvous.h"

#define LONGEST ((size_t)300000)
#define SLOT ((size_t)256)
#define NOBODY ((pid_t)0x7fffffff) /* the kernel has no such process */

static struct tug_bell writers_bell, readers_bell;
static unsigned char sent[LONGEST], received[LONGEST];

/* Two views of one pair, as two processes have them: this one is both. */
struct ends {
    unsigned char *memory;
    struct tug_segment_ring writer, reader;
    struct tug_partner to_writer, to_reader;
};

static void open_ends(struct ends *ends) {
    size_t bytes = tug_pair_memory(TUG_SEGMENT_SLOTS, SLOT);
    *ends = (struct ends){.memory = aligned_alloc(64, (bytes + 63) / 64 * 64),
                          .to_writer = {.pid = getpid(), .bell = &writers_bell, .wakes = true},
                          .to_reader = {.pid = getpid(), .bell = &readers_bell}};
    assert_non_null(ends->memory);
    memset(ends->memory, 0, bytes);
    ends->writer = ends->reader = tug_pair_at(ends->memory, TUG_SEGMENT_SLOTS);
}

/* One end's part of one message, the slots' too. */
struct progress {
    struct tug_rendezvous_state rendezvous;
    size_t done;
};

static bool put(struct ends *ends, struct progress *at, size_t bytes) {
    if (!at->rendezvous.refused)
        return tug_rendezvous_put(&ends->writer, &at->rendezvous, sent, bytes, &ends->to_reader);
    return tug_pair_put(&ends->writer, SLOT, sent, bytes, &at->done, &readers_bell);
}

static bool take(struct ends *ends, struct progress *at, size_t bytes) {
    if (!at->rendezvous.refused)
        return tug_rendezvous_take(&ends->reader, &at->rendezvous, received, bytes,
                                   &ends->to_writer);
    return tug_pair_take(&ends->reader, SLOT, received, bytes, &at->done, &writers_bell);
}

static uint64_t random_state = 88172645463325252u;

static void fill(size_t bytes) {
    unsigned char x = (unsigned char)check_draw(&random_state);
    for (size_t i = 0; i < bytes; i++)
        sent[i] = (unsigned char)(x + i * 7 + i / 256);
    memset(received, ~x, sizeof(received));
}

/* One message; the writer has `share` of 16 turns. */
static void pass(struct ends *ends, size_t bytes, unsigned share) {
    struct progress writer = {0}, reader = {0};
    bool put_all = false, taken_all = false;
    fill(bytes);
    for (unsigned turns = 0; !put_all || !taken_all; turns++) {
        assert_true(turns < 1000000);
        if ((check_draw(&random_state) >> 20) % 16 < share)
            put_all = put_all || put(ends, &writer, bytes);
        else
            taken_all = taken_all || take(ends, &reader, bytes);
    }
    assert_memory_equal(received, sent, bytes);
    assert_true(bytes == LONGEST || received[bytes] == received[LONGEST - 1]);
}

static void pass_many(struct ends *ends) {
    static const size_t sizes[] = {1, 4095, 16384, 16385, 32768, 65536, 70001, 200000, LONGEST};
    for (int i = 0; i < 200; i++)
        pass(ends, sizes[check_draw(&random_state) % 9],
             1 + (unsigned)(check_draw(&random_state) % 15));
    free(ends->memory);
}

static void comes_through(void **state) {
    struct ends ends;
    (void)state;
    open_ends(&ends);
    pass_many(&ends);
}

static void both_take_part(void **state) {
    struct ends ends;
    struct progress writer = {0}, reader = {0};
    (void)state;
    open_ends(&ends);
    fill(LONGEST);
    assert_false(put(&ends, &writer, LONGEST)); /* offered */
    assert_int_equal(writer.rendezvous.copied, 0);
    assert_false(take(&ends, &reader, LONGEST)); /* seen, and its first piece */
    assert_int_equal(reader.rendezvous.copied, 1);
    for (uint32_t n = writer.rendezvous.copied; !put(&ends, &writer, LONGEST);) {
        if (writer.rendezvous.copied == n)
            break; /* all others were the writer's */
        n = writer.rendezvous.copied;
    }
    assert_true(writer.rendezvous.copied > 1);
    assert_true(take(&ends, &reader, LONGEST));
    assert_true(put(&ends, &writer, LONGEST));
    assert_memory_equal(received, sent, LONGEST);
    free(ends.memory);
}

static void offered_ahead(void **state) {
    struct ends ends;
    struct progress writer = {0}, reader = {0};
    (void)state;
    open_ends(&ends);
    fill(LONGEST);
    tug_rendezvous_offer(&ends.writer, &writer.rendezvous, sent, &readers_bell);
    while (!take(&ends, &reader, LONGEST))
        ;
    assert_true(put(&ends, &writer, LONGEST));
    assert_memory_equal(received, sent, LONGEST);
    free(ends.memory);
}

static void alone(void **state) {
    struct ends ends;
    struct progress writer = {0}, reader = {0};
    (void)state;
    open_ends(&ends);
    ends.to_reader.reader_alone = ends.to_writer.reader_alone = true;
    fill(LONGEST);
    assert_false(put(&ends, &writer, LONGEST));
    assert_true(take(&ends, &reader, LONGEST));
    assert_true(put(&ends, &writer, LONGEST));
    assert_int_equal(writer.rendezvous.copied, 0);
    assert_memory_equal(received, sent, LONGEST);
    pass_many(&ends);
}

static void mapped(void **state) {
    struct ends ends;
    (void)state;
    open_ends(&ends);
    ends.to_writer.pid = 0;
    ends.to_writer.view = sent;
    for (int i = 0; i < 50; i++) {
        ends.to_writer.view_streams = i % 2;
        pass(&ends, 200000, 8);
    }
    free(ends.memory);
}

/* Through the slots then. */
static void refused(void **state) {
    static const struct {
        pid_t writer, reader;
    } who[] = {{NOBODY, 0}, {0, NOBODY}, {NOBODY, NOBODY}};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct ends ends;
        open_ends(&ends);
        if (who[i].writer != 0)
            ends.to_writer.pid = who[i].writer;
        if (who[i].reader != 0)
            ends.to_reader.pid = who[i].reader;
        pass_many(&ends);
    }
}

/* ---- two threads ---- */

#define MESSAGES 3000

static const size_t lengths[] = {70000, 300000, 16384, 100};

static void *put_all(void *argument) {
    struct ends *ends = argument;
    for (int i = 0; i < MESSAGES; i++) {
        struct progress at = {0};
        while (!put(ends, &at, lengths[i % 4]))
            sched_yield();
    }
    return NULL;
}

/* The kernel refuses the reader now and then. */
static void two_threads(void **state) {
    struct ends ends;
    pthread_t writer;
    (void)state;
    open_ends(&ends);
    fill(LONGEST);
    assert_int_equal(pthread_create(&writer, NULL, put_all, &ends), 0);
    for (int i = 0; i < MESSAGES; i++) {
        struct progress at = {0};
        memset(received, i, sizeof(received));
        ends.to_writer.pid = i % 7 == 0 ? NOBODY : getpid();
        while (!take(&ends, &at, lengths[i % 4]))
            sched_yield();
        assert_memory_equal(received, sent, lengths[i % 4]);
        assert_int_equal(received[lengths[i % 4] == LONGEST ? 0 : lengths[i % 4]],
                         lengths[i % 4] == LONGEST ? sent[0] : (unsigned char)i);
    }
    pthread_join(writer, NULL);
    free(ends.memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_through), cmocka_unit_test(both_take_part),
        cmocka_unit_test(offered_ahead), cmocka_unit_test(alone),
        cmocka_unit_test(mapped),        cmocka_unit_test(refused),
        cmocka_unit_test(two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
