/*
 * llcl_own_sockets: a program has connections of its own before MPI starts, as one with a logger or
 * a data base has, in an epoll set. Its address is not taken for the host's: the library does not
 * listen there.
 */
#include <sys/epoll.h>

#include "port.h"

#define OWN "127.0.0.9"

static void connect_own(void) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct epoll_event event = {.events = EPOLLIN};
    socklen_t bytes = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM, 0), end = socket(AF_INET, SOCK_STREAM, 0);
    const int set = epoll_create1(0);
    inet_pton(AF_INET, OWN, &address.sin_addr);
    CHECK(bind(end, (struct sockaddr *)&address, bytes) == 0 &&
              bind(listener, (struct sockaddr *)&address, bytes) == 0 && listen(listener, 1) == 0 &&
              getsockname(listener, (struct sockaddr *)&address, &bytes) == 0 &&
              connect(end, (struct sockaddr *)&address, bytes) == 0 &&
              epoll_ctl(set, EPOLL_CTL_ADD, end, &event) == 0,
          "no connection of the program's own");
}

int main(int argc, char **argv) {
    struct sockaddr_storage port;
    char text[INET6_ADDRSTRLEN] = "";
    connect_own();
    ll_begin(&argc, &argv, "llcl_own_sockets");
    check_barrier(MPI_COMM_WORLD); /* the host has had to do with the others */
    tug_context *context = port_open(&port);
    if (context == NULL)
        return CHECK_SKIP;
    if (port.ss_family == AF_INET)
        inet_ntop(AF_INET, &((struct sockaddr_in *)&port)->sin_addr, text, sizeof text);
    CHECK(strcmp(text, OWN) != 0, "the library listens at %s, which is the program's", text);
    ll_barrier(context);
    ll_close(&context);
    return check_end();
}
