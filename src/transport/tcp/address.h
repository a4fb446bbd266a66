/* Where a process listens for connections of the tcp wire. */
#ifndef TUG_TRANSPORT_TCP_ADDRESS_H
#define TUG_TRANSPORT_TCP_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "transport/tcp/proof.h"

struct tug_fabric;

struct tug_tcp_address {
    uint64_t id; /* the process's: random; told to those of its contexts, and in hellos */
    unsigned char key[TUG_TCP_KEY_BYTES]; /* told to those of its contexts alone */
    uint16_t family;                      /* AF_INET, AF_INET6 */
    uint16_t port;                        /* network byte order, as `ip` */
    unsigned char ip[16];
};

/* The address of this process's node in the network that the host uses; its first process has had
 * to do with other nodes by now. False: the host goes another way. Collective over the node. */
bool tug_tcp_find_address(const struct tug_fabric *fabric, struct tug_tcp_address *mine);

/* Do connections to that address stay on this machine? */
bool tug_tcp_is_loopback(const struct tug_tcp_address *address);

/* Listens at that address, and stores the port. The socket, or -1. */
int tug_tcp_listen(struct tug_tcp_address *mine);

/* Can a connection to that process be made? It is taken for a stranger's and closed. Takes 2 s at
 * most. */
bool tug_tcp_try(const struct tug_tcp_address *address);

/* Fills in the kernel's form of the address; returns its bytes. */
socklen_t tug_tcp_sockaddr(const struct tug_tcp_address *address, struct sockaddr_storage *to);

#endif
