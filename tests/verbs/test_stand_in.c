/* The stand-in for libibverbs does with messages what a device does, and as much: order, room,
 * errors, and what a queue pair takes along when it goes. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "../unit/check.h"

#define SLOT 64

struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    unsigned char memory[8][SLOT];
};

static struct end ends[2];

static void to_state(struct ibv_qp *qp, enum ibv_qp_state state, uint32_t other, uint8_t retry) {
    struct ibv_port_attr port;
    assert_int_equal(ibv_query_port(qp->context, 1, &port), 0);
    struct ibv_qp_attr attributes = {.qp_state = state,
                                     .dest_qp_num = other,
                                     .rnr_retry = retry,
                                     .qp_access_flags = 0,
                                     .port_num = 1,
                                     .ah_attr = {.dlid = port.lid}};
    int mask = IBV_QP_STATE;
    if (state == IBV_QPS_INIT)
        mask |= IBV_QP_PORT;
    if (state == IBV_QPS_RTR)
        mask |= IBV_QP_DEST_QPN | IBV_QP_AV;
    if (state == IBV_QPS_RTS)
        mask |= IBV_QP_RNR_RETRY;
    assert_int_equal(ibv_modify_qp(qp, &attributes, mask), 0);
}

static void join(uint8_t retry) {
    for (int i = 0; i < 2; i++) {
        struct ibv_qp_init_attr init = {
            .send_cq = ends[i].cq,
            .recv_cq = ends[i].cq,
            .srq = ends[i].srq,
            .cap = {.max_send_wr = 8, .max_send_sge = 1, .max_inline_data = 16},
            .qp_type = IBV_QPT_RC};
        ends[i].qp = ibv_create_qp(ends[i].pd, &init);
        assert_non_null(ends[i].qp);
    }
    for (int i = 0; i < 2; i++) {
        to_state(ends[i].qp, IBV_QPS_INIT, 0, 0);
        to_state(ends[i].qp, IBV_QPS_RTR, ends[1 - i].qp->qp_num, 0);
        to_state(ends[i].qp, IBV_QPS_RTS, 0, retry);
    }
}

static int set_up(void **state) {
    (void)state;
    int count;
    for (int i = 0; i < 2; i++) {
        struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
        ends[i].context = ibv_open_device(ibv_get_device_list(&count)[0]);
        ends[i].pd = ibv_alloc_pd(ends[i].context);
        ends[i].channel = ibv_create_comp_channel(ends[i].context);
        ends[i].cq = ibv_create_cq(ends[i].context, 16, NULL, ends[i].channel, 0);
        ends[i].srq = ibv_create_srq(ends[i].pd, &init);
        ends[i].mr =
            ibv_reg_mr(ends[i].pd, ends[i].memory, sizeof ends[i].memory, IBV_ACCESS_LOCAL_WRITE);
        memset(ends[i].memory, 0, sizeof ends[i].memory);
    }
    join(7);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        if (ends[i].qp != NULL) {
            assert_int_equal(ibv_destroy_srq(ends[i].srq), EBUSY);
            ibv_destroy_qp(ends[i].qp);
        }
        ends[i].qp = NULL;
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ibv_destroy_srq(ends[i].srq), 0);
        ibv_dereg_mr(ends[i].mr);
        ibv_destroy_cq(ends[i].cq);
        ibv_destroy_comp_channel(ends[i].channel);
        ibv_dealloc_pd(ends[i].pd);
        ibv_close_device(ends[i].context);
    }
    return 0;
}

/* Of the other end, into its slot of that number; bytes: of the room. */
static int receive(struct end *end, unsigned slot, uint32_t bytes) {
    struct ibv_sge piece = {(uintptr_t)end->memory[slot], bytes, end->mr->lkey};
    struct ibv_recv_wr request = {.wr_id = 100 + slot, .sg_list = &piece, .num_sge = 1}, *bad;
    return ibv_post_srq_recv(end->srq, &request, &bad);
}

static void send_text(struct end *end, const char *text, unsigned number, unsigned flags) {
    char copy[SLOT];
    strcpy(copy, text);
    struct ibv_sge piece = {(uintptr_t)copy, (uint32_t)strlen(text) + 1, 0};
    if (!(flags & IBV_SEND_INLINE)) {
        strcpy((char *)end->memory[7], text);
        piece.addr = (uintptr_t)end->memory[7];
        piece.lkey = end->mr->lkey;
    }
    struct ibv_send_wr request = {.wr_id = number,
                                  .sg_list = &piece,
                                  .num_sge = 1,
                                  .opcode = IBV_WR_SEND_WITH_IMM,
                                  .send_flags = flags,
                                  .imm_data = number},
                       *bad;
    assert_int_equal(ibv_post_send(end->qp, &request, &bad), 0);
    memset(copy, 'x', sizeof copy); /* data in line have been copied */
}

static void expect_receive(struct end *end, unsigned slot, const char *text, unsigned number) {
    struct ibv_wc found;
    assert_int_equal(ibv_poll_cq(end->cq, 1, &found), 1);
    assert_int_equal(found.status, IBV_WC_SUCCESS);
    assert_int_equal(found.opcode, IBV_WC_RECV);
    assert_int_equal(found.wr_id, 100 + slot);
    assert_int_equal(found.byte_len, strlen(text) + 1);
    assert_int_equal(found.imm_data, number);
    assert_true(found.wc_flags & IBV_WC_WITH_IMM);
    assert_int_equal(found.qp_num, end->qp->qp_num);
    assert_string_equal((char *)end->memory[slot], text);
}

static void expect_sent(struct end *end, unsigned number, enum ibv_wc_status status) {
    struct ibv_wc found;
    assert_int_equal(ibv_poll_cq(end->cq, 1, &found), 1);
    assert_int_equal(found.wr_id, number);
    assert_int_equal(found.status, status);
}

static void expect_nothing(struct end *end) {
    struct ibv_wc found;
    assert_int_equal(ibv_poll_cq(end->cq, 1, &found), 0);
}

static void messages_arrive_in_order(void **state) {
    (void)state;
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(receive(&ends[1], i, SLOT), 0);
    assert_int_equal(receive(&ends[1], 4, SLOT), ENOMEM);
    send_text(&ends[0], "first, from memory", 1, 0);
    send_text(&ends[0], "second", 2, IBV_SEND_INLINE | IBV_SEND_SIGNALED);
    expect_receive(&ends[1], 0, "first, from memory", 1);
    expect_receive(&ends[1], 1, "second", 2);
    expect_nothing(&ends[1]);
    expect_sent(&ends[0], 2, IBV_WC_SUCCESS);
    expect_nothing(&ends[0]);
}

static void without_room_they_wait(void **state) {
    (void)state;
    send_text(&ends[0], "early", 1, IBV_SEND_INLINE | IBV_SEND_SIGNALED);
    send_text(&ends[0], "behind it", 2, IBV_SEND_INLINE | IBV_SEND_SIGNALED);
    expect_nothing(&ends[0]);
    expect_nothing(&ends[1]);
    assert_int_equal(receive(&ends[1], 0, SLOT), 0);
    expect_receive(&ends[1], 0, "early", 1);
    expect_sent(&ends[0], 1, IBV_WC_SUCCESS);
    expect_nothing(&ends[0]);
    to_state(ends[0].qp, IBV_QPS_ERR, 0, 0);
    expect_sent(&ends[0], 2, IBV_WC_WR_FLUSH_ERR);
    expect_nothing(&ends[1]);
}

static void impatient_ones_fail(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++)
        ibv_destroy_qp(ends[i].qp);
    join(6);
    send_text(&ends[0], "early", 1, 0);
    expect_sent(&ends[0], 1, IBV_WC_RNR_RETRY_EXC_ERR);
    send_text(&ends[0], "behind it", 2, 0);
    expect_sent(&ends[0], 2, IBV_WC_WR_FLUSH_ERR);
}

static void too_long_fails(void **state) {
    (void)state;
    assert_int_equal(receive(&ends[1], 0, 4), 0);
    send_text(&ends[0], "long", 1, 0);
    expect_sent(&ends[0], 1, IBV_WC_REM_INV_REQ_ERR);
    expect_nothing(&ends[1]);
}

static void who_goes_takes_its_completions(void **state) {
    (void)state;
    assert_int_equal(receive(&ends[1], 0, SLOT), 0);
    send_text(&ends[0], "lost", 1, IBV_SEND_SIGNALED);
    ibv_destroy_qp(ends[1].qp);
    ends[1].qp = NULL;
    expect_nothing(&ends[1]);
    expect_sent(&ends[0], 1, IBV_WC_SUCCESS);
    send_text(&ends[0], "to nobody", 2, 0);
    expect_sent(&ends[0], 2, IBV_WC_RETRY_EXC_ERR);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {CASE(messages_arrive_in_order), CASE(without_room_they_wait),
                                       CASE(impatient_ones_fail), CASE(too_long_fails),
                                       CASE(who_goes_takes_its_completions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
