/* Descriptors that run out: a process and a hundred others, all in this one, each with packets of
 * its own over tcp, where the system gives 64 sockets to all of them together. Who gets none goes
 * by the host's messages, which are queues here. Seen: every operation of every size ends well,
 * messages come in order, and both ends of each pair agree on the way. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/joined.h"
#include "tests/unit/played_messages.h"
#include "tcp_wire.h"
#include "transport/tcp/private.h"

#define N 101u
#define SOCKETS 64
#define OPERATIONS 4096 /* of each: a power of two */
#define MESSAGES 20u
#define BLOCK 100000u /* by the host's messages alone, if it goes by these */
#define PATIENCE_NS ((uint64_t)120 * 1000000000u)

/* ---- processes ---- */

/* What a process shows each other one: [0] is written, [1] is read. */
struct place {
    unsigned char block[2][BLOCK];
    uint64_t word;
};

struct process {
    struct tug_fabric fabric;
    struct tug_packets packets;
    struct tug_load load;
    struct tug_tcp_address address;
    struct tug_registration shown, own; /* places for others; by the others' ranks */
    uint32_t nplaces;                   /* rank 0 has to do with all, all have to do with it */
    uint32_t *heard;                    /* messages of each */
    uint64_t fetched[N];
};

static struct process *processes;
static bool descending; /* the processes' ids, by which it is settled who connects to whom */
static unsigned out;

static struct place *place_of(const struct tug_registration *memory, uint32_t rank) {
    return (struct place *)memory->base + (memory->bytes > sizeof(struct place) ? rank : 0);
}

static unsigned char fill(uint32_t from, uint32_t to, size_t i) {
    return (unsigned char)(from * 31 + to * 17 + i + i / 256);
}

static int deliver(struct tug_fabric *fabric, uint32_t source, unsigned handler,
                   const void *payloads, size_t bytes, size_t n) {
    struct process *process = (struct process *)fabric;
    (void)handler;
    assert_int_equal(bytes, 8);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(((const uint64_t *)payloads)[i], process->heard[source]++);
    return 0;
}

static void on_end(void *d, int status) {
    (void)d;
    assert_int_equal(status, 0);
    out--;
}

static void give_memory(struct process *process, struct tug_registration *memory) {
    memory->bytes = process->nplaces * sizeof(struct place);
    memory->base = calloc(process->nplaces, sizeof(struct place));
    assert_non_null(memory->base);
    assert_int_equal(tug_memory_add(&process->fabric.memory, memory), 0);
}

static void open_one(uint32_t rank) {
    struct process *process = &processes[rank];
    struct tug_fabric *fabric = &process->fabric;
    assert_true(joined_begin(fabric, rank, OPERATIONS));
    fabric->comm = PLAYED_COMM(rank);
    fabric->nranks = N;
    fabric->node_size = 0;
    fabric->deliver = deliver;
    fabric->ways = TUG_WAY_TCP | TUG_WAY_MPI;
    fabric->packets = &process->packets;
    process->packets.fabric = fabric;
    process->packets.load = &process->load;
    process->packets.fold_at = TUG_STREAMS_KEPT;
    process->packets.streams = (struct tug_stream **)calloc(N, sizeof(struct tug_stream *));
    process->heard = calloc(N, sizeof(uint32_t));
    process->address.family = AF_INET;
    memcpy(process->address.ip, (const unsigned char[]){127, 0, 0, 1}, 4);
    struct tug_wire *far = tcp_wire_make(fabric, &process->address);
    assert_non_null(far);
    ((struct tug_tcp_view *)far)->endpoint->id = process->address.id =
        descending ? N - rank : 1 + rank;
    fabric->states[TUG_BY_TCP] = far;
    tug_packets_attach(&process->packets, far);
    process->nplaces = rank == 0 ? N : 1;
    give_memory(process, &process->shown);
    give_memory(process, &process->own);
}

static void begin(void) {
    processes = calloc(N, sizeof(struct process));
    assert_non_null(processes);
    for (uint32_t i = 0; i < N; i++)
        open_one(i);
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t j = 0; j < N; j++)
            tcp_wire_addresses(processes[i].packets.wires[0])[j] = processes[j].address;
}

/* There are descriptors for all wires, and so many more. False: not as many as that. */
static bool limit(int more) {
    struct rlimit most;
    const int next = dup(0);
    if (next < 0 || getrlimit(RLIMIT_NOFILE, &most) != 0)
        return false;
    close(next);
    const rlim_t wanted = (rlim_t)next + N * (2 + TUG_TCP_RESERVES) + (rlim_t)more;
    return most.rlim_max >= wanted &&
           setrlimit(RLIMIT_NOFILE, &(struct rlimit){wanted, wanted}) == 0;
}

static void close_one(struct process *process) {
    struct tug_packets *packets = &process->packets;
    assert_int_equal(process->fabric.out, 0);
    while (packets->all != NULL) {
        struct tug_stream *stream = packets->all;
        packets->all = stream->next;
        if (stream->requests != NULL)
            tug_pool_give(&stream->wire->pool, stream->requests);
        free(stream);
    }
    for (unsigned i = 0; i < packets->nwires; i++) {
        assert_int_equal(packets->wires[i]->pool.nout, 0);
        packets->wires[i]->row->close(packets->wires[i]);
    }
    free((void *)packets->streams);
    free(process->heard);
    free(process->shown.base);
    free(process->own.base);
    joined_end(&process->fabric);
}

static void end(void) {
    for (uint32_t i = 0; i < N; i++)
        close_one(&processes[i]);
    free(processes);
}

/* ---- operations ---- */

static struct tug_operation *prepare(uint32_t from, uint32_t to, unsigned kind, size_t offset,
                                     size_t bytes) {
    struct process *process = &processes[from];
    const struct process *other = &processes[to];
    uint32_t tag = TUG_NO_TAG;
    assert_true(tug_tags_take(&process->fabric.tags, &tag));
    struct tug_operation *operation = &process->fabric.operations[tag];
    memset(operation, 0, sizeof(*operation));
    operation->kind = (uint8_t)kind;
    operation->peer = to;
    operation->key = other->shown.id;
    operation->offset =
        (size_t)((unsigned char *)place_of(&other->shown, from) - other->shown.base) + offset;
    operation->bytes = bytes;
    operation->local = (unsigned char *)place_of(&process->own, to) + offset;
    operation->on_complete.f = on_end;
    return operation;
}

static void post(uint32_t from, struct tug_operation *operation) {
    processes[from].fabric.out++;
    out++;
    tug_packets_post(&processes[from].packets, operation);
}

/* Messages, short and long data in turn: all go one way, in order. */
static void post_all(uint32_t from, uint32_t to) {
    struct process *process = &processes[from];
    static const size_t lengths[] = {100, 5000, 20000, BLOCK - 25100};
    struct place *own = place_of(&process->own, to);
    struct place *shown = place_of(&processes[to].shown, from);
    for (size_t i = 0; i < BLOCK; i++) {
        own->block[0][i] = fill(from, to, i);
        shown->block[1][i] = fill(to, from, i + 5);
    }
    shown->word = to;
    size_t at = 0;
    for (uint64_t i = 0; i < MESSAGES; i++) {
        struct tug_operation *message = prepare(from, to, TUG_OPERATION_AM, 0, 8);
        message->local = NULL;
        memcpy(message->data, &i, 8);
        post(from, message);
        if (i % 5 != 0)
            continue;
        const size_t length = lengths[i / 5];
        post(from, prepare(from, to, TUG_OPERATION_WRITE, at, length));
        post(from, prepare(from, to, TUG_OPERATION_READ, BLOCK + at, length));
        at += length;
    }
    struct tug_operation *fetch =
        prepare(from, to, TUG_OPERATION_FETCH, offsetof(struct place, word), 8);
    fetch->op = TUG_ADD;
    fetch->operand = 1;
    fetch->local = (unsigned char *)&process->fetched[to];
    post(from, fetch);
    tug_packets_flush(&process->packets);
}

static void check(uint32_t from, uint32_t to) {
    const struct place *own = place_of(&processes[from].own, to);
    const struct place *shown = place_of(&processes[to].shown, from);
    for (size_t i = 0; i < BLOCK; i++) {
        assert_int_equal(shown->block[0][i], fill(from, to, i));
        assert_int_equal(own->block[1][i], fill(to, from, i + 5));
    }
    assert_int_equal(processes[to].heard[from], MESSAGES);
    assert_int_equal(processes[from].fetched[to], to);
    assert_int_equal(shown->word, to + 1);
}

static void run(void) {
    const uint64_t start = tug_clock_ns();
    while (out > 0) {
        for (uint32_t i = 0; i < N; i++)
            (void)tug_packets_poll(&processes[i].packets);
        if (tug_clock_ns() - start > PATIENCE_NS)
            fail_msg("%u operations have not ended", out);
    }
    for (unsigned round = 0; round < 100; round++) /* acknowledgements */
        for (uint32_t i = 0; i < N; i++)
            (void)tug_packets_poll(&processes[i].packets);
}

static void exchange(bool by_first, bool by_others) {
    unsigned ways[2] = {0};
    begin();
    for (uint32_t i = 1; i < N; i++) {
        if (by_first)
            post_all(0, i);
        if (by_others)
            post_all(i, 0);
    }
    run();
    for (uint32_t i = 1; i < N; i++) {
        if (by_first)
            check(0, i);
        if (by_others)
            check(i, 0);
        const struct tug_stream *here = processes[0].packets.streams[i];
        const struct tug_stream *there = processes[i].packets.streams[0];
        const bool by_host = here->wire == processes[0].fabric.states[TUG_BY_MPI];
        assert_int_equal(by_host, there->wire == processes[i].fabric.states[TUG_BY_MPI]);
        ways[by_host]++;
    }
    printf("%u pairs by tcp, %u by the host's messages\n", ways[0], ways[1]);
    assert_true(ways[1] > 0);
    end();
}

static void in_both_orders(bool by_first, bool by_others) {
    for (int i = 0; i < 2; i++) {
        descending = i == 1;
        exchange(by_first, by_others);
    }
}

static void one_connects_to_all(void **state) {
    (void)state;
    in_both_orders(true, false);
}

static void all_connect_to_one(void **state) {
    (void)state;
    in_both_orders(false, true);
}

static void both_connect(void **state) {
    (void)state;
    in_both_orders(true, true);
}

/* ---- descriptors in reserve ----
 *
 * On a busy machine a stranger may have had its time in the look that accepts it, and be gone. Then
 * the reserve to accept is there again sooner, and the end is the same. */

static int rest[SOCKETS];
static int nrest;

/* None is left but those in reserve. */
static void take_rest(void) {
    int next;
    while ((next = dup(0)) >= 0) {
        assert_true(nrest < SOCKETS);
        rest[nrest++] = next;
    }
}

static void give_rest(void) {
    while (nrest > 0)
        close(rest[--nrest]);
}

static int connect_stranger(uint32_t to) {
    struct sockaddr_storage address;
    const socklen_t bytes = tug_tcp_sockaddr(&processes[to].address, &address);
    const int stranger = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(stranger, (struct sockaddr *)&address, bytes), 0);
    return stranger;
}

static bool has_reserve(uint32_t rank, enum tug_tcp_reserve which) {
    const struct tug_wire *wire = processes[rank].packets.wires[0];
    return ((const struct tug_tcp_view *)wire)->endpoint->reserve[which].number >= 0;
}

static void look(uint32_t rank) {
    (void)tug_packets_poll(&processes[rank].packets);
}

/* Two connect to each other with the one reserve, and have accepted strangers with the other. When
 * these have gone, each accepts the other's connection. */
static void strangers_come_between(void **state) {
    int strangers[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        descending = i == 1;
        begin();
        for (uint32_t j = 0; j < 2; j++)
            strangers[j] = connect_stranger(j);
        take_rest();
        for (uint32_t j = 0; j < 2; j++) {
            post_all(j, 1 - j);
            assert_false(has_reserve(j, TUG_TCP_TO_CONNECT));
            look(j);
        }
        for (uint32_t j = 0; j < 2; j++)
            assert_int_equal(shutdown(strangers[j], SHUT_RDWR), 0);
        run();
        for (uint32_t j = 0; j < 2; j++) {
            check(j, 1 - j);
            close(strangers[j]);
        }
        give_rest();
        end();
    }
}

/* A stranger that was accepted with the one reserve goes while a link is made with the other. The
 * next process can still connect. */
static void stranger_goes_meanwhile(void **state) {
    (void)state;
    begin();
    const int stranger = connect_stranger(0);
    take_rest();
    look(0);
    assert_int_equal(shutdown(stranger, SHUT_RDWR), 0);
    post_all(0, 1);
    assert_false(has_reserve(0, TUG_TCP_TO_CONNECT));
    look(0);
    close(rest[--nrest]); /* the other process need not give the link up */
    look(1);
    take_rest();
    post_all(2, 0);
    run();
    check(0, 1);
    check(2, 0);
    close(stranger);
    give_rest();
    end();
}

int main(void) {
    played_begin(false);
    if (!limit(SOCKETS))
        return 77;
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(one_connects_to_all),
        cmocka_unit_test(all_connect_to_one),
        cmocka_unit_test(both_connect),
        cmocka_unit_test(strangers_come_between),
        cmocka_unit_test(stranger_goes_meanwhile),
    };
    const int failed = cmocka_run_group_tests_name("transport/scarce", cases, NULL, NULL);
    free(played);
    return failed;
}
