/* The ends of streams between nodes meet by messages of the host's: what the other end says of its
 * slots is checked, and all receives have ended before their memory is freed. */
#include "check.h"

#include "host/host.h"
#include "llcl/llcl.h"
#include "node/team.h"
#include "persistent/channel.h"
#include "persistent/collectives.h"
#include "persistent/far_private.h"
#include "tugboat/tugboat.h"

#define PEERS 3

static uint64_t slot_bytes; /* that all peers say */
static unsigned waits;      /* requests that have ended */
static unsigned fails;      /* the first so many end with an error */

bool __wrap_tug_all_agree(MPI_Comm comm, bool mine);
bool __wrap_tug_all_agree(MPI_Comm comm, bool mine) {
    (void)comm;
    return mine;
}

int __wrap_tug_polite_wait(MPI_Request *request);
int __wrap_tug_polite_wait(MPI_Request *request) {
    (void)request;
    return waits++ < fails ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
}

int __wrap_tug_mem_register(tug_context *context, void *address, size_t bytes,
                            tug_registration **result);
int __wrap_tug_mem_register(tug_context *context, void *address, size_t bytes,
                            tug_registration **result) {
    (void)context, (void)address, (void)bytes;
    *result = NULL;
    return 0;
}

tug_registration *__wrap_tug_context_everything(tug_context *context);
tug_registration *__wrap_tug_context_everything(tug_context *context) {
    (void)context;
    return NULL;
}

void __wrap_tug_mem_key(const tug_registration *registration, struct tug_key *key);
void __wrap_tug_mem_key(const tug_registration *registration, struct tug_key *key) {
    (void)registration;
    memset(key, 1, sizeof(*key));
}

static int receive(void *memory, MPI_Count bytes, MPI_Datatype type, int from, int tag,
                   MPI_Comm comm, MPI_Request *request) {
    (void)type, (void)from, (void)tag, (void)comm, (void)request;
    assert_int_equal(bytes, sizeof(struct tug_far_end));
    ((struct tug_far_end *)memory)->slot_bytes = slot_bytes;
    return MPI_SUCCESS;
}

static int send(const void *memory, MPI_Count bytes, MPI_Datatype type, int to, int tag,
                MPI_Comm comm, MPI_Request *request) {
    (void)memory, (void)bytes, (void)type, (void)to, (void)tag, (void)comm, (void)request;
    return MPI_SUCCESS;
}

/* Opens a stream to each of the peers. */
static int open_streams(void) {
    static struct tug_team team;
    struct tug_far far = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct tug_collectives own = {.far = &far};
    struct tug_channel channel = {0};
    team.parts[TUG_PART_COLLECTIVES].state = &own;
    for (uint32_t i = 0; i < PEERS; i++) {
        const struct tug_far_need need = {.peer = i + 1, .sends = true, .longest = 8};
        assert_non_null(tug_far_want(&team, &channel, &need));
    }
    waits = 0;
    const int error = tug_far_open(&team, &channel, true);
    tug_far_close(&channel);
    while (far.blocks != NULL) {
        struct tug_far_kept *block = far.blocks;
        far.blocks = block->next;
        free(block->memory.base);
        free(block);
    }
    return error;
}

static void slots_are_as_readers_make_them(void **state) {
    (void)state;
    static const uint64_t good[] = {64, 1024, 32768},
                          lies[] = {0, 32, 96, 65536, UINT64_MAX, (uint64_t)1 << 63};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        slot_bytes = good[i];
        assert_int_equal(open_streams(), 0);
    }
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        slot_bytes = lies[i];
        assert_int_equal(open_streams(), TUG_ERR_PEER);
    }
}

static void all_that_is_received_ends(void **state) {
    (void)state;
    slot_bytes = 64;
    for (fails = 1; fails <= 2 * PEERS; fails++) {
        assert_int_equal(open_streams(), TUG_ERR_MPI);
        assert_int_equal(waits, 2 * PEERS);
    }
    fails = 0;
}

/* What a writer would have written: adds to words and gates here. */
static uint64_t words[4], gate;
static unsigned failing; /* writes that find no room */

bool __wrap_tug_try_write_signal_async(tug_context *context,
                                       const struct tug_write_signal_params *params);
bool __wrap_tug_try_write_signal_async(tug_context *context,
                                       const struct tug_write_signal_params *params) {
    (void)context;
    if (failing > 0 && failing-- > 0)
        return false;
    const bool tells = params->size_in_bytes == 0;
    *(tells ? &gate : &words[params->signal_raddr.offset / sizeof(uint64_t)]) += params->value;
    return true;
}

/* A word says how often its slot was filled, and how many segments came together; slots are given
 * back by several. What finds no room has not happened. */
static void rings_go_round(void **state) {
    (void)state;
    struct tug_far far = {.context = NULL};
    uint64_t said[4] = {0};
    const unsigned char data[1] = {0};
    struct tug_counter local = {0};
    const struct tug_far_memory memory = {.registration = (tug_registration *)(void *)said,
                                          .base = (unsigned char *)(uintptr_t)data};
    struct tug_far_ring writer = {.far = &far, .slots = 4, .slot_bytes = 1, .said = said},
                        reader = {.far = &far, .slots = 4, .tell_every = 3};
    writer.here = (unsigned char *)&gate;
    reader.here = (unsigned char *)words;
    for (uint64_t p = 0, n; p < 1000; p += n) {
        n = p % 3 + 1;
        if (!tug_far_has_room(&writer, p + n)) {
            reader.read = p; /* all */
            failing = 1;
            tug_far_give_back(&reader);
            assert_false(tug_far_has_room(&writer, p + n));
            tug_far_give_back(&reader);
        }
        assert_true(tug_far_has_room(&writer, p + n));
        assert_int_equal(tug_far_filled(&reader, p), 0);
        failing = 1;
        assert_false(tug_far_fill(&writer, p, (uint32_t)n, data, 1, &memory, NULL, &local));
        assert_int_equal(tug_far_filled(&reader, p), 0);
        assert_true(tug_far_fill(&writer, p, (uint32_t)n, data, 1, &memory, NULL, &local));
        assert_int_equal(tug_far_filled(&reader, p), n);
        assert_int_equal(tug_far_filled(&reader, p + 4), 0);
    }
    assert_false(tug_far_has_room(&writer, reader.read + 5));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_as_readers_make_them),
        cmocka_unit_test(all_that_is_received_ends),
        cmocka_unit_test(rings_go_round),
    };
    tug_host.Irecv_c = receive;
    tug_host.Isend_c = send;
    return cmocka_run_group_tests_name("far", tests, NULL, NULL);
}
