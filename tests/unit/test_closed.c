/* Descriptors of the tcp wire that the program closes, and that it then has something of its own
 * at; and sockets that no epoll set takes. Three processes, all in this one, each with a wire of
 * its own over the loopback device. Seen: nothing is written into what is the program's, nothing
 * of it is read or closed, who is cut off is told of, and nobody waits for ever. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stats.h"
#include "engine/park.h"
#include "tcp_receiver.h"

#define CONTEXT 0x7475676477697265u
#define N 3u
#define TICK_US 30000 /* more than one of the clock */

struct process {
    struct tug_fabric fabric;
    struct tug_bell bell;
    struct tug_wire *wire;
    struct tug_tcp_address address;
    unsigned heard[N], ended[N];
};

static struct process processes[N];

static bool receive(void *receiver, struct tug_wire *wire, const void *memory, size_t bytes) {
    struct process *process = receiver;
    struct tug_packet_reader reader;
    assert_int_equal(tug_packet_open(&reader, memory, bytes, CONTEXT, N), TUG_PACKET_GOOD);
    process->heard[reader.header.source]++;
    assert_int_equal(wire->row->meet(wire, reader.header.source), 1);
    return true;
}

static void ended(void *receiver, uint32_t peer) {
    ((struct process *)receiver)->ended[peer]++;
}

static struct tug_tcp_endpoint *endpoint_of(uint32_t rank) {
    return ((struct tug_tcp_view *)processes[rank].wire)->endpoint;
}

static struct tug_tcp_link *link_of(uint32_t rank, uint32_t peer) {
    return tug_tcp_find_peer(endpoint_of(rank), processes[peer].address.id)->link;
}

static void open_one(uint32_t rank) {
    struct process *process = &processes[rank];
    *process = (struct process){
        .fabric = {.rank = rank, .nranks = N, .id = CONTEXT, .bell = &process->bell}};
    process->wire = tcp_open(&process->fabric, &process->address, process, receive, ended);
}

static void poll_all(void) {
    for (uint32_t i = 0; i < N; i++)
        (void)processes[i].wire->row->poll(processes[i].wire);
}

/* False: not now. */
static bool send_one(uint32_t from, uint32_t to) {
    struct tug_wire *wire = processes[from].wire;
    struct tug_buffer *buffer = tug_pool_take(&wire->pool);
    assert_non_null(buffer);
    *tug_packet_add(&buffer->packet, TUG_RECORD_VALUE, 0, 0, 0) = from;
    tug_packet_end(&buffer->packet, from, 0, 0, CONTEXT);
    if (wire->row->send(wire, to, buffer))
        return true;
    tug_pool_give(&wire->pool, buffer);
    return false;
}

/* A packet goes and comes. */
static void exchange(uint32_t from, uint32_t to) {
    const unsigned before = processes[to].heard[from];
    while (!send_one(from, to)) {
        assert_int_equal(processes[from].ended[to], 0);
        poll_all();
    }
    while (processes[to].heard[from] == before)
        poll_all();
}

static int begin(void **state) {
    (void)state;
    for (uint32_t i = 0; i < N; i++)
        open_one(i);
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t j = 0; j < N; j++)
            tcp_wire_addresses(processes[i].wire)[j] = processes[j].address;
    return 0;
}

static int end(void **state) {
    (void)state;
    for (uint32_t i = 0; i < N; i++)
        processes[i].wire->row->close(processes[i].wire);
    return 0;
}

static void until_ended(uint32_t at, uint32_t peer) {
    const uint64_t start = tug_clock_ns();
    while (processes[at].ended[peer] == 0) {
        poll_all();
        assert_true(tug_clock_ns() - start < (uint64_t)60 * 1000000000u);
    }
}

/* ---- what is the program's ---- */

static int open_file(void) {
    char name[] = "/tmp/tugboat-closed-XXXXXX";
    const int file = mkstemp(name);
    assert_true(file >= 0);
    assert_int_equal(unlink(name), 0);
    return file;
}

/* At a number of ours, which has not been looked at in this tick. */
static void take_number(int number, int its) {
    assert_true(number >= 0);
    assert_int_equal(dup2(its, number), number);
    close(its);
    check_sleep_us(TICK_US);
}

static void expect_untouched_file(int number) {
    struct stat status;
    assert_int_equal(fstat(number, &status), 0);
    assert_int_equal(status.st_size, 0);
    assert_int_equal(lseek(number, 0, SEEK_CUR), 0);
    close(number);
}

/* ---- the cases ---- */

static void a_file_at_a_link(void **state) {
    (void)state;
    exchange(0, 1);
    exchange(0, 2);
    const int number = link_of(0, 1)->socket.number;
    take_number(number, open_file());
    assert_false(send_one(0, 1));
    until_ended(0, 1);
    until_ended(1, 0);
    exchange(2, 0); /* others are not concerned */
    expect_untouched_file(number);
}

/* Bytes of ours would go to somebody, and those for the program be lost. */
static void a_socket_at_a_link(void **state) {
    int ends[2];
    char byte = 0;
    (void)state;
    exchange(0, 1);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    const int number = link_of(0, 1)->socket.number;
    take_number(number, ends[0]);
    assert_int_equal(send(ends[1], "x", 1, 0), 1);
    assert_false(send_one(0, 1));
    until_ended(0, 1);
    assert_true(recv(ends[1], &byte, 1, 0) < 0 && errno == EAGAIN);
    assert_int_equal(recv(number, &byte, 1, 0), 1);
    assert_int_equal(byte, 'x');
    close(number);
    close(ends[1]);
}

/* Who sends nothing learns of it too. */
static void a_link_that_is_listened_to(void **state) {
    (void)state;
    exchange(0, 1);
    close(link_of(0, 1)->socket.number);
    until_ended(0, 1);
}

static void a_file_at_the_listener(void **state) {
    (void)state;
    exchange(0, 1);
    const int number = endpoint_of(0)->listener.number;
    take_number(number, open_file());
    until_ended(0, 1);
    assert_false(send_one(0, 2)); /* nor is there a way to anybody else */
    until_ended(0, 2);
    exchange(1, 2);
    assert_true(processes[0].wire->row->arm(processes[0].wire)); /* nothing is polled for */
    expect_untouched_file(number);
}

/* One of the program's own, with news that are told once. */
static void a_set_at_the_set(void **state) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = 1};
    int pipes[2];
    (void)state;
    exchange(0, 1);
    const int set = epoll_create1(0), number = endpoint_of(0)->base.descriptor;
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, pipes[0], &event), 0);
    assert_int_equal(write(pipes[1], "x", 1), 1);
    take_number(number, set);
    until_ended(0, 1);
    assert_false(send_one(0, 2));
    assert_int_equal(epoll_wait(number, &event, 1, 0), 1);
    close(number);
    close(pipes[0]);
    close(pipes[1]);
}

static void files_at_all_numbers(void **state) {
    int numbers[4 + TUG_TCP_RESERVES], n = 0;
    (void)state;
    exchange(0, 1);
    struct tug_tcp_endpoint *tcp = endpoint_of(0);
    struct tug_wire *wire = processes[0].wire;
    assert_int_equal(tug_endpoint_descriptor(wire, true), -1);
    numbers[n++] = tcp->base.descriptor;
    numbers[n++] = tcp->listener.number;
    numbers[n++] = tug_watcher.set;
    numbers[n++] = tug_watcher.stop.number;
    for (int i = 0; i < TUG_TCP_RESERVES; i++)
        numbers[n++] = tcp->reserve[i].number;
    for (int i = 0; i < n; i++)
        take_number(numbers[i], open_file());
    until_ended(0, 1);
    wire->row->close(wire);
    for (int i = 0; i < n; i++)
        expect_untouched_file(numbers[i]);
    open_one(0);
}

/* ---- the watcher ---- */

static void start_watcher(uint32_t rank) {
    struct tug_wire *wire = processes[rank].wire;
    tug_stats_on = true;
    atomic_store(&tug_stat_values[TUG_STAT_UNWATCHED], 0);
    assert_int_equal(tug_endpoint_descriptor(wire, true), -1);
    assert_true(wire->row->arm(wire));
}

static void a_watcher_without_its_set(void **state) {
    struct tug_wire *wire = processes[0].wire;
    struct tug_bell *bell = &processes[0].bell;
    (void)state;
    const uint32_t key = tug_bell_prepare(bell);
    start_watcher(0);
    const int number = tug_watcher.set;
    take_number(number, open_file());
    tug_bell_wait(bell, key, -1, false); /* who was told that it would be rung */
    CHECK_SOON(atomic_load(&tug_watcher.blind));
    assert_false(wire->row->arm(wire));
    assert_false(wire->row->arm(wire));
    assert_int_equal(atomic_load(&tug_stat_values[TUG_STAT_UNWATCHED]), 1);
    exchange(1, 0); /* who polls gets on */
    end(NULL);
    expect_untouched_file(number);
    begin(NULL);
}

static void a_watcher_that_cannot_be_stopped(void **state) {
    (void)state;
    start_watcher(0);
    const int number = tug_watcher.stop.number;
    take_number(number, open_file());
    end(NULL);
    expect_untouched_file(number);
    begin(NULL);
}

/* Nothing of it is closed, but the thread has ended. */
static void a_watcher_that_has_died(void **state) {
    struct tug_wire *wire = processes[0].wire;
    (void)state;
    start_watcher(0);
    atomic_store(&tug_watcher.ending, true);
    tug_own_ring(&tug_watcher.stop);
    CHECK_SOON(atomic_load(&tug_watcher.blind));
    assert_false(wire->row->arm(wire));
    assert_int_equal(atomic_load(&tug_stat_values[TUG_STAT_UNWATCHED]), 1);
}

/* ---- copies that a child has ---- */

/* A connection of nobody's, and as many of process 0's links that have not said who they are. */
static int connect_stranger(void) {
    struct sockaddr_storage to;
    const socklen_t bytes = tug_tcp_sockaddr(&processes[0].address, &to);
    const int made = socket(to.ss_family, SOCK_STREAM, 0);
    assert_int_equal(connect(made, (struct sockaddr *)&to, bytes), 0);
    CHECK_SOON((poll_all(), endpoint_of(0)->strangers == 1));
    return made;
}

/* What is closed here ends for the other side, and is watched no more, although it is open in a
 * child (here by another number, which does the same). */
static void a_copy_of_a_link(void **state) {
    struct epoll_event event;
    char byte;
    (void)state;
    const int stranger = connect_stranger();
    const int copy = dup(endpoint_of(0)->all->socket.number);
    assert_int_equal(send(stranger, "garbage", 7, 0), 7);
    CHECK_SOON((poll_all(), endpoint_of(0)->strangers == 0));
    (void)send(stranger, "garbage", 7, MSG_NOSIGNAL);
    assert_int_equal(epoll_wait(endpoint_of(0)->base.descriptor, &event, 1, 0), 0);
    CHECK_SOON(recv(stranger, &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET);
    close(copy);
    close(stranger);
}

static void a_copy_of_the_listener(void **state) {
    struct sockaddr_storage to;
    (void)state;
    const socklen_t bytes = tug_tcp_sockaddr(&processes[0].address, &to);
    const int copy = dup(endpoint_of(0)->listener.number);
    end(NULL);
    const int made = socket(to.ss_family, SOCK_STREAM, 0);
    assert_true(connect(made, (struct sockaddr *)&to, bytes) != 0);
    close(made);
    close(copy);
    begin(NULL);
}

/* ---- sockets that cannot be watched ---- */

static unsigned refuse_to_add;

int __real_epoll_ctl(int set, int how, int descriptor, struct epoll_event *event);
int __wrap_epoll_ctl(int set, int how, int descriptor, struct epoll_event *event);

int __wrap_epoll_ctl(int set, int how, int descriptor, struct epoll_event *event) {
    if (how == EPOLL_CTL_ADD && refuse_to_add > 0) {
        refuse_to_add--;
        errno = ENOSPC;
        return -1;
    }
    return __real_epoll_ctl(set, how, descriptor, event);
}

/* The one that connects, the one that accepts, or both. */
static void go_blind(unsigned first, unsigned refusals) {
    tug_stats_on = true;
    atomic_store(&tug_stat_values[TUG_STAT_UNWATCHED], 0);
    if (first == 0)
        refuse_to_add = refusals;
    (void)send_one(0, 1);
    refuse_to_add = refusals - (first == 0);
    for (int i = 0; i < 3; i++) {
        exchange(0, 1);
        exchange(1, 0);
    }
    assert_int_equal(refuse_to_add, 0);
    assert_int_equal(atomic_load(&tug_stat_values[TUG_STAT_UNWATCHED]), refusals);
    assert_int_equal(!processes[0].wire->row->arm(processes[0].wire), first == 0);
    assert_int_equal(!processes[1].wire->row->arm(processes[1].wire), first + refusals == 2);
}

static void who_connects_is_not_watched(void **state) {
    (void)state;
    go_blind(0, 1);
}

static void who_accepts_is_not_watched(void **state) {
    (void)state;
    go_blind(1, 1);
}

static void neither_is_watched(void **state) {
    (void)state;
    go_blind(0, 2);
}

/* A link that is not watched ends as any other. */
static void the_peer_of_one_that_is_not_watched_goes(void **state) {
    (void)state;
    go_blind(0, 1);
    shutdown(link_of(1, 0)->socket.number, SHUT_RDWR);
    until_ended(0, 1);
    poll_all();
    assert_true(processes[0].wire->row->arm(processes[0].wire));
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest cases[] = {
        CASE(a_file_at_a_link),
        CASE(a_socket_at_a_link),
        CASE(a_link_that_is_listened_to),
        CASE(a_file_at_the_listener),
        CASE(a_set_at_the_set),
        CASE(files_at_all_numbers),
        CASE(a_watcher_without_its_set),
        CASE(a_watcher_that_cannot_be_stopped),
        CASE(a_watcher_that_has_died),
        CASE(a_copy_of_a_link),
        CASE(a_copy_of_the_listener),
        CASE(who_connects_is_not_watched),
        CASE(who_accepts_is_not_watched),
        CASE(neither_is_watched),
        CASE(the_peer_of_one_that_is_not_watched_goes),
    };
    return cmocka_run_group_tests_name("transport/closed", cases, NULL, NULL);
}
