#include "transport/tcp/address.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

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

bool tug_tcp_try(const struct tug_tcp_address *address) {
    struct sockaddr_storage storage;
    socklen_t bytes = tug_tcp_sockaddr(address, &storage);
    int error = 0;
    socklen_t error_bytes = sizeof(error);
    struct pollfd made = {
        .fd = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
        .events = POLLOUT};
    if (made.fd < 0)
        return false;
    bool good =
        connect(made.fd, (struct sockaddr *)&storage, bytes) == 0 ||
        (errno == EINPROGRESS && poll(&made, 1, TRIAL_MS) == 1 &&
         getsockopt(made.fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) == 0 && error == 0);
    close(made.fd);
    return good;
}
