/* What connections are made of, and what a device's events change. With the stand-in, whose ports
 * are described here (fake_ports.h). */
#include <dlfcn.h>
#include <stdlib.h>

#include "fake_ports.h"
#include "fixture.h"

static struct tug_ibv real;

static void *stand_in(const char *name) {
    void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    void *found = dlsym(library, name);
    dlclose(library);
    assert_non_null(found);
    return found;
}

static struct fake_port *port(void) {
    return ((struct fake_port * (*)(unsigned, unsigned)) stand_in("fake_port"))(0, 1);
}

static void report(enum ibv_event_type type, int port_number) {
    void (*to)(struct ibv_context *, enum ibv_event_type, int);
    *(void **)&to = stand_in("fake_report");
    to(ORIGIN->verbs->device.context, type, port_number);
    if (port_number > 0) /* they have one port */
        to(TARGET->verbs->device.context, type, port_number);
}

static void be_silent(bool silent) {
    ((void (*)(bool))stand_in("fake_be_silent"))(silent);
}

/* Both processes again, on a port that is described. */
static void open_described(void **state) {
    tear_down(state);
    *port() = (struct fake_port){.described = true,
                                 .link_layer = IBV_LINK_LAYER_INFINIBAND,
                                 .lid = 32,
                                 .lmc = 1,
                                 .gids = {{.gid.raw = {0xfe, 0x80, [15] = 7}}},
                                 .pkeys = {0x7fff, 0xffff}};
    set_up(state);
}

static void open_again(void **state) {
    tug_ibv = real;
    tear_down(state);
    port()->described = false;
    set_up(state);
}

/* ---- what queue pairs are told ---- */

static struct ibv_qp_attr to_init[8], to_rtr[8], to_rts[8];
static unsigned n_init, n_rtr, n_rts;

static int note_attributes(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask) {
    if (attributes->qp_state == IBV_QPS_INIT)
        to_init[n_init++ % 8] = *attributes;
    if (attributes->qp_state == IBV_QPS_RTR)
        to_rtr[n_rtr++ % 8] = *attributes;
    if (attributes->qp_state == IBV_QPS_RTS)
        to_rts[n_rts++ % 8] = *attributes;
    return real.modify_qp(qp, attributes, mask);
}

static void note_from_now_on(void) {
    real = tug_ibv;
    tug_ibv.modify_qp = note_attributes;
    n_init = n_rtr = n_rts = 0;
}

void ports_connection(void **state) {
    tug_settings.verbs_port[TUG_PORT_SL] = 5;
    tug_settings.verbs_port[TUG_PORT_TC] = 40;
    open_described(state);
    note_from_now_on();
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    assert_int_equal(n_init, 2);
    assert_int_equal(n_rtr, 2); /* the server of rank 1, then the sender of rank 0 */
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(to_init[i].pkey_index, 1);
        assert_int_equal(to_rtr[i].min_rnr_timer, 1);
        assert_int_equal(to_rtr[i].ah_attr.sl, 5);
        assert_int_equal(to_rtr[i].ah_attr.is_global, 0);
        assert_int_equal(to_rtr[i].ah_attr.src_path_bits, 1 - i);
        assert_int_equal(to_rtr[i].ah_attr.dlid, 32 + i);
        assert_int_equal(to_rtr[i].rq_psn, to_rts[1 - i].sq_psn);
    }
    tug_settings.verbs_port[TUG_PORT_SL] = tug_settings.verbs_port[TUG_PORT_TC] = -1;
    open_again(state);
}

/* By a router: the LID alone may be another host's. */
void ports_subnets(void **state) {
    tug_settings.verbs_port[TUG_PORT_TC] = 40;
    tear_down(state);
    set_up(state);
    TARGET->verbs->device.path.gid.raw[7] = 9;
    note_from_now_on();
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(to_rtr[i].ah_attr.is_global, 1);
        assert_int_equal(to_rtr[i].ah_attr.grh.dgid.raw[7], i == 0 ? 0 : 9);
        assert_int_equal(to_rtr[i].ah_attr.grh.traffic_class, 40);
    }
    tug_settings.verbs_port[TUG_PORT_TC] = -1;
    open_again(state);
}

/* Nobody can tell them from the connections before. */
void ports_first_packets(void **state) {
    enum { N = 8 };
    (void)state;
    unsigned alike = 0;
    note_from_now_on();
    for (unsigned i = 0; i < N; i++) {
        run_one(TUG_OPERATION_WRITE, 0, 0, 8);
        tug_verbs_pairs_shed(ORIGIN->verbs, 0);
    }
    assert_int_equal(n_rts, 2 * N);
    for (unsigned i = 1; i < 8; i++) {
        assert_true(to_rts[i].sq_psn < 1u << 24);
        alike += to_rts[i].sq_psn - to_rts[i - 1].sq_psn == to_rts[1].sq_psn - to_rts[0].sq_psn;
    }
    assert_in_range(alike, 1, 2);
    tug_ibv = real;
}

/* ---- events ---- */

static bool has_changed(const struct fake *fake) {
    return atomic_load(&fake->verbs->port_changed);
}

/* A new connection, which is made to that LID. */
static void connect_anew(unsigned lid) {
    tug_verbs_pairs_shed(ORIGIN->verbs, 0);
    n_rtr = 0;
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    assert_int_equal(to_rtr[0].ah_attr.dlid, lid);
}

static void change(enum ibv_event_type type, uint16_t lid) {
    assert_false(has_changed(ORIGIN) || has_changed(TARGET));
    port()->lid = lid;
    report(type, 1);
    CHECK_SOON(has_changed(ORIGIN) && has_changed(TARGET));
}

/* The next connection is made by what the port is like then; if it is down, by what it was. */
void ports_change(void **state) {
    static const enum ibv_event_type types[] = {IBV_EVENT_PORT_ACTIVE, IBV_EVENT_LID_CHANGE,
                                                IBV_EVENT_GID_CHANGE,  IBV_EVENT_PKEY_CHANGE,
                                                IBV_EVENT_SM_CHANGE,   IBV_EVENT_CLIENT_REREGISTER};
    open_described(state);
    note_from_now_on();
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    report(IBV_EVENT_LID_CHANGE, 2); /* of another port of the device */
    check_sleep_us(20000);
    for (unsigned i = 0; i < sizeof types / sizeof types[0]; i++) {
        change(types[i], (uint16_t)(64 + 2 * i));
        connect_anew(64 + 2 * i);
    }
    change(IBV_EVENT_SM_CHANGE, port()->lid);
    port()->down = true;
    connect_anew(port()->lid);
    assert_true(has_changed(ORIGIN) && has_changed(TARGET));
    port()->down = false;
    connect_anew(port()->lid);
    assert_false(has_changed(ORIGIN) || has_changed(TARGET));
    open_again(state);
}

static void expect_lost(enum ibv_event_type type) {
    struct fake_end end;
    const unsigned before = ORIGIN->passed;
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    assert_int_equal(ORIGIN->passed, before);
    report(type, 0);
    CHECK_SOON(atomic_load(&ORIGIN->verbs->base.lost));
    (void)fake_round();
    post(TUG_OPERATION_WRITE, theirs, 0, 0, 8, &end);
    assert_true(fake_finish(60));
    assert_done(&end, 0);
    assert_int_equal(ORIGIN->passed, before + 1);
}

void ports_lost(void **state) {
    expect_lost(IBV_EVENT_DEVICE_FATAL);
    tear_down(state);
    set_up(state);
    expect_lost(IBV_EVENT_SRQ_ERR);
}

/* ---- a server that goes ---- */

static unsigned destroyed;

static int count_destroyed(struct ibv_qp *qp) {
    destroyed += qp->qp_context != NULL;
    return real.destroy_qp(qp);
}

/* The connection is closed, and for so long rank 1's server stays. */
static uint64_t close_connection(uint64_t least_ns) {
    const uint64_t begin = tug_clock_ns();
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    destroyed = 0;
    tug_verbs_pairs_shed(ORIGIN->verbs, 0);
    while (fake_round() || tug_clock_ns() - begin < least_ns)
        ;
    return begin;
}

/* A server may hold a receive until the device has reported its last request. */
void ports_last_request(void **state) {
    tear_down(state);
    fake_carries = true;
    set_up(state);
    fake_carries = false;
    real = tug_ibv;
    tug_ibv.destroy_qp = count_destroyed;
    be_silent(true);
    (void)close_connection(20000000);
    assert_non_null(TARGET->verbs->retired);
    assert_int_equal(destroyed, 0);
    be_silent(false);
    drain_servers(TARGET);
    assert_int_equal(destroyed, 1);
    be_silent(true);
    const uint64_t begin = close_connection(0); /* of a device that does not report */
    drain_servers(TARGET);
    assert_true(tug_clock_ns() - begin >= 100000000);
    be_silent(false);
    tug_ibv = real;
    open_again(state);
}

/* ---- interrupts, receives ---- */

static int vectors[4];
static unsigned nvectors;

static struct ibv_cq *note_vector(struct ibv_context *context, int size, void *argument,
                                  struct ibv_comp_channel *channel, int vector) {
    vectors[nvectors++ % 4] = vector;
    return real.create_cq(context, size, argument, channel, vector);
}

void ports_vectors(void **state) {
    (void)state;
    real = tug_ibv;
    nvectors = 0;
    tug_ibv.create_cq = note_vector;
    fake_add(1, 0);
    fake_add(0, 2);
    assert_int_equal(nvectors, 1); /* one for all contexts of a process */
    assert_int_equal(vectors[0], 2);
    tug_ibv = real;
    assert_int_equal(ORIGIN->verbs->device.place.node_rank, 0);
    assert_int_equal(TARGET->verbs->device.place.node_rank, 1);
}

static int registered;

static struct ibv_mr *note_registered(struct ibv_pd *pd, void *memory, size_t bytes, uint64_t at,
                                      int access) {
    registered = access;
    return real.reg_mr_iova(pd, memory, bytes, at, access);
}

/* Memory is open to the card's atomics where the context has some. */
void ports_atomics(void **state) {
    (void)state;
    unsigned char memory[64];
    real = tug_ibv;
    tug_ibv.reg_mr_iova = note_registered;
    for (unsigned i = 0; i < 2; i++) {
        ORIGIN->fabric.open_to_atomics = i == 0;
        fake_deregister(ORIGIN, fake_register(ORIGIN, memory, sizeof memory));
        assert_int_equal((registered & IBV_ACCESS_REMOTE_ATOMIC) != 0, i == 0);
        assert_true(registered & IBV_ACCESS_REMOTE_WRITE);
    }
    tug_ibv = real;
}
