/* Lookouts: which descriptors are watched, when a sleeper is woken, and that nobody is woken for
 * the same news twice. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "engine/event_wait.h"

#define SOON_NS 20000000
#define LATE_NS 100000000000 /* nobody waits for it where all is well */

/* The host: two connected sockets, one of them in an epoll set of its own. */
struct host {
    struct tug_lookout lookout;
    int listening, near, far;
    int set;
};

static int set_with(int member) {
    struct epoll_event event = {.events = EPOLLIN};
    int set = epoll_create1(0);
    assert_true(set >= 0);
    assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, member, &event), 0);
    return set;
}

static int begin(void **state) {
    static struct host host;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    host = (struct host){.lookout = TUG_LOOKOUT_SHUT};
    *state = &host;
    host.listening = socket(AF_INET, SOCK_STREAM, 0);
    host.far = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(host.listening, (struct sockaddr *)&address, bytes) != 0 ||
        listen(host.listening, 1) != 0 ||
        getsockname(host.listening, (struct sockaddr *)&address, &bytes) != 0 ||
        connect(host.far, (struct sockaddr *)&address, bytes) != 0)
        return -1;
    host.near = accept(host.listening, NULL, NULL);
    host.set = set_with(host.near);
    tug_lookout_open(&host.lookout);
    tug_lookout_scan(&host.lookout);
    return 0;
}

static int end(void **state) {
    struct host *host = *state;
    tug_lookout_close(&host->lookout);
    close(host->set);
    close(host->near);
    close(host->far);
    close(host->listening);
    return 0;
}

static void send_one(const struct host *host) {
    assert_int_equal(send(host->far, "x", 1, 0), 1);
}

static void news_end_the_sleep(void **state) {
    struct host *host = *state;
    assert_true(atomic_load(&host->lookout.sees));
    send_one(host);
    assert_true(tug_lookout_sleep(&host->lookout, LATE_NS));
}

/* Nobody has read them: that is the host's business, and no reason to wake again. */
static void old_news_do_not(void **state) {
    struct host *host = *state;
    send_one(host);
    assert_true(tug_lookout_sleep(&host->lookout, LATE_NS));
    uint64_t start = check_clock_ns(CLOCK_MONOTONIC);
    assert_false(tug_lookout_sleep(&host->lookout, SOON_NS));
    assert_true(check_clock_ns(CLOCK_MONOTONIC) - start >= SOON_NS);
    send_one(host);
    assert_true(tug_lookout_sleep(&host->lookout, LATE_NS));
}

static void news_that_were_taken_do_not(void **state) {
    struct host *host = *state;
    char byte;
    send_one(host);
    assert_int_equal(recv(host->near, &byte, 1, 0), 1);
    assert_false(tug_lookout_sleep(&host->lookout, SOON_NS));
}

static void *ring_later(void *lookout) {
    usleep(SOON_NS / 1000);
    tug_lookout_ring(lookout);
    return NULL;
}

static void a_ring_ends_the_sleep_once(void **state) {
    struct host *host = *state;
    pthread_t ringer;
    assert_int_equal(pthread_create(&ringer, NULL, ring_later, &host->lookout), 0);
    uint64_t start = check_clock_ns(CLOCK_MONOTONIC);
    assert_false(tug_lookout_sleep(&host->lookout, LATE_NS));
    assert_true(check_clock_ns(CLOCK_MONOTONIC) - start < LATE_NS / 2);
    pthread_join(ringer, NULL);
    start = check_clock_ns(CLOCK_MONOTONIC);
    assert_false(tug_lookout_sleep(&host->lookout, SOON_NS));
    assert_true(check_clock_ns(CLOCK_MONOTONIC) - start >= SOON_NS);
}

/* Sockets that the host opens later are seen if they are in a set that is watched. */
static void later_sockets_are_seen(void **state) {
    struct host *host = *state;
    struct epoll_event event = {.events = EPOLLIN};
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(epoll_ctl(host->set, EPOLL_CTL_ADD, pair[0], &event), 0);
    assert_int_equal(send(pair[1], "x", 1, 0), 1);
    assert_true(tug_lookout_sleep(&host->lookout, LATE_NS));
    close(pair[0]);
    close(pair[1]);
}

/* Sets of listening sockets, pipes and the like are not the host's way to its peers. */
static void other_sets_are_not_watched(void **state) {
    struct host *host = *state;
    struct tug_lookout lookout = TUG_LOOKOUT_SHUT;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    int of_pipe = set_with(pipes[0]), of_listening = set_with(host->listening);
    close(host->set);
    tug_lookout_open(&lookout);
    tug_lookout_scan(&lookout);
    assert_false(atomic_load(&lookout.sees));
    assert_int_equal(write(pipes[1], "x", 1), 1);
    assert_false(tug_lookout_sleep(&lookout, SOON_NS));
    tug_lookout_close(&lookout);
    host->set = of_listening;
    close(of_pipe);
    close(pipes[0]);
    close(pipes[1]);
}

/* Two lookouts watch the same sockets; neither watches the other. */
static void each_lookout_is_told(void **state) {
    struct host *host = *state;
    struct tug_lookout second = TUG_LOOKOUT_SHUT;
    tug_lookout_open(&second);
    tug_lookout_scan(&second);
    send_one(host);
    assert_true(tug_lookout_sleep(&host->lookout, LATE_NS));
    assert_true(tug_lookout_sleep(&second, LATE_NS));
    tug_lookout_ring(&second);
    assert_false(tug_lookout_sleep(&host->lookout, SOON_NS));
    tug_lookout_close(&second);
}

/* ---- the program closes what is ours, and has something of its own there ---- */

static int open_file(void) {
    char name[] = "/tmp/tugboat-lookout-XXXXXX";
    const int file = mkstemp(name);
    assert_true(file >= 0);
    assert_int_equal(unlink(name), 0);
    return file;
}

static void a_closed_bell_rings_in_no_file(void **state) {
    struct host *host = *state;
    struct stat status;
    const int file = open_file(), number = host->lookout.bell.number;
    assert_int_equal(dup2(file, number), number);
    tug_lookout_ring(&host->lookout);
    assert_int_equal(fstat(file, &status), 0);
    assert_int_equal(status.st_size, 0);
    assert_false(tug_lookout_sleep(&host->lookout, LATE_NS));
    assert_false(tug_lookout_useful(&host->lookout));
    assert_true(atomic_load(&host->lookout.lost));
    tug_lookout_close(&host->lookout);
    assert_int_equal(fcntl(number, F_GETFD), 0);
    close(file);
    close(number);
}

/* News in a set of the program's are the program's. */
static void a_closed_set_takes_no_news(void **state) {
    struct host *host = *state;
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    const int number = host->lookout.set, set = epoll_create1(0);
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, pipes[0], &event), 0);
    assert_int_equal(write(pipes[1], "x", 1), 1);
    assert_int_equal(dup2(set, number), number);
    assert_false(tug_lookout_sleep(&host->lookout, LATE_NS));
    assert_false(tug_lookout_add(&host->lookout, host->far));
    assert_int_equal(epoll_wait(set, &event, 1, 0), 1);
    tug_lookout_close(&host->lookout);
    assert_int_equal(fcntl(number, F_GETFD), 0);
    close(set);
    close(number);
    close(pipes[0]);
    close(pipes[1]);
}

static void *close_later(void *lookout) {
    const struct tug_lookout *its = lookout;
    usleep(SOON_NS / 1000);
    check_close_carelessly(its->set);
    check_close_carelessly(its->bell.number);
    return NULL;
}

static void who_sleeps_meanwhile_notices(void **state) {
    struct host *host = *state;
    pthread_t closer;
    assert_int_equal(pthread_create(&closer, NULL, close_later, &host->lookout), 0);
    while (tug_lookout_useful(&host->lookout))
        assert_false(tug_lookout_sleep(&host->lookout, -1));
    pthread_join(closer, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(news_end_the_sleep),          TEST(old_news_do_not),
        TEST(news_that_were_taken_do_not), TEST(a_ring_ends_the_sleep_once),
        TEST(later_sockets_are_seen),      TEST(other_sets_are_not_watched),
        TEST(each_lookout_is_told),        TEST(a_closed_bell_rings_in_no_file),
        TEST(a_closed_set_takes_no_news),  TEST(who_sleeps_meanwhile_notices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
