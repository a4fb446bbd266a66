/* Several devices or ports: which are used, shares of long operations, and what becomes of them
 * where a rail fails. With the stand-in, which has as many devices as it is told. */
#include <stdlib.h>

#include "fixture.h"

#define KIB 1024u

/* Both processes again, with so many devices. */
static void open_devices(void **state, const char *devices) {
    tear_down(state);
    setenv("FAKE_DEVICES", devices, 1);
    set_up(state);
    unsetenv("FAKE_DEVICES");
}

static struct tug_verbs *rail_of(const struct fake *fake, uint32_t rail) {
    return fake->view->rails[rail]->verbs;
}

/* Work requests so far by that rail. */
static uint64_t posted(uint32_t rail) {
    return rail_of(ORIGIN, rail)->posted;
}

static void assert_settled(void) {
    for (uint32_t rail = 0; rail < ORIGIN->view->nrails; rail++) {
        assert_int_equal(rail_of(ORIGIN, rail)->cq_room, rail_of(ORIGIN, rail)->cq_size);
        assert_int_equal(ORIGIN->view->rails[rail]->out, 0);
    }
    assert_int_equal(mine->users, 0);
}

static void assert_ports(const char *first, unsigned first_port, const char *last,
                         unsigned last_port, uint32_t rails) {
    assert_int_equal(ORIGIN->view->nrails, rails);
    assert_string_equal(rail_of(ORIGIN, 0)->device.name, first);
    assert_int_equal(rail_of(ORIGIN, 0)->device.port, first_port);
    assert_string_equal(rail_of(ORIGIN, rails - 1)->device.name, last);
    assert_int_equal(rail_of(ORIGIN, rails - 1)->device.port, last_port);
}

/* All ports as fast as the first are used, up to the number that is set; of a named device those of
 * it, and a named port alone. */
void rails_found(void **state) {
    assert_ports("fake0", 1, "fake0", 1, 1);
    open_devices(state, "3");
    assert_ports("fake0", 1, "fake2", 1, 3);
    setenv("FAKE_SLOW", "1", 1);
    open_devices(state, "3");
    assert_ports("fake0", 1, "fake2", 1, 2);
    unsetenv("FAKE_SLOW");
    setenv("FAKE_PORTS", "2", 1);
    open_devices(state, "2");
    assert_ports("fake0", 1, "fake1", 2, 4);
    tug_settings.verbs_rails = 3;
    open_devices(state, "2");
    assert_ports("fake0", 1, "fake1", 1, 3);
    tug_settings.verbs_rails = 4;
    tug_settings.verbs_device = "fake1";
    open_devices(state, "2");
    assert_ports("fake1", 1, "fake1", 2, 2);
    tug_settings.verbs_device = "fake1:2";
    open_devices(state, "2");
    assert_ports("fake1", 2, "fake1", 2, 1);
    tug_settings.verbs_device = "auto";
    unsetenv("FAKE_PORTS");
}

/* So many shares are cut of an operation; what is short goes by the first rail. */
void rails_shares(void **state) {
    static const struct {
        uint64_t bytes;
        unsigned shares;
    } sizes[] = {{8, 1},         {128 * KIB - 1, 1}, {128 * KIB, 2},
                 {192 * KIB, 3}, {256 * KIB + 5, 4}, {4096 * KIB + 4097, 4}};
    open_devices(state, "4");
    for (unsigned i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++) {
        const uint64_t bytes = sizes[i / 2].bytes;
        const unsigned shares = sizes[i / 2].shares;
        unsigned char *from = i % 2 ? theirs_memory : mine_memory;
        unsigned char *to = i % 2 ? mine_memory : theirs_memory;
        uint64_t before[TUG_RKEYS];
        for (uint32_t rail = 0; rail < TUG_RKEYS; rail++)
            before[rail] = posted(rail);
        fill(from + 3, bytes, i);
        memset(to, 0, bytes + 8);
        run_one(i % 2 ? TUG_OPERATION_READ : TUG_OPERATION_WRITE, 3, 3, bytes);
        assert_filled(to + 3, bytes, i);
        assert_int_equal(to[2] | to[bytes + 3], 0);
        for (uint32_t rail = 0; rail < TUG_RKEYS; rail++)
            assert_int_equal(posted(rail) - before[rail], rail < shares);
    }
    assert_settled();
}

/* An operation ends with its last share, whichever rail that goes by. */
void rails_apart(void **state) {
    struct fake_end end;
    open_devices(state, "2");
    run_one(TUG_OPERATION_WRITE, 0, 0, 8); /* the first rail is connected, the second is not */
    fake_hold = true;
    fill(mine_memory, 512 * KIB, 1);
    post(TUG_OPERATION_WRITE, theirs, 0, 0, 512 * KIB, &end);
    fake_flush(ORIGIN);
    for (unsigned i = 0; i < 10; i++)
        fake_round();
    assert_filled(theirs_memory, 256 * KIB, 1);
    assert_int_equal(theirs_memory[256 * KIB + 1], 0);
    assert_int_equal(end.complete + end.local, 0);
    assert_true(fake_busy(ORIGIN->view));
    fake_hold = false;
    assert_true(fake_finish(10));
    assert_done(&end, 0);
    assert_int_equal(end.local, 1);
    assert_filled(theirs_memory, 512 * KIB, 1);
    assert_settled();
}

/* The connection by one rail breaks: its share goes by another, and so do later ones while it is
 * closed. Nothing takes the next row. */
void rails_restart(void **state) {
    open_devices(state, "2");
    run_one(TUG_OPERATION_WRITE, 0, 0, 256 * KIB);
    lose_server_of(rail_of(TARGET, 1)->pairs[0]);
    for (unsigned i = 0; i < 2; i++) {
        const uint64_t first = posted(0);
        fill(mine_memory, 256 * KIB, 2 + i);
        run_one(i ? TUG_OPERATION_READ : TUG_OPERATION_WRITE, 0, 0, 256 * KIB);
        assert_filled(theirs_memory, 256 * KIB, 2);
        assert_int_equal(posted(0) - first, i ? 1 : 2);
    }
    assert_int_equal(ORIGIN->passed, 0);
    rail_of(ORIGIN, 1)->pairs[0]->closed_ns = 1; /* that time is over */
    const uint64_t second = posted(1);
    run_one(TUG_OPERATION_WRITE, 0, 0, 256 * KIB);
    assert_int_equal(posted(1) - second, 1);
    assert_settled();
}

static void lose(uint32_t rail) {
    atomic_store(&rail_of(ORIGIN, rail)->base.lost, true);
}

/* A device fails while shares wait for it. */
void rails_lost(void **state) {
    struct fake_end end;
    open_devices(state, "3");
    fill(mine_memory, 192 * KIB, 9);
    fake_hold = true; /* nothing is connected yet */
    post(TUG_OPERATION_WRITE, theirs, 0, 0, 192 * KIB, &end);
    fake_flush(ORIGIN);
    lose(2);
    fake_round();
    assert_int_equal(end.complete, 0);
    fake_hold = false;
    assert_true(fake_finish(10));
    assert_done(&end, 0);
    assert_filled(theirs_memory, 192 * KIB, 9);
    const uint64_t last = posted(2);
    run_one(TUG_OPERATION_READ, 0, 0, 192 * KIB);
    assert_int_equal(posted(2), last);
    assert_int_equal(ORIGIN->passed, 0);
    assert_settled();
}

/* The first rail's device fails: long operations go by the others, short ones by the next row. */
void rails_first_lost(void **state) {
    open_devices(state, "2");
    run_one(TUG_OPERATION_WRITE, 0, 0, 128 * KIB);
    lose(0);
    fake_round();
    fill(mine_memory, 128 * KIB, 4);
    run_one(TUG_OPERATION_WRITE, 0, 0, 128 * KIB);
    assert_filled(theirs_memory, 128 * KIB, 4);
    assert_int_equal(ORIGIN->passed, 0);
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    assert_int_equal(ORIGIN->passed, 1);
    assert_settled();
}

/* Behind the last rail there is the next row, for each share once. */
void rails_all_lost(void **state) {
    struct fake_end end;
    open_devices(state, "2");
    run_one(TUG_OPERATION_WRITE, 0, 0, 128 * KIB);
    post(TUG_OPERATION_WRITE, theirs, 0, 0, 128 * KIB, &end);
    lose(0);
    lose(1);
    lose_server_of(rail_of(TARGET, 0)->pairs[0]);
    lose_server_of(rail_of(TARGET, 1)->pairs[0]);
    assert_true(fake_finish(10));
    assert_done(&end, 0);
    assert_int_equal(ORIGIN->passed, 2);
    post(TUG_OPERATION_READ, theirs, 0, 0, 128 * KIB, &end);
    assert_true(fake_finish(10));
    assert_done(&end, 0);
    assert_int_equal(ORIGIN->passed, 3); /* whole: nothing cuts it */
    assert_settled();
}

/* Starts a short operation whose key names a port. */
static void post_by_port(enum tug_operation_kind kind, uint32_t port, uint64_t bytes,
                         struct fake_end *end) {
    struct tug_operation *operation =
        fake_operation(ORIGIN, 1, kind, theirs, 3, mine, 3, bytes, end);
    operation->rkey = theirs->rkeys[port];
    operation->op = (uint8_t)(port << TUG_PORT_SHIFT);
    fake_post(ORIGIN, operation);
}

/* What is short goes by the port that its key names, and by no other: one executor deals work out
 * to all of them, before any has begun. */
void rails_ports(void **state) {
    enum { EACH = 20, PORTS = 4 };
    struct fake_end ends[EACH * PORTS];
    open_devices(state, "4");
    assert_int_equal(ORIGIN->view->wire.ports, PORTS);
    for (unsigned i = 0; i < PORTS; i++)
        run_one(TUG_OPERATION_WRITE, 0, 0, 512 * KIB); /* all are connected */
    for (unsigned round = 0; round < 2; round++) {
        const uint64_t bytes = round ? 8 : 128 * KIB - 1;
        unsigned char *from = round ? theirs_memory : mine_memory;
        unsigned char *to = round ? mine_memory : theirs_memory;
        uint64_t before[PORTS], chains[PORTS];
        fill(from + 3, bytes, round);
        memset(to, 0, bytes + 8);
        for (uint32_t port = 0; port < PORTS; port++) {
            before[port] = posted(port);
            chains[port] = rail_of(ORIGIN, port)->chains;
        }
        fake_hold = true;
        for (uint32_t i = 0; i < EACH * PORTS; i++)
            post_by_port(round ? TUG_OPERATION_READ : TUG_OPERATION_WRITE, i % PORTS, bytes,
                         &ends[i]);
        tug_transport_verbs.flush(ORIGIN->view);
        for (uint32_t port = 0; port < PORTS; port++)
            assert_true(rail_of(ORIGIN, port)->chains > chains[port]);
        fake_hold = false;
        assert_true(fake_finish(60));
        for (uint32_t i = 0; i < EACH * PORTS; i++)
            assert_done(&ends[i], 0);
        assert_filled(to + 3, bytes, round);
        for (uint32_t port = 0; port < PORTS; port++)
            assert_int_equal(posted(port) - before[port], EACH);
    }
    assert_int_equal(ORIGIN->passed, 0);
    assert_settled();
}

/* The port that is named is lost: what is short takes the next row, and other ports go on. */
void rails_port_lost(void **state) {
    struct fake_end end;
    open_devices(state, "2");
    post_by_port(TUG_OPERATION_WRITE, 1, 8, &end);
    assert_true(fake_busy(ORIGIN->view));
    assert_true(fake_finish(60));
    assert_done(&end, 0);
    lose(1);
    fake_round();
    post_by_port(TUG_OPERATION_READ, 1, 8, &end);
    assert_true(fake_finish(60));
    assert_done(&end, 0);
    assert_int_equal(ORIGIN->passed, 1);
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    assert_int_equal(ORIGIN->passed, 1);
    assert_settled();
}

static struct ibv_pd *refuses;
static __typeof__(tug_ibv.reg_mr_iova) register_it;

static struct ibv_mr *register_but(struct ibv_pd *pd, void *address, size_t bytes, uint64_t at,
                                   int access) {
    errno = ENOMEM;
    return pd == refuses ? NULL : register_it(pd, address, bytes, at, access);
}

/* A device that has no room for the memory has no share of it. */
void rails_refuse_memory(void **state) {
    open_devices(state, "2");
    register_it = tug_ibv.reg_mr_iova;
    refuses = rail_of(TARGET, 1)->device.pd;
    tug_ibv.reg_mr_iova = register_but;
    fake_deregister(TARGET, theirs);
    theirs = fake_register(TARGET, theirs_memory, AREA);
    tug_ibv.reg_mr_iova = register_it;
    assert_int_equal(theirs->rkeys[1], 0);
    fill(mine_memory, 1024 * KIB, 5);
    run_one(TUG_OPERATION_WRITE, 0, 0, 1024 * KIB);
    assert_filled(theirs_memory, 1024 * KIB, 5);
    assert_int_equal(posted(0), 1);
    assert_int_equal(posted(1), 0);
    assert_settled();
}

/* Every share of an operation on memory that is not registered any more is refused; the operation
 * fails once, and later ones go by all rails. */
void rails_key_ended(void **state) {
    struct fake_end end;
    open_devices(state, "2");
    struct tug_registration *other = fake_register(TARGET, theirs_memory, AREA);
    struct tug_operation *operation =
        fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, other, 0, mine, 0, 1024 * KIB, &end);
    fake_deregister(TARGET, other);
    fake_post(ORIGIN, operation);
    assert_true(fake_finish(10));
    assert_done(&end, TUG_ERR_KEY);
    const uint64_t second = posted(1);
    run_one(TUG_OPERATION_WRITE, 0, 0, 1024 * KIB);
    assert_int_equal(posted(1) - second, 1);
    assert_settled();
}

/* Where there are no tags for shares it goes as it is. */
void rails_without_tags(void **state) {
    struct fake_end end;
    uint32_t taken[FAKE_OPERATIONS], n = 0;
    open_devices(state, "2");
    fill(mine_memory, 256 * KIB, 6);
    struct tug_operation *operation =
        fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, 0, mine, 0, 256 * KIB, &end);
    while (tug_tags_take_in_hand(&ORIGIN->fabric.tags, &taken[n]))
        n++;
    fake_post(ORIGIN, operation);
    assert_true(fake_finish(10));
    assert_done(&end, 0);
    assert_filled(theirs_memory, 256 * KIB, 6);
    assert_int_equal(posted(0), 1);
    assert_int_equal(posted(1), 0);
    while (n > 0)
        tug_tags_give(&ORIGIN->fabric.tags, taken[--n]);
    assert_settled();
}

/* The engine may sleep only when every rail rings. */
void rails_wake(void **state) {
    struct fake_end end;
    open_devices(state, "2");
    run_one(TUG_OPERATION_WRITE, 0, 0, 256 * KIB);
    assert_true(tug_transport_verbs.arm(ORIGIN->view));
    fake_round();
    post(TUG_OPERATION_WRITE, theirs, 0, 0, 256 * KIB, &end);
    assert_false(tug_transport_verbs.arm(ORIGIN->view)); /* unsent by both */
    tug_verbs_flush(rail_of(ORIGIN, 0), TUG_BATCH_GOES);
    assert_false(tug_transport_verbs.arm(ORIGIN->view)); /* by the second */
    assert_true(fake_finish(10));
    assert_done(&end, 0);
    assert_settled();
}

/* A context has as many rails as that of its processes which has fewest; another one, of processes
 * which have more, shares the endpoints and has more. */
void rails_differ(void **state) {
    fake_rails = 2;
    open_devices(state, "3");
    fake_rails = 0;
    assert_ports("fake0", 1, "fake1", 1, 2);
    setenv("FAKE_DEVICES", "3", 1);
    struct fake *more[] = {fake_add(1, 0), fake_add(1, 1)};
    unsetenv("FAKE_DEVICES");
    struct tug_verbs_view *views[] = {ORIGIN->view, more[0]->view};
    assert_int_equal(more[0]->view->nrails, 3);
    for (uint32_t rail = 0; rail < 2; rail++)
        assert_ptr_equal(more[0]->view->rails[rail]->verbs, rail_of(ORIGIN, rail));
    struct tug_registration *here = fake_register(more[0], mine_memory, AREA);
    struct tug_registration *there = fake_register(more[1], theirs_memory, AREA);
    assert_int_equal(theirs->rkeys[2], 0);
    assert_int_not_equal(there->rkeys[2], 0);
    for (unsigned i = 0; i < 8; i++) {
        const unsigned by = i % 2;
        struct fake_end end;
        uint64_t before[3];
        for (uint32_t rail = 0; rail < 3; rail++)
            before[rail] = more[0]->view->rails[rail]->verbs->posted;
        fill(mine_memory, 384 * KIB, i);
        struct fake *origin = by ? more[0] : ORIGIN;
        fake_post(origin, fake_operation(origin, 1, TUG_OPERATION_WRITE, by ? there : theirs, 0,
                                         by ? here : mine, 0, 384 * KIB, &end));
        assert_true(fake_finish(10));
        assert_done(&end, 0);
        assert_filled(theirs_memory, 384 * KIB, i);
        for (uint32_t rail = 0; rail < 3; rail++)
            assert_int_equal(more[0]->view->rails[rail]->verbs->posted - before[rail],
                             rail < views[by]->nrails);
    }
    fake_deregister(more[0], here);
    fake_deregister(more[1], there);
    assert_settled();
}
