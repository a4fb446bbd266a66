/* The stand-in for libibverbs between processes: what a card does for two of them, what it refuses,
 * and what happens when one dies.
 *
 * This process has the card do things to *peers*, children that do what they are told by a byte on
 * a socket, and answer. A peer's memory is its own: what arrives there has come by the card. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "../unit/check.h"
#include "fake_card.h"
#include "fake_ibverbs.h"

#define MEMORY (1u << 20)
#define SEEN 64u  /* bytes of a peer's memory that it shows */
#define DEPTH 16u /* of a send queue */
#define SLOT 256u /* bytes of a receive, at the memory's end */
#define ADDS 500
#define ALL_ACCESS                                                                                 \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |                   \
     IBV_ACCESS_REMOTE_ATOMIC)

/* One end of a connection, in one process. */
struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    struct ibv_mr *mr, *read_only; /* all of the memory, both */
    unsigned char *memory;
    bool lent; /* its domain and its memory are another end's of this process */
};

/* What an end tells the other. */
struct address {
    uint32_t number, key, read_only;
    uint16_t lid;
    uint64_t memory;
};

struct peer {
    pid_t pid;
    int socket;
    struct end here;
    struct address there;
};

static struct peer peers[2];

/* In a peer, an assertion has nobody to report to: it ends the process, and its socket. */
static void need(bool good, const char *what) {
    if (good)
        return;
    fprintf(stderr, "process %d: %s: %s\n", (int)getpid(), what, strerror(errno));
    kill(getpid(), SIGABRT);
}

/* ---- ends ---- */

static void open_memory(struct end *end, int access) {
    end->pd = ibv_alloc_pd(end->context);
    end->memory = calloc(1, MEMORY);
    end->mr = ibv_reg_mr(end->pd, end->memory, MEMORY, access);
    end->read_only = ibv_reg_mr(end->pd, end->memory, MEMORY, IBV_ACCESS_REMOTE_READ);
    need(end->mr != NULL && end->read_only != NULL, "memory");
}

/* of: NULL, or the end whose domain and memory are this one's too. */
static void open_end(struct end *end, int access, const struct end *of) {
    int count;
    struct ibv_srq_init_attr receives = {.attr = {.max_wr = 4, .max_sge = 1}};
    *end = of != NULL ? *of : (struct end){.lent = false};
    end->lent = of != NULL;
    end->context = ibv_open_device(ibv_get_device_list(&count)[0]);
    need(end->context != NULL, "open");
    if (!end->lent)
        open_memory(end, access);
    end->channel = ibv_create_comp_channel(end->context);
    need(end->channel != NULL, "channel");
    end->cq = ibv_create_cq(end->context, 64, end, end->channel, 0);
    end->srq = ibv_create_srq(end->pd, &receives);
    struct ibv_qp_init_attr init = {
        .send_cq = end->cq,
        .recv_cq = end->cq,
        .srq = end->srq,
        .cap = {.max_send_wr = DEPTH, .max_send_sge = 2, .max_inline_data = SEEN},
        .qp_type = IBV_QPT_RC};
    end->qp = ibv_create_qp(end->pd, &init);
    need(end->qp != NULL, "queue pair");
}

static void close_end(struct end *end) {
    ibv_destroy_qp(end->qp);
    ibv_destroy_srq(end->srq);
    ibv_destroy_cq(end->cq);
    ibv_destroy_comp_channel(end->channel);
    if (!end->lent) {
        ibv_dereg_mr(end->mr);
        ibv_dereg_mr(end->read_only);
        ibv_dealloc_pd(end->pd);
        free(end->memory);
    }
    ibv_close_device(end->context);
}

static struct address address_of(const struct end *end) {
    struct ibv_port_attr port;
    need(ibv_query_port(end->context, 1, &port) == 0, "port");
    return (struct address){end->qp->qp_num, end->mr->rkey, end->read_only->rkey, port.lid,
                            (uint64_t)(uintptr_t)end->memory};
}

static void join(const struct end *end, const struct address *there) {
    struct ibv_qp_attr to_init = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL_ACCESS};
    struct ibv_qp_attr to_receive = {.qp_state = IBV_QPS_RTR,
                                     .dest_qp_num = there->number,
                                     .ah_attr = {.dlid = there->lid, .port_num = 1}};
    struct ibv_qp_attr to_send = {.qp_state = IBV_QPS_RTS, .rnr_retry = 7};
    need(ibv_modify_qp(end->qp, &to_init, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0 &&
             ibv_modify_qp(end->qp, &to_receive, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN) == 0 &&
             ibv_modify_qp(end->qp, &to_send, IBV_QP_STATE | IBV_QP_RNR_RETRY) == 0,
         "join");
}

static void post_receive(const struct end *end) {
    struct ibv_sge piece = {(uintptr_t)end->memory + MEMORY - SLOT, SLOT, end->mr->lkey};
    struct ibv_recv_wr receive = {.wr_id = 77, .sg_list = &piece, .num_sge = 1}, *bad;
    need(ibv_post_srq_recv(end->srq, &receive, &bad) == 0, "receive");
}

/* Polls until there is a completion. */
static struct ibv_wc take_completion(const struct end *end) {
    struct ibv_wc found;
    int n = 0;
    for (int ms = 0; n == 0 && ms < 60000; ms++) {
        n = ibv_poll_cq(end->cq, 1, &found);
        if (n == 0)
            check_sleep_us(1000);
    }
    need(n == 1, "no completion");
    return found;
}

/* A request from the end's memory at `from` to the other's at `to`. */
static struct ibv_send_wr request_of(const struct peer *peer, struct ibv_sge *piece, uint64_t id,
                                     enum ibv_wr_opcode opcode, uint32_t from, uint32_t bytes,
                                     uint32_t to) {
    *piece = (struct ibv_sge){(uintptr_t)peer->here.memory + from, bytes, peer->here.mr->lkey};
    return (struct ibv_send_wr){.wr_id = id,
                                .sg_list = piece,
                                .num_sge = 1,
                                .opcode = opcode,
                                .send_flags = IBV_SEND_SIGNALED,
                                .wr.rdma = {peer->there.memory + to, peer->there.key}};
}

static int post(const struct peer *peer, struct ibv_send_wr *request) {
    struct ibv_send_wr *bad;
    return ibv_post_send(peer->here.qp, request, &bad);
}

static int post_simple(const struct peer *peer, uint64_t id, enum ibv_wr_opcode opcode,
                       uint32_t from, uint32_t bytes, uint32_t to) {
    struct ibv_sge piece;
    struct ibv_send_wr request = request_of(peer, &piece, id, opcode, from, bytes, to);
    return post(peer, &request);
}

/* Adds to, or swaps, the word at `to`. Returns what the card found there. */
static uint64_t atomic_at(const struct peer *peer, uint32_t to, uint64_t compare_add, uint64_t swap,
                          enum ibv_wr_opcode opcode) {
    struct ibv_sge piece;
    struct ibv_send_wr request = request_of(peer, &piece, 5, opcode, 8192, 8, 0);
    uint64_t found;
    request.wr.atomic.remote_addr = peer->there.memory + to;
    request.wr.atomic.rkey = peer->there.key;
    request.wr.atomic.compare_add = compare_add;
    request.wr.atomic.swap = swap;
    need(post(peer, &request) == 0, "atomic");
    need(take_completion(&peer->here).status == IBV_WC_SUCCESS, "atomic's end");
    memcpy(&found, peer->here.memory + 8192, 8);
    return found;
}

/* ---- what a peer does ---- */

enum word {
    READY = 'y',
    SHOW = 's',
    RECEIVE = 'r',
    PROTECT = 'p',
    UNPROTECT = 'u',
    TAKE = 't',
    SLEEP = 'z',
    ADD = 'a',
    HOLD = 'h',
    END = 'e'
};

static void answer(int socket, const void *data, size_t bytes) {
    need(write(socket, data, bytes) == (ssize_t)bytes, "answer");
}

/* Sleeps until its channel wakes it: what has come by then. */
static void sleep_for_one(const struct end *end, int socket) {
    struct pollfd channel = {end->channel->fd, POLLIN, 0};
    struct ibv_cq *cq = NULL;
    void *argument = NULL;
    need(ibv_req_notify_cq(end->cq, 0) == 0, "arm");
    answer(socket, "z", 1);
    need(poll(&channel, 1, 60000) == 1, "not woken");
    need(ibv_get_cq_event(end->channel, &cq, &argument) == 0, "event");
    need(cq == end->cq && argument == end, "another queue's event");
    ibv_ack_cq_events(cq, 1);
    struct ibv_wc found;
    need(ibv_poll_cq(end->cq, 1, &found) == 1, "woken for nothing");
    answer(socket, &found, sizeof found);
}

/* The page with the memory's first bytes. */
static void protect(const struct end *end, int rights) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *first = (void *)((uintptr_t)end->memory / page * page);
    need(mprotect(first, page, rights) == 0, "mprotect");
}

static void add_many(const struct peer *self) {
    uint64_t sum = 0;
    for (int i = 0; i < ADDS; i++)
        sum += atomic_at(self, 0, 1, 0, IBV_WR_ATOMIC_FETCH_AND_ADD);
    answer(self->socket, &sum, sizeof sum);
}

static void obey(struct peer *self) {
    const struct end *end = &self->here;
    struct ibv_wc found;
    char word;
    while (read(self->socket, &word, 1) == 1 && word != END) {
        switch ((enum word)word) {
        case READY:
            answer(self->socket, "y", 1);
            break;
        case SHOW:
            answer(self->socket, end->memory, SEEN);
            answer(self->socket, end->memory + MEMORY - SLOT, SEEN);
            break;
        case RECEIVE:
            post_receive(end);
            answer(self->socket, "r", 1);
            break;
        case PROTECT:
            protect(end, PROT_NONE);
            answer(self->socket, "p", 1);
            break;
        case UNPROTECT:
            protect(end, PROT_READ | PROT_WRITE);
            answer(self->socket, "u", 1);
            break;
        case TAKE:
            found = take_completion(end);
            answer(self->socket, &found, sizeof found);
            break;
        case SLEEP:
            sleep_for_one(end, self->socket);
            break;
        case ADD:
            add_many(self);
            break;
        case HOLD: /* dies in the middle of something */
            card_lock();
            kill(getpid(), SIGKILL);
            break;
        case END:
            break;
        }
    }
    close_end(&self->here);
    _exit(0);
}

static void hear(const struct peer *peer, void *data, size_t bytes) {
    assert_int_equal(recv(peer->socket, data, bytes, MSG_WAITALL), bytes);
}

static void tell(const struct peer *peer, enum word word) {
    const char byte = (char)word;
    assert_int_equal(write(peer->socket, &byte, 1), 1);
}

/* The peer does it before this returns. */
static void have(const struct peer *peer, enum word word) {
    char done;
    tell(peer, word);
    hear(peer, &done, 1);
}

static struct ibv_wc ask_completion(const struct peer *peer) {
    struct ibv_wc found;
    tell(peer, TAKE);
    hear(peer, &found, sizeof found);
    return found;
}

/* The first bytes of the peer's memory, and of its receive. */
struct view {
    unsigned char memory[SEEN], received[SEEN];
};

static struct view look_at(const struct peer *peer) {
    struct view view;
    tell(peer, SHOW);
    hear(peer, &view, sizeof view);
    return view;
}

/* ---- set up ---- */

static void start(struct peer *peer, int access) {
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    peer->pid = fork();
    assert_true(peer->pid >= 0);
    peer->socket = ends[peer->pid == 0];
    close(ends[peer->pid != 0]);
    open_end(&peer->here, access, peer == &peers[1] && peer->pid != 0 ? &peers[0].here : NULL);
    const struct address mine = address_of(&peer->here);
    need(write(peer->socket, &mine, sizeof mine) == (ssize_t)sizeof mine, "address");
    need(recv(peer->socket, &peer->there, sizeof peer->there, MSG_WAITALL) ==
             (ssize_t)sizeof peer->there,
         "address");
    join(&peer->here, &peer->there);
    if (peer->pid == 0)
        obey(peer);
    have(peer, READY);
    assert_int_not_equal(peer->there.lid, mine.lid);
    assert_int_not_equal(peer->there.number, mine.number);
}

static int set_up(void **state) {
    (void)state;
    start(&peers[0], ALL_ACCESS);
    return 0;
}

static void stop(struct peer *peer) {
    int status;
    if (peer->pid == 0)
        return;
    tell(peer, END);
    assert_int_equal(waitpid(peer->pid, &status, 0), peer->pid);
    assert_int_equal(status, 0);
    close(peer->socket);
    close_end(&peer->here);
    peer->pid = 0;
}

static int tear_down(void **state) {
    (void)state;
    stop(&peers[1]);
    stop(&peers[0]);
    return 0;
}

/* It is gone, and its end has been waited for. */
static void bury(struct peer *peer) {
    int status;
    assert_int_equal(waitpid(peer->pid, &status, 0), peer->pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(peer->socket);
    peer->pid = 0;
}

static void expect(const struct peer *peer, uint64_t id, enum ibv_wc_status status) {
    const struct ibv_wc found = take_completion(&peer->here);
    assert_int_equal(found.wr_id, id);
    assert_int_equal(found.status, status);
    assert_int_equal(found.qp_num, peer->here.qp->qp_num);
}

static void expect_nothing(const struct peer *peer) {
    struct ibv_wc found;
    assert_int_equal(ibv_poll_cq(peer->here.cq, 1, &found), 0);
}

/* ---- data ---- */

static void writes_and_reads(void **state) {
    struct peer *peer = &peers[0];
    struct ibv_sge pieces[2];
    (void)state;
    for (uint32_t i = 0; i < MEMORY / 4; i++)
        peer->here.memory[i] = (unsigned char)(i * 7);
    assert_int_equal(post_simple(peer, 1, IBV_WR_RDMA_WRITE, 0, MEMORY / 4, 0), 0);
    expect(peer, 1, IBV_WC_SUCCESS);
    assert_memory_equal(look_at(peer).memory, peer->here.memory, SEEN);
    assert_int_equal(post_simple(peer, 2, IBV_WR_RDMA_READ, MEMORY / 2, MEMORY / 4, 0), 0);
    expect(peer, 2, IBV_WC_SUCCESS);
    assert_memory_equal(peer->here.memory + MEMORY / 2, peer->here.memory, MEMORY / 4);
    /* data in line have been copied; two pieces become one */
    struct ibv_send_wr request =
        request_of(peer, pieces, 3, IBV_WR_RDMA_WRITE, MEMORY - 8192, 8, 4);
    pieces[1] = (struct ibv_sge){(uintptr_t)peer->here.memory + MEMORY - 4096, 8, 0};
    request.num_sge = 2;
    request.send_flags |= IBV_SEND_INLINE;
    memset(peer->here.memory + MEMORY - 8192, 'a', 8);
    memset(peer->here.memory + MEMORY - 4096, 'b', 8);
    assert_int_equal(post(peer, &request), 0);
    memset(peer->here.memory + MEMORY - 8192, 0, 8192);
    expect(peer, 3, IBV_WC_SUCCESS);
    assert_memory_equal(look_at(peer).memory + 4, "aaaaaaaabbbbbbbb", 16);
}

/* A card has the pages, and minds no protection of them. */
static void protected_memory(void **state) {
    struct peer *peer = &peers[0];
    (void)state;
    have(peer, PROTECT);
    memset(peer->here.memory, 'p', 8);
    assert_int_equal(post_simple(peer, 1, IBV_WR_RDMA_WRITE, 0, 8, 0), 0);
    expect(peer, 1, IBV_WC_SUCCESS);
    assert_int_equal(post_simple(peer, 2, IBV_WR_RDMA_READ, 64, 8, 0), 0);
    expect(peer, 2, IBV_WC_SUCCESS);
    assert_memory_equal(peer->here.memory + 64, "pppppppp", 8);
    assert_int_equal(atomic_at(peer, 8, 3, 0, IBV_WR_ATOMIC_FETCH_AND_ADD), 0);
    have(peer, UNPROTECT);
    assert_memory_equal(look_at(peer).memory, "pppppppp\3", 9);
}

static void only_signalled_requests_report(void **state) {
    struct peer *peer = &peers[0];
    struct ibv_sge piece;
    struct ibv_send_wr request = request_of(peer, &piece, 0, IBV_WR_RDMA_WRITE, 0, 8, 0);
    (void)state;
    for (unsigned i = 1; i <= DEPTH; i++) {
        request.wr_id = i;
        request.send_flags = i % 8 == 0 ? IBV_SEND_SIGNALED : 0;
        assert_int_equal(post(peer, &request), 0);
    }
    assert_int_equal(post(peer, &request), ENOMEM); /* the send queue is full until it is polled */
    expect(peer, 8, IBV_WC_SUCCESS);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(post(peer, &request), 0);
    assert_int_equal(post(peer, &request), ENOMEM);
    expect(peer, 16, IBV_WC_SUCCESS);
}

static void atomics(void **state) {
    struct peer *peer = &peers[0];
    (void)state;
    assert_int_equal(atomic_at(peer, 8, 40, 0, IBV_WR_ATOMIC_FETCH_AND_ADD), 0);
    assert_int_equal(atomic_at(peer, 8, 2, 0, IBV_WR_ATOMIC_FETCH_AND_ADD), 40);
    assert_int_equal(atomic_at(peer, 8, 41, 7, IBV_WR_ATOMIC_CMP_AND_SWP), 42);
    assert_int_equal(atomic_at(peer, 8, 42, 9, IBV_WR_ATOMIC_CMP_AND_SWP), 42);
    uint64_t word;
    memcpy(&word, look_at(peer).memory + 8, 8);
    assert_int_equal(word, 9);
}

/* Two processes add to one word of this one's, at once: no addition is lost, and each finds another
 * value. */
static void atomics_of_two_processes(void **state) {
    uint64_t sums[2], word;
    (void)state;
    start(&peers[1], ALL_ACCESS);
    for (int i = 0; i < 2; i++)
        tell(&peers[i], ADD);
    for (int i = 0; i < 2; i++)
        hear(&peers[i], &sums[i], sizeof sums[i]);
    memcpy(&word, peers[0].here.memory, 8);
    assert_int_equal(word, 2 * ADDS);
    assert_int_equal(sums[0] + sums[1], 2 * ADDS * (2 * ADDS - 1) / 2);
}

/* While the card may read it, which the thread sanitizer would call a race. */
__attribute__((no_sanitize("thread"))) static void overwrite(volatile unsigned char *memory) {
    for (int i = 0; i < 8; i++)
        memory[i] = 'b';
}

/* A card reads memory some time after the request was posted, and whatever is in line at once. */
static void late_requests(void **state) {
    struct peer *peer = &peers[0];
    struct ibv_sge pieces[2];
    const uint64_t late_ns = 100000000;
    uint64_t took_ns = late_ns;
    struct view view;
    (void)state;
    setenv("FAKE_CARD_LATE", "100000", 1);
    for (int tries = 0; tries < 100 && took_ns >= late_ns; tries++) {
        struct ibv_send_wr in_line = request_of(peer, &pieces[0], 1, IBV_WR_RDMA_WRITE, 0, 8, 8);
        struct ibv_send_wr request = request_of(peer, &pieces[1], 2, IBV_WR_RDMA_WRITE, 0, 8, 0);
        in_line.send_flags = IBV_SEND_INLINE;
        in_line.next = &request;
        memset(peer->here.memory, 'a', 8);
        const uint64_t begun_ns = check_clock_ns(CLOCK_MONOTONIC);
        assert_int_equal(post(peer, &in_line), 0);
        overwrite(peer->here.memory);
        took_ns = check_clock_ns(CLOCK_MONOTONIC) - begun_ns;
        expect(peer, 2, IBV_WC_SUCCESS);
        view = look_at(peer);
    }
    unsetenv("FAKE_CARD_LATE");
    assert_memory_equal(view.memory, "bbbbbbbbaaaaaaaa", 16);
}

/* ---- messages ---- */

static void messages_wait_for_room(void **state) {
    struct peer *peer = &peers[0];
    (void)state;
    strcpy((char *)peer->here.memory, "the message");
    memset(peer->here.memory + 1024, 'w', 8);
    assert_int_equal(post_simple(peer, 1, IBV_WR_SEND, 0, 12, 0), 0);
    assert_int_equal(post_simple(peer, 2, IBV_WR_RDMA_WRITE, 1024, 8, 0), 0);
    expect_nothing(peer);
    struct view view = look_at(peer);
    assert_int_equal(view.memory[0], 0); /* the write does not overtake the message */
    assert_int_equal(view.received[0], 0);
    have(peer, RECEIVE);
    expect(peer, 1, IBV_WC_SUCCESS);
    expect(peer, 2, IBV_WC_SUCCESS);
    view = look_at(peer);
    assert_memory_equal(view.memory, "wwwwwwww", 8);
    assert_string_equal((char *)view.received, "the message");
    const struct ibv_wc received = ask_completion(peer);
    assert_int_equal(received.opcode, IBV_WC_RECV);
    assert_int_equal(received.wr_id, 77);
    assert_int_equal(received.byte_len, 12);
    assert_int_equal(received.qp_num, peer->there.number);
}

static void writes_with_a_number(void **state) {
    struct peer *peer = &peers[0];
    struct ibv_sge piece;
    struct ibv_send_wr request = request_of(peer, &piece, 1, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 16, 16);
    (void)state;
    memset(peer->here.memory, 'n', 16);
    request.imm_data = 4711;
    assert_int_equal(post(peer, &request), 0);
    expect_nothing(peer);
    assert_int_equal(look_at(peer).memory[16], 0);
    have(peer, RECEIVE);
    expect(peer, 1, IBV_WC_SUCCESS);
    const struct ibv_wc received = ask_completion(peer);
    assert_int_equal(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(received.imm_data, 4711);
    assert_int_equal(received.byte_len, 16);
    const struct view view = look_at(peer);
    assert_memory_equal(view.memory + 16, "nnnnnnnnnnnnnnnn", 16);
    assert_int_equal(view.received[0], 0);
}

static void channels_wake(void **state) {
    struct peer *peer = &peers[0];
    struct ibv_wc found;
    struct pollfd channel = {peer->here.channel->fd, POLLIN, 0};
    struct ibv_cq *cq;
    void *argument;
    (void)state;
    have(peer, RECEIVE);
    have(peer, SLEEP);
    assert_int_equal(post_simple(peer, 1, IBV_WR_SEND, 0, 8, 0), 0);
    hear(peer, &found, sizeof found);
    assert_int_equal(found.opcode, IBV_WC_RECV);
    expect(peer, 1, IBV_WC_SUCCESS);
    assert_int_equal(poll(&channel, 1, 0), 0); /* nobody has asked for an event */
    /* the peer's receive ends a request of this process, and wakes it */
    assert_int_equal(post_simple(peer, 2, IBV_WR_SEND, 0, 8, 0), 0);
    assert_int_equal(ibv_req_notify_cq(peer->here.cq, 0), 0);
    assert_int_equal(poll(&channel, 1, 0), 0);
    have(peer, RECEIVE);
    assert_int_equal(poll(&channel, 1, 60000), 1);
    assert_int_equal(ibv_get_cq_event(peer->here.channel, &cq, &argument), 0);
    assert_ptr_equal(cq, peer->here.cq);
    assert_ptr_equal(argument, &peer->here);
    assert_int_equal(ibv_get_cq_event(peer->here.channel, &cq, &argument), -1);
    expect(peer, 2, IBV_WC_SUCCESS);
}

/* ---- refusals ---- */

/* The request ends so, one behind it is flushed, and nothing has arrived. */
static void refuse(struct ibv_send_wr *request, enum ibv_wc_status status) {
    struct peer *peer = &peers[0];
    memset(peer->here.memory, 'x', SEEN);
    assert_int_equal(post(peer, request), 0);
    assert_int_equal(post_simple(peer, 99, IBV_WR_RDMA_WRITE, 0, 8, 0), 0);
    expect(peer, request->wr_id, status);
    expect(peer, 99, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(look_at(peer).memory[0], 0);
}

static void beyond_the_end(void **state) {
    struct ibv_sge piece;
    struct ibv_send_wr request =
        request_of(&peers[0], &piece, 1, IBV_WR_RDMA_WRITE, 0, 8, MEMORY - 7);
    (void)state;
    refuse(&request, IBV_WC_REM_ACCESS_ERR);
}

static void before_the_beginning(void **state) {
    struct ibv_sge piece;
    struct ibv_send_wr request =
        request_of(&peers[0], &piece, 1, IBV_WR_RDMA_READ, 0, 8, (uint32_t)-1);
    (void)state;
    request.wr.rdma.remote_addr = peers[0].there.memory - 1;
    refuse(&request, IBV_WC_REM_ACCESS_ERR);
}

static void without_the_right(void **state) {
    struct ibv_sge piece;
    struct ibv_send_wr request = request_of(&peers[0], &piece, 1, IBV_WR_RDMA_READ, 1024, 8, 0);
    (void)state;
    request.wr.rdma.rkey = peers[0].there.read_only;
    assert_int_equal(post(&peers[0], &request), 0);
    expect(&peers[0], 1, IBV_WC_SUCCESS);
    request.opcode = IBV_WR_RDMA_WRITE;
    refuse(&request, IBV_WC_REM_ACCESS_ERR);
}

static void atomic_without_the_right(void **state) {
    struct ibv_sge piece;
    struct ibv_send_wr request =
        request_of(&peers[0], &piece, 1, IBV_WR_ATOMIC_FETCH_AND_ADD, 1024, 8, 0);
    (void)state;
    request.wr.atomic.remote_addr = peers[0].there.memory;
    request.wr.atomic.rkey = peers[0].there.read_only;
    request.wr.atomic.compare_add = 1;
    refuse(&request, IBV_WC_REM_ACCESS_ERR);
}

/* A key of this process's own memory is none of the peer's. */
static void of_another_process(void **state) {
    struct ibv_sge piece;
    struct ibv_send_wr request = request_of(&peers[0], &piece, 1, IBV_WR_RDMA_WRITE, 0, 8, 0);
    (void)state;
    request.wr.rdma.rkey = peers[0].here.mr->rkey;
    request.wr.rdma.remote_addr = (uint64_t)(uintptr_t)peers[0].here.memory;
    refuse(&request, IBV_WC_REM_ACCESS_ERR);
}

static void of_no_local_memory(void **state) {
    struct ibv_sge piece;
    struct ibv_send_wr request = request_of(&peers[0], &piece, 1, IBV_WR_RDMA_WRITE, 0, 8, 0);
    (void)state;
    piece.addr--;
    refuse(&request, IBV_WC_LOC_PROT_ERR);
}

/* It leads to no port. */
static void by_a_wrong_path(void **state) {
    struct end end;
    struct ibv_wc found;
    struct peer *peer = &peers[0];
    (void)state;
    open_end(&end, ALL_ACCESS, NULL);
    struct address nowhere = peer->there;
    nowhere.lid = 4711;
    join(&end, &nowhere);
    struct ibv_sge piece = {(uintptr_t)end.memory, 8, end.mr->lkey};
    struct ibv_send_wr request = {.wr_id = 3,
                                  .sg_list = &piece,
                                  .num_sge = 1,
                                  .opcode = IBV_WR_RDMA_WRITE,
                                  .wr.rdma = {peer->there.memory, peer->there.key}},
                       *bad;
    assert_int_equal(ibv_post_send(end.qp, &request, &bad), 0);
    assert_int_equal(ibv_poll_cq(end.cq, 1, &found), 1);
    assert_int_equal(found.status, IBV_WC_RETRY_EXC_ERR);
    close_end(&end);
}

static void memory_that_is_not_there(void **state) {
    void *hole = (void *)(uintptr_t)sysconf(_SC_PAGESIZE);
    (void)state;
    assert_null(ibv_reg_mr(peers[0].here.pd, hole, 4096, IBV_ACCESS_LOCAL_WRITE));
    assert_int_equal(errno, EFAULT);
}

/* ---- death ---- */

static void a_dead_peer_does_not_answer(void **state) {
    struct peer *peer = &peers[0];
    (void)state;
    kill(peer->pid, SIGKILL);
    bury(peer);
    assert_int_equal(post_simple(peer, 1, IBV_WR_RDMA_WRITE, 0, 8, 0), 0);
    expect(peer, 1, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(post_simple(peer, 2, IBV_WR_RDMA_WRITE, 0, 8, 0), 0);
    expect(peer, 2, IBV_WC_WR_FLUSH_ERR);
    close_end(&peer->here);
}

/* A message waits for the peer's receive, its sender sleeps, and the peer dies. */
static void nobody_waits_for_a_dead_peer(void **state) {
    struct peer *peer = &peers[0];
    struct pollfd channel = {peer->here.channel->fd, POLLIN, 0};
    (void)state;
    assert_int_equal(post_simple(peer, 1, IBV_WR_SEND, 0, 0, 0), 0);
    assert_int_equal(ibv_req_notify_cq(peer->here.cq, 0), 0);
    assert_int_equal(poll(&channel, 1, 100), 0);
    kill(peer->pid, SIGKILL);
    bury(peer);
    assert_int_equal(poll(&channel, 1, 60000), 1);
    expect(peer, 1, IBV_WC_RETRY_EXC_ERR);
    close_end(&peer->here);
}

/* The lock is free again, and so is what the peer had on the card, once another process comes. */
static void a_peer_dies_in_the_middle(void **state) {
    struct peer *peer = &peers[0];
    (void)state;
    const uint32_t number = peer->there.number;
    tell(peer, HOLD);
    bury(peer);
    assert_int_equal(post_simple(peer, 1, IBV_WR_RDMA_WRITE, 0, 8, 0), 0);
    expect(peer, 1, IBV_WC_RETRY_EXC_ERR);
    close_end(&peer->here);
    assert_non_null(card_pair_of(number));
    start(peer, ALL_ACCESS);
    assert_null(card_pair_of(number));
    writes_and_reads(state);
}

/* ---- counts ---- */

static void counts(void **state) {
    struct peer *peer = &peers[0];
    struct fake_card_counts before, after;
    struct ibv_sge pieces[2];
    struct ibv_send_wr first = request_of(peer, &pieces[0], 1, IBV_WR_RDMA_WRITE, 0, 24, 0);
    struct ibv_send_wr second = request_of(peer, &pieces[1], 2, IBV_WR_RDMA_READ, 0, 100, 0);
    (void)state;
    fake_card_counts(&before);
    assert_int_equal(before.registered_bytes, 2 * MEMORY);
    first.send_flags = IBV_SEND_INLINE;
    first.next = &second;
    assert_int_equal(post(peer, &first), 0);
    expect(peer, 2, IBV_WC_SUCCESS);
    (void)atomic_at(peer, 0, 1, 0, IBV_WR_ATOMIC_FETCH_AND_ADD);
    (void)atomic_at(peer, 0, 1, 0, IBV_WR_ATOMIC_CMP_AND_SWP);
    post_receive(&peer->here);
    assert_int_equal(post_simple(peer, 3, IBV_WR_SEND, 0, 10, 0), 0); /* there is no room for it */
    struct ibv_mr *mr = ibv_reg_mr(peer->here.pd, peer->here.memory, 4096, 0);
    fake_card_counts(&after);
    struct fake_card_counts counts = fake_card_between(&before, &after), expected = {0};
    expected.requests[FAKE_WRITE] = expected.in_line[FAKE_WRITE] = 1;
    expected.bytes[FAKE_WRITE] = 24;
    expected.requests[FAKE_READ] = expected.signalled[FAKE_READ] = 1;
    expected.bytes[FAKE_READ] = 100;
    expected.requests[FAKE_FETCH_AND_ADD] = expected.signalled[FAKE_FETCH_AND_ADD] = 1;
    expected.bytes[FAKE_FETCH_AND_ADD] = 8;
    expected.requests[FAKE_CMP_AND_SWP] = expected.signalled[FAKE_CMP_AND_SWP] = 1;
    expected.bytes[FAKE_CMP_AND_SWP] = 8;
    expected.requests[FAKE_SEND] = expected.signalled[FAKE_SEND] = 1;
    expected.post_sends = 4;
    expected.post_srq_recvs = 1;
    expected.completions = 3;
    expected.registrations = 1;
    expected.registered_bytes = 4096;
    assert_memory_equal(&counts, &expected, sizeof counts);
    have(peer, RECEIVE);
    expect(peer, 3, IBV_WC_SUCCESS);
    ibv_dereg_mr(mr);
    before = after;
    fake_card_counts(&after);
    counts = fake_card_between(&before, &after);
    assert_int_equal(counts.bytes[FAKE_SEND], 10); /* the peer has carried it out */
    assert_int_equal(counts.deregistrations, 1);
    assert_int_equal(counts.registered_bytes, (uint64_t)-4096);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {CASE(writes_and_reads),
                                       CASE(protected_memory),
                                       CASE(only_signalled_requests_report),
                                       CASE(atomics),
                                       CASE(atomics_of_two_processes),
                                       CASE(late_requests),
                                       CASE(messages_wait_for_room),
                                       CASE(writes_with_a_number),
                                       CASE(channels_wake),
                                       CASE(beyond_the_end),
                                       CASE(before_the_beginning),
                                       CASE(without_the_right),
                                       CASE(atomic_without_the_right),
                                       CASE(of_another_process),
                                       CASE(of_no_local_memory),
                                       CASE(by_a_wrong_path),
                                       CASE(memory_that_is_not_there),
                                       CASE(a_dead_peer_does_not_answer),
                                       CASE(nobody_waits_for_a_dead_peer),
                                       CASE(a_peer_dies_in_the_middle),
                                       CASE(counts)};
    char path[] = "/tmp/tugboat-card-XXXXXX";
    const int file = mkstemp(path);
    need(file >= 0, "mkstemp");
    setenv("FAKE_CARD", path, 1);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    close(file);
    unlink(path);
    return failed;
}
