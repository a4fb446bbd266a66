/* The endpoint of the tcp wire: contexts of two or three processes that share the processes'
 * sockets. All processes are in this one, each with an endpoint of its own over the loopback
 * device; a context is an id and a view at each, and ranks run backwards in every second one.
 * Seen: packets reach the context that they are for and no other, in order; two processes have one
 * connection however many contexts they have, and whoever began it, and another one beside it when
 * long data go both ways, in whose place they come; what is known of a peer is known to the
 * contexts that come later; and a peer is lost when its kernel is silent, not when it is. */
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "check.h"
#include "transport/tcp/private.h"

#define N 3u
#define CONTEXTS 4u
#define TRAILER 4096u
#define LONG ((size_t)1 << 20)

struct context {
    struct tug_fabric fabric;
    struct tug_wire *wire; /* NULL: not open */
    unsigned heard[N], ended[N], settled[N], by_host[N], trailers[N];
    uint64_t last[N];      /* what the last packet said */
    size_t with_packet;    /* bytes of the last long data that came with their packet */
    unsigned char *memory; /* [LONG] the process's */
};

struct process {
    struct tug_tcp_endpoint *endpoint;
    struct tug_tcp_address address;
    struct context contexts[CONTEXTS];
    unsigned char memory[LONG];
};

static struct process processes[N];
static unsigned char long_data[LONG];

static uint64_t id_of_context(unsigned context) {
    return 0x7475676c6f6f6b00u + context * 0x10001u;
}

static uint32_t rank_of(unsigned context, uint32_t process) {
    return context % 2 == 0 ? process : N - 1 - process;
}

/* ---- what a context does with what comes ---- */

static unsigned refusals; /* so many packets are not taken */

static bool receive(void *receiver, struct tug_wire *wire, const void *memory, size_t bytes) {
    struct context *context = receiver;
    struct tug_packet_reader reader;
    struct tug_record record = {0};
    assert_int_equal(tug_packet_open(&reader, memory, bytes, context->fabric.id, N),
                     TUG_PACKET_GOOD);
    assert_true(tug_packet_next(&reader, &record));
    const uint32_t source = reader.header.source;
    if (refusals > 0) {
        refusals--;
        return false;
    }
    if (record.kind == TUG_RECORD_VALUE) {
        assert_int_equal(record.words[0], context->last[source] + 1); /* in order */
        context->last[source]++;
    }
    context->heard[source]++;
    (void)wire->row->meet(wire, source);
    return true;
}

static unsigned char *place(void *receiver, uint32_t source, size_t come, size_t *room) {
    struct context *context = receiver;
    (void)source;
    if (come == 0)
        context->with_packet = *room;
    return context->memory + come;
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
                                           .ways = TUG_WAY_TCP | TUG_WAY_MPI},
                                .memory = processes[process].memory};
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
    assert_true(tug_endpoint_enter(&view->wire));
}

static void open_all(unsigned which) {
    for (uint32_t i = 0; i < N; i++)
        open_at(i, which);
}

static void close_at(uint32_t process, unsigned which) {
    struct context *context = at(process, which);
    if (context->wire == NULL)
        return;
    tug_endpoint_leave(context->wire);
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
                               uint32_t trailer) {
    struct tug_buffer *buffer = tug_pool_take(&at(from, which)->wire->pool);
    assert_non_null(buffer);
    if (trailer > 0) {
        uint64_t *words = tug_packet_add(&buffer->packet, TUG_RECORD_LONG_DATA, 0, 0, 0);
        words[0] = 0;
        tug_packet_trail(&buffer->packet, trailer);
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
                pack(from, which, id_of_context(which), there->last[source] + 1, 0));
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
    there = try_to_send(0, 2, 0, pack(0, 0, id_of_context(0), 1, 0));
    back = try_to_send(2, 0, 1, pack(2, 1, id_of_context(1), 1, 0));
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
    assert_int_equal(at(0, 1)->wire->row->meet(at(0, 1)->wire, rank_of(1, 1)), 1);
    assert_null(try_to_send(0, 1, 1, pack(0, 1, id_of_context(1), 1, 0)));
    UNTIL(at(1, 1)->heard[rank_of(1, 0)] == 1);
    assert_int_equal(links_of(0), 1);
}

/* Nobody listens there: a context that comes later is told as well. */
static void a_peer_that_refuses(void **state) {
    (void)state;
    close_at(2, 0);
    struct tug_buffer *first = pack(0, 0, id_of_context(0), 1, 0);
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
    send_packet(0, 1, 0, pack(0, 0, 4711, 1, 0));
    send_packet(0, 1, 0, pack(0, 0, 4711, 0, TRAILER));
    exchange(0, 1, 0);
    exchange(0, 1, 1);
    assert_int_equal(at(1, 0)->heard[0], 2);
    assert_int_equal(at(1, 0)->trailers[0], 0);
}

static void a_packet_of_another_rank(void **state) {
    (void)state;
    exchange(0, 1, 0);
    struct tug_buffer *buffer = pack(0, 0, id_of_context(0), 2, 0);
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
        assert_null(try_to_send(0, 1, 1, pack(0, 1, id_of_context(1), i, 0)));
    assert_null(try_to_send(0, 1, 0, pack(0, 0, id_of_context(0), 2, 0)));
    for (int i = 0; i < 100; i++)
        (void)wire->row->poll(wire); /* the older context alone */
    assert_int_equal(at(1, 1)->heard[rank_of(1, 0)], 0);
    assert_int_equal(at(1, 0)->heard[0], 1); /* it is behind them */
    assert_true(wire->row->arm(wire));       /* nobody polls for that */
    exchange(2, 1, 0);                       /* makes it ready */
    UNTIL(at(1, 0)->heard[0] == 2);
    assert_int_equal(at(1, 1)->heard[rank_of(1, 0)], 3000);
}

/* The contexts of a process are polled in turn. */
static void one_look_does_for_all(void **state) {
    (void)state;
    for (unsigned which = 1; which < CONTEXTS; which++)
        open_at(0, which);
    poll_one(0);
    const uint64_t before = processes[0].endpoint->base.polls;
    for (int i = 0; i < 10; i++)
        poll_one(0);
    assert_int_equal(processes[0].endpoint->base.polls, before + 10);
    for (int i = 0; i < 10; i++) /* one alone, as when it is about to end */
        (void)at(0, 1)->wire->row->poll(at(0, 1)->wire);
    assert_true(processes[0].endpoint->base.polls >= before + 19);
}

/* ---- connections beside a link ---- */

/* A packet with long data, of which every byte is `mark`, and behind it a short one. */
static void send_long(uint32_t from, uint32_t to, unsigned char mark) {
    struct context *there = at(to, 0);
    const unsigned before = there->trailers[from];
    memset(long_data, mark, LONG);
    send_packet(from, to, 0, pack(from, 0, id_of_context(0), 0, LONG));
    exchange(from, to, 0);
    assert_int_equal(there->trailers[from], before + 1);
    for (size_t i = 0; i < LONG; i++)
        assert_int_equal(processes[to].memory[i], mark);
}

/* The one of two that makes the connection beside their link. */
static uint32_t maker(void) {
    return processes[0].address.id > processes[1].address.id ? 0 : 1;
}

/* Of that link at both: data have come and gone, and there is another connection. */
static void make_beside(void) {
    send_long(0, 1, 1);
    send_long(1, 0, 2);
    send_long(0, 1, 3);
    UNTIL(link_of(maker(), 1 - maker())->beside != NULL &&
          link_of(maker(), 1 - maker())->beside->greeted);
}

static void long_data_one_way_need_one_connection(void **state) {
    (void)state;
    for (unsigned char mark = 1; mark < 10; mark++)
        send_long(maker(), 1 - maker(), mark);
    assert_int_equal(links_of(0), 1);
    assert_int_equal(links_of(1), 1);
}

/* They come to where they belong, and only their first bytes with the packet, however often nothing
 * was found before. */
static void long_data_are_expected_while_nothing_comes(void **state) {
    (void)state;
    send_long(0, 1, 1);
    for (int i = 0; i < 100; i++)
        poll_one(1);
    send_long(0, 1, 2);
    assert_in_range(at(1, 0)->with_packet, 0, 2048);
}

/* All packets and data are in order, whoever sends. */
static void long_data_both_ways_have_two(void **state) {
    (void)state;
    make_beside();
    assert_int_equal(links_of(0), 2);
    assert_int_equal(links_of(1), 2);
    for (unsigned char mark = 10; mark < 30; mark++)
        send_long(mark % 2, 1 - mark % 2, mark);
    const struct tug_tcp_link *link = link_of(maker(), 1 - maker());
    assert_int_equal(link->beside->left + link->left, 0);
    assert_true(link->beside->is_ours);
    assert_int_equal(links_of(0), 2);
}

/* Who does not look is told nothing of what is behind, and looks for no more than comes next. */
static void what_comes_beside_is_waited_for(void **state) {
    (void)state;
    const uint32_t from = maker(), to = 1 - from;
    struct context *there = at(to, 0);
    struct tug_buffer *more = NULL;
    uint64_t sent = 0;
    make_beside();
    const unsigned before = there->trailers[from];
    while (more == NULL && sent < 64) {
        more = try_to_send(from, to, 0, pack(from, 0, id_of_context(0), 0, LONG));
        sent += more == NULL;
    }
    assert_non_null(more); /* the connection is full */
    assert_non_null(link_of(from, to)->part);
    for (int i = 0; i < 200; i++)
        poll_one(to); /* takes what is there, and waits for the rest */
    assert_true(there->trailers[from] < before + sent);
    assert_true(there->wire->row->arm(there->wire));
    assert_false(at(to, 0)->wire->row->poll(there->wire));
    send_packet(from, to, 0, more);
    exchange(from, to, 0);
    assert_int_equal(there->trailers[from], before + sent + 1);
    exchange(to, from, 0);
}

static void the_connection_beside_ends(void **state) {
    (void)state;
    const uint32_t from = maker(), to = 1 - from;
    make_beside();
    assert_int_equal(shutdown(link_of(from, to)->beside->socket.number, SHUT_RDWR), 0);
    UNTIL(link_of(from, to)->beside == NULL && link_of(to, from)->beside == NULL);
    send_long(from, to, 40);
    send_long(to, from, 41);
    send_long(from, to, 42);
    assert_int_equal(links_of(0), 1);
    assert_int_equal(at(to, 0)->ended[from], 0);
}

/* What is under way then never comes. */
static void the_connection_beside_ends_too_early(void **state) {
    (void)state;
    const uint32_t from = maker(), to = 1 - from;
    struct tug_buffer *more = NULL;
    make_beside();
    while (more == NULL)
        more = try_to_send(from, to, 0, pack(from, 0, id_of_context(0), 0, LONG));
    poll_one(to);
    assert_true(link_of(to, from)->left > 0);
    assert_int_equal(shutdown(link_of(from, to)->beside->socket.number, SHUT_RDWR), 0);
    UNTIL(at(from, 0)->ended[to] > 0 && at(to, 0)->ended[from] > 0);
    tug_pool_give(&at(from, 0)->wire->pool, more);
    assert_int_equal(links_of(0), 0);
    exchange(0, 2, 0); /* others are not concerned */
}

static void a_context_ends_while_its_data_come_beside(void **state) {
    (void)state;
    const uint32_t from = maker(), to = 1 - from;
    open_all(1);
    exchange(0, 1, 1);
    make_beside();
    struct tug_buffer *more = pack(from, 0, id_of_context(0), 0, LONG);
    more = try_to_send(from, to, 0, more);
    assert_null(more);
    poll_one(to);
    close_at(to, 0); /* the rest is dropped */
    UNTIL(link_of(from, to)->part == NULL);
    exchange(from, to, 1);
    exchange(to, from, 1);
    assert_int_equal(at(to, 1)->ended[rank_of(1, from)], 0);
}

/* A hello of that kind where there is no link, or from the wrong side. */
static void nothing_is_beside_no_link(void **state) {
    (void)state;
    const uint32_t from = maker(), to = 1 - from;
    assert_false(at(from, 0)->wire->row->meet(at(from, 0)->wire, to));
    link_of(from, to)->word = TUG_TCP_ASIDE;
    for (const uint64_t end_ns = tug_clock_ns() + 20000000; tug_clock_ns() < end_ns;)
        poll_all();
    assert_null(link_of(to, from));
    assert_false(link_of(from, to)->greeted);
    link_of(from, to)->word = TUG_TCP_WELCOME;
    exchange(from, to, 0);
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

/* ---- silence ---- */

/* The loopback device of a network of this process's own. False: there is none. */
static bool switch_network(bool on) {
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = (short)(on ? IFF_UP | IFF_RUNNING : 0)};
    const int socket_of_it = socket(AF_INET, SOCK_DGRAM, 0);
    const bool switched = ioctl(socket_of_it, SIOCSIFFLAGS, &lo) == 0;
    close(socket_of_it);
    return switched;
}

static int begin_with_own_network(void **state) {
    static bool own;
    own = own || ((unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0) &&
                  switch_network(true));
    tug_settings.peer_timeout_s = 1;
    *state = own ? &own : NULL;
    if (!own)
        printf("skipped: no network of its own to be had\n");
    return begin(state);
}

static int end_with_own_network(void **state) {
    tug_settings.peer_timeout_s = 60;
    return end(state);
}

static int option_of(const struct tug_tcp_link *link, int level, int option) {
    int value = 0;
    socklen_t bytes = sizeof(value);
    assert_int_equal(getsockopt(link->socket.number, level, option, &value, &bytes), 0);
    return value;
}

static void a_peer_is_silent(void **state) {
    if (*state == NULL)
        skip();
    exchange(0, 1, 0);
    const uint64_t before_ns = tug_clock_ns();
    assert_true(switch_network(false));
    send_packet(0, 1, 0, pack(0, 0, id_of_context(0), at(1, 0)->last[0] + 1, 0));
    UNTIL(at(0, 0)->ended[1] > 0);
    const uint64_t took_ns = tug_clock_ns() - before_ns;
    assert_true(switch_network(true));
    assert_true(took_ns >= 900000000u);
}

/* It is stopped: nothing of what goes to it is taken. */
static void a_peer_takes_nothing(void **state) {
    uint64_t value = 1;
    if (*state == NULL)
        skip();
    exchange(0, 1, 0);
    for (const uint64_t start_ns = tug_clock_ns(); tug_clock_ns() - start_ns < 2500000000u;) {
        struct tug_buffer *buffer = pack(0, 0, id_of_context(0), ++value, 0);
        while ((buffer = try_to_send(0, 1, 0, buffer)) != NULL &&
               tug_clock_ns() - start_ns < 2500000000u)
            poll_one(0);
        if (buffer != NULL)
            tug_pool_give(&at(0, 0)->wire->pool, buffer);
    }
    assert_int_equal(at(0, 0)->ended[1], 0);
    UNTIL(at(1, 0)->heard[0] > 1);
}

/* The kernel asks where nothing is out. */
static void idle_connections_are_asked_for_life(void **state) {
    (void)state;
    exchange(0, 1, 0);
    for (uint32_t i = 0; i < 2; i++) {
        const struct tug_tcp_link *link = link_of(i, 1 - i);
        const int idle_s = option_of(link, IPPROTO_TCP, TCP_KEEPIDLE),
                  between_s = option_of(link, IPPROTO_TCP, TCP_KEEPINTVL),
                  n = option_of(link, IPPROTO_TCP, TCP_KEEPCNT);
        assert_true(option_of(link, SOL_SOCKET, SO_KEEPALIVE));
        assert_int_equal(idle_s + n * between_s, 60);
    }
}

/* For want of memory: it is handed up again, ahead of what has come behind it. */
static void a_packet_that_is_not_taken(void **state) {
    struct context *there = at(1, 0);
    (void)state;
    exchange(0, 1, 0);
    refusals = UINT32_MAX;
    send_packet(0, 1, 0, pack(0, 0, id_of_context(0), 2, 0));
    UNTIL(link_of(1, 0)->stuck);
    poll_all();
    assert_false(tug_tcp_arm(processes[1].endpoint));
    send_packet(0, 1, 0, pack(0, 0, id_of_context(0), 0, 8192));
    send_packet(0, 1, 0, pack(0, 0, id_of_context(0), 3, 0));
    poll_all();
    assert_int_equal(there->heard[0], 1);
    refusals = 3;
    UNTIL(there->heard[0] == 4);
    assert_int_equal(refusals, 0);
    assert_int_equal(there->last[0], 3);
    assert_int_equal(there->trailers[0], 1);
    assert_false(link_of(1, 0)->stuck);
}

int main(void) {
#define SILENT_CASE(f)                                                                             \
    cmocka_unit_test_setup_teardown(f, begin_with_own_network, end_with_own_network)
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
        CASE(a_packet_that_is_not_taken),
        CASE(one_look_does_for_all),
        CASE(a_process_that_comes_again),
        CASE(long_data_one_way_need_one_connection),
        CASE(long_data_are_expected_while_nothing_comes),
        CASE(long_data_both_ways_have_two),
        CASE(what_comes_beside_is_waited_for),
        CASE(the_connection_beside_ends),
        CASE(the_connection_beside_ends_too_early),
        CASE(a_context_ends_while_its_data_come_beside),
        CASE(nothing_is_beside_no_link),
        CASE(idle_connections_are_asked_for_life),
        SILENT_CASE(a_peer_is_silent),
        SILENT_CASE(a_peer_takes_nothing),
    };
    return cmocka_run_group_tests_name("transport/endpoint", cases, NULL, NULL);
}
