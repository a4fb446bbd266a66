/* Errors of operations, of a peer and of the device. */
#include <errno.h>

#include "broken.h"
#include "fixture.h"

/* One operation with a bad key among many: it fails alone, all others happen exactly once. */
static void bad_key_at(unsigned where, uint64_t bad_bytes, bool warm) {
    enum { N = 150 };
    struct fake_end ends[N];
    struct tug_registration nobody = *theirs;
    nobody.rkeys[0] ^= 0x5a5a00;
    memset(theirs_memory, 0, 4096);
    if (warm)
        run_one(TUG_OPERATION_WRITE, 8192, 0, 8);
    for (unsigned i = 0; i < N; i++) {
        struct tug_operation *operation;
        if (i == where) {
            operation = fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, &nobody, 1u << 20, mine,
                                       1u << 20, bad_bytes, &ends[i]);
        } else if (i % 3 == 0) {
            operation =
                make_atomic(ORIGIN, TUG_OPERATION_FETCH, TUG_ADD, 1, 0, 0, mine, 0, &ends[i]);
        } else if (i % 3 == 1) {
            operation = make_atomic(ORIGIN, TUG_OPERATION_FETCH, TUG_XOR, 1ull << (i % 64), 0, 8,
                                    NULL, 0, &ends[i]);
        } else {
            operation = fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, 16 + i * 8, NULL, 0,
                                       8, &ends[i]);
            memcpy(operation->data, &(uint64_t){i}, 8);
        }
        fake_post(ORIGIN, operation);
    }
    assert_true(fake_finish(120));
    uint64_t sum = 0, bits = 0;
    for (unsigned i = 0; i < N; i++) {
        assert_done(&ends[i], i == where ? TUG_ERR_KEY : 0);
        if (i == where)
            continue;
        sum += i % 3 == 0;
        bits ^= i % 3 == 1 ? 1ull << (i % 64) : 0;
        if (i % 3 == 2)
            assert_memory_equal(theirs_memory + 16 + i * 8, &(uint64_t){i}, 8);
    }
    assert_memory_equal(theirs_memory, &sum, 8);
    assert_memory_equal(theirs_memory + 8, &bits, 8);
    assert_int_equal(ORIGIN->verbs->cq_room, ORIGIN->verbs->cq_size);
}

void error_bad_key(void **state) {
    (void)state;
    bad_key_at(0, 8, false);
    const unsigned places[] = {0, 1, 14, 15, 16, 40, 62, 63, 64, 100, 149};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        bad_key_at(places[i], 8, true);
}

/* Joined writes with a bad key fail together, and nobody else. */
void error_bad_key_joined(void **state) {
    (void)state;
    enum { N = 60 };
    for (unsigned bad = 0; bad < N; bad += 7) {
        struct fake_end ends[N];
        struct tug_registration nobody = *theirs;
        nobody.rkeys[0] ^= 0x5a5a00;
        fill(mine_memory, 4096, bad);
        memset(theirs_memory, 0, 4096);
        run_one(TUG_OPERATION_WRITE, 8192, 0, 8);
        for (unsigned i = 0; i < N; i++)
            post(TUG_OPERATION_WRITE, i >= bad && i < bad + 5 ? &nobody : theirs, i * 8, i * 8, 8,
                 &ends[i]);
        assert_true(fake_finish(60));
        for (unsigned i = 0; i < N; i++) {
            const bool failed = i >= bad && i < bad + 5;
            assert_done(&ends[i], failed ? TUG_ERR_KEY : 0);
            assert_memory_equal(theirs_memory + i * 8,
                                failed ? (unsigned char[8]){0} : mine_memory + i * 8, 8);
        }
    }
}

void error_bad_key_large(void **state) {
    (void)state;
    bad_key_at(20, 100000, true);
    bad_key_at(60, 3ull * ORIGIN->verbs->device.most_message + 1, true);
    bad_key_at(0, 3ull * ORIGIN->verbs->device.most_message + 1, true);
}

/* A large good operation behind a bad one starts over. */
void error_then_large(void **state) {
    (void)state;
    const uint64_t bytes = ORIGIN->verbs->device.most_message * 2ull + 5;
    assert_true(bytes < AREA);
    struct tug_registration nobody = *theirs;
    nobody.rkeys[0] ^= 0x5a5a00;
    struct fake_end ends[3];
    fill(mine_memory, bytes, 21);
    memset(theirs_memory, 0, bytes);
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    write_apart(61, 0); /* the send queue is full after the first piece */
    post(TUG_OPERATION_READ, &nobody, 0, bytes, 8, &ends[0]);
    post(TUG_OPERATION_WRITE, theirs, 0, 0, bytes, &ends[1]);
    post(TUG_OPERATION_READ, theirs, bytes, bytes + 64, 8, &ends[2]);
    assert_true(fake_finish(120));
    assert_done(&ends[0], TUG_ERR_KEY);
    assert_done(&ends[1], 0);
    assert_done(&ends[2], 0);
    assert_filled(theirs_memory, bytes, 21);
}

/* The device says `instead` of a request that has a bad key, which is well after so many `times`.
 */
static int (*poll_really)(struct ibv_cq *cq, int most, struct ibv_wc *found);
static struct tug_operation *unlucky;
static enum ibv_wc_status instead;
static unsigned times_left;

static int poll_instead(struct ibv_cq *cq, int most, struct ibv_wc *found) {
    const int n = poll_really(cq, most, found);
    for (int i = 0; i < n; i++) {
        if (found[i].status != IBV_WC_REM_ACCESS_ERR)
            continue;
        found[i].status = instead;
        if (--times_left == 0)
            unlucky->rkey = theirs->rkeys[0];
    }
    return n;
}

/* It goes again with all behind it, and is right then: by this row, or by the next if it has failed
 * twice in a row. Additions behind it end with `atomics`. */
static void goes_again(enum ibv_wc_status status, unsigned times, int atomics) {
    enum { N = 20, BAD = 7 };
    struct fake_end ends[N];
    struct tug_registration nobody = *theirs;
    nobody.rkeys[0] ^= 0x5a5a00;
    struct ibv_context_ops *ops = &ORIGIN->verbs->device.context->ops;
    run_one(TUG_OPERATION_WRITE, 8192, 0, 8);
    fill(mine_memory, 4096, times);
    memset(theirs_memory, 0, 4096);
    poll_really = ops->poll_cq;
    ops->poll_cq = poll_instead;
    instead = status;
    times_left = times;
    for (unsigned i = 0; i < N; i++) {
        struct tug_operation *operation =
            i % 5 == 4
                ? make_atomic(ORIGIN, TUG_OPERATION_FETCH, TUG_ADD, 1, 0, 0, NULL, 0, &ends[i])
                : fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, i == BAD ? &nobody : theirs,
                                 i * 16 + 16, mine, i * 16 + 16, 8, &ends[i]);
        if (i == BAD)
            unlucky = operation;
        fake_post(ORIGIN, operation);
    }
    assert_true(fake_finish(60));
    ops->poll_cq = poll_really;
    uint64_t added = 0;
    for (unsigned i = 0; i < N; i++) {
        const bool is_atomic = i % 5 == 4, by_next_row = times == 2 && i >= BAD;
        const int status_of_it = is_atomic && i > BAD ? atomics : 0;
        assert_done(&ends[i], status_of_it);
        added += is_atomic && status_of_it == 0;
        if (!is_atomic && !by_next_row)
            assert_memory_equal(theirs_memory + i * 16 + 16, mine_memory + i * 16 + 16, 8);
    }
    assert_memory_equal(theirs_memory, &added, 8);
    assert_int_equal(ORIGIN->verbs->cq_room, ORIGIN->verbs->cq_size);
}

/* The peer finds a request invalid that is not: it has done none of those behind it either, so
 * additions go again, too. */
void error_invalid(void **state) {
    (void)state;
    goes_again(IBV_WC_REM_INV_REQ_ERR, 1, 0);
    assert_int_equal(ORIGIN->passed, 0);
    goes_again(IBV_WC_REM_INV_REQ_ERR, 2, TUG_ERR_DEVICE);
    assert_int_equal(ORIGIN->passed, 10);
}

/* The queue pair has failed by itself: nobody knows what the peer has done, so additions fail. */
void error_local_queue(void **state) {
    (void)state;
    goes_again(IBV_WC_LOC_QP_OP_ERR, 1, TUG_ERR_PEER);
    assert_int_equal(ORIGIN->passed, 0);
}

void error_out_of_memory_there(void **state) {
    (void)state;
    struct fake_end end;
    post(TUG_OPERATION_WRITE, theirs, AREA - 8, 0, 16, &end);
    assert_true(fake_finish(60));
    assert_done(&end, TUG_ERR_KEY);
}

/* The queue pair at the other end is gone. What is under way goes again by the next one, but for
 * the atomic, of which nobody knows. */
void error_peer_gone(void **state) {
    (void)state;
    enum { N = 80 };
    struct fake_end ends[N];
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    lose_server();
    for (unsigned i = 0; i < N; i++)
        if (i == 7)
            fake_post(ORIGIN, make_atomic(ORIGIN, TUG_OPERATION_FETCH, TUG_ADD, 1, 0, 1u << 20,
                                          NULL, 0, &ends[i]));
        else
            post(i % 3 ? TUG_OPERATION_WRITE : TUG_OPERATION_READ, theirs, i * 8, i * 8, 8,
                 &ends[i]);
    fake_flush(ORIGIN);
    const uint64_t before = tug_clock_ns();
    assert_true(fake_finish(120));
    printf("lost after %.1f s\n", (double)(tug_clock_ns() - before) / 1e9);
    for (unsigned i = 0; i < N; i++) {
        assert_done(&ends[i], i == 7 ? TUG_ERR_PEER : 0);
        if (i != 7)
            assert_memory_equal(theirs_memory + i * 8, mine_memory + i * 8, 8);
    }
    fill(mine_memory, 64, 31);
    run_one(TUG_OPERATION_WRITE, 128, 0, 64);
    assert_filled(theirs_memory + 128, 64, 31);
}

/* The queue pair itself is in error: what is posted to it goes by the next one. If that breaks
 * before it has done anything, it goes by the next row, when the peer knows. A buffer that was said
 * to be free is not read again. */
void error_queue_pair(void **state) {
    (void)state;
    struct fake_end ends[3];
    for (unsigned round = 0; round < 3; round++) {
        run_one(TUG_OPERATION_WRITE, 0, 0, 8);
        assert_int_equal(break_queue_pair(ORIGIN->verbs->pairs[0]->sender), 0);
        fill(mine_memory, 64, round);
        for (unsigned i = 0; i < 3; i++)
            post(i == 1 ? TUG_OPERATION_READ : TUG_OPERATION_WRITE, theirs, i * 16, i * 16, 8,
                 &ends[i]);
        if (round == 1) {
            fake_flush(ORIGIN);
            assert_int_equal(ends[2].local, 1);
            memset(mine_memory + 32, 0, 8);
        }
        const struct tug_ibv real = tug_ibv;
        if (round == 2)
            make_unsound_queue_pairs();
        assert_true(fake_finish(60));
        tug_ibv = real;
        for (unsigned i = 0; i < 3; i++)
            assert_done(&ends[i], 0);
        assert_int_equal(ORIGIN->passed, round == 2 ? 3 : 0);
        fill(mine_memory, 64, round);
        if (round < 2)
            assert_memory_equal(theirs_memory + 32, mine_memory + 32, 8);
    }
    assert_true(ORIGIN->verbs->pairs[0]->closed_ns > tug_clock_ns());
    assert_null(TARGET->verbs->pairs[0]->server);
    ORIGIN->verbs->pairs[0]->closed_ns = 1; /* that time is over */
    fill(mine_memory, 64, 32);
    run_one(TUG_OPERATION_WRITE, 128, 0, 64);
    assert_filled(theirs_memory + 128, 64, 32);
    assert_int_equal(ORIGIN->passed, 3);
    assert_int_equal(ORIGIN->verbs->cq_room, ORIGIN->verbs->cq_size);
}

/* The peer is to say that nothing comes by the old connection any more, and does not: what waits
 * for that fails after a time limit. */
void error_moves_in_vain(void **state) {
    (void)state;
    struct fake_end end;
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    struct tug_verbs_pair *pair = ORIGIN->verbs->pairs[0];
    break_queue_pair(pair->sender);
    pair->failed = 1;
    fake_hold = true;
    post(TUG_OPERATION_WRITE, theirs, 0, 0, 8, &end);
    fake_flush(ORIGIN);
    while (pair->moving == 0)
        fake_round();
    assert_int_equal(end.complete, 0);
    assert_false(tug_transport_verbs.arm(ORIGIN->view)); /* a time limit runs */
    pair->deadline_ns = 1;
    assert_true(fake_finish(10));
    assert_done(&end, TUG_ERR_PEER);
    fake_hold = false; /* a late answer is ignored */
    fake_round();
    fake_round();
    assert_int_equal(ORIGIN->passed, 0);
    assert_true(tug_transport_verbs.arm(ORIGIN->view));
}

static int take_nothing(struct ibv_qp *qp, struct ibv_send_wr *first, struct ibv_send_wr **bad) {
    (void)qp;
    *bad = first;
    return ENOMEM;
}

/* The device does not take work: that fails, each operation once, and later work goes. */
void error_not_taken(void **state) {
    (void)state;
    enum { N = 70 };
    struct fake_end ends[N];
    struct ibv_context_ops *functions = &ORIGIN->verbs->device.context->ops, before = *functions;
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    functions->post_send = take_nothing;
    for (unsigned i = 0; i < N; i++)
        post(TUG_OPERATION_WRITE, theirs, i * 16, i * 16, 8, &ends[i]);
    fake_flush(ORIGIN);
    tug_transport_verbs.poll(ORIGIN->view);
    *functions = before;
    assert_true(fake_finish(60));
    for (unsigned i = 0; i < N; i++)
        assert_done(&ends[i], i < TUG_VERBS_DEPTH ? TUG_ERR_DEVICE : 0);
    run_one(TUG_OPERATION_READ, 0, 0, 8);
    assert_int_equal(ORIGIN->verbs->cq_room, ORIGIN->verbs->cq_size);
}

/* The queue pair at the other end is gone, and nobody answers the question for a new one:
 * operations fail after a time limit. */
void error_peer_silent(void **state) {
    (void)state;
    struct fake_end ends[2];
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    lose_server();
    fake_post(ORIGIN,
              make_atomic(ORIGIN, TUG_OPERATION_FETCH, TUG_ADD, 1, 0, 0, NULL, 0, &ends[0]));
    assert_true(fake_finish(120));
    assert_done(&ends[0], TUG_ERR_PEER);
    fake_hold = true;
    post(TUG_OPERATION_WRITE, theirs, 0, 0, 8, &ends[1]);
    fake_flush(ORIGIN);
    assert_false(tug_transport_verbs.arm(ORIGIN->view)); /* a time limit runs */
    assert_true(fake_finish(60));
    assert_done(&ends[1], TUG_ERR_PEER);
    assert_true(tug_transport_verbs.arm(ORIGIN->view));
    /* a late answer is ignored; a new question is answered */
    fake_hold = false;
    fake_round();
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
}

/* The way over which connections are asked for is lost. Operations that wait for an answer fail;
 * later ones fail at once. Connections that exist go on. */
void error_nobody_to_ask(void **state) {
    (void)state;
    struct fake_end ends[3];
    fake_hold = true;
    post(TUG_OPERATION_WRITE, theirs, 0, 0, 8, &ends[0]);
    fake_flush(ORIGIN);
    fake_round();
    assert_int_equal(ends[0].complete, 0);
    tug_transport_verbs.lost(&ORIGIN->view->wire, 1);
    post(TUG_OPERATION_WRITE, theirs, 0, 0, 8, &ends[1]);
    assert_true(fake_finish(5));
    assert_done(&ends[0], TUG_ERR_PEER);
    assert_done(&ends[1], TUG_ERR_PEER);
    fake_hold = false;
    fake_round(); /* a late answer */
    for (int i = 0; i < 2; i++) {
        fake_post(TARGET,
                  fake_operation(TARGET, 0, TUG_OPERATION_WRITE, mine, 0, theirs, 0, 8, &ends[2]));
        assert_true(fake_finish(60));
        assert_done(&ends[2], 0);
        tug_transport_verbs.lost(&TARGET->view->wire, 0);
    }
}

void error_device_lost(void **state) {
    (void)state;
    enum { N = 100 };
    struct fake_end ends[N];
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    for (unsigned i = 0; i < N; i++)
        post(TUG_OPERATION_READ, theirs, 0, i * 65536, 65536, &ends[i]);
    fake_flush(ORIGIN);
    atomic_store(&ORIGIN->verbs->base.lost, true);
    assert_true(fake_finish(60));
    for (unsigned i = 0; i < N; i++)
        assert_done(&ends[i], 0);
    assert_in_range(ORIGIN->passed, 1, N);
    assert_int_equal(ORIGIN->verbs->cq_room, ORIGIN->verbs->cq_size);
    const unsigned passed = ORIGIN->passed;
    post(TUG_OPERATION_WRITE, theirs, 0, 0, 8, &ends[0]);
    assert_true(fake_finish(60));
    assert_done(&ends[0], 0);
    assert_int_equal(ORIGIN->passed, passed + 1);
}
