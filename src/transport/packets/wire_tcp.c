/* The tcp wire: packets through sockets of our own, where the host MPI reaches other nodes through
 * sockets too. Who waits sleeps in the kernel until something comes, and the host's lock is not in
 * the way.
 *
 * Every process listens at the address of its node in the network that the host uses, at a port of
 * its own; all are told of all. Two processes that have to do with each other have one connection,
 * their *link* (wire_tcp_link.h): who has the first packet for the other makes it. Either side says
 * hello by it first, which says who it is and proves that it belongs to the job (the session is
 * random and known to nobody else); then packets go, one behind the other. Two that begin at once
 * make two connections, of which that of the lower rank stays: it may send at once, the higher one
 * sends when it has been greeted. So order within a pair is that of the connection.
 *
 *     lower                                 higher
 *       | -- hello, packets ... ------------> |  takes the connection, gives its own up if it has
 *       | <----------- hello, packets ... --- |  begun to make one
 *
 *       | <------------------------- hello -- |
 *       | -- hello, packets ... ------------> |  has been waiting for this
 *       | <------------------ packets ... --- |
 *
 * Long data follow their packet: both are sent by one call, and what comes of them is received
 * where it belongs, which the receiver of the packet says. After such data a link is asked for
 * little at a time for a while, so that the next ones need not be copied there.
 *
 * One epoll set holds the listener and all links; a link that could not take all bytes waits in it
 * for room. The set is readable when there is anything to do: the engine sleeps on it, or, where
 * peers of the node ring a shared bell too, a *watcher* thread does and rings that bell.
 *
 * What comes is not trusted before it is checked: a connection without the right hello is closed,
 * and at most STRANGERS of them are open; packets are checked by their reader (packet.h). A link
 * that ends while something is outstanding means that the peer is lost.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sockets.h"
#include "host/polite.h"
#include "transport/packets/wire.h"
#include "transport/packets/wire_tcp_link.h"
#include "transport/packets/wire_tcp_place.h"
#include "transport/segment.h"
#include "transport/watcher.h"

#define EVENTS 64             /* looked at in one poll */
#define STRANGERS 64u         /* connections that have not said hello yet */
#define PROCESSES_MOST 16384u /* all are told of all; larger jobs go by the host */

struct tcp_wire {
    struct tug_wire wire;
    int listener;
    int set;
    struct tug_tcp_place *places; /* [nranks] */
    struct tug_tcp_link **links;  /* [nranks] the one to send by, NULL: none yet */
    struct tug_tcp_link *all;     /* newer ones first */
    uint32_t strangers;
    uint32_t to_tell;   /* links that are over and whose streams have not been told */
    bool closed_any;    /* links that are to be taken out */
    uint64_t *received; /* TUG_TCP_RECEIVE_BYTES */
    struct tug_watcher watcher;
    int watched; /* by it */
};

/* ---- the epoll set ---- */

/* link: NULL for the listener. */
static bool wait_for(const struct tcp_wire *tcp, int socket, struct tug_tcp_link *link,
                     uint32_t events, int how) {
    struct epoll_event event = {.events = events, .data.ptr = link};
    return epoll_ctl(tcp->set, how, socket, &event) == 0;
}

/* ---- links that end ---- */

/* Its memory goes after the poll: an event may still name it. */
static void close_link(struct tcp_wire *tcp, struct tug_tcp_link *link) {
    if (link->closed)
        return;
    link->broken = link->closed = tcp->closed_any = true;
    if (link->socket >= 0)
        close(link->socket);
    if (link->part != NULL)
        tug_pool_give(&tcp->wire.pool, link->part);
    link->part = NULL;
    if (link->peer == TUG_TCP_NOBODY)
        tcp->strangers--;
    if (link->left > 0)
        tcp->wire.arrived(tcp->wire.receiver, link->peer, false);
    link->left = 0;
}

static bool is_way(const struct tcp_wire *tcp, const struct tug_tcp_link *link) {
    return link->peer != TUG_TCP_NOBODY && tcp->links[link->peer] == link;
}

/* The link has broken. What is to go to its peer does not: the stream is told, again if it still
 * tries. */
static void end_link(struct tcp_wire *tcp, struct tug_tcp_link *link) {
    close_link(tcp, link);
    if (is_way(tcp, link) && !link->to_tell) {
        link->to_tell = true;
        tcp->to_tell++;
    }
}

/* The streams see whether they mind: at the end of a job nothing is outstanding. */
static void tell_lost(struct tcp_wire *tcp) {
    for (uint32_t peer = 0; tcp->to_tell > 0 && peer < tcp->wire.fabric->nranks; peer++) {
        struct tug_tcp_link *link = tcp->links[peer];
        if (link == NULL || !link->to_tell)
            continue;
        link->to_tell = false;
        tcp->to_tell--;
        tcp->wire.ended(tcp->wire.receiver, peer);
    }
}

/* One that was the way to a peer stays, to say that there is none any more. */
static void take_out_closed(struct tcp_wire *tcp) {
    tcp->closed_any = false;
    for (struct tug_tcp_link **at = &tcp->all; *at != NULL;) {
        struct tug_tcp_link *link = *at;
        if (!link->closed || is_way(tcp, link)) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        free(link->rest);
        free(link);
    }
}

/* ---- links that begin ---- */

/* NULL: no memory. */
static struct tug_tcp_link *add_link(struct tcp_wire *tcp, int socket, uint32_t peer) {
    struct tug_tcp_link *link = calloc(1, sizeof(*link));
    if (link == NULL)
        return NULL;
    *link = (struct tug_tcp_link){.socket = socket, .peer = peer, .next = tcp->all};
    tcp->all = link;
    return link;
}

static struct tug_tcp_link *connect_to(struct tcp_wire *tcp, uint32_t peer) {
    struct sockaddr_storage address;
    const int on = 1;
    struct tug_tcp_link *link = add_link(tcp, -1, peer);
    if (link == NULL)
        return NULL;
    tcp->links[peer] = link;
    link->connecting = link->waits = true;
    socklen_t bytes = tug_tcp_address(&tcp->places[peer], &address);
    link->socket = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (link->socket < 0 ||
        setsockopt(link->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
        (connect(link->socket, (struct sockaddr *)&address, bytes) != 0 && errno != EINPROGRESS) ||
        !wait_for(tcp, link->socket, link, EPOLLIN | EPOLLOUT, EPOLL_CTL_ADD)) {
        tug_log(TUG_LOG_ERROR, "no connection to process %u: %s", peer, strerror(errno));
        end_link(tcp, link);
    }
    return link;
}

/* Who has waited longest to say hello makes room for a newcomer. */
static void drop_stranger(struct tcp_wire *tcp) {
    struct tug_tcp_link *oldest = NULL;
    for (struct tug_tcp_link *link = tcp->all; link != NULL; link = link->next)
        if (link->peer == TUG_TCP_NOBODY && !link->closed)
            oldest = link;
    if (oldest != NULL)
        close_link(tcp, oldest);
}

static void take_connections(struct tcp_wire *tcp) {
    const int on = 1;
    int socket;
    while ((socket = accept4(tcp->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        if (tcp->strangers == STRANGERS)
            drop_stranger(tcp);
        struct tug_tcp_link *link = add_link(tcp, socket, TUG_TCP_NOBODY);
        if (link == NULL) {
            close(socket);
            continue;
        }
        tcp->strangers++;
        if (setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
            !wait_for(tcp, socket, link, EPOLLIN, EPOLL_CTL_ADD))
            close_link(tcp, link);
    }
}

static bool comes_twice(const struct tcp_wire *tcp, uint32_t source,
                        const struct tug_tcp_link *way) {
    const struct tug_tcp_link *link = tcp->all;
    while (link != NULL && (link == way || link->closed || link->peer != source))
        link = link->next;
    return link != NULL;
}

/* That process has made the connection. False: it has no reason to. */
static bool adopt(struct tcp_wire *tcp, struct tug_tcp_link *link, uint32_t source) {
    const uint32_t rank = tcp->wire.fabric->rank;
    struct tug_tcp_link *way = tcp->links[source];
    if ((way != NULL && (way->closed || (way->greeted && rank > source))) ||
        comes_twice(tcp, source, way))
        return false;
    link->peer = source;
    tcp->strangers--;
    if (way != NULL && rank <= source)
        return true; /* ours is the link: the peer will give this one up, unless that is us */
    tcp->links[source] = link;
    if (way != NULL)
        close_link(tcp, way);
    tug_tcp_link_greet(link, tcp->wire.fabric);
    return true;
}

/* False: it is none of this job's. */
static bool take_hello(struct tcp_wire *tcp, struct tug_tcp_link *link) {
    const struct tug_fabric *fabric = tcp->wire.fabric;
    const struct tug_tcp_hello *hello = &link->hello;
    if (hello->magic != TUG_TCP_HELLO_MAGIC || hello->session != fabric->session ||
        hello->source >= fabric->nranks || hello->destination != fabric->rank ||
        hello->reserved != 0)
        return false;
    link->greeted = link->peer == TUG_TCP_NOBODY ? adopt(tcp, link, hello->source)
                                                 : link->peer == hello->source;
    return link->greeted;
}

/* Packets come by the link to a peer and no other, but from this process itself. */
static bool may_bring(const struct tcp_wire *tcp, const struct tug_tcp_link *link) {
    return link->greeted && (is_way(tcp, link) || link->peer == tcp->wire.fabric->rank);
}

/* Nobody makes another link instead of this one. */
static bool may_take(const struct tcp_wire *tcp, const struct tug_tcp_link *link) {
    return !link->connecting && (link->greeted || tcp->wire.fabric->rank <= link->peer);
}

/* ---- sending ---- */

/* The epoll set tells of room, or does so no more. */
static void want_room(struct tcp_wire *tcp, struct tug_tcp_link *link, bool wanted) {
    if (link->broken || link->waits == wanted)
        return;
    link->waits = wanted;
    if (!wait_for(tcp, link->socket, link, wanted ? EPOLLIN | EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD))
        link->broken = true;
}

static bool tcp_send(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer) {
    struct tcp_wire *tcp = (struct tcp_wire *)wire;
    struct tug_tcp_link *link = tcp->links[peer];
    bool gone = false;
    if (link == NULL)
        link = connect_to(tcp, peer);
    if (link == NULL)
        return false;
    if (!link->broken && may_take(tcp, link)) {
        gone = tug_tcp_link_put_rest(link, wire) && tug_tcp_link_put(link, wire, buffer);
        if (!gone || link->part != NULL)
            want_room(tcp, link, true);
    }
    if (link->broken)
        end_link(tcp, link);
    return gone;
}

static void tcp_abandon(struct tug_wire *wire, uint32_t peer) {
    struct tcp_wire *tcp = (struct tcp_wire *)wire;
    struct tug_tcp_link *link = tcp->links[peer];
    if (link != NULL && link->part != NULL && link->part->packet.trailer > 0)
        end_link(tcp, link);
}

/* ---- polling ---- */

/* The connection has been made, or not. */
static void on_connection(struct tcp_wire *tcp, struct tug_tcp_link *link) {
    int error = 0;
    socklen_t bytes = sizeof(error);
    if (getsockopt(link->socket, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        error = errno;
    link->connecting = false;
    if (error == 0)
        tug_tcp_link_greet(link, tcp->wire.fabric);
    if (error != 0 || link->broken) {
        tug_log(TUG_LOG_ERROR, "no connection to process %u: %s", link->peer,
                error != 0 ? strerror(error) : "it has no room");
        link->broken = true;
    }
    want_room(tcp, link, false); /* what the stream holds back goes with the flush */
}

/* True if anything came. */
static bool take_from(struct tcp_wire *tcp, struct tug_tcp_link *link) {
    if (!link->greeted) {
        if (!tug_tcp_link_hear(link))
            return false;
        if (!take_hello(tcp, link)) {
            tug_log(TUG_VERBOSE_WARN, "a connection that is not of this job's was closed");
            link->broken = true;
        }
        return true; /* a stream may have waited for it */
    }
    if (may_bring(tcp, link))
        return tug_tcp_link_take(link, &tcp->wire, tcp->received);
    link->broken = true; /* the peer has given it up, as it should */
    return false;
}

static bool on_link(struct tcp_wire *tcp, struct tug_tcp_link *link, uint32_t events) {
    bool moved = false;
    if (link->closed)
        return false;
    if (link->connecting) {
        on_connection(tcp, link);
        moved = true;
    } else {
        if (events & EPOLLOUT) {
            if (tug_tcp_link_put_rest(link, &tcp->wire))
                want_room(tcp, link, false); /* what the stream holds back goes with the flush */
            moved = true;
        }
        if (events & ~(uint32_t)EPOLLOUT && !link->broken)
            moved |= take_from(tcp, link);
    }
    if (link->broken)
        end_link(tcp, link);
    return moved;
}

static bool tcp_poll(struct tug_wire *wire) {
    struct tcp_wire *tcp = (struct tcp_wire *)wire;
    struct epoll_event events[EVENTS];
    bool moved = false;
    int n = epoll_wait(tcp->set, events, EVENTS, 0);
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr == NULL)
            take_connections(tcp);
        else
            moved |= on_link(tcp, events[i].data.ptr, events[i].events);
    }
    if (tcp->closed_any)
        take_out_closed(tcp);
    if (tcp->to_tell > 0)
        tell_lost(tcp);
    return moved;
}

/* ---- sleeping ---- */

/* Rings the bell when the set has become readable, once for each time that it was armed. */
static void *watch_main(void *argument) {
    struct tcp_wire *tcp = argument;
    const struct tug_fabric *fabric = tcp->wire.fabric;
    struct epoll_event event;
    for (;;) {
        int n = epoll_wait(tcp->watched, &event, 1, -1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || event.data.fd == tcp->watcher.stop)
            return NULL;
        tug_bell_ring(fabric->bell, fabric->bell_shared);
    }
}

static bool tcp_arm(struct tug_wire *wire) {
    struct tcp_wire *tcp = (struct tcp_wire *)wire;
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.fd = tcp->set};
    return tcp->to_tell == 0 &&
           (!tcp->watcher.runs || epoll_ctl(tcp->watched, EPOLL_CTL_MOD, tcp->set, &event) == 0);
}

static bool tells_of_room(const struct tug_wire *wire, uint32_t peer) {
    const struct tcp_wire *tcp = (const struct tcp_wire *)wire;
    const struct tug_tcp_link *link = tcp->links[peer];
    return link != NULL && !link->broken && (link->waits || !may_take(tcp, link));
}

/* An epoll set with the set in it, and what stops the watcher. */
static bool open_watch(struct tcp_wire *tcp) {
    struct epoll_event set = {.events = EPOLLONESHOT, .data.fd = tcp->set};
    struct epoll_event stop = {.events = EPOLLIN, .data.fd = tcp->watcher.stop};
    tcp->watched = epoll_create1(EPOLL_CLOEXEC);
    return tcp->watched >= 0 && epoll_ctl(tcp->watched, EPOLL_CTL_ADD, tcp->set, &set) == 0 &&
           epoll_ctl(tcp->watched, EPOLL_CTL_ADD, tcp->watcher.stop, &stop) == 0;
}

static void stop_watching(struct tcp_wire *tcp) {
    tug_watcher_stop(&tcp->watcher);
    if (tcp->watched >= 0)
        close(tcp->watched);
    tcp->watched = -1;
}

static bool start_watching(struct tcp_wire *tcp) {
    if (tug_watcher_prepare(&tcp->watcher) && open_watch(tcp) &&
        tug_watcher_start(&tcp->watcher, watch_main, tcp))
        return true;
    stop_watching(tcp);
    return false;
}

static int descriptor(struct tug_wire *wire, bool watch) {
    struct tcp_wire *tcp = (struct tcp_wire *)wire;
    return watch && start_watching(tcp) ? -1 : tcp->set;
}

/* ---- opening and closing ---- */

static void release(struct tcp_wire *tcp) {
    stop_watching(tcp);
    while (tcp->all != NULL) {
        struct tug_tcp_link *link = tcp->all;
        tcp->all = link->next;
        close_link(tcp, link);
        free(link->rest);
        free(link);
    }
    if (tcp->listener >= 0)
        close(tcp->listener);
    if (tcp->set >= 0) {
        tug_sockets_disclaim(tcp->set);
        close(tcp->set);
    }
    free((void *)tcp->links);
    free(tcp->places);
    free(tcp->received);
    tug_pool_fini(&tcp->wire.pool);
    free(tcp);
}

static void tcp_close(struct tug_wire *wire) {
    release((struct tcp_wire *)wire);
}

static const struct tug_wire_type tcp_type = {.name = "tcp",
                                              .send = tcp_send,
                                              .abandon = tcp_abandon,
                                              .poll = tcp_poll,
                                              .arm = tcp_arm,
                                              .tells_of_room = tells_of_room,
                                              .descriptor = descriptor,
                                              .close = tcp_close};

/* NULL: no memory or descriptors. */
static struct tcp_wire *make(struct tug_fabric *fabric) {
    struct tcp_wire *tcp = calloc(1, sizeof(*tcp));
    if (tcp == NULL)
        return NULL;
    tcp->wire = (struct tug_wire){.type = &tcp_type, .fabric = fabric};
    tcp->wire.pool.bytes = TUG_TCP_PACKET_BYTES;
    tcp->listener = tcp->watched = -1;
    tcp->set = epoll_create1(EPOLL_CLOEXEC);
    tcp->places = calloc(fabric->nranks, sizeof(struct tug_tcp_place));
    tcp->links = calloc(fabric->nranks, sizeof(struct tug_tcp_link *));
    tcp->received = malloc(TUG_TCP_RECEIVE_BYTES);
    if (tcp->set >= 0 && tug_sockets_claim(tcp->set) && tcp->places != NULL && tcp->links != NULL &&
        tcp->received != NULL)
        return tcp;
    release(tcp);
    return NULL;
}

struct tug_wire *tug_wire_tcp_open(struct tug_fabric *fabric, const char **reason) {
    struct tug_tcp_place mine;
    if (fabric->nranks > PROCESSES_MOST) {
        *reason = "too many processes";
        return NULL;
    }
    const bool found = tug_tcp_find_place(fabric, &mine);
    struct tcp_wire *tcp = found ? make(fabric) : NULL;
    if (tcp != NULL)
        tcp->listener = tug_tcp_listen(&mine);
    const bool good = tcp != NULL && tcp->listener >= 0 &&
                      wait_for(tcp, tcp->listener, NULL, EPOLLIN, EPOLL_CTL_ADD);
    *reason = !found ? "the host MPI does not go by sockets"
                     : "not every process can listen for connections";
    bool all = tug_all_agree(fabric->comm, good);
    if (all) {
        *reason = "a connection between two nodes cannot be made";
        uint32_t next = (fabric->rank + fabric->node_size) % fabric->nranks;
        all = TUG_POLITE(Iallgather, &mine, sizeof(mine), MPI_BYTE, tcp->places, sizeof(mine),
                         MPI_BYTE, fabric->comm) == MPI_SUCCESS;
        all = tug_all_agree(fabric->comm, all && tug_tcp_try(&tcp->places[next]));
    }
    if (all)
        return &tcp->wire;
    if (tcp != NULL)
        release(tcp);
    return NULL;
}

size_t tug_wire_tcp_footprint(uint64_t nranks, uint64_t active) {
    if (nranks > PROCESSES_MOST)
        return 0;
    return sizeof(struct tcp_wire) + TUG_TCP_RECEIVE_BYTES +
           nranks * (sizeof(struct tug_tcp_place) + sizeof(struct tug_tcp_link *)) +
           active * sizeof(struct tug_tcp_link);
}

size_t tug_wire_tcp_packet(void) {
    return sizeof(struct tug_buffer) + TUG_TCP_PACKET_BYTES;
}
