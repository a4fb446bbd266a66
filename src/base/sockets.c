#include "base/sockets.h"

#include <dirent.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static bool is_connected(int descriptor) {
    struct sockaddr_storage address;
    socklen_t bytes = sizeof(address);
    return getpeername(descriptor, (struct sockaddr *)&address, &bytes) == 0 &&
           (address.ss_family == AF_INET || address.ss_family == AF_INET6);
}

/* A connected internet socket among the members of an epoll set, which the kernel lists; -1: none.
 */
static int connected_member(int set) {
    char path[64], line[256];
    int member, found = -1;
    (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", set);
    FILE *list = fopen(path, "re");
    while (list != NULL && found < 0 && fgets(line, sizeof(line), list) != NULL)
        if (sscanf(line, "tfd: %d", &member) == 1 && is_connected(member))
            found = member;
    if (list != NULL)
        (void)fclose(list);
    return found;
}

static bool is_epoll_set(int directory, const char *name) {
    char what[64];
    ssize_t bytes = readlinkat(directory, name, what, sizeof(what) - 1);
    if (bytes < 0)
        return false;
    what[bytes] = '\0';
    return strcmp(what, "anon_inode:[eventpoll]") == 0;
}

void tug_sockets_each_set(void (*visit)(int set, void *d), void *d) {
    DIR *directory = opendir("/proc/self/fd");
    const struct dirent *entry;
    /* cppcheck-suppress readdirCalled ; the stream is this thread's own */
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        int descriptor = (int)strtol(entry->d_name, NULL, 10);
        if (entry->d_name[0] != '.' && !is_own(descriptor) &&
            is_epoll_set(dirfd(directory), entry->d_name) && connected_member(descriptor) >= 0)
            visit(descriptor, d);
    }
    if (directory != NULL)
        (void)closedir(directory);
}

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

static void take_address(int set, void *d) {
    struct sockaddr_storage *address = d;
    socklen_t bytes = sizeof(*address);
    int member = connected_member(set);
    if (address->ss_family == AF_UNSPEC && member >= 0 &&
        getsockname(member, (struct sockaddr *)address, &bytes) != 0)
        address->ss_family = AF_UNSPEC;
}

bool tug_sockets_local(struct sockaddr_storage *address) {
    memset(address, 0, sizeof(*address));
    tug_sockets_each_set(take_address, address);
    return address->ss_family != AF_UNSPEC;
}
