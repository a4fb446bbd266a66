/* The internet sockets that this process waits on with epoll sets: how a host MPI without a network
 * device of its own reaches its peers.
 *
 * Looks at /proc/self/fd; tens of microseconds. Reads from no socket and changes no set. Any
 * thread.
 */
#ifndef TUG_BASE_SOCKETS_H
#define TUG_BASE_SOCKETS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

/* The internet sockets that are there now are the program's, and none of those below. Before the
 * host starts; the first call counts. */
void tug_sockets_note_program(void);

/* Calls visit(set, d) for each epoll set of this process, but for those that are Tugboat's own,
 * that has connected internet sockets among its members. */
void tug_sockets_each_set(void (*visit)(int set, void *d), void *d);

/* This epoll set is Tugboat's own, from now on / until it is closed. False: too many are. */
bool tug_sockets_claim(int set);
void tug_sockets_disclaim(int set);

/* Do connections to that address stay on this machine? */
bool tug_sockets_is_loopback(const struct sockaddr_storage *address);

/* The address at this end of one such socket: of the network that the host uses. Best is one at
 * which the host listens, then any other, last one of the loopback device. Before these come, in
 * the same order, those of the interfaces that the user names (UCX_NET_DEVICES). False: there is no
 * such socket. */
bool tug_sockets_local(struct sockaddr_storage *address);

/* How near the network of that address is, in which IPv4 ones are mapped: 2: on the interface with
 * the address of tug_sockets_local(); 1: on another one of this process's; 0: neither. Addresses of
 * one link only are on none. Any thread. */
int tug_sockets_weigh(const struct in6_addr *address);

#endif
