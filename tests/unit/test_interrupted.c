/* Signals neither end waits nor prolong them: that in which the tcp wire tries a connection,
 * sleeps, and that for a standard error that is full. The signals of the first are those of a
 * poll() in place of the C library's, which is interrupted a number of times before it waits. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#include "check.h"
#include "transport/tcp/address.h"

#define ALWAYS UINT32_MAX

static uint32_t signals, looks;

int __real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);

/* A signal comes after a millisecond. */
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms) {
    looks++;
    if (signals == 0)
        return __real_poll(fds, n, timeout_ms);
    signals -= signals != ALWAYS;
    if (timeout_ms == 0)
        return 0;
    usleep(1000);
    errno = EINTR;
    return -1;
}

static bool try_own_port(uint32_t interrupted) {
    struct tug_tcp_address address = {.family = AF_INET, .ip = {127, 0, 0, 1}};
    const int listener = tug_tcp_listen(&address);
    assert_true(listener >= 0);
    signals = interrupted;
    looks = 0;
    const bool made = tug_tcp_try(&address);
    close(listener);
    return made;
}

static void a_connection_is_made_through_signals(void **state) {
    (void)state;
    assert_true(try_own_port(0));
    assert_int_equal(looks, 1);
    assert_true(try_own_port(3));
    assert_int_equal(looks, 4);
}

static void signals_do_not_prolong_the_wait(void **state) {
    (void)state;
    assert_false(try_own_port(ALWAYS));
    assert_true(looks > 1);
}

/* ---- by a timer ---- */

static void do_nothing(int number) {
    (void)number;
}

static void set_timer(int us) {
    const struct itimerval every = {{0, us}, {0, us}};
    const struct sigaction action = {.sa_handler = do_nothing};
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &every, NULL), 0);
}

static void a_sleep_takes_its_time(void **state) {
    (void)state;
    set_timer(1000);
    const uint64_t begin_ns = tug_clock_ns();
    tug_clock_sleep(30000000);
    assert_true(tug_clock_ns() - begin_ns >= 30000000);
    set_timer(0);
}

/* Reads a full pipe when its writer has met some signals. */
static void *read_late(void *pipe_end) {
    static char all[1 << 17];
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL);
    tug_clock_sleep(30000000);
    size_t came = 0;
    for (ssize_t n; (n = read(*(int *)pipe_end, all + came, sizeof(all) - 1 - came)) > 0;)
        came += (size_t)n;
    return strstr(all + (came > 64 ? came - 64 : 0), "it comes") != NULL ? pipe_end : NULL;
}

static void a_message_waits_for_a_full_pipe(void **state) {
    int ends[2];
    pthread_t reader;
    void *arrived;
    (void)state;
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    while (write(ends[1], "x", 1) == 1)
        ;
    assert_true(fcntl(ends[0], F_SETFL, 0) == 0 && fcntl(ends[1], F_SETFL, 0) == 0);
    const int kept = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    assert_int_equal(pthread_create(&reader, NULL, read_late, &ends[0]), 0);
    set_timer(1000);
    tug_log(TUG_LOG_ERROR, "it comes");
    set_timer(0);
    dup2(kept, STDERR_FILENO);
    pthread_join(reader, &arrived);
    close(kept);
    close(ends[0]);
    assert_non_null(arrived);
}

int main(void) {
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(a_connection_is_made_through_signals),
        cmocka_unit_test(signals_do_not_prolong_the_wait),
        cmocka_unit_test(a_sleep_takes_its_time),
        cmocka_unit_test(a_message_waits_for_a_full_pipe),
    };
    return cmocka_run_group_tests_name("transport/interrupted", cases, NULL, NULL);
}
