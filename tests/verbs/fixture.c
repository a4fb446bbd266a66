/* What the cases of test_verbs share. */
#include <sys/mman.h>

#include "fixture.h"

unsigned char *mine_memory, *theirs_memory;
struct tug_registration *mine, *theirs;

static unsigned char pattern(size_t i, unsigned seed) {
    return (unsigned char)(i * 7 + (i >> 8) * 13 + (i >> 16) * 31 + seed);
}

void fill(unsigned char *at, size_t bytes, unsigned seed) {
    for (size_t i = 0; i < bytes; i++)
        at[i] = pattern(i, seed);
}

void assert_filled(const unsigned char *at, size_t bytes, unsigned seed) {
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != pattern(i, seed))
            fail_msg("byte %zu of %zu is %u, not %u", i, bytes, at[i], pattern(i, seed));
}

void *map_memory(size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    return at;
}

static struct tug_ibv as_found; /* what a case that fails has put in the place of functions goes */

int set_up(void **state) {
    (void)state;
    fake_hold = false;
    fake_open();
    if (as_found.open_device == NULL)
        as_found = tug_ibv;
    mine_memory = map_memory(AREA);
    theirs_memory = map_memory(AREA);
    mine = fake_register(ORIGIN, mine_memory, AREA);
    theirs = fake_register(TARGET, theirs_memory, AREA);
    return 0;
}

int tear_down(void **state) {
    (void)state;
    fake_deregister(ORIGIN, mine);
    fake_deregister(TARGET, theirs);
    munmap(mine_memory, AREA);
    munmap(theirs_memory, AREA);
    fake_close();
    tug_ibv = as_found; /* no thread calls them now */
    return 0;
}

void post(enum tug_operation_kind kind, struct tug_registration *remote, uint64_t offset,
          uint64_t local_offset, uint64_t bytes, struct fake_end *end) {
    fake_post(ORIGIN,
              fake_operation(ORIGIN, 1, kind, remote, offset, mine, local_offset, bytes, end));
}

void assert_done(const struct fake_end *end, int status) {
    assert_int_equal(end->complete, 1);
    assert_int_equal(end->status, status);
}

void run_one(enum tug_operation_kind kind, uint64_t offset, uint64_t local_offset, uint64_t bytes) {
    struct fake_end end;
    post(kind, theirs, offset, local_offset, bytes, &end);
    assert_true(fake_finish(60));
    assert_done(&end, 0);
    assert_int_equal(end.local, kind == TUG_OPERATION_WRITE);
}

struct tug_operation *make_atomic(struct fake *fake, enum tug_operation_kind kind, uint8_t op,
                                  uint64_t operand, uint64_t compare, uint64_t offset,
                                  struct tug_registration *result, uint64_t result_offset,
                                  struct fake_end *end) {
    struct tug_operation *operation =
        fake_operation(fake, 1, kind, theirs, offset, result, result_offset, 8, end);
    operation->op = op;
    operation->operand = operand;
    operation->compare = compare;
    assert_true(tug_transport_verbs.takes(fake->view, operation));
    return operation;
}

void write_apart(unsigned n, unsigned first) {
    for (unsigned i = 0; i < n; i++) {
        struct tug_operation *operation = fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs,
                                                         (first + i) * 16, NULL, 0, 8, NULL);
        memcpy(operation->data, &(uint64_t){first + i}, 8);
        fake_post(ORIGIN, operation);
    }
}

unsigned sleep_until_done(void) {
    unsigned sleeps = 0;
    while (fake_busy(ORIGIN->view)) {
        const uint32_t key = tug_bell_prepare(&ORIGIN->bell);
        assert_true(tug_transport_verbs.arm(ORIGIN->view));
        if (tug_transport_verbs.poll(ORIGIN->view))
            continue;
        const uint64_t before = tug_clock_ns();
        tug_bell_wait(&ORIGIN->bell, key, 30000000000, false);
        assert_true(tug_clock_ns() - before < 25000000000u);
        sleeps++;
    }
    return sleeps;
}

void lose_server_of(struct tug_verbs_pair *pair) {
    tug_ibv.destroy_qp(pair->server->qp);
    free(pair->server);
    pair->server = NULL;
}

void lose_server(void) {
    lose_server_of(TARGET->verbs->pairs[0]);
}

void drain_servers(const struct fake *fake) {
    CHECK_SOON((fake_round(), fake->verbs->retired == NULL));
}
