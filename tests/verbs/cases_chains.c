/* Chains: operations that are posted together, in as few requests and calls as possible. */
#include <limits.h>

#include "fixture.h"

static void assert_chain(unsigned n) {
    for (unsigned i = 0; i < n; i++)
        assert_memory_equal(theirs_memory + i * 16, &(uint64_t){i}, 8);
}

void chain_one_post(void **state) {
    (void)state;
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    const uint64_t chains = ORIGIN->verbs->chains, posted = ORIGIN->verbs->posted;
    write_apart(TUG_VERBS_DEPTH, 0);
    assert_int_equal(ORIGIN->verbs->posted, posted);
    fake_flush(ORIGIN);
    assert_int_equal(ORIGIN->verbs->chains, chains + 1);
    assert_int_equal(ORIGIN->verbs->posted, posted + TUG_VERBS_DEPTH);
    assert_true(fake_finish(60));
    assert_int_equal(ORIGIN->verbs->chains, chains + 1);
    assert_chain(TUG_VERBS_DEPTH);
}

/* What the device is asked and what it tells, seen at its own functions. Copies: how often the CPU
 * copies each byte, into a request, or between the program's memory and what the device uses. */
static struct ibv_context_ops device_functions;
static unsigned doorbells, requests, signalled, completions, copies_least, copies_most;
static _Atomic unsigned wakes, target_wakes;

static void count_copies(const struct ibv_send_wr *request) {
    const struct ibv_sge *piece = &request->sg_list[0];
    const uint64_t memory = (uint64_t)(uintptr_t)mine_memory;
    const bool goes_inline = (request->send_flags & IBV_SEND_INLINE) != 0;
    const bool is_programs = goes_inline ? piece->addr >= memory && piece->addr < memory + AREA
                                         : piece->lkey != ORIGIN->view->operations_mr->lkey;
    const unsigned copies = (unsigned)goes_inline + !is_programs;
    copies_least = copies < copies_least ? copies : copies_least;
    copies_most = copies > copies_most ? copies : copies_most;
}

static int count_post(struct ibv_qp *qp, struct ibv_send_wr *first, struct ibv_send_wr **bad) {
    doorbells++;
    for (const struct ibv_send_wr *request = first; request != NULL; request = request->next) {
        requests++;
        signalled += (request->send_flags & IBV_SEND_SIGNALED) != 0;
        count_copies(request);
    }
    return device_functions.post_send(qp, first, bad);
}

static int count_poll(struct ibv_cq *cq, int most, struct ibv_wc *found) {
    const int n = device_functions.poll_cq(cq, most, found);
    completions += n > 0 ? (unsigned)n : 0;
    return n;
}

/* By the watcher's thread. */
static int (*take_event)(struct ibv_comp_channel *, struct ibv_cq **, void **);
static int count_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **argument) {
    atomic_fetch_add(channel == TARGET->verbs->channel ? &target_wakes : &wakes, 1);
    return take_event(channel, cq, argument);
}

/* Before anything is watched, and for good: the watcher's thread calls it. */
static void count_events(void) {
    if (take_event == NULL)
        take_event = tug_ibv.get_cq_event;
    tug_ibv.get_cq_event = count_event;
    wakes = target_wakes = 0;
}

/* n operations of so many bytes, each so many behind the last one, and a flush. */
struct stream {
    const char *name;
    enum tug_operation_kind kind;
    unsigned n, bytes, step;
    unsigned requests, completions, copies; /* with one doorbell */
};

static void count_stream(const struct stream *stream, bool asleep) {
    struct fake_end ends[64];
    doorbells = requests = signalled = completions = copies_most = 0;
    copies_least = UINT_MAX;
    for (unsigned i = 0; i < stream->n; i++) {
        const uint64_t at = (uint64_t)i * stream->step;
        if (stream->kind == TUG_OPERATION_FETCH)
            fake_post(ORIGIN,
                      make_atomic(ORIGIN, stream->kind, TUG_ADD, 1, 0, at, mine, at, &ends[i]));
        else
            post(stream->kind, theirs, at, at, stream->bytes, &ends[i]);
    }
    fake_flush(ORIGIN);
    const unsigned sleeps = asleep ? sleep_until_done() : 0;
    assert_true(fake_finish(60));
    for (unsigned i = 0; i < stream->n; i++)
        assert_done(&ends[i], 0);
    printf("%-28s %2u doorbells %2u requests %2u completions %2u copies %2u sleeps\n", stream->name,
           doorbells, requests, completions, copies_most, sleeps);
    assert_int_equal(doorbells, 1);
    assert_int_equal(requests, stream->requests);
    assert_int_equal(signalled, stream->completions);
    assert_int_equal(completions, signalled);
    assert_int_equal(copies_least, stream->copies);
    assert_int_equal(copies_most, stream->copies);
}

/* What the device is asked for each operation: the table in docs/adding-a-transport.md. Who sleeps
 * is woken once a completion at most, and the target never is. */
void chain_counted(void **state) {
    (void)state;
    static const struct stream streams[] = {
        {"a put of 8 bytes", TUG_OPERATION_WRITE, 1, 8, 8, 1, 1, 1},
        {"a get of 8 bytes", TUG_OPERATION_READ, 1, 8, 8, 1, 1, 0},
        {"a fetch-and-add", TUG_OPERATION_FETCH, 1, 8, 8, 1, 1, 1},
        {"a put of 1 MiB", TUG_OPERATION_WRITE, 1, 1u << 20, 8, 1, 1, 0},
        {"a get of 1 MiB", TUG_OPERATION_READ, 1, 1u << 20, 8, 1, 1, 0},
        {"64 puts of 8 bytes, apart", TUG_OPERATION_WRITE, 64, 8, 16, 64, 1, 1},
        {"64 puts of 8 bytes, in a row", TUG_OPERATION_WRITE, 64, 8, 8, 3, 1, 2},
        {"64 gets of 8 bytes", TUG_OPERATION_READ, 64, 8, 8, 64, 1, 0},
        {"64 fetch-and-adds", TUG_OPERATION_FETCH, 64, 8, 8, 64, 1, 1},
    };
    unsigned told = 0;
    count_events();
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    struct ibv_context_ops *functions = &ORIGIN->verbs->device.context->ops;
    const uint64_t by_target = TARGET->verbs->posted;
    device_functions = *functions;
    functions->post_send = count_post;
    functions->poll_cq = count_poll;
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
        count_stream(&streams[i], false);
        count_stream(&streams[i], true);
        told += completions;
    }
    *functions = device_functions;
    printf("%u completions while asleep: %u wakes, at the target %u\n", told, (unsigned)wakes,
           (unsigned)target_wakes);
    assert_true(wakes <= told);
    assert_int_equal(target_wakes, 0);
    assert_int_equal(TARGET->verbs->posted, by_target);
}

/* While requests of ours are under way to a peer, a few small operations wait for the next poll.
 * Many of them do not wait, nor does a large one. */
void chain_waits(void **state) {
    (void)state;
    const struct tug_verbs *verbs = ORIGIN->verbs;
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    uint64_t posted = verbs->posted;
    write_apart(1, 0);
    fake_flush(ORIGIN);
    assert_int_equal(verbs->posted, posted + 1);
    write_apart(5, 1);
    fake_flush(ORIGIN);
    assert_int_equal(verbs->posted, posted + 1);
    assert_false(tug_transport_verbs.arm(ORIGIN->view));
    tug_transport_verbs.poll(ORIGIN->view);
    assert_int_equal(verbs->posted, posted + 6);
    write_apart(TUG_VERBS_WAIT - 1, 6);
    fake_flush(ORIGIN);
    assert_int_equal(verbs->posted, posted + 6);
    write_apart(1, 5 + TUG_VERBS_WAIT);
    fake_flush(ORIGIN);
    assert_int_equal(verbs->posted, posted + 6 + TUG_VERBS_WAIT);
    assert_true(fake_finish(60));
    assert_chain(6 + TUG_VERBS_WAIT);
    posted = verbs->posted;
    write_apart(1, 0);
    fake_flush(ORIGIN);
    post(TUG_OPERATION_WRITE, theirs, 1u << 20, 0, 1u << 20, NULL);
    fake_flush(ORIGIN);
    assert_int_equal(verbs->posted, posted + 2);
    assert_true(fake_finish(60));
    assert_int_equal(verbs->pairs[0]->waiting, 0);
}

void chain_off(void **state) {
    (void)state;
    tug_settings.aggregate = false;
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    const uint64_t chains = ORIGIN->verbs->chains;
    write_apart(100, 0);
    assert_true(fake_finish(60));
    assert_int_equal(ORIGIN->verbs->chains, chains + 100);
    assert_chain(100);
    tug_settings.aggregate = true;
}

/* Far more operations than the send queue holds. */
void chain_overflow(void **state) {
    (void)state;
    write_apart(FAKE_OPERATIONS, 0);
    fake_flush(ORIGIN);
    while (fake_busy(ORIGIN->view)) {
        fake_round();
        const struct tug_verbs_pair *pair = ORIGIN->verbs->pairs[0];
        assert_true(pair->sent - pair->done <= TUG_VERBS_DEPTH);
    }
    assert_chain(FAKE_OPERATIONS);
    assert_int_equal(ORIGIN->verbs->cq_room, ORIGIN->verbs->cq_size);
}

/* The completion queue has room for one: requests go one at a time. */
void chain_narrow_queue(void **state) {
    (void)state;
    ORIGIN->verbs->cq_room = ORIGIN->verbs->cq_size = 1;
    write_apart(50, 0);
    write_apart(50, 50);
    struct fake_end end;
    fake_post(ORIGIN, fake_operation(ORIGIN, 0, TUG_OPERATION_WRITE, mine, 64, mine, 0, 8, &end));
    assert_true(fake_finish(60));
    assert_chain(100);
    assert_done(&end, 0);
    assert_int_equal(ORIGIN->verbs->cq_room, 1);
}

/* Small operations before and behind large ones. The small ones before a large one complete before
 * it does. */
void chain_mixed(void **state) {
    (void)state;
    enum { N = 40 };
    struct fake_end ends[N];
    fill(mine_memory, 4u << 20, 9);
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    for (unsigned i = 0; i < N; i++) {
        const uint64_t bytes = i % 5 == 4 ? 300000 : 40;
        post(i % 3 ? TUG_OPERATION_WRITE : TUG_OPERATION_READ, theirs, i * 400000, i * 400000,
             bytes, &ends[i]);
    }
    fake_flush(ORIGIN);
    while (ends[4].complete == 0)
        fake_round();
    for (unsigned i = 0; i < 4; i++)
        assert_done(&ends[i], 0);
    assert_true(fake_finish(60));
    for (unsigned i = 0; i < N; i++) {
        assert_done(&ends[i], 0);
        assert_memory_equal(theirs_memory + i * 400000, mine_memory + i * 400000,
                            i % 5 == 4 ? 300000 : 40);
    }
}

/* Small writes become one request if each begins where the last one ended. */
void chain_joined(void **state) {
    (void)state;
    enum { N = 64 };
    struct fake_end ends[N];
    fill(mine_memory, AREA / 2, 15);
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    for (unsigned bytes = 1; bytes <= 40; bytes += 3) {
        const uint64_t posted = ORIGIN->verbs->posted;
        memset(theirs_memory, 0, (size_t)N * bytes + 1);
        for (unsigned i = 0; i < N; i++)
            post(TUG_OPERATION_WRITE, theirs, i * bytes, i * bytes, bytes, &ends[i]);
        assert_true(fake_finish(60));
        const unsigned together = TUG_VERBS_INLINE / bytes;
        assert_int_equal(ORIGIN->verbs->posted - posted, (N + together - 1) / together);
        for (unsigned i = 0; i < N; i++) {
            assert_done(&ends[i], 0);
            assert_int_equal(ends[i].local, 1);
        }
        assert_filled(theirs_memory, (size_t)N * bytes, 15);
        assert_int_equal(theirs_memory[N * bytes], 0);
    }
    /* writes are not joined over a gap, over two registrations, or around another operation */
    struct tug_registration alias = *theirs;
    const uint64_t posted = ORIGIN->verbs->posted;
    const unsigned at[] = {0, 9, 17, 24, 32, 39, 47};
    for (unsigned i = 0; i < 7; i++)
        post(i == 4 ? TUG_OPERATION_READ : TUG_OPERATION_WRITE, i == 2 ? &alias : theirs, at[i],
             64 + at[i], 8, &ends[i]);
    assert_true(fake_finish(60));
    assert_int_equal(ORIGIN->verbs->posted - posted, 5);
}

struct relay {
    unsigned left;
};

static void relay_next(void *d, int status) {
    struct relay *relay = d;
    assert_int_equal(status, 0);
    if (relay->left-- == 0)
        return;
    struct tug_operation *operation =
        fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, relay->left * 16, NULL, 0, 8, NULL);
    memcpy(operation->data, &(uint64_t){relay->left}, 8);
    operation->on_complete = (struct tug_callback){relay_next, relay};
    fake_post(ORIGIN, operation);
    if (relay->left % 2)
        fake_flush(ORIGIN);
    assert_true(ORIGIN->verbs->pairs[0]->waiting <= 4);
}

/* Callbacks post operations, and flush some of them. */
void chain_from_callbacks(void **state) {
    (void)state;
    struct relay relays[4];
    for (int i = 0; i < 4; i++) {
        relays[i].left = 100;
        relay_next(&relays[i], 0);
    }
    assert_true(fake_finish(60));
    assert_chain(100);
}

static void local_posts(void *d, int status) {
    assert_int_equal(status, 0);
    write_apart(20, 20);
    fake_flush(ORIGIN);
    ++*(int *)d;
}

void chain_from_on_local(void **state) {
    (void)state;
    int told = 0;
    run_one(TUG_OPERATION_WRITE, 0, 0, 8);
    write_apart(20, 0);
    struct tug_operation *operation =
        fake_operation(ORIGIN, 1, TUG_OPERATION_WRITE, theirs, 40 * 16, NULL, 0, 8, NULL);
    memcpy(operation->data, &(uint64_t){40}, 8);
    operation->on_local = (struct tug_callback){local_posts, &told};
    fake_post(ORIGIN, operation);
    assert_true(fake_finish(60));
    assert_int_equal(told, 1);
    assert_chain(41);
}
