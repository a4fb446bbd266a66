#include "transport/packets/wire_tcp_place.h"

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

socklen_t tug_tcp_address(const struct tug_tcp_place *place, struct sockaddr_storage *address) {
    memset(address, 0, sizeof(*address));
    address->ss_family = place->family;
    if (place->family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)address;
        in->sin_port = place->port;
        memcpy(&in->sin_addr, place->address, sizeof(in->sin_addr));
        return sizeof(*in);
    }
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)address;
    in6->sin6_port = place->port;
    memcpy(&in6->sin6_addr, place->address, sizeof(in6->sin6_addr));
    return sizeof(*in6);
}

/* False: not an address that others can connect to. */
static bool from_address(const struct sockaddr_storage *address, struct tug_tcp_place *place) {
    memset(place, 0, sizeof(*place));
    place->family = address->ss_family;
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;
        place->port = in->sin_port;
        memcpy(place->address, &in->sin_addr, sizeof(in->sin_addr));
        return true;
    }
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
    place->port = in6->sin6_port;
    memcpy(place->address, &in6->sin6_addr, sizeof(in6->sin6_addr));
    return address->ss_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
}

bool tug_tcp_find_place(const struct tug_fabric *fabric, struct tug_tcp_place *mine) {
    struct sockaddr_storage address;
    memset(mine, 0, sizeof(*mine));
    if (fabric->node_rank == 0 && (!tug_sockets_local(&address) || !from_address(&address, mine)))
        mine->family = AF_UNSPEC;
    return TUG_POLITE(Ibcast, mine, sizeof(*mine), MPI_BYTE, 0, fabric->node_comm) == MPI_SUCCESS &&
           mine->family != AF_UNSPEC;
}

int tug_tcp_listen(struct tug_tcp_place *mine) {
    struct sockaddr_storage address;
    mine->port = 0;
    socklen_t bytes = tug_tcp_address(mine, &address);
    int made = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made >= 0 && bind(made, (struct sockaddr *)&address, bytes) == 0 &&
        listen(made, BACKLOG) == 0 && getsockname(made, (struct sockaddr *)&address, &bytes) == 0 &&
        from_address(&address, mine))
        return made;
    if (made >= 0)
        close(made);
    return -1;
}

bool tug_tcp_try(const struct tug_tcp_place *place) {
    struct sockaddr_storage address;
    socklen_t bytes = tug_tcp_address(place, &address);
    int error = 0;
    socklen_t error_bytes = sizeof(error);
    struct pollfd made = {
        .fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
        .events = POLLOUT};
    if (made.fd < 0)
        return false;
    bool good =
        connect(made.fd, (struct sockaddr *)&address, bytes) == 0 ||
        (errno == EINPROGRESS && poll(&made, 1, TRIAL_MS) == 1 &&
         getsockopt(made.fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) == 0 && error == 0);
    close(made.fd);
    return good;
}
