/* What a sender of the node greets a receiver with, by a message: what lies outside of the board is
 * not used, and the rounds stay the host's. */
#include "check.h"

#include "base/settings.h"
#include "host/host.h"
#include "persistent/partitioned_private.h"

#if MPI_VERSION >= 4

#define PARTITIONS 4
#define PARTITION_BYTES ((size_t)1000)

static unsigned char data[2][PARTITIONS * PARTITION_BYTES];
static unsigned started; /* rounds of the host's */

static int start(MPI_Request *request) {
    (void)request;
    started++;
    return MPI_SUCCESS;
}

static struct tug_partitioned *make(bool sends) {
    const struct tug_partitioned_kind *kind = &tug_partitioned_near;
    struct tug_partitioned *one = calloc(1, kind->bytes);
    assert_non_null(one);
    one->kind = kind;
    one->call = (struct tug_partitioned_call){
        .sends = sends, .buffer = data[sends], .partitions = PARTITIONS};
    one->bytes = PARTITION_BYTES;
    one->can = true;
    kind->prepare(one);
    return one;
}

static void end(struct tug_partitioned *one) {
    one->kind->let_go(one);
    free((void *)one->done);
    free(one);
}

/* Words of a greeting, from its end. */
enum { BYTES = 1, OF_PARTITIONS, DATA, DISTANCE, BOARD_BYTES, WORDS };

/* Does a receiver believe the sender, if that word of the greeting is another? */
static bool is_believed(const struct tug_partitioned *send, int word, uint64_t value) {
    struct tug_partitioned *receive = make(false);
    const size_t words = send->kind->greeting_bytes / sizeof(uint64_t);
    memcpy(receive->greeting, send->greeting, send->kind->greeting_bytes);
    if (word < WORDS)
        ((uint64_t *)receive->greeting)[words - (size_t)word] = value;
    receive->greeted = true;
    started = 0;
    receive->kind->start(receive, 2);
    assert_true((atomic_load(&receive->way) == TUG_WAY_HOST) == (started == 1));
    end(receive);
    return started == 0;
}

static void greetings(void **state) {
    (void)state;
    static const struct {
        int word;
        uint64_t value;
    } lies[] = {{BYTES, PARTITION_BYTES + 1},    {BYTES, 0},
                {OF_PARTITIONS, PARTITIONS * 2}, {OF_PARTITIONS, 0},
                {OF_PARTITIONS, UINT64_MAX},     {DISTANCE, 30000},
                {DISTANCE, UINT64_MAX},          {BOARD_BYTES, 64},
                {BOARD_BYTES, UINT64_MAX}};
    struct tug_partitioned *send = make(true);
    assert_true(is_believed(send, WORDS, 0));
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++)
        if (is_believed(send, lies[i].word, lies[i].value))
            fail_msg("word %d from the end: %llu is believed", lies[i].word,
                     (unsigned long long)lies[i].value);
    end(send);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(greetings)};
    tug_settings_reset();
    tug_host.Start = start;
    return cmocka_run_group_tests_name("partitioned", tests, NULL, NULL);
}

#else

int main(void) {
    puts("skipped: this host has no partitioned messages");
    return 77;
}

#endif
