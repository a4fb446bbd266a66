#include "base/sockets.h"

#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/settings.h"

#define OWN_MOST 64

static _Atomic int own[OWN_MOST]; /* descriptor + 1; 0: none */

static bool change_own(int from, int to) {
    for (int i = 0; i < OWN_MOST; i++) {
        int old = from;
        if (atomic_compare_exchange_strong(&own[i], &old, to))
            return true;
    }
    return false;
}

bool tug_sockets_claim(int set) {
    return change_own(0, set + 1);
}

void tug_sockets_disclaim(int set) {
    (void)change_own(set + 1, 0);
}

static bool is_own(int set) {
    bool found = false;
    for (int i = 0; i < OWN_MOST; i++)
        found |= atomic_load_explicit(&own[i], memory_order_relaxed) == set + 1;
    return found;
}

static void each_descriptor(void (*visit)(int descriptor, void *d), void *d) {
    DIR *directory = opendir("/proc/self/fd");
    const struct dirent *entry;
    /* cppcheck-suppress readdirCalled ; the stream is this thread's own */
    while (directory != NULL && (entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.')
            visit((int)strtol(entry->d_name, NULL, 10), d);
    if (directory != NULL)
        (void)closedir(directory);
}

/* False: not an internet socket. */
static bool local_address(int descriptor, struct sockaddr_storage *address) {
    socklen_t bytes = sizeof(*address);
    return getsockname(descriptor, (struct sockaddr *)address, &bytes) == 0 &&
           (address->ss_family == AF_INET || address->ss_family == AF_INET6);
}

/* ---- the program's ---- */

static ino_t *programs; /* the sockets that were there before the host */
static size_t nprograms;

static void note(int descriptor, void *d) {
    struct sockaddr_storage address;
    struct stat status;
    (void)d;
    if (!local_address(descriptor, &address) || fstat(descriptor, &status) != 0)
        return;
    ino_t *more = realloc(programs, (nprograms + 1) * sizeof(*programs));
    if (more == NULL)
        return;
    programs = more;
    programs[nprograms++] = status.st_ino;
}

void tug_sockets_note_program(void) {
    static atomic_flag noted = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&noted))
        each_descriptor(note, NULL);
}

static bool is_programs(int descriptor) {
    struct stat status;
    if (nprograms == 0 || fstat(descriptor, &status) != 0)
        return false;
    size_t i = 0;
    while (i < nprograms && programs[i] != status.st_ino)
        i++;
    return i < nprograms;
}

/* ---- the host's ---- */

static bool is_connected(int descriptor) {
    struct sockaddr_storage address;
    socklen_t bytes = sizeof(address);
    return getpeername(descriptor, (struct sockaddr *)&address, &bytes) == 0 &&
           (address.ss_family == AF_INET || address.ss_family == AF_INET6) &&
           !is_programs(descriptor);
}

/* Calls visit(member, d) for the host's connected sockets in an epoll set, whose members the kernel
 * lists. */
static void each_connection(int set, void (*visit)(int member, void *d), void *d) {
    char path[64], line[256];
    int member;
    (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", set);
    FILE *list = fopen(path, "re");
    while (list != NULL && fgets(line, sizeof(line), list) != NULL)
        if (sscanf(line, "tfd: %d", &member) == 1 && is_connected(member))
            visit(member, d);
    if (list != NULL)
        (void)fclose(list);
}

static bool is_epoll_set(int descriptor) {
    char path[64], what[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", descriptor);
    const ssize_t bytes = readlink(path, what, sizeof(what) - 1);
    if (bytes < 0)
        return false;
    what[bytes] = '\0';
    return strcmp(what, "anon_inode:[eventpoll]") == 0;
}

struct visit {
    void (*set)(int set, void *d);
    void *d;
};

static void note_connection(int member, void *d) {
    (void)member;
    *(bool *)d = true;
}

static void visit_set(int descriptor, void *d) {
    const struct visit *visit = d;
    bool connected = false;
    if (is_own(descriptor) || !is_epoll_set(descriptor))
        return;
    each_connection(descriptor, note_connection, &connected);
    if (connected)
        visit->set(descriptor, visit->d);
}

void tug_sockets_each_set(void (*visit)(int set, void *d), void *d) {
    each_descriptor(visit_set, &(struct visit){visit, d});
}

/* ---- their address ---- */

bool tug_sockets_is_loopback(const struct sockaddr_storage *address) {
    const struct in6_addr *ip6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
    const unsigned char *ip4 =
        address->ss_family == AF_INET
            ? (const unsigned char *)&((const struct sockaddr_in *)address)->sin_addr
            : &ip6->s6_addr[12];
    if (address->ss_family == AF_INET || IN6_IS_ADDR_V4MAPPED(ip6))
        return ip4[0] == 127;
    return address->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(ip6);
}

static bool same_ip(const struct sockaddr_storage *one, const struct sockaddr_storage *other) {
    if (one->ss_family != other->ss_family)
        return false;
    return one->ss_family == AF_INET
               ? ((const struct sockaddr_in *)one)->sin_addr.s_addr ==
                     ((const struct sockaddr_in *)other)->sin_addr.s_addr
               : IN6_ARE_ADDR_EQUAL(&((const struct sockaddr_in6 *)one)->sin6_addr,
                                    &((const struct sockaddr_in6 *)other)->sin6_addr);
}

struct listener {
    const struct sockaddr_storage *address;
    bool found;
};

static void look_for_listener(int descriptor, void *d) {
    struct listener *listener = d;
    struct sockaddr_storage here;
    int listens = 0;
    socklen_t bytes = sizeof(listens);
    if (local_address(descriptor, &here) && same_ip(&here, listener->address) &&
        getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 && listens)
        listener->found |= !is_programs(descriptor);
}

/* A host that is told which network to use listens at the address there. */
static bool host_listens_at(const struct sockaddr_storage *address) {
    struct listener listener = {address, false};
    each_descriptor(look_for_listener, &listener);
    return listener.found;
}

struct choice {
    struct sockaddr_storage *address;
    int worth;
};

enum { LOOPBACK = 1, OTHER, LISTENED_AT, NAMED = LISTENED_AT };

static void weigh(struct choice *choice, const struct sockaddr_storage *here, int more) {
    const int worth = more + (tug_sockets_is_loopback(here) ? LOOPBACK
                              : host_listens_at(here)       ? LISTENED_AT
                                                            : OTHER);
    if (worth > choice->worth)
        *choice->address = *here;
    choice->worth = worth > choice->worth ? worth : choice->worth;
}

static void weigh_member(int member, void *d) {
    struct sockaddr_storage here;
    if (local_address(member, &here))
        weigh(d, &here, 0);
}

static void weigh_set(int set, void *d) {
    each_connection(set, weigh_member, d);
}

/* Does the user name this interface for the host to use? */
static bool is_named(const char *interface) {
    const size_t length = strlen(interface);
    const char *at = tug_settings.net_devices;
    size_t n = strcspn(at, ",");
    while (at[n] != '\0' && (n != length || strncmp(at, interface, n) != 0)) {
        at += n + 1;
        n = strcspn(at, ",");
    }
    return n == length && strncmp(at, interface, n) == 0;
}

/* Others reach no address of one link only. */
static bool get_address(const struct ifaddrs *interface, struct sockaddr_storage *address) {
    const struct sockaddr *its = interface->ifa_addr;
    if (its == NULL || !(interface->ifa_flags & IFF_UP) ||
        (its->sa_family != AF_INET && its->sa_family != AF_INET6))
        return false;
    memset(address, 0, sizeof(*address));
    memcpy(address, its,
           its->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    return its->sa_family == AF_INET ||
           !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

static void weigh_named(struct choice *choice) {
    struct sockaddr_storage here;
    struct ifaddrs *all;
    if (tug_settings.net_devices[0] == '\0' || getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *one = all; one != NULL; one = one->ifa_next)
        if (is_named(one->ifa_name) && get_address(one, &here))
            weigh(choice, &here, NAMED);
    freeifaddrs(all);
}

bool tug_sockets_local(struct sockaddr_storage *address) {
    struct choice choice = {address, 0};
    tug_sockets_each_set(weigh_set, &choice);
    if (choice.worth > 0)
        weigh_named(&choice);
    return choice.worth > 0;
}

static const struct ifaddrs *find_interface(const struct ifaddrs *one,
                                            const struct sockaddr_storage *address) {
    struct sockaddr_storage here;
    while (one != NULL && !(get_address(one, &here) && same_ip(&here, address)))
        one = one->ifa_next;
    return one;
}

int tug_sockets_weigh(const struct in6_addr *address) {
    struct sockaddr_storage wanted = {.ss_family = AF_INET6}, host;
    struct ifaddrs *all;
    if (IN6_IS_ADDR_V4MAPPED(address)) {
        wanted.ss_family = AF_INET;
        memcpy(&((struct sockaddr_in *)&wanted)->sin_addr, &address->s6_addr[12], 4);
    } else {
        ((struct sockaddr_in6 *)&wanted)->sin6_addr = *address;
    }
    if (getifaddrs(&all) != 0)
        return 0;
    const struct ifaddrs *its = find_interface(all, &wanted), *hosts = NULL;
    if (its != NULL && tug_sockets_local(&host))
        hosts = find_interface(all, &host);
    const int worth = its == NULL                                                    ? 0
                      : hosts != NULL && strcmp(its->ifa_name, hosts->ifa_name) == 0 ? 2
                                                                                     : 1;
    freeifaddrs(all);
    return worth;
}
