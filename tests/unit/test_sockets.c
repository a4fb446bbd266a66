/* Which connections of a process are the host's, and the network that it uses. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "base/settings.h"
#include "base/sockets.h"
#include "check.h"

/* A connection from and to that address of this machine, in an epoll set of its own. */
struct connection {
    int listener, end, set;
};

static struct connection connect_at(struct in_addr ip) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = ip};
    struct epoll_event event = {.events = EPOLLIN};
    socklen_t bytes = sizeof(address);
    struct connection made = {socket(AF_INET, SOCK_STREAM, 0), socket(AF_INET, SOCK_STREAM, 0),
                              epoll_create1(0)};
    assert_int_equal(bind(made.end, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(bind(made.listener, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(listen(made.listener, 1), 0);
    assert_int_equal(getsockname(made.listener, (struct sockaddr *)&address, &bytes), 0);
    assert_int_equal(connect(made.end, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(epoll_ctl(made.set, EPOLL_CTL_ADD, made.end, &event), 0);
    return made;
}

static void end(struct connection *made) {
    close(made->listener);
    close(made->end);
    close(made->set);
}

static struct in_addr ip(const char *text) {
    struct in_addr address;
    assert_int_equal(inet_pton(AF_INET, text, &address), 1);
    return address;
}

/* Of an interface that other hosts can reach. False: there is none. */
static bool outer_address(struct in_addr *address) {
    struct ifaddrs *all, *one;
    bool found = false;
    assert_int_equal(getifaddrs(&all), 0);
    for (one = all; one != NULL && !found; one = one->ifa_next) {
        found = one->ifa_addr != NULL && one->ifa_addr->sa_family == AF_INET &&
                one->ifa_flags & IFF_UP && !(one->ifa_flags & IFF_LOOPBACK);
        if (found)
            *address = ((struct sockaddr_in *)one->ifa_addr)->sin_addr;
    }
    freeifaddrs(all);
    return found;
}

static void expect_found(struct in_addr right) {
    struct sockaddr_storage found;
    assert_true(tug_sockets_local(&found));
    assert_int_equal(((struct sockaddr_in *)&found)->sin_addr.s_addr, right.s_addr);
}

static void count(int set, void *d) {
    (void)set;
    ++*(int *)d;
}

static void the_programs_connections_are_not_the_hosts(void **state) {
    struct sockaddr_storage found;
    int sets = 0;
    (void)state;
    struct connection programs = connect_at(ip("127.0.0.9"));
    tug_sockets_note_program();
    assert_false(tug_sockets_local(&found));
    tug_sockets_each_set(count, &sets);
    assert_int_equal(sets, 0);
    struct connection hosts = connect_at(ip("127.0.0.8"));
    expect_found(ip("127.0.0.8"));
    tug_sockets_each_set(count, &sets);
    assert_int_equal(sets, 1);
    end(&hosts);
    end(&programs);
}

static void a_network_of_hosts_comes_before_the_loopback_device(void **state) {
    struct in_addr outer;
    (void)state;
    if (!outer_address(&outer))
        skip();
    struct connection local = connect_at(ip("127.0.0.8")), other = connect_at(outer);
    expect_found(outer);
    end(&other);
    expect_found(ip("127.0.0.8"));
    end(&local);
}

/* ---- in a network of the test's own: lo, and two more interfaces ---- */

#define FIRST "10.9.9.1"
#define SECOND "10.9.9.2"

static bool set_interface(const char *name, const char *address) {
    const int any = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq request = {.ifr_flags = 0};
    const struct sockaddr_in its = {.sin_family = AF_INET, .sin_addr = ip(address)};
    strcpy(request.ifr_name, name);
    memcpy(&request.ifr_addr, &its, sizeof(its));
    bool set = ioctl(any, SIOCSIFADDR, &request) == 0;
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    set &= ioctl(any, SIOCSIFFLAGS, &request) == 0;
    close(any);
    return set;
}

static bool have_network(void) {
    static int have = -1;
    if (have < 0)
        have = (unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0) &&
               set_interface("lo", "127.0.0.1") && set_interface("lo:1", FIRST) &&
               set_interface("lo:2", SECOND);
    return have;
}

static void name_devices(const char *names) {
    setenv("UCX_NET_DEVICES", names, 1);
    tug_settings_reset();
    assert_int_equal(tug_settings_load(NULL, 0), 0);
}

/* Nothing listens at its end any more. */
static void be_deaf(struct connection *made) {
    const int other_end = accept(made->listener, NULL, NULL);
    assert_true(other_end >= 0);
    close(made->listener);
    made->listener = other_end;
}

static void the_hosts_listener_comes_first(void **state) {
    (void)state;
    if (!have_network())
        skip();
    for (int first = 0; first < 2; first++) {
        struct connection made[] = {connect_at(ip("127.0.0.8")), connect_at(ip(FIRST)),
                                    connect_at(ip(SECOND))};
        be_deaf(&made[first ? 2 : 1]);
        expect_found(ip(first ? FIRST : SECOND));
        be_deaf(&made[first ? 1 : 2]);
        struct sockaddr_storage found;
        assert_true(tug_sockets_local(&found) && !tug_sockets_is_loopback(&found));
        for (int i = 0; i < 3; i++)
            end(&made[i]);
    }
}

static void a_named_interface_comes_before_the_hosts_listener(void **state) {
    static const struct {
        const char *names, *right;
    } cases[] = {
        {"lo:1", FIRST},
        {"lo:2", SECOND},
        {"mlx5_0:1,lo:1", FIRST},
        {"lo,lo:1", FIRST},
        {"lo:1,lo", FIRST},
        {"lo", "127.0.0.1"},
        {"", SECOND},
        {"all", SECOND},
        {"mlx5_0:1", SECOND},
        {"lo:11,:1,lo:", SECOND},
        {"^lo:2,lo:1", SECOND},
        {"lo:1,lo:2", SECOND},
    };
    struct sockaddr_storage found;
    (void)state;
    if (!have_network())
        skip();
    name_devices("lo:1");
    assert_false(tug_sockets_local(&found));
    struct connection made = connect_at(ip(SECOND));
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        name_devices(cases[i].names);
        expect_found(ip(cases[i].right));
    }
    end(&made);
    unsetenv("UCX_NET_DEVICES");
    tug_settings_reset();
}

static int weigh(const char *text) {
    struct in6_addr address;
    assert_int_equal(inet_pton(AF_INET6, text, &address), 1);
    return tug_sockets_weigh(&address);
}

static void the_hosts_interface_is_the_nearest(void **state) {
    (void)state;
    if (!have_network())
        skip();
    struct connection made = connect_at(ip(FIRST));
    assert_int_equal(weigh("::ffff:" FIRST), 2);
    assert_int_equal(weigh("::ffff:" SECOND), 1);
    assert_int_equal(weigh("::ffff:192.0.2.1"), 0);
    assert_int_equal(weigh("2001:db8::1"), 0);
    assert_int_equal(weigh("fe80::1"), 0);
    end(&made);
    assert_int_equal(weigh("::ffff:" FIRST), 1); /* the host uses none */
}

static void loopback_addresses_are_known(void **state) {
    const char *const loopback[] = {"127.0.0.1", "127.9.9.9", "::ffff:127.0.0.1", "::1"};
    const char *const others[] = {"128.0.0.1", "::ffff:10.0.0.1", "::2"};
    (void)state;
    for (size_t i = 0; i < 7; i++) {
        const char *text = i < 4 ? loopback[i] : others[i - 4];
        struct sockaddr_storage storage = {.ss_family = strchr(text, ':') ? AF_INET6 : AF_INET};
        void *at = storage.ss_family == AF_INET
                       ? (void *)&((struct sockaddr_in *)&storage)->sin_addr
                       : (void *)&((struct sockaddr_in6 *)&storage)->sin6_addr;
        assert_int_equal(inet_pton(storage.ss_family, text, at), 1);
        assert_int_equal(tug_sockets_is_loopback(&storage), i < 4);
    }
}

int main(void) {
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(the_programs_connections_are_not_the_hosts),
        cmocka_unit_test(a_network_of_hosts_comes_before_the_loopback_device),
        cmocka_unit_test(the_hosts_interface_is_the_nearest),
        cmocka_unit_test(loopback_addresses_are_known),
        cmocka_unit_test(the_hosts_listener_comes_first),
        cmocka_unit_test(a_named_interface_comes_before_the_hosts_listener),
    };
    return cmocka_run_group_tests_name("base/sockets", cases, NULL, NULL);
}
