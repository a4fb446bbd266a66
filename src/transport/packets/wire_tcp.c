/* The tcp wire: packets through sockets of our own, where the host MPI reaches other nodes through
 * sockets too. Who waits sleeps in the kernel until something comes, and the host's lock is not in
 * the way.
 *
 * Every process listens at the address of its node in the network that the host uses, at a port of
 * its own; all are told of all. A *link* is a connection in one direction: made by the sender with
 * its first packet, greeted by a hello that says who it is and proves that it belongs to the job
 * (the session is random and known to nobody else), then packets, one behind the other. So two
 * processes that begin at once do not get in each other's way, and order within a pair is that of
 * the connection.
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
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sockets.h"
#include "host/polite.h"
#include "transport/packets/wire.h"
#include "transport/packets/wire_tcp_place.h"
#include "transport/segment.h"
#include "transport/watcher.h"

#define PACKET_BYTES 32768u        /* a system call a packet is small beside copying it */
#define RECEIVE_BYTES (256u << 10) /* asked of a socket at a time */
#define RECEIVES_A_LINK 4u         /* in one poll */
#define GLANCE_BYTES 2048u         /* ... where data are expected that have a place of their own */
#define LONG_LATELY 16u            /* receives after the last such data */
#define EVENTS 64                  /* looked at in one poll */
#define STRANGERS 64u              /* connections that have not said hello yet */
#define PROCESSES_MOST 16384u      /* all are told of all; larger jobs go by the host */
#define HELLO_MAGIC 0x3170637462677574u /* "tugbtcp1" */

struct hello {
    uint64_t magic;
    uint64_t session;
    uint32_t source, destination;
    uint64_t reserved; /* 0 */
};

enum kind { LISTENER, INCOMING, OUTGOING };

/* What the epoll set's events name. */
struct end {
    enum kind kind;
    int socket;
};

#define NOBODY UINT32_MAX

struct incoming {
    struct end end;
    uint32_t source; /* NOBODY: has not said hello */
    bool closed;
    unsigned char
        *rest; /* the beginning of a packet that has not come whole; NULL: no memory yet */
    size_t nrest;
    size_t left, come;    /* bytes that follow the last packet: still to come, and received */
    unsigned long_lately; /* such a packet has come not long ago */
    struct incoming *next;
};

struct outgoing {
    struct end end;
    uint32_t peer;
    bool connecting;
    bool waits;              /* the epoll set tells when there is room */
    bool lost;               /* nothing goes there any more */
    bool to_tell;            /* ... which the streams have not been told */
    struct tug_buffer *rest; /* sent in part */
    size_t sent;
};

struct tcp_wire {
    struct tug_wire wire;
    struct end listener;
    int set;
    struct tug_tcp_place *places; /* [nranks] */
    struct outgoing **outgoing;   /* [nranks], NULL: none yet */
    struct incoming *incoming;
    uint32_t strangers;
    uint32_t to_tell;   /* links that are lost and whose streams have not been told */
    bool closed_any;    /* incoming links that are to be taken out */
    uint64_t *received; /* RECEIVE_BYTES */
    struct tug_watcher watcher;
    int watched; /* by it */
};

/* ---- the epoll set ---- */

static bool wait_for(const struct tcp_wire *tcp, struct end *end, uint32_t events, int how) {
    struct epoll_event event = {.events = events, .data.ptr = end};
    return epoll_ctl(tcp->set, how, end->socket, &event) == 0;
}

/* ---- losing a peer ---- */

static void lose(struct tcp_wire *tcp, struct outgoing *link) {
    if (!link->to_tell) {
        link->to_tell = true;
        tcp->to_tell++;
    }
    if (link->lost)
        return;
    link->lost = true;
    if (link->end.socket >= 0)
        close(link->end.socket);
    link->end.socket = -1;
    if (link->rest != NULL)
        tug_pool_give(&tcp->wire.pool, link->rest);
    link->rest = NULL;
}

/* The streams see whether they mind: at the end of a job nothing is outstanding. */
static void tell_lost(struct tcp_wire *tcp) {
    for (uint32_t peer = 0; tcp->to_tell > 0 && peer < tcp->wire.fabric->nranks; peer++) {
        struct outgoing *link = tcp->outgoing[peer];
        if (link == NULL || !link->to_tell)
            continue;
        link->to_tell = false;
        tcp->to_tell--;
        tcp->wire.ended(tcp->wire.receiver, peer);
    }
}

/* ---- sending ---- */

static struct outgoing *connect_to(struct tcp_wire *tcp, uint32_t peer) {
    struct sockaddr_storage address;
    const int on = 1;
    struct outgoing *link = calloc(1, sizeof(*link));
    if (link == NULL)
        return NULL;
    *link = (struct outgoing){.end = {.kind = OUTGOING}, .peer = peer, .connecting = true};
    socklen_t bytes = tug_tcp_address(&tcp->places[peer], &address);
    link->end.socket = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    tcp->outgoing[peer] = link;
    link->waits = true;
    if (link->end.socket < 0 ||
        setsockopt(link->end.socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
        (connect(link->end.socket, (struct sockaddr *)&address, bytes) != 0 &&
         errno != EINPROGRESS) ||
        !wait_for(tcp, &link->end, EPOLLOUT | EPOLLRDHUP, EPOLL_CTL_ADD)) {
        tug_log(TUG_LOG_ERROR, "no connection to process %u: %s", peer, strerror(errno));
        lose(tcp, link);
    }
    return link;
}

/* Bytes that went, 0: no room; a link that broke is lost. */
static size_t put(struct tcp_wire *tcp, struct outgoing *link, const void *memory, size_t bytes) {
    ssize_t sent;
    do
        sent = send(link->end.socket, memory, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return (size_t)sent;
    if (errno != EAGAIN && errno != EWOULDBLOCK)
        lose(tcp, link);
    return 0;
}

/* Sends what is left of a buffer, packet and trailer, from link->sent on. False: some still is. */
static bool put_buffer(struct tcp_wire *tcp, struct outgoing *link, struct tug_buffer *buffer) {
    const size_t used = buffer->packet.used, all = used + buffer->packet.trailer;
    ssize_t went;
    struct iovec parts[2];
    struct msghdr message = {.msg_iov = parts};
    if (link->sent < used)
        parts[message.msg_iovlen++] =
            (struct iovec){(char *)buffer->memory + link->sent, used - link->sent};
    if (buffer->packet.trailer > 0) {
        const size_t gone = link->sent > used ? link->sent - used : 0;
        parts[message.msg_iovlen++] = (struct iovec){(void *)(uintptr_t)(buffer->trailer + gone),
                                                     buffer->packet.trailer - gone};
    }
    do
        went = sendmsg(link->end.socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (went < 0 && errno == EINTR);
    if (went < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
        lose(tcp, link);
    if (went < 0)
        return false;
    link->sent += (size_t)went;
    if (link->sent < all)
        return false;
    if (buffer->packet.trailer > 0)
        tcp->wire.sent(tcp->wire.receiver, link->peer, buffer);
    tug_pool_give(&tcp->wire.pool, buffer);
    return true;
}

/* The epoll set tells of room, or does so no more. */
static void want_room(struct tcp_wire *tcp, struct outgoing *link, bool wanted) {
    if (link->lost || link->waits == wanted)
        return;
    link->waits = wanted;
    if (!wait_for(tcp, &link->end, wanted ? EPOLLOUT | EPOLLRDHUP : EPOLLRDHUP, EPOLL_CTL_MOD))
        lose(tcp, link);
}

/* Sends the rest of the buffer that went in part. False: some is left. */
static bool put_rest(struct tcp_wire *tcp, struct outgoing *link) {
    if (link->rest == NULL)
        return true;
    if (!put_buffer(tcp, link, link->rest))
        return false;
    link->rest = NULL;
    return true;
}

static bool tcp_send(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer) {
    struct tcp_wire *tcp = (struct tcp_wire *)wire;
    struct outgoing *link = tcp->outgoing[peer];
    if (link == NULL)
        link = connect_to(tcp, peer);
    if (link == NULL || link->lost || link->connecting || !put_rest(tcp, link)) {
        if (link != NULL && link->lost)
            lose(tcp, link); /* it is told again: now there is something outstanding */
        else if (link != NULL)
            want_room(tcp, link, true);
        return false;
    }
    link->sent = 0;
    if (put_buffer(tcp, link, buffer))
        return true;
    want_room(tcp, link, true);
    if (link->lost || link->sent == 0)
        return false;
    link->rest = buffer;
    return true;
}

static void tcp_abandon(struct tug_wire *wire, uint32_t peer) {
    struct tcp_wire *tcp = (struct tcp_wire *)wire;
    struct outgoing *link = tcp->outgoing[peer];
    if (link != NULL && link->rest != NULL && link->rest->packet.trailer > 0)
        lose(tcp, link);
}

/* The connection has been made, or not: says hello. */
static void greet(struct tcp_wire *tcp, struct outgoing *link) {
    const struct tug_fabric *fabric = tcp->wire.fabric;
    const struct hello hello = {.magic = HELLO_MAGIC,
                                .session = fabric->session,
                                .source = fabric->rank,
                                .destination = link->peer};
    int error = 0;
    socklen_t bytes = sizeof(error);
    if (getsockopt(link->end.socket, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        error = errno;
    link->connecting = false;
    /* an empty socket has room for so little */
    if (error == 0 && put(tcp, link, &hello, sizeof(hello)) == sizeof(hello))
        return;
    tug_log(TUG_LOG_ERROR, "no connection to process %u: %s", link->peer,
            error != 0 ? strerror(error) : "it has no room");
    lose(tcp, link);
}

/* There is room, or the peer has gone. */
static void on_outgoing(struct tcp_wire *tcp, struct outgoing *link, uint32_t events) {
    if (link->lost)
        return;
    if (link->connecting)
        greet(tcp, link);
    else if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        lose(tcp, link);
    if (!link->lost && put_rest(tcp, link))
        want_room(tcp, link, false); /* what the stream holds back goes with the flush */
}

/* ---- receiving ---- */

static void end_incoming(struct tcp_wire *tcp, struct incoming *link);

/* Who has waited longest to say hello makes room for a newcomer. */
static void drop_stranger(struct tcp_wire *tcp) {
    struct incoming *oldest = NULL;
    for (struct incoming *link = tcp->incoming; link != NULL; link = link->next)
        if (link->source == NOBODY && !link->closed)
            oldest = link; /* newer ones are ahead of it */
    if (oldest != NULL)
        end_incoming(tcp, oldest);
}

static void take_connections(struct tcp_wire *tcp) {
    int socket;
    while ((socket = accept4(tcp->listener.socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >=
           0) {
        if (tcp->strangers == STRANGERS)
            drop_stranger(tcp);
        struct incoming *link = calloc(1, sizeof(*link));
        if (link == NULL) {
            close(socket);
            continue;
        }
        *link =
            (struct incoming){.end = {INCOMING, socket}, .source = NOBODY, .next = tcp->incoming};
        if (!wait_for(tcp, &link->end, EPOLLIN, EPOLL_CTL_ADD)) {
            close(socket);
            free(link);
            continue;
        }
        tcp->incoming = link;
        tcp->strangers++;
    }
}

/* Its memory goes after the poll: an event may still name it. */
static void end_incoming(struct tcp_wire *tcp, struct incoming *link) {
    close(link->end.socket);
    link->closed = tcp->closed_any = true;
    if (link->source == NOBODY) {
        tcp->strangers--;
        return;
    }
    if (link->left > 0)
        tcp->wire.arrived(tcp->wire.receiver, link->source, false);
    /* nothing comes from there any more, so nothing need go there */
    struct outgoing *back = tcp->outgoing[link->source];
    if (back != NULL)
        lose(tcp, back);
}

static void take_out_closed(struct tcp_wire *tcp) {
    tcp->closed_any = false;
    for (struct incoming **at = &tcp->incoming; *at != NULL;) {
        struct incoming *link = *at;
        if (!link->closed) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        free(link->rest);
        free(link);
    }
}

static bool is_known(const struct tcp_wire *tcp, uint32_t source) {
    const struct incoming *link = tcp->incoming;
    while (link != NULL && link->source != source)
        link = link->next;
    return link != NULL;
}

/* Bytes of the hello, 0: it is none. */
static size_t take_hello(struct tcp_wire *tcp, struct incoming *link, const void *memory) {
    const struct tug_fabric *fabric = tcp->wire.fabric;
    const struct hello *hello = memory;
    if (hello->magic != HELLO_MAGIC || hello->session != fabric->session ||
        hello->source >= fabric->nranks || hello->destination != fabric->rank ||
        hello->reserved != 0 || is_known(tcp, hello->source)) {
        tug_log(TUG_VERBOSE_WARN, "a connection that is not of this job's was closed");
        return 0;
    }
    link->source = hello->source;
    tcp->strangers--;
    return sizeof(*hello);
}

/* Bytes of the packet that begins there, 0: it has not come whole. Nonsense ends the link. */
static size_t whole_packet(struct tcp_wire *tcp, struct incoming *link, const void *memory,
                           size_t bytes) {
    const struct tug_packet_header *header = memory;
    if (bytes < sizeof(*header))
        return 0;
    if (header->magic != TUG_PACKET_MAGIC || header->bytes < sizeof(*header) ||
        header->bytes > PACKET_BYTES || header->bytes % 8 != 0 || header->source != link->source ||
        header->trailer > TUG_TRAILER_MOST || header->trailer % 8 != 0) {
        tug_log(TUG_LOG_ERROR, "what comes from process %u are not packets of ours: it is cut off",
                link->source);
        end_incoming(tcp, link);
        return 0;
    }
    return header->bytes <= bytes ? header->bytes : 0;
}

/* Some of what follows the last packet has come. */
static void trailer_came(struct tcp_wire *tcp, struct incoming *link, size_t bytes) {
    link->left -= bytes;
    link->come += bytes;
    if (link->left == 0)
        tcp->wire.arrived(tcp->wire.receiver, link->source, true);
}

/* A packet has been handed up; of what follows it, so many bytes stand behind it. Returns how many
 * of them are its. */
static size_t begin_trailer(struct tcp_wire *tcp, struct incoming *link, const void *packet,
                            const unsigned char *behind, size_t bytes) {
    const struct tug_packet_header *header = packet;
    if (header->trailer == 0)
        return 0;
    link->long_lately = LONG_LATELY;
    link->left = header->trailer;
    link->come = 0;
    if (bytes > link->left)
        bytes = link->left;
    unsigned char *place = tcp->wire.place(tcp->wire.receiver, link->source, 0);
    if (place != NULL)
        memcpy(place, behind, bytes);
    trailer_came(tcp, link, bytes);
    return bytes;
}

/* Hands the packets in `received` up and keeps what is left for the next time. */
static void hand_up(struct tcp_wire *tcp, struct incoming *link, size_t have) {
    const unsigned char *memory = (const unsigned char *)tcp->received;
    size_t at = 0, bytes;
    if (link->source == NOBODY) {
        if (have < sizeof(struct hello)) {
            bytes = 0;
        } else if ((at = take_hello(tcp, link, memory)) == 0) {
            end_incoming(tcp, link);
            return;
        }
    }
    while (link->source != NOBODY &&
           (bytes = whole_packet(tcp, link, memory + at, have - at)) > 0) {
        const unsigned char *packet = memory + at;
        tcp->wire.receive(tcp->wire.receiver, &tcp->wire, packet, bytes);
        at += bytes;
        at += begin_trailer(tcp, link, packet, memory + at, have - at);
    }
    if (link->closed)
        return;
    link->nrest = have - at;
    if (link->nrest == 0)
        return;
    if (link->rest == NULL)
        link->rest = malloc(PACKET_BYTES);
    if (link->rest != NULL) {
        memcpy(link->rest, memory + at, link->nrest);
    } else {
        tug_log(TUG_LOG_ERROR, "no memory for a packet of process %u: it is cut off", link->source);
        end_incoming(tcp, link);
    }
}

/* Bytes that came, 0: none are there, or the link has ended. */
static size_t get(struct tcp_wire *tcp, struct incoming *link, void *memory, size_t room) {
    ssize_t came;
    do
        came = recv(link->end.socket, memory, room, MSG_DONTWAIT);
    while (came < 0 && errno == EINTR);
    if (came > 0)
        return (size_t)came;
    if (came == 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
        end_incoming(tcp, link);
    return 0;
}

/* What follows a packet goes to its place. True if anything came. */
static bool take_trailer(struct tcp_wire *tcp, struct incoming *link) {
    bool moved = false;
    while (link->left > 0) {
        unsigned char *place = tcp->wire.place(tcp->wire.receiver, link->source, link->come);
        size_t room = link->left;
        if (place == NULL && room > RECEIVE_BYTES)
            room = RECEIVE_BYTES;
        const size_t came = get(tcp, link, place != NULL ? place : (void *)tcp->received, room);
        if (came == 0)
            break;
        moved = true;
        trailer_came(tcp, link, came);
    }
    return moved;
}

/* Bytes to ask for, packets: few, where data that have a place of their own may be behind them. */
static size_t room_for_packets(struct incoming *link) {
    size_t most = RECEIVE_BYTES;
    if (link->long_lately > 0) {
        link->long_lately--;
        most = link->nrest < GLANCE_BYTES ? GLANCE_BYTES : RECEIVE_BYTES;
    }
    return most - link->nrest;
}

/* True if anything came. */
static bool take_from(struct tcp_wire *tcp, struct incoming *link) {
    bool moved = take_trailer(tcp, link);
    for (unsigned i = 0; i < RECEIVES_A_LINK && !link->closed && link->left == 0; i++) {
        unsigned char *memory = (unsigned char *)tcp->received;
        const size_t room = room_for_packets(link);
        const size_t came = get(tcp, link, memory + link->nrest, room);
        if (came == 0)
            break;
        moved = true;
        if (link->nrest > 0)
            memcpy(memory, link->rest, link->nrest);
        hand_up(tcp, link, link->nrest + came);
        if (link->closed || (!take_trailer(tcp, link) && came < room))
            break;
    }
    return moved;
}

static bool tcp_poll(struct tug_wire *wire) {
    struct tcp_wire *tcp = (struct tcp_wire *)wire;
    struct epoll_event events[EVENTS];
    bool moved = false;
    int n = epoll_wait(tcp->set, events, EVENTS, 0);
    for (int i = 0; i < n; i++) {
        struct end *end = events[i].data.ptr;
        if (end->kind == LISTENER) {
            take_connections(tcp);
        } else if (end->kind == OUTGOING) {
            on_outgoing(tcp, (struct outgoing *)end, events[i].events);
            moved = true; /* a stream may have waited for room */
        } else if (!((struct incoming *)end)->closed) {
            moved |= take_from(tcp, (struct incoming *)end);
        }
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
    return tcp->outgoing[peer] != NULL && tcp->outgoing[peer]->waits;
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
    for (struct incoming *link = tcp->incoming; link != NULL; link = link->next)
        if (!link->closed)
            close(link->end.socket), link->closed = true;
    take_out_closed(tcp);
    for (uint32_t peer = 0; tcp->outgoing != NULL && peer < tcp->wire.fabric->nranks; peer++) {
        if (tcp->outgoing[peer] == NULL)
            continue;
        lose(tcp, tcp->outgoing[peer]);
        free(tcp->outgoing[peer]);
    }
    if (tcp->listener.socket >= 0)
        close(tcp->listener.socket);
    if (tcp->set >= 0) {
        tug_sockets_disclaim(tcp->set);
        close(tcp->set);
    }
    free((void *)tcp->outgoing);
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
    tcp->wire.pool.bytes = PACKET_BYTES;
    tcp->listener.socket = tcp->watched = -1;
    tcp->set = epoll_create1(EPOLL_CLOEXEC);
    tcp->places = calloc(fabric->nranks, sizeof(struct tug_tcp_place));
    tcp->outgoing = calloc(fabric->nranks, sizeof(struct outgoing *));
    tcp->received = malloc(RECEIVE_BYTES);
    if (tcp->set >= 0 && tug_sockets_claim(tcp->set) && tcp->places != NULL &&
        tcp->outgoing != NULL && tcp->received != NULL)
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
        tcp->listener.socket = tug_tcp_listen(&mine);
    const bool good = tcp != NULL && tcp->listener.socket >= 0 &&
                      wait_for(tcp, &tcp->listener, EPOLLIN, EPOLL_CTL_ADD);
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
    return sizeof(struct tcp_wire) + RECEIVE_BYTES +
           nranks * (sizeof(struct tug_tcp_place) + sizeof(struct outgoing *)) +
           active * (sizeof(struct incoming) + sizeof(struct outgoing));
}

size_t tug_wire_tcp_packet(void) {
    return sizeof(struct tug_buffer) + PACKET_BYTES;
}
