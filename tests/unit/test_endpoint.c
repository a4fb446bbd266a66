/* The endpoint of the tcp wire: contexts of two or three processes that share the processes'
 * sockets. All processes are in this one, each with an endpoint of its own over the loopback
 * device; a context is an id and a view at each, and ranks run backwards in every second one.
 * Seen: packets reach the context that they are for and no other, in order; two processes have one
 * connection however many contexts they have, and whoever began it; and what is known of a peer is
 * known to the contexts that come later. */
#include <sys/socket.h>

#include "base/clock.h"
#include "check.h"
#include "transport/tcp/private.h"

#define N 3u
#define CONTEXTS 4u
#define TRAILER 4096u

struct context {
    struct tug_fabric fabric;
    struct tug_wire *wire; /* NULL: not open */
    unsigned heard[N], ended[N], settled[N], by_host[N], trailers[N];
    uint64_t last[N]; /* what the last packet said */
    unsigned char memory[TRAILER];
};

struct process {
    struct tug_tcp_endpoint *endpoint;
    struct tug_tcp_address address;
    struct context contexts[CONTEXTS];
};

static struct process processes[N];
static unsigned char long_data[TRAILER];

static uint64_t id_of_context(unsigned context) {
    return 0x7475676c6f6f6b00u + context * 0x10001u;
}

static uint32_t rank_of(unsigned context, uint32_t process) {
    return context % 2 == 0 ? process : N - 1 - process;
}

/* ---- what a context does with what comes ---- */

static void receive(void *receiver, struct tug_wire *wire, const void *memory, size_t bytes) {
    struct context *context = receiver;
    struct tug_packet_reader reader;
    struct tug_record record = {0};
    assert_int_equal(tug_packet_open(&reader, memory, bytes, context->fabric.id, N),
                     TUG_PACKET_GOOD);
    assert_true(tug_packet_next(&reader, &record));
    const uint32_t source = reader.header.source;
    if (record.kind == TUG_RECORD_VALUE) {
        assert_int_equal(record.words[0], context->last[source] + 1); /* in order */
        context->last[source]++;
    }
    context->heard[source]++;
    (void)wire->row->meet(wire, source);
}

static unsigned char *place(void *receiver, uint32_t source, size_t come, size_t *room) {
    (void)source, (void)room;
    return ((struct context *)receiver)->memory + come;
}

static void arrived(void *receiver, uint32_t source, bool whole) {
    ((struct context *)receiver)->trailers[source] += whole;
}

static void sent(void *receiver, uint32_t peer, const struct tug_buffer *buffer) {
    (void)receiver, (void)peer, (void)buffer;
}

static void settled(void *receiver, uint32_t peer, bool by_wire) {
    struct context *context = receiver;
    if (by_wire)
        context->settled[peer]++;
    else
        context->by_host[peer]++;
}

static void ended(void *receiver, uint32_t peer) {
    ((struct context *)receiver)->ended[peer]++;
}

/* ---- contexts ---- */

static struct context *at(uint32_t process, unsigned context) {
    return &processes[process].contexts[context];
}

static void start(uint32_t process) {
    processes[process].address = (struct tug_tcp_address){.family = AF_INET, .ip = {127, 0, 0, 1}};
    processes[process].endpoint = tug_tcp_endpoint_make(&processes[process].address, true);
    assert_non_null(processes[process].endpoint);
}

/* At one process, which has been told of all. */
static void open_at(uint32_t process, unsigned which) {
    struct context *context = at(process, which);
    *context = (struct context){.fabric = {.rank = rank_of(which, process),
                                           .nranks = N,
                                           .id = id_of_context(which),
                                           .ways = TUG_WAY_TCP | TUG_WAY_MPI}};
    struct tug_tcp_view *view = tug_tcp_view_make(processes[process].endpoint, &context->fabric);
    assert_non_null(view);
    for (uint32_t i = 0; i < N; i++)
        view->addresses[rank_of(which, i)] = processes[i].address;
    context->wire = &view->wire;
    context->wire->receiver = context;
    context->wire->receive = receive;
    context->wire->trailer_address = place;
    context->wire->arrived = arrived;
    context->wire->sent = sent;
    context->wire->settled = settled;
    context->wire->ended = ended;
    assert_true(tug_tcp_view_enter(view));
}

static void open_all(unsigned which) {
    for (uint32_t i = 0; i < N; i++)
        open_at(i, which);
}

static void close_at(uint32_t process, unsigned which) {
    struct context *context = at(process, which);
    if (context->wire == NULL)
        return;
    context->wire->row->leave(context->wire);
    context->wire->row->close(context->wire);
    context->wire = NULL;
    for (unsigned i = 0; i < CONTEXTS; i++)
        if (at(process, i)->wire != NULL)
            return;
    processes[process].endpoint = NULL; /* it goes with the last of them */
}

static int begin(void **state) {
    (void)state;
    for (uint32_t i = 0; i < N; i++)
        start(i);
    open_all(0);
    return 0;
}

static int end(void **state) {
    (void)state;
    for (uint32_t i = 0; i < N; i++)
        for (unsigned which = 0; which < CONTEXTS; which++)
            close_at(i, which);
    for (uint32_t i = 0; i < N; i++)
        assert_null(processes[i].endpoint);
    return 0;
}

static void poll_one(uint32_t process) {
    for (unsigned which = CONTEXTS; which-- > 0;)
        if (at(process, which)->wire != NULL)
            (void)at(process, which)->wire->row->poll(at(process, which)->wire);
}

static void poll_all(void) {
    for (uint32_t i = 0; i < N; i++)
        poll_one(i);
}

#define UNTIL(condition)                                                                           \
    for (const uint64_t start_ns = tug_clock_ns(); !(condition); poll_all())                       \
    assert_true(tug_clock_ns() - start_ns < (uint64_t)60 * 1000000000u)

/* ---- packets ---- */

/* NULL: it was sent; else not yet. */
static struct tug_buffer *try_to_send(uint32_t from, uint32_t to, unsigned which,
                                      struct tug_buffer *buffer) {
    struct tug_wire *wire = at(from, which)->wire;
    return wire->row->send(wire, rank_of(which, to), buffer) ? NULL : buffer;
}

static struct tug_buffer *pack(uint32_t from, unsigned which, uint64_t id, uint64_t value,
                               bool has_trailer) {
    struct tug_buffer *buffer = tug_pool_take(&at(from, which)->wire->pool);
    assert_non_null(buffer);
    if (has_trailer) {
        uint64_t *words = tug_packet_add(&buffer->packet, TUG_RECORD_LONG_DATA, 0, 0, 0);
        words[0] = 0;
        tug_packet_trail(&buffer->packet, TRAILER);
        buffer->trailer = long_data;
    } else {
        *tug_packet_add(&buffer->packet, TUG_RECORD_VALUE, 0, 0, 0) = value;
    }
    tug_packet_end(&buffer->packet, rank_of(which, from), 0, 0, id);
    return buffer;
}

static void send_packet(uint32_t from, uint32_t to, unsigned which, struct tug_buffer *buffer) {
    UNTIL((buffer = try_to_send(from, to, which, buffer)) == NULL);
}

/* The next of its pair in that context. */
static void exchange(uint32_t from, uint32_t to, unsigned which) {
    struct context *there = at(to, which);
    const uint32_t source = rank_of(which, from);
    const unsigned before = there->heard[source];
    send_packet(from, to, which,
                pack(from, which, id_of_context(which), there->last[source] + 1, false));
    UNTIL(there->heard[source] > before);
}

static struct tug_tcp_link *link_of(uint32_t process, uint32_t to) {
    const struct tug_tcp_peer *peer =
        tug_tcp_find_peer(processes[process].endpoint, processes[to].address.id);
    return peer != NULL ? peer->link : NULL;
}

static unsigned links_of(uint32_t process) {
    unsigned n = 0;
    poll_all();
    for (const struct tug_tcp_link *link = processes[process].endpoint->all; link;
         link = link->next)
        n += !link->closed;
    return n;
}

/* ---- the cases ---- */

static void contexts_share_a_connection(void **state) {
    (void)state;
    for (unsigned which = 1; which < CONTEXTS; which++)
        open_all(which);
    for (unsigned i = 0; i < 3 * CONTEXTS; i++) {
        exchange(0, 1, i % CONTEXTS);
        exchange(1, 0, (i + 1) % CONTEXTS);
        exchange(1, 2, (i + 2) % CONTEXTS);
    }
    assert_int_equal(links_of(0), 1);
    assert_int_equal(links_of(1), 2);
    assert_int_equal(links_of(2), 1);
    for (unsigned which = 0; which < CONTEXTS; which++)
        assert_int_equal(at(2, which)->heard[rank_of(which, 0)], 0);
}

/* Each begins by another context, in which the two have other ranks. */
static void connections_of_two_contexts_cross(void **state) {
    struct tug_buffer *there, *back;
    (void)state;
    open_all(1);
    there = try_to_send(0, 2, 0, pack(0, 0, id_of_context(0), 1, false));
    back = try_to_send(2, 0, 1, pack(2, 1, id_of_context(1), 1, false));
    assert_true(there != NULL && back != NULL);
    send_packet(0, 2, 0, there);
    send_packet(2, 0, 1, back);
    UNTIL(at(2, 0)->heard[rank_of(0, 0)] == 1 && at(0, 1)->heard[rank_of(1, 2)] == 1);
    exchange(0, 2, 1);
    exchange(2, 0, 0);
    assert_int_equal(links_of(0), 1);
    assert_int_equal(links_of(2), 1);
    assert_int_equal(at(0, 0)->settled[rank_of(0, 2)], 1);
    assert_int_equal(at(2, 1)->settled[rank_of(1, 0)], 1);
}

static void a_later_context_finds_the_link(void **state) {
    (void)state;
    exchange(0, 1, 0);
    open_all(1);
    assert_true(at(0, 1)->wire->row->meet(at(0, 1)->wire, rank_of(1, 1)));
    assert_null(try_to_send(0, 1, 1, pack(0, 1, id_of_context(1), 1, false)));
    UNTIL(at(1, 1)->heard[rank_of(1, 0)] == 1);
    assert_int_equal(links_of(0), 1);
}

/* Nobody listens there: a context that comes later is told as well. */
static void a_peer_that_refuses(void **state) {
    (void)state;
    close_at(2, 0);
    struct tug_buffer *first = pack(0, 0, id_of_context(0), 1, false);
    first = try_to_send(0, 2, 0, first);
    assert_non_null(first);
    UNTIL(at(0, 0)->ended[2] > 0);
    tug_pool_give(&at(0, 0)->wire->pool, first);
    open_at(0, 1);
    assert_false(at(0, 1)->wire->row->meet(at(0, 1)->wire, rank_of(1, 2)));
    UNTIL(at(0, 1)->ended[rank_of(1, 2)] > 0);
    exchange(0, 1, 0); /* others are not concerned */
}

/* It may be the first to send: who has not asked for it is told as well. */
static void a_peer_that_goes_by_the_host(void **state) {
    (void)state;
    assert_false(at(0, 0)->wire->row->meet(at(0, 0)->wire, 1));
    link_of(0, 1)->word = TUG_TCP_BY_HOST; /* as one that has no descriptor left says */
    open_all(1);
    UNTIL(at(0, 0)->by_host[1] == 1 && at(1, 0)->by_host[0] == 1);
    assert_int_equal(at(1, 1)->by_host[rank_of(1, 0)], 1);
    open_all(2);
    poll_all();
    assert_int_equal(at(0, 2)->by_host[1], 1);
    assert_int_equal(at(1, 2)->by_host[0], 1);
    assert_int_equal(at(1, 2)->by_host[2], 0);
    assert_false(at(0, 2)->wire->row->meet(at(0, 2)->wire, 1));
}

static void a_context_ends_while_another_goes_on(void **state) {
    (void)state;
    open_all(1);
    exchange(0, 1, 0);
    exchange(0, 1, 1);
    const struct tug_tcp_link *link = link_of(0, 1);
    close_at(0, 0);
    exchange(1, 0, 1);
    exchange(0, 1, 1);
    close_at(1, 0);
    exchange(1, 0, 1);
    assert_ptr_equal(link_of(0, 1), link);
    assert_int_equal(at(0, 1)->ended[rank_of(1, 1)], 0);
    open_all(2); /* the link stays, and the next context has it */
    close_at(0, 1);
    close_at(1, 1);
    exchange(0, 1, 2);
    assert_ptr_equal(link_of(0, 1), link);
}

/* A context that was to go on is not cut off, and what follows the packet is passed over too. */
static void a_packet_for_no_context(void **state) {
    (void)state;
    open_all(1);
    exchange(0, 1, 0);
    send_packet(0, 1, 0, pack(0, 0, 4711, 1, false));
    send_packet(0, 1, 0, pack(0, 0, 4711, 0, true));
    exchange(0, 1, 0);
    exchange(0, 1, 1);
    assert_int_equal(at(1, 0)->heard[0], 2);
    assert_int_equal(at(1, 0)->trailers[0], 0);
}

static void a_packet_of_another_rank(void **state) {
    (void)state;
    exchange(0, 1, 0);
    struct tug_buffer *buffer = pack(0, 0, id_of_context(0), 2, false);
    tug_packet_end(&buffer->packet, 2, 0, 0, id_of_context(0));
    send_packet(0, 1, 0, buffer);
    UNTIL(at(0, 0)->ended[1] > 0 && at(1, 0)->ended[0] > 0);
    assert_int_equal(at(1, 0)->heard[0], 1);
    assert_int_equal(at(1, 0)->heard[2], 0);
}

/* Who is quicker to make a context may send before the other is served. */
static void a_packet_for_a_context_that_is_not_served_yet(void **state) {
    struct tug_wire *const wire = at(1, 0)->wire;
    (void)state;
    memset(long_data, 7, sizeof(long_data));
    exchange(0, 1, 0);
    open_all(1);
    for (uint64_t i = 1; i <= 3000; i++)
        assert_null(try_to_send(0, 1, 1, pack(0, 1, id_of_context(1), i, false)));
    assert_null(try_to_send(0, 1, 0, pack(0, 0, id_of_context(0), 2, false)));
    for (int i = 0; i < 100; i++)
        (void)wire->row->poll(wire); /* the older context alone */
    assert_int_equal(at(1, 1)->heard[rank_of(1, 0)], 0);
    assert_int_equal(at(1, 0)->heard[0], 1); /* it is behind them */
    assert_true(wire->row->arm(wire));       /* nobody polls for that */
    exchange(2, 1, 0);                       /* makes it ready */
    UNTIL(at(1, 0)->heard[0] == 2);
    assert_int_equal(at(1, 1)->heard[rank_of(1, 0)], 3000);
    assert_int_equal(processes[1].endpoint->nheld, 0);
}

/* The contexts of a process are polled in turn. */
static void one_look_does_for_all(void **state) {
    (void)state;
    for (unsigned which = 1; which < CONTEXTS; which++)
        open_at(0, which);
    poll_one(0);
    const uint64_t before = processes[0].endpoint->turns.polls;
    for (int i = 0; i < 10; i++)
        poll_one(0);
    assert_int_equal(processes[0].endpoint->turns.polls, before + 10);
    for (int i = 0; i < 10; i++) /* one alone, as when it is about to end */
        (void)at(0, 1)->wire->row->poll(at(0, 1)->wire);
    assert_true(processes[0].endpoint->turns.polls >= before + 19);
}

/* The other process's last context ends, and it makes another endpoint for the next. */
static void a_process_that_comes_again(void **state) {
    (void)state;
    exchange(0, 1, 0);
    exchange(2, 0, 0);
    open_at(0, 1); /* our own stays */
    close_at(0, 0);
    close_at(1, 0);
    UNTIL(link_of(0, 1) == NULL);
    assert_int_equal(processes[0].endpoint->peers.used, 1);
    start(1);
    close_at(2, 0);
    start(2);
    for (uint32_t i = 0; i < N; i++)
        open_at(i, 2);
    exchange(1, 0, 2);
    exchange(0, 1, 2);
    assert_int_equal(links_of(0), 1);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest cases[] = {
        CASE(contexts_share_a_connection),
        CASE(connections_of_two_contexts_cross),
        CASE(a_later_context_finds_the_link),
        CASE(a_peer_that_refuses),
        CASE(a_peer_that_goes_by_the_host),
        CASE(a_context_ends_while_another_goes_on),
        CASE(a_packet_for_no_context),
        CASE(a_packet_of_another_rank),
        CASE(a_packet_for_a_context_that_is_not_served_yet),
        CASE(one_look_does_for_all),
        CASE(a_process_that_comes_again),
    };
    return cmocka_run_group_tests_name("transport/endpoint", cases, NULL, NULL);
}
