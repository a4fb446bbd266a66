/* The tcp wire: packets through sockets of our own, where the host MPI reaches other nodes through
 * sockets too. Who waits sleeps in the kernel until something comes, and the host's lock is not in
 * the way.
 *
 * Every process listens at the address of its node in the network that the host uses, at a port of
 * its own; all are told of all. Two processes that have to do with each other have one connection,
 * their *link* (wire_tcp_link.h): who has the first packet for the other makes it. Either side says
 * hello by it first, which says who it is and proves that it belongs to the job (the session is
 * random and known to nobody else); then packets go, one behind the other: wire_tcp_meet.c. So
 * order within a pair is that of the connection.
 *
 * Long data follow their packet: both are sent by one call, and what comes of them is received
 * where it belongs, which the receiver of the packet says. After such data a link is asked for
 * little at a time for a while, so that the next ones need not be copied there.
 *
 * One epoll set holds the listener and all links; a link that could not take all bytes waits in it
 * for room. The set is readable when there is anything to do: the engine sleeps on it, or, where
 * peers of the node ring a shared bell too, a *watcher* thread does and rings that bell:
 * wire_tcp_watch.c.
 *
 * What comes is not trusted before it is checked: packets are checked by their reader (packet.h). A
 * link that ends while something is outstanding means that the peer is lost.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sockets.h"
#include "base/stats.h"
#include "host/agreement.h"
#include "host/polite.h"
#include "transport/packets/wire_tcp_private.h"

#define EVENTS 64             /* looked at in one poll */
#define PROCESSES_MOST 16384u /* each keeps the places of all; larger jobs go by the host */

/* ---- the epoll set ---- */

static uint32_t listener_events(bool wanted) {
    return wanted ? EPOLLIN : 0;
}

bool tug_tcp_watch_listener(const struct tcp_wire *tcp, bool wanted, int how) {
    struct epoll_event event = {.events = listener_events(wanted), .data.ptr = NULL};
    return epoll_ctl(tcp->set, how, tcp->listener.number, &event) == 0;
}

/* A user may have watches for so many descriptors only. */
void tug_tcp_watch(struct tcp_wire *tcp, struct tug_tcp_link *link, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = link};
    if (epoll_ctl(tcp->set, EPOLL_CTL_ADD, link->socket.number, &event) == 0)
        return;
    link->blind = true;
    tcp->nblind++;
    tug_stat_add(TUG_STAT_UNWATCHED, 1);
}

/* ---- links that end ---- */

/* Its memory goes after the poll: an event may still name it. */
void tug_tcp_close_link(struct tcp_wire *tcp, struct tug_tcp_link *link) {
    if (link->closed)
        return;
    link->broken = link->closed = tcp->closed_any = true;
    tug_tcp_close_socket(tcp, link);
    tcp->nlater -= link->later;
    link->later = false;
    if (link->part != NULL)
        tug_pool_give(&tcp->wire.pool, link->part);
    link->part = NULL;
    if (link->peer == TUG_TCP_NOBODY)
        tcp->strangers--;
    if (link->left > 0)
        tcp->wire.arrived(tcp->wire.receiver, link->peer, false);
    link->left = 0;
}

/* The link has broken. If nothing had gone by it the two may meet again, else what is to go to its
 * peer does not: the stream is told, again if it still tries. */
void tug_tcp_end_link(struct tcp_wire *tcp, struct tug_tcp_link *link) {
    if (link->by_host || tug_tcp_meet_again(tcp, link))
        return;
    tug_tcp_close_link(tcp, link);
    if (tug_tcp_is_way(tcp, link) && !link->to_tell) {
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

/* A closed link that was the way to a peer stays: it says that there is no way any more. */
static void take_out_closed(struct tcp_wire *tcp) {
    tcp->closed_any = false;
    for (struct tug_tcp_link **at = &tcp->all; *at != NULL;) {
        struct tug_tcp_link *link = *at;
        if (!link->closed || tug_tcp_is_way(tcp, link)) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        free(link->rest);
        free(link);
    }
}

/* ---- what the program has closed ---- */

bool tug_tcp_link_holds(const struct tcp_wire *tcp, struct tug_tcp_link *link) {
    if (link->tick != tcp->tick && link->socket.number >= 0 && !tug_own_holds(&link->socket))
        link->broken = true;
    link->tick = tcp->tick;
    return !link->broken;
}

/* A link that the program has closed brings no news: all are looked at. */
static void look_at_all(struct tcp_wire *tcp) {
    tcp->looked_ns = tcp->tick;
    for (struct tug_tcp_link *link = tcp->all; link != NULL; link = link->next)
        if (!link->closed && !tug_tcp_link_holds(tcp, link))
            tug_tcp_end_link(tcp, link);
}

/* The set or the listener is gone: all links end. */
static void lose(struct tcp_wire *tcp) {
    tcp->lost = true;
    for (struct tug_tcp_link *link = tcp->all; link != NULL; link = link->next) {
        link->broken = link->final = true;
        tug_tcp_end_link(tcp, link);
    }
}

bool tug_tcp_holds(struct tcp_wire *tcp) {
    const uint64_t tick = tug_own_tick();
    if (tick == tcp->tick || tcp->lost)
        return !tcp->lost;
    tcp->tick = tick;
    if (!tug_own_set(tcp->set, &tcp->listener, listener_events(!tcp->full), 0))
        lose(tcp);
    else if (tick - tcp->looked_ns >= (uint64_t)TUG_OWN_LOOK_NS)
        look_at_all(tcp);
    return !tcp->lost;
}

/* ---- what may go and come ---- */

/* Packets come by the link to a peer and no other, but from this process itself. */
static bool may_bring(const struct tcp_wire *tcp, const struct tug_tcp_link *link) {
    return link->greeted && (tug_tcp_is_way(tcp, link) || link->peer == tcp->wire.fabric->rank);
}

/* ---- sending ---- */

/* The epoll set tells of room, or does so no more. */
void tug_tcp_want_room(struct tcp_wire *tcp, struct tug_tcp_link *link, bool wanted) {
    struct epoll_event event = {.events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = link};
    if (link->broken || link->waits == wanted)
        return;
    link->waits = wanted;
    if (!link->blind && epoll_ctl(tcp->set, EPOLL_CTL_MOD, link->socket.number, &event) != 0)
        link->broken = true;
}

static bool tcp_send(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer) {
    struct tcp_wire *tcp = (struct tcp_wire *)wire;
    struct tug_tcp_link *link = tcp->links[peer];
    bool gone = false;
    (void)tug_tcp_holds(tcp);
    if (link == NULL)
        link = tug_tcp_connect(tcp, peer);
    if (link == NULL)
        return false;
    if (!link->broken && link->greeted && tug_tcp_link_holds(tcp, link)) {
        gone = tug_tcp_link_put_rest(link, wire) && tug_tcp_link_put(link, wire, buffer);
        if (!gone || link->part != NULL)
            tug_tcp_want_room(tcp, link, true);
    }
    if (link->broken)
        tug_tcp_end_link(tcp, link);
    return gone;
}

static bool tcp_meet(struct tug_wire *wire, uint32_t peer) {
    struct tcp_wire *tcp = (struct tcp_wire *)wire;
    const struct tug_tcp_link *link = tcp->links[peer];
    if (link == NULL)
        link = tug_tcp_connect(tcp, peer);
    return link != NULL && link->greeted && !link->by_host;
}

static void tcp_abandon(struct tug_wire *wire, uint32_t peer) {
    struct tcp_wire *tcp = (struct tcp_wire *)wire;
    struct tug_tcp_link *link = tcp->links[peer];
    if (link != NULL && link->part != NULL && link->part->packet.trailer > 0)
        tug_tcp_end_link(tcp, link);
}

/* ---- polling ---- */

/* True if anything came. */
static bool take_from(struct tcp_wire *tcp, struct tug_tcp_link *link) {
    if (!link->greeted)
        return tug_tcp_hear(tcp, link); /* a stream may have waited for it */
    if (may_bring(tcp, link))
        return tug_tcp_link_take(link, &tcp->wire, tcp->received);
    link->broken = true; /* the peer has given it up, as it should */
    return false;
}

static bool on_link(struct tcp_wire *tcp, struct tug_tcp_link *link, uint32_t events) {
    bool moved = false;
    if (link->closed || link->later)
        return false;
    if (!tug_tcp_link_holds(tcp, link)) {
        /* ends */
    } else if (link->connecting) {
        tug_tcp_connected(tcp, link);
        moved = true;
    } else {
        if (events & EPOLLOUT) {
            if (tug_tcp_link_put_rest(link, &tcp->wire))
                tug_tcp_want_room(tcp, link,
                                  false); /* what the stream holds back goes with the flush */
            moved = true;
        }
        if (events & ~(uint32_t)EPOLLOUT && !link->broken)
            moved |= take_from(tcp, link);
    }
    if (!link->broken)
        return moved;
    tug_tcp_end_link(tcp, link);
    return true;
}

/* Looks at the links that are in no epoll set. */
static bool poll_blind(struct tcp_wire *tcp) {
    bool moved = false;
    for (struct tug_tcp_link *link = tcp->all; link != NULL; link = link->next) {
        if (!link->blind || link->closed)
            continue;
        struct pollfd look = {.fd = link->socket.number,
                              .events = link->waits ? POLLIN | POLLOUT : POLLIN};
        if (poll(&look, 1, 0) == 1)
            moved |= on_link(tcp, link, (uint32_t)look.revents);
    }
    return moved;
}

static bool poll_set(struct tcp_wire *tcp) {
    struct epoll_event events[EVENTS];
    bool moved = false;
    int n = epoll_wait(tcp->set, events, EVENTS, 0);
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr == NULL)
            moved |= tug_tcp_take_connections(tcp);
        else
            moved |= on_link(tcp, events[i].data.ptr, events[i].events);
    }
    return moved;
}

/* Whatever was consumed counts as moved: who sleeps next has seen nothing come, and nothing go. */
static bool tcp_poll(struct tug_wire *wire) {
    struct tcp_wire *tcp = (struct tcp_wire *)wire;
    bool moved = tug_tcp_holds(tcp) && poll_set(tcp);
    if (tcp->nblind > 0)
        moved |= poll_blind(tcp);
    if (tcp->nlater > 0 || tcp->full)
        tug_tcp_attend(tcp);
    moved |= tcp->closed_any || tcp->to_tell > 0;
    if (tcp->closed_any)
        take_out_closed(tcp);
    if (tcp->to_tell > 0)
        tell_lost(tcp);
    return moved;
}

/* ---- sleeping ---- */

/* One that is lost is waited for by nobody. */
static bool tcp_arm(struct tug_wire *wire) {
    struct tcp_wire *tcp = (struct tcp_wire *)wire;
    if (tcp->to_tell > 0 || tcp->nlater > 0 || tcp->nblind > 0 || tcp->full)
        return false;
    return !tug_tcp_holds(tcp) ? tcp->to_tell == 0 : !tcp->watched || tug_tcp_watch_arm(tcp);
}

static bool tells_of_room(const struct tug_wire *wire, uint32_t peer) {
    const struct tcp_wire *tcp = (const struct tcp_wire *)wire;
    const struct tug_tcp_link *link = tcp->links[peer];
    return link != NULL && !link->broken && (link->waits || !link->greeted);
}

static int descriptor(struct tug_wire *wire, bool watch) {
    struct tcp_wire *tcp = (struct tcp_wire *)wire;
    return watch && tug_tcp_watch_begin(tcp) ? -1 : tcp->set;
}

/* ---- opening and closing ---- */

static void close_set(struct tcp_wire *tcp) {
    if (tcp->set >= 0)
        tug_sockets_disclaim(tcp->set);
    if (tug_own_set(tcp->set, &tcp->listener, 0, 0))
        close(tcp->set);
    tcp->set = -1;
}

static void release(struct tcp_wire *tcp) {
    tug_tcp_watch_end(tcp);
    while (tcp->all != NULL) {
        struct tug_tcp_link *link = tcp->all;
        tcp->all = link->next;
        tug_tcp_close_link(tcp, link);
        free(link->rest);
        free(link);
    }
    close_set(tcp);
    tug_own_close(&tcp->listener);
    for (int i = 0; i < TUG_TCP_RESERVES; i++)
        tug_own_close(&tcp->reserve[i]);
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
                                              .meet = tcp_meet,
                                              .close = tcp_close};

/* The set holds the listener from the beginning. */
static bool open_set(struct tcp_wire *tcp) {
    tcp->set = tug_descriptor_lift(epoll_create1(EPOLL_CLOEXEC));
    if (tcp->set >= 0 && tug_tcp_watch_listener(tcp, true, EPOLL_CTL_ADD))
        return true;
    if (tcp->set >= 0)
        close(tcp->set);
    tcp->set = -1;
    return false;
}

/* NULL: no memory. */
static struct tcp_wire *make(struct tug_fabric *fabric) {
    struct tcp_wire *tcp = calloc(1, sizeof(*tcp));
    if (tcp == NULL)
        return NULL;
    tcp->wire = (struct tug_wire){.type = &tcp_type, .fabric = fabric};
    tcp->wire.pool.bytes = TUG_TCP_PACKET_BYTES;
    tcp->set = -1;
    tcp->listener = (struct tug_own)TUG_OWN_NONE;
    tcp->reserve[TUG_TCP_TO_CONNECT] = tcp->reserve[TUG_TCP_TO_ACCEPT] = tcp->listener;
    tcp->places = calloc(fabric->nranks, sizeof(struct tug_tcp_place));
    tcp->links = calloc(fabric->nranks, sizeof(struct tug_tcp_link *));
    tcp->received = malloc(TUG_TCP_RECEIVE_BYTES);
    if (tcp->places != NULL && tcp->links != NULL && tcp->received != NULL)
        return tcp;
    release(tcp);
    return NULL;
}

struct tug_wire *tug_wire_tcp_make(struct tug_fabric *fabric, struct tug_tcp_place *mine) {
    struct tcp_wire *tcp = make(fabric);
    if (tcp == NULL)
        return NULL;
    tcp->listener = tug_own_keep(tug_tcp_listen(mine));
    if (tcp->listener.number >= 0 && open_set(tcp) &&
        tug_tcp_have_reserve(tcp, TUG_TCP_TO_CONNECT) &&
        tug_tcp_have_reserve(tcp, TUG_TCP_TO_ACCEPT))
        return &tcp->wire;
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
    struct tug_wire *wire = found ? tug_wire_tcp_make(fabric, &mine) : NULL;
    *reason = !found ? "the host MPI does not go by sockets"
                     : "not every process can listen for connections";
    const bool good = wire != NULL && tug_sockets_claim(((struct tcp_wire *)wire)->set);
    bool all = tug_all_agree(fabric->comm, good);
    if (all) {
        *reason = "a connection between two nodes cannot be made";
        uint32_t next = (fabric->rank + fabric->node_size) % fabric->nranks;
        all = TUG_POLITE(Iallgather, &mine, sizeof(mine), MPI_BYTE, tug_wire_tcp_places(wire),
                         sizeof(mine), MPI_BYTE, fabric->comm) == MPI_SUCCESS;
        all = tug_all_agree(fabric->comm, all && tug_tcp_try(&tug_wire_tcp_places(wire)[next]));
    }
    if (all)
        return wire;
    if (wire != NULL)
        tcp_close(wire);
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
