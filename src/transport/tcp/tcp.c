/* The row tcp: packets through sockets of our own, where the host MPI reaches other nodes through
 * sockets too. Who waits sleeps in the kernel until something comes, and the host's lock is not in
 * the way.
 *
 * Every process listens at the address of its node in the network that the host uses, at a port of
 * its own; the processes of a context tell one another, and their ids, which are random. Two
 * processes that have to do with each other have one connection, their *link* (link.h),
 * whatever contexts they share: who has the first packet for the other makes it. Either side says
 * who it is by it first and proves that it is of the job (proof.h); then packets go, one behind the
 * other: meet.c. So order within a pair is that of the connection.
 *
 * Long data follow their packet: both are sent by one call (where they go both ways those of one
 * process go by a connection beside the link), and what comes of them is received where it belongs,
 * which the receiver of the packet says. After such data a link is asked for little at a time for a
 * while, so that the next ones need not be copied there.
 *
 * Listener and links are the process's *endpoint* (endpoint.c), which comes with its first
 * context and goes with its last. A context's wire is a *view* of it: it knows where its processes
 * listen, by rank, and the id by which the packets for it are known. A packet can come before
 * its context is served here, from a process that has been quicker to make it: then nothing more is
 * taken from that link until it is. A packet for a context that is not here is passed over.
 *
 * What comes is not trusted before it is checked: packets are checked by their reader (packet.h). A
 * link that ends while something is outstanding means that the peer is lost, for all contexts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cores.h"
#include "base/list.h"
#include "base/log.h"
#include "base/sockets.h"
#include "engine/service.h"
#include "host/agreement.h"
#include "host/polite.h"
#include "transport/tcp/private.h"

#define PROCESSES_MOST 16384u /* each keeps the addresses of all; larger jobs go by the host */

/* ---- peers ---- */

/* NULL: no memory. */
static struct tug_tcp_contact *add_contact(struct tug_tcp_view *view, uint32_t rank) {
    struct tug_tcp_endpoint *endpoint = view->endpoint;
    const struct tug_tcp_address *address = &view->addresses[rank];
    struct tug_tcp_contact *contact = malloc(sizeof(*contact));
    struct tug_tcp_peer *peer = tug_tcp_peer_at(endpoint, address);
    if (peer == NULL || contact == NULL || !tug_table_add(&view->contacts, rank, contact)) {
        free(contact);
        return NULL; /* the peer is found the next time */
    }
    peer->address = *address;
    *contact = (struct tug_tcp_contact){view, peer, rank, peer->contacts};
    peer->contacts = contact;
    if (peer->link != NULL && peer->link->closed)
        tug_tcp_end_link(endpoint, peer->link); /* says so again */
    return contact;
}

/* The peer's link, which is begun if there is none. NULL: no memory. */
static struct tug_tcp_link *link_to(struct tug_tcp_view *view, uint32_t rank) {
    const struct tug_tcp_contact *contact = tug_table_find(&view->contacts, rank);
    if (__builtin_expect(contact == NULL, 0))
        contact = add_contact(view, rank);
    if (contact == NULL)
        return NULL;
    struct tug_tcp_link *link = contact->peer->link;
    return link != NULL ? link : tug_tcp_connect(view->endpoint, contact->peer);
}

/* NULL: none so far. */
static struct tug_tcp_link *known_link(const struct tug_wire *wire, uint32_t rank) {
    const struct tug_tcp_view *view = (const struct tug_tcp_view *)wire;
    const struct tug_tcp_contact *contact = tug_table_find(&view->contacts, rank);
    return contact != NULL ? contact->peer->link : NULL;
}

uint32_t tug_tcp_rank(const struct tug_tcp_peer *peer) {
    return peer->contacts != NULL ? peer->contacts->rank : UINT32_MAX;
}

/* ---- what is told ---- */

static void tell_by_host(struct tug_tcp_view *view, uint64_t id) {
    for (uint32_t rank = 0; rank < view->wire.fabric->nranks; rank++)
        if (view->addresses[rank].id == id)
            view->wire.settled(view->wire.receiver, rank, false);
}

/* That it goes by the host's messages concerns all that have the peer: it may be the first to send.
 */
void tug_tcp_tell_settled(struct tug_tcp_endpoint *endpoint, struct tug_tcp_peer *peer) {
    if (peer->link->by_host) {
        for (struct tug_wire *wire = endpoint->base.first; wire != NULL; wire = wire->next)
            if (wire->ready)
                tell_by_host((struct tug_tcp_view *)wire, peer->address.id);
        return;
    }
    for (struct tug_tcp_contact *contact = peer->contacts; contact; contact = contact->next) {
        tug_endpoint_note(&contact->view->wire);
        contact->view->wire.settled(contact->view->wire.receiver, contact->rank, true);
    }
}

void tug_tcp_tell_ended(struct tug_tcp_peer *peer) {
    for (struct tug_tcp_contact *contact = peer->contacts; contact; contact = contact->next) {
        tug_endpoint_note(&contact->view->wire);
        contact->view->wire.ended(contact->view->wire.receiver, contact->rank);
    }
}

/* The context is served from now on: what has come for it is handed up. */
static void become_ready(struct tug_wire *wire) {
    struct tug_tcp_view *view = (struct tug_tcp_view *)wire;
    struct tug_tcp_endpoint *endpoint = view->endpoint;
    for (struct tug_tcp_link *link = endpoint->all; link != NULL; link = link->next) {
        if (link->by_host)
            tell_by_host(view, link->peer->address.id);
        if (!link->held)
            continue;
        tug_tcp_link_resume(link, endpoint);
        if (link->broken)
            tug_tcp_end_link(endpoint, link);
    }
}

/* ---- the wire ---- */

static bool tcp_send(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer) {
    struct tug_tcp_view *view = (struct tug_tcp_view *)wire;
    struct tug_tcp_endpoint *endpoint = view->endpoint;
    bool gone = false;
    struct tug_tcp_link *link = link_to(view, peer);
    if (link == NULL)
        return false;
    if (!link->broken && link->greeted && tug_tcp_link_holds(link)) {
        if (buffer->packet.trailer >= TUG_TCP_BESIDE_LEAST && !link->sought)
            tug_tcp_seek_beside(endpoint, link);
        tug_engine_before_send();
        gone = tug_tcp_link_put_rest(link) && tug_tcp_link_put(link, wire, peer, buffer);
        if (link->part != NULL)
            tug_tcp_await_room(endpoint, link);
        else if (!gone)
            tug_tcp_set(endpoint, link, &link->waits, true);
    }
    if (link->broken)
        tug_tcp_end_link(endpoint, link);
    return gone;
}

static int tcp_meet(struct tug_wire *wire, uint32_t peer) {
    const struct tug_tcp_link *link = link_to((struct tug_tcp_view *)wire, peer);
    if (link == NULL)
        return TUG_ERR_NO_MEMORY;
    if (link->by_host) /* there may have been no memory for a stream when that was told */
        wire->settled(wire->receiver, peer, false);
    return link->greeted && !link->by_host;
}

static void tcp_lost(struct tug_wire *wire, uint32_t peer) {
    struct tug_tcp_link *link = known_link(wire, peer);
    if (link != NULL && link->part != NULL && link->part_wire == wire &&
        link->part->packet.trailer > 0)
        tug_tcp_end_link(((struct tug_tcp_view *)wire)->endpoint, link);
}

static bool tcp_arm(void *state) {
    return tug_tcp_arm(((struct tug_tcp_view *)state)->endpoint);
}

static bool tells_of_room(struct tug_wire *wire, uint32_t peer) {
    const struct tug_tcp_link *link = known_link(wire, peer);
    return link != NULL && !link->broken &&
           (link->waits || !link->greeted || (link->beside != NULL && link->beside->waits));
}

/* ---- opening and closing ---- */

static bool enter(struct tug_wire *wire) {
    return tug_tcp_holds(((struct tug_tcp_view *)wire)->endpoint);
}

static void end_contact(void *value, void *d) {
    struct tug_tcp_contact *contact = value;
    TUG_LIST_TAKE_OUT(contact->peer->contacts, contact);
    tug_tcp_forget_peer(d, contact->peer);
    free(contact);
}

/* Its packets have gone. If not, that one cannot be sent any more which has begun to go; and what
 * comes is nobody's. */
static void leave(struct tug_wire *wire) {
    struct tug_tcp_view *view = (struct tug_tcp_view *)wire;
    struct tug_tcp_endpoint *endpoint = view->endpoint;
    for (struct tug_tcp_link *link = endpoint->all; link != NULL; link = link->next) {
        if (link->left_wire == wire)
            link->left_wire = NULL;
        if (link->part != NULL && link->part_wire == wire)
            tug_tcp_end_link(endpoint, link);
    }
    tug_table_each(&view->contacts, end_contact, endpoint);
}

static void close_wire(struct tug_wire *wire) {
    struct tug_tcp_view *view = (struct tug_tcp_view *)wire;
    tug_table_fini(&view->contacts);
    free(view->addresses);
}

const struct tug_endpoint_kind tug_tcp_kind = {.poll = tug_tcp_poll,
                                               .ready = become_ready,
                                               .enter = enter,
                                               .leave = leave,
                                               .close_wire = close_wire,
                                               .close = tug_tcp_endpoint_close};

struct tug_tcp_view *tug_tcp_view_make(struct tug_tcp_endpoint *endpoint,
                                       struct tug_fabric *fabric) {
    struct tug_tcp_view *view = calloc(1, sizeof(*view));
    if (view == NULL)
        return NULL;
    tug_endpoint_add(&endpoint->base, &view->wire, &tug_transport_tcp, fabric,
                     TUG_TCP_PACKET_BYTES);
    view->endpoint = endpoint;
    view->addresses = calloc(fabric->nranks, sizeof(struct tug_tcp_address));
    if (view->addresses != NULL)
        return view;
    tug_endpoint_close_wire(view);
    return NULL;
}

struct wanted {
    struct tug_tcp_address *mine;
    bool spares_links;
};

static struct tug_endpoint *make_endpoint(void *d) {
    const struct wanted *wanted = d;
    struct tug_tcp_endpoint *endpoint = tug_tcp_endpoint_make(wanted->mine, wanted->spares_links);
    if (endpoint == NULL || tug_sockets_claim(endpoint->base.descriptor))
        return (struct tug_endpoint *)endpoint;
    tug_tcp_endpoint_close(&endpoint->base);
    return NULL;
}

/* NULL: none can be had. */
static struct tug_tcp_view *open_view(struct tug_fabric *fabric, struct tug_tcp_address *mine) {
    static struct tug_endpoint *home;
    struct wanted wanted = {mine, fabric->ways & TUG_WAY_MPI};
    struct tug_endpoint *endpoint = tug_endpoint_share(&home, NULL, make_endpoint, &wanted);
    if (endpoint == NULL)
        return NULL;
    struct tug_tcp_view *view = tug_tcp_view_make((struct tug_tcp_endpoint *)endpoint, fabric);
    tug_endpoint_release(endpoint);
    return view;
}

/* Tells all where this process listens. True: a connection to the next node can be made, and
 * whoever knows of this view may send to it. Collective. */
static bool introduce(struct tug_tcp_view *view) {
    const struct tug_fabric *fabric = view->wire.fabric;
    const uint32_t next = (fabric->rank + fabric->node_size) % fabric->nranks;
    if (TUG_POLITE(Iallgather, &view->endpoint->address, sizeof(struct tug_tcp_address), MPI_BYTE,
                   view->addresses, sizeof(struct tug_tcp_address), MPI_BYTE,
                   fabric->comm) != MPI_SUCCESS)
        return tug_all_agree(fabric->comm, false);
    const bool entered = tug_endpoint_call_enter(&view->wire);
    return tug_all_agree(fabric->comm, entered && tug_tcp_try(&view->addresses[next]));
}

/* What processes say of themselves before they open the row together. */
enum {
    NO_ADDRESS = 1,
    TOO_MANY = 2,
    NO_DIGESTS = 4,
    NO_VIEW = 8,
    LOOPBACK = 16, /* none but that device was found */
    PROVES = 32,
    PROVES_NOT = 64
};

/* Equal in processes that reach each other by the loopback device. */
static int64_t network_stack(void) {
    struct stat space = {0};
    (void)stat("/proc/self/ns/net", &space);
    return (int64_t)(tug_cores_machine() ^ (uint64_t)space.st_ino);
}

/* All that any process of the context has said; the loopback device is good enough for a job of one
 * host. Collective. */
static int64_t ask_all(const struct tug_fabric *fabric, int64_t mine) {
    const int64_t stack = network_stack();
    int64_t all[] = {mine, stack, ~stack};
    if (tug_agree(fabric->comm, MPI_BOR, all, 3) != MPI_SUCCESS)
        return NO_VIEW;
    return (all[1] & all[2]) == 0 ? all[0] & ~LOOPBACK : all[0];
}

/* Without digests an id that is shown in clear is enough to be taken for a process of the job:
 * connections that leave the host need TUGBOAT_PROOF=off for that. */
static bool lacks_proofs(const struct tug_tcp_address *mine) {
    return tug_settings.proof != TUG_PROOF_OFF && tug_digest_source() == NULL &&
           (tug_settings.proof == TUG_PROOF_REQUIRED || !tug_tcp_is_loopback(mine));
}

static const char *why_not(int64_t all) {
    return all & NO_ADDRESS   ? "the host MPI does not go by sockets"
           : all & TOO_MANY   ? "the job has more processes than it is made for"
           : all & NO_DIGESTS ? "without digests processes cannot prove that they are of the job: "
                                "install libcrypto.so.3 (OpenSSL 3), or set TUGBOAT_PROOF=off if "
                                "the network is trusted"
           : all & LOOPBACK   ? "on some host, the host MPI is seen to use the loopback device only"
           : all & NO_VIEW    ? "not every process can listen for connections"
           : all & (all - 1)  ? "some processes prove who they are and some do not"
                              : "a connection between two nodes cannot be made";
}

static int tcp_open(struct tug_fabric *fabric, void **state, char *reason) {
    struct tug_tcp_address mine;
    struct tug_tcp_view *view = NULL;
    int64_t all = NO_ADDRESS;
    if (tug_tcp_find_address(fabric, &mine))
        all = fabric->nranks > PROCESSES_MOST             ? TOO_MANY
              : lacks_proofs(&mine)                       ? NO_DIGESTS
              : (view = open_view(fabric, &mine)) == NULL ? NO_VIEW
              : view->endpoint->proves                    ? PROVES
                                                          : PROVES_NOT;
    if (view != NULL && tug_tcp_is_loopback(&view->endpoint->address))
        all |= LOOPBACK;
    all = ask_all(fabric, all);
    if ((all == PROVES || all == PROVES_NOT) && introduce(view)) {
        *state = view;
        return 0;
    }
    if (view != NULL)
        tug_endpoint_close_wire(view);
    snprintf(reason, 256, "%s", why_not(all));
    /* a host that uses no sockets has a device of its own: there is nothing to mend */
    if (all != NO_ADDRESS && fabric->rank == 0 && fabric->node_size < fabric->nranks)
        tug_warn_once("packets between hosts go by messages of the host MPI, which is slower, and "
                      "not by tcp: %s",
                      reason);
    return TUG_ERR_UNSUPPORTED;
}

const struct tug_transport tug_transport_tcp = {
    .name = "tcp",
    .packet_bytes = TUG_TCP_PACKET_BYTES,
    .help = "packets through sockets of our own, where the host MPI goes by sockets too",
    .open = tcp_open,
    .close = tug_endpoint_close_wire,
    .poll = tug_endpoint_poll,
    .arm = tcp_arm,
    .send = tcp_send,
    .longs = {TUG_LONG_LEAST, TUG_LONG_SIGNALLED, TUG_LONG_PIECE, TUG_LONG_PIECE, TUG_LONGS_MOST},
    .inside = true,
    .lost = tcp_lost,
    .tells_of_room = tells_of_room,
    .meet = tcp_meet};

size_t tug_wire_tcp_footprint(uint64_t nranks, uint64_t active) {
    if (nranks > PROCESSES_MOST)
        return 0;
    return sizeof(struct tug_tcp_view) + nranks * sizeof(struct tug_tcp_address) +
           tug_table_footprint(active) + active * sizeof(struct tug_tcp_contact);
}

size_t tug_wire_tcp_endpoint_footprint(uint64_t active) {
    return sizeof(struct tug_tcp_endpoint) + TUG_TCP_RECEIVE_BYTES + tug_table_footprint(active) +
           active * (sizeof(struct tug_tcp_peer) + 2 * sizeof(struct tug_tcp_link));
}
