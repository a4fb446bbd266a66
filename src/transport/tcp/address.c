#include "transport/tcp/address.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sockets.h"
#include "host/polite.h"
#include "transport/transport.h"

#define TRIAL_MS 2000
#define BACKLOG 65535 /* whole jobs connect at once; the kernel takes what it allows */

socklen_t tug_tcp_sockaddr(const struct tug_tcp_address *address, struct sockaddr_storage *to) {
    memset(to, 0, sizeof(*to));
    to->ss_family = address->family;
    if (address->family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)to;
        in->sin_port = address->port;
        memcpy(&in->sin_addr, address->ip, sizeof(in->sin_addr));
        return sizeof(*in);
    }
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;
    in6->sin6_port = address->port;
    memcpy(&in6->sin6_addr, address->ip, sizeof(in6->sin6_addr));
    return sizeof(*in6);
}

/* False: not an address that others can connect to. */
static bool from_address(const struct sockaddr_storage *storage, struct tug_tcp_address *address) {
    memset(address, 0, sizeof(*address));
    address->family = storage->ss_family;
    if (storage->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)storage;
        address->port = in->sin_port;
        memcpy(address->ip, &in->sin_addr, sizeof(in->sin_addr));
        return true;
    }
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)storage;
    address->port = in6->sin6_port;
    memcpy(address->ip, &in6->sin6_addr, sizeof(in6->sin6_addr));
    return storage->ss_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
}

bool tug_tcp_is_loopback(const struct tug_tcp_address *address) {
    struct sockaddr_storage storage;
    (void)tug_tcp_sockaddr(address, &storage);
    return tug_sockets_is_loopback(&storage);
}

bool tug_tcp_find_address(const struct tug_fabric *fabric, struct tug_tcp_address *mine) {
    struct sockaddr_storage storage;
    memset(mine, 0, sizeof(*mine));
    if (fabric->node_rank == 0 && (!tug_sockets_local(&storage) || !from_address(&storage, mine)))
        mine->family = AF_UNSPEC;
    return TUG_POLITE(Ibcast, mine, sizeof(*mine), MPI_BYTE, 0, fabric->node_comm) == MPI_SUCCESS &&
           mine->family != AF_UNSPEC;
}

int tug_tcp_listen(struct tug_tcp_address *mine) {
    struct sockaddr_storage storage;
    mine->port = 0;
    socklen_t bytes = tug_tcp_sockaddr(mine, &storage);
    int made = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made >= 0 && bind(made, (struct sockaddr *)&storage, bytes) == 0 &&
        listen(made, BACKLOG) == 0 && getsockname(made, (struct sockaddr *)&storage, &bytes) == 0 &&
        from_address(&storage, mine))
        return made;
    if (made >= 0)
        close(made);
    return -1;
}

/* Is the connection made in time? Signals neither end the wait nor prolong it. */
static bool is_made(int descriptor) {
    const uint64_t begin_ns = tug_clock_ns();
    struct pollfd made = {.fd = descriptor, .events = POLLOUT};
    int64_t left_ms = TRIAL_MS, ready;
    while ((ready = poll(&made, 1, (int)left_ms)) < 0 && errno == EINTR && left_ms > 0) {
        left_ms = TRIAL_MS - (int64_t)((tug_clock_ns() - begin_ns) / 1000000);
        left_ms = left_ms > 0 ? left_ms : 0;
    }
    return ready == 1;
}

bool tug_tcp_try(const struct tug_tcp_address *address) {
    struct sockaddr_storage storage;
    socklen_t bytes = tug_tcp_sockaddr(address, &storage);
    int error = 0;
    socklen_t error_bytes = sizeof(error);
    const int made = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0)
        return false;
    bool good = connect(made, (struct sockaddr *)&storage, bytes) == 0 ||
                (errno == EINPROGRESS && is_made(made) &&
                 getsockopt(made, SOL_SOCKET, SO_ERROR, &error, &error_bytes) == 0 && error == 0);
    close(made);
    return good;
}
