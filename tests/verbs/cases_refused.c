/* Connections and registrations that are refused: other transports do the work. */
#include <errno.h>

#include "fixture.h"

static const struct tug_verbs *refused; /* the device that refuses queue pairs or memory */
static enum ibv_qp_state refused_state;
static struct tug_ibv real;

static struct ibv_qp *refuse_queue_pair(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes) {
    errno = ENOMEM;
    return pd == refused->device.pd ? NULL : real.create_qp(pd, attributes);
}

static int refuse_state(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask) {
    return qp->pd == refused->device.pd && attributes->qp_state == refused_state
               ? EINVAL
               : real.modify_qp(qp, attributes, mask);
}

/* Nothing goes to rank 1 by the device. Other transports do reads and writes; an atomic fails,
 * since only the device can do it. */
static void assert_passed_on(void) {
    enum { N = 150 };
    struct fake_end ends[N + 1];
    const unsigned before = ORIGIN->passed;
    for (unsigned i = 0; i < N; i++)
        post(i % 2 ? TUG_OPERATION_READ : TUG_OPERATION_WRITE, theirs, i * 8, i * 8, 8, &ends[i]);
    post(TUG_OPERATION_FETCH, theirs, 0, 0, 8, &ends[N]);
    assert_true(fake_finish(60));
    for (unsigned i = 0; i < N; i++)
        assert_done(&ends[i], 0);
    assert_int_equal(ORIGIN->passed, before + N);
    assert_done(&ends[N], TUG_ERR_DEVICE);
    assert_true(tug_transport_verbs.arm(ORIGIN->view));
}

/* Operations while the device refuses, and after that. */
static void refuse_for_a_while(struct fake *whom, __typeof__(tug_ibv.create_qp) create,
                               __typeof__(tug_ibv.modify_qp) modify) {
    real = tug_ibv;
    refused = whom->verbs;
    tug_ibv.create_qp = create != NULL ? create : real.create_qp;
    tug_ibv.modify_qp = modify != NULL ? modify : real.modify_qp;
    assert_passed_on();
    assert_passed_on();
    assert_true(ORIGIN->verbs->pairs[0]->closed_ns > tug_clock_ns());
    ORIGIN->verbs->pairs[0]->closed_ns = 1; /* long ago: it may be tried again */
    assert_passed_on();
    tug_ibv = real;
    fake_mute = false;
    assert_passed_on(); /* not every operation tries again */
    ORIGIN->verbs->pairs[0]->closed_ns = 1;
    const unsigned before = ORIGIN->passed;
    fill(mine_memory, 64, 41);
    run_one(TUG_OPERATION_WRITE, 0, 0, 64);
    assert_filled(theirs_memory, 64, 41);
    assert_int_equal(ORIGIN->passed, before);
}

void refused_here(void **state) {
    (void)state;
    refuse_for_a_while(ORIGIN, refuse_queue_pair, NULL);
}

void refused_there(void **state) {
    (void)state;
    refuse_for_a_while(TARGET, refuse_queue_pair, NULL);
}

void refused_to_join(void **state) {
    (void)state;
    const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
    for (size_t i = 0; i < 6; i++) {
        refused_state = states[i / 2];
        refuse_for_a_while(i % 2 ? TARGET : ORIGIN, NULL, refuse_state);
        tear_down(NULL);
        set_up(NULL);
    }
}

void refused_a_question(void **state) {
    (void)state;
    fake_mute = true;
    refuse_for_a_while(ORIGIN, NULL, NULL);
}

static struct ibv_mr *refuse_memory(struct ibv_pd *pd, void *address, size_t bytes, uint64_t at,
                                    int access) {
    errno = ENOMEM;
    return pd == refused->device.pd ? NULL : real.reg_mr_iova(pd, address, bytes, at, access);
}

/* Operations from and to memory that the device has refused are not taken. The result of an atomic
 * is copied by the processor, wherever it goes. */
void refused_memory(void **state) {
    (void)state;
    real = tug_ibv;
    tug_ibv.reg_mr_iova = refuse_memory;
    refused = ORIGIN->verbs;
    struct tug_registration *local = fake_register(ORIGIN, mine_memory, 64);
    refused = TARGET->verbs;
    struct tug_registration *remote = fake_register(TARGET, theirs_memory, 64);
    tug_ibv = real;
    assert_int_equal(remote->rkeys[0], 0);
    const enum tug_operation_kind kinds[] = {TUG_OPERATION_WRITE, TUG_OPERATION_READ,
                                             TUG_OPERATION_FETCH};
    for (size_t i = 0; i < 3; i++) {
        for (unsigned which = 0; which < 4; which++) {
            struct tug_operation *operation =
                fake_operation(ORIGIN, 1, kinds[i], which & 1 ? remote : theirs, 0,
                               which & 2 ? local : mine, 0, 8, NULL);
            const bool known = which == 0 || (which == 2 && kinds[i] == TUG_OPERATION_FETCH);
            assert_int_equal(tug_transport_verbs.takes(ORIGIN->view, operation), known);
            tug_tags_give(&ORIGIN->fabric.tags, tug_fabric_tag(&ORIGIN->fabric, operation));
        }
    }
    fake_deregister(ORIGIN, local);
    fake_deregister(TARGET, remote);
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
}
