/* Signals while the tcp wire tries a connection: they neither end the wait nor prolong it. The
 * signals are those of a poll() in place of the C library's, which is interrupted a number of times
 * before it waits. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

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

int main(void) {
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(a_connection_is_made_through_signals),
        cmocka_unit_test(signals_do_not_prolong_the_wait),
    };
    return cmocka_run_group_tests_name("transport/interrupted", cases, NULL, NULL);
}
