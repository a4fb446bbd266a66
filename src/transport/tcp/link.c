#include "transport/tcp/link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/copy.h"
#include "base/log.h"
#include "base/system_page.h"
#include "transport/tcp/private.h"

#define RECEIVES 4u        /* in one look at a link */
#define GLANCE_BYTES 2048u /* asked for where a trailer is expected */
#define LONG_LATELY 16u    /* receives that brought something, after the last such data */
#define LOOKS_MISSED 4     /* of those at whether peers answer: then it is not known what was out */

/* An error of a socket: there is no room, or nothing has come; or the link is over. */
static void mind(struct tug_tcp_link *link) {
    if (errno != EAGAIN && errno != EWOULDBLOCK)
        link->broken = true;
}

/* ---- going ---- */

void tug_tcp_link_say(struct tug_tcp_link *link, const void *what, size_t bytes) {
    if (send(link->socket.number, what, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)bytes)
        link->broken = true;
}

/* A part alone goes by the shorter call: the kernel need not fetch a list of parts. */
static ssize_t send_parts(int socket, struct iovec *parts, size_t nparts) {
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = nparts};
    return nparts == 1 ? send(socket, parts->iov_base, parts->iov_len, MSG_NOSIGNAL | MSG_DONTWAIT)
                       : sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Sends bytes by a connection, as many as it takes, and counts them. False: none. */
static bool push(struct tug_tcp_link *link, struct iovec *parts, size_t nparts, size_t *sent) {
    ssize_t went = send_parts(link->socket.number, parts, nparts);
    while (went < 0 && (errno == EINTR || errno == EFAULT)) {
        const bool fault = errno == EFAULT; /* the program may have protected the memory */
        for (size_t i = 0; fault && i < nparts; i++)
            tug_pages_access((uintptr_t)parts[i].iov_base, parts[i].iov_len, false);
        went = send_parts(link->socket.number, parts, nparts);
    }
    if (went < 0)
        mind(link);
    else
        *sent += (size_t)went;
    return went >= 0;
}

/* Sends what is left of a buffer, packet and trailer, from link->sent on. False: some still is. */
static bool put(struct tug_tcp_link *link, struct tug_buffer *buffer) {
    struct tug_wire *wire = link->part_wire;
    const size_t used = buffer->packet.used, all = used + buffer->packet.trailer;
    do {
        struct tug_tcp_link *by = link;
        struct iovec parts[2];
        size_t n = 0;
        if (link->sent < used)
            parts[n++] = (struct iovec){(char *)buffer->memory + link->sent, used - link->sent};
        else if (link->part_beside)
            by = link->beside;
        if (all > used && (link->sent >= used || !link->part_beside)) {
            const size_t gone = link->sent > used ? link->sent - used : 0;
            parts[n++] =
                (struct iovec){(void *)(uintptr_t)(buffer->trailer + gone), all - used - gone};
        }
        if (!(by == link || tug_tcp_link_holds(by)) || !push(by, parts, n, &link->sent)) {
            link->broken |= by->broken;
            return false;
        }
    } while (link->part_beside && link->sent == used);
    if (link->sent < all)
        return false;
    if (buffer->packet.trailer > 0)
        wire->sent(wire->receiver, link->part_peer, buffer);
    tug_pool_give(&wire->pool, buffer);
    return true;
}

struct tug_tcp_link *tug_tcp_link_in_the_way(const struct tug_tcp_link *link) {
    const struct tug_buffer *part = link->part;
    return part != NULL && link->part_beside && link->sent >= part->packet.used
               ? link->beside
               : (struct tug_tcp_link *)link;
}

bool tug_tcp_link_put_rest(struct tug_tcp_link *link) {
    if (link->part == NULL)
        return true;
    if (!put(link, link->part))
        return false;
    link->part = NULL;
    return true;
}

static bool may_go_beside(const struct tug_tcp_link *link) {
    return link->beside != NULL && link->beside->is_ours && link->beside->greeted &&
           tug_tcp_link_holds(link->beside);
}

bool tug_tcp_link_put(struct tug_tcp_link *link, struct tug_wire *wire, uint32_t peer,
                      struct tug_buffer *buffer) {
    struct tug_packet_header *header = (struct tug_packet_header *)buffer->memory;
    link->sent = 0;
    link->part_wire = wire;
    link->part_peer = peer;
    link->part_beside = header->trailer >= TUG_TCP_BESIDE_LEAST && may_go_beside(link);
    header->flags &= (uint8_t)~TUG_TCP_BESIDE_FLAG; /* it may not be the first try */
    if (link->part_beside)
        header->flags |= TUG_TCP_BESIDE_FLAG;
    if (put(link, buffer))
        return true;
    if (link->broken || link->sent == 0)
        return false;
    link->part = buffer;
    return true;
}

/* ---- coming ---- */

/* Bytes that came, 0: none are there, or the link has broken. */
static size_t get(struct tug_tcp_link *link, void *memory, size_t room) {
    ssize_t came = recv(link->socket.number, memory, room, MSG_DONTWAIT);
    while (came < 0 && (errno == EINTR || errno == EFAULT)) {
        if (errno == EFAULT) /* as in push() */
            tug_pages_access((uintptr_t)memory, room, true);
        came = recv(link->socket.number, memory, room, MSG_DONTWAIT);
    }
    if (came > 0)
        return (size_t)came;
    if (came == 0)
        link->broken = true;
    else
        mind(link);
    return 0;
}

void tug_tcp_link_see_end(struct tug_tcp_link *link) {
    char byte;
    const ssize_t there = recv(link->socket.number, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (there == 0)
        link->broken = true;
    else if (there < 0 && errno != EINTR)
        mind(link);
}

bool tug_tcp_link_is_silent(struct tug_tcp_link *link, uint64_t looked_ns, uint64_t now_ns,
                            uint64_t limit_ns) {
    struct tcp_info info = {0};
    socklen_t bytes = sizeof(info);
    if (link->socket.number < 0 || link->connecting ||
        getsockopt(link->socket.number, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
        info.tcpi_unacked == 0) {
        link->out_since_ns = 0;
        return false;
    }
    if (link->out_since_ns == 0 || now_ns - looked_ns > LOOKS_MISSED * TUG_OWN_LOOK_NS)
        link->out_since_ns = now_ns;
    const uint64_t out_ns = now_ns - link->out_since_ns;
    const uint64_t unheard_ns = (uint64_t)info.tcpi_last_ack_recv * 1000000u;
    return out_ns >= limit_ns && unheard_ns >= limit_ns;
}

bool tug_tcp_link_hear(struct tug_tcp_link *link) {
    static const size_t bytes[TUG_TCP_PACKETS_DUE] = {
        [TUG_TCP_HELLO_DUE] = sizeof(struct tug_tcp_hello),
        [TUG_TCP_PROOF_DUE] = TUG_DIGEST_BYTES,
        [TUG_TCP_CHALLENGE_DUE] = sizeof(struct tug_tcp_challenge),
        [TUG_TCP_ANSWER_DUE] = sizeof(struct tug_tcp_answer)};
    const size_t wanted = bytes[link->due];
    link->nrest += get(link, (char *)&link->comes + link->nrest, wanted - link->nrest);
    if (link->nrest < wanted)
        return false;
    link->nrest = 0;
    return true;
}

/* Is it what a packet may begin with? */
static bool makes_sense(const struct tug_tcp_link *link, const struct tug_packet_header *header) {
    if (header->flags & TUG_TCP_BESIDE_FLAG &&
        (header->trailer == 0 || link->beside == NULL || link->beside->is_ours))
        return false;
    return header->magic == TUG_PACKET_MAGIC && header->bytes >= sizeof(*header) &&
           header->bytes <= TUG_TCP_PACKET_BYTES && header->bytes % 8 == 0 &&
           header->trailer <= TUG_LONG_PIECE && header->trailer % 8 == 0;
}

/* The view that the packet is for is there, and its source the process that it comes from. */
static bool is_from(const struct tug_tcp_link *link, const struct tug_tcp_view *view,
                    const struct tug_packet_header *header) {
    return view == NULL || (header->source < view->wire.fabric->nranks &&
                            view->addresses[header->source].id == link->peer->address.id);
}

/* Bytes of the packet that begins there, 0: it has not come whole. *view: that it is for, NULL:
 * there is none. */
static size_t whole_packet(struct tug_tcp_link *link, const struct tug_tcp_endpoint *endpoint,
                           const void *memory, size_t bytes, struct tug_tcp_view **view) {
    const struct tug_packet_header *header = memory;
    if (bytes < sizeof(*header))
        return 0;
    *view = tug_endpoint_find(&endpoint->base, header->context);
    if (!makes_sense(link, header) || !is_from(link, *view, header)) {
        tug_log(TUG_LOG_ERROR,
                "what comes from process %u are not packets of this library, so its connection is "
                "closed: run the same version of the library on all ranks",
                tug_tcp_rank(link->peer));
        link->broken = true;
        return 0;
    }
    return header->bytes <= bytes ? header->bytes : 0;
}

/* Where the next bytes of the trailer go, NULL: nowhere. *room: as many as may go there, at most.
 */
static unsigned char *trailer_address(const struct tug_tcp_link *link, size_t *room) {
    const struct tug_wire *wire = link->left_wire;
    return wire != NULL ? wire->trailer_address(wire->receiver, link->left_peer, link->come, room)
                        : NULL;
}

/* Bytes of the trailer of the last packet have come. */
static void trailer_came(struct tug_tcp_link *link, size_t bytes) {
    struct tug_wire *wire = link->left_wire;
    link->left -= bytes;
    link->come += bytes;
    if (link->left > 0 || wire == NULL)
        return;
    tug_endpoint_note(wire);
    wire->arrived(wire->receiver, link->left_peer, true);
}

/* A packet has been handed up; what follows it comes beside the link, or the first of so many bytes
 * that stand behind it are its. Returns how many are. */
static size_t begin_trailer(struct tug_tcp_link *link, struct tug_tcp_view *view,
                            const struct tug_packet_header *header, bool beside, size_t bytes) {
    const unsigned char *behind = (const unsigned char *)header + header->bytes;
    if (header->trailer == 0 || link->broken)
        return 0;
    link->brought_long |= header->trailer >= TUG_TCP_BESIDE_LEAST;
    link->left_beside = beside;
    link->long_lately = beside ? 0 : LONG_LATELY;
    link->left = header->trailer;
    link->come = 0;
    link->left_wire = view != NULL ? &view->wire : NULL;
    link->left_peer = header->source;
    if (beside)
        return 0;
    if (bytes > link->left)
        bytes = link->left;
    for (size_t at = 0; at < bytes;) {
        size_t now = bytes - at;
        unsigned char *to = trailer_address(link, &now);
        if (to != NULL)
            tug_copy(to, behind + at, now);
        trailer_came(link, now);
        at += now;
    }
    return bytes;
}

/* Hands a packet up. False: not now. */
static bool hand_up_one(struct tug_tcp_link *link, struct tug_tcp_endpoint *endpoint,
                        struct tug_tcp_view *view, struct tug_packet_header *packet) {
    if (view == NULL) {
        tug_log(TUG_LOG_ERROR,
                "%u bytes came from process %u that are for no context of this process, and are "
                "dropped: let all ranks make and free contexts together",
                packet->bytes, tug_tcp_rank(link->peer));
        return true;
    }
    if (!view->wire.ready) {
        tug_tcp_set(endpoint, link, &link->held, true);
        return false;
    }
    const uint8_t flags = packet->flags;
    packet->flags &= (uint8_t)~TUG_TCP_BESIDE_FLAG;
    tug_endpoint_note(&view->wire);
    if (view->wire.receive(view->wire.receiver, &view->wire, packet, packet->bytes))
        return true;
    packet->flags = flags;
    link->stuck = true;
    endpoint->nstuck++;
    tug_tcp_set(endpoint, link, &link->held, true);
    return false;
}

/* Keeps what is left for the next time. */
static void keep_rest(struct tug_tcp_link *link, const unsigned char *memory) {
    const size_t bytes = link->held ? TUG_TCP_RECEIVE_BYTES : TUG_TCP_PACKET_BYTES;
    if (link->rest_bytes < bytes) {
        free(link->rest);
        link->rest = malloc(bytes);
        link->rest_bytes = link->rest != NULL ? bytes : 0;
    }
    if (link->rest != NULL) {
        memcpy(link->rest, memory, link->nrest);
    } else {
        tug_log(TUG_LOG_ERROR,
                "no memory for a packet of process %u, so its connection is closed: give this "
                "process more memory",
                tug_tcp_rank(link->peer));
        link->broken = true;
    }
}

/* Hands packets up, as many as may be: what comes beside the link is to come first. */
static void hand_up(struct tug_tcp_link *link, struct tug_tcp_endpoint *endpoint,
                    unsigned char *memory, size_t have) {
    struct tug_tcp_view *view;
    size_t at = 0, bytes;
    while (!link->broken && link->left == 0 &&
           (bytes = whole_packet(link, endpoint, memory + at, have - at, &view)) > 0) {
        struct tug_packet_header *packet = (struct tug_packet_header *)(memory + at);
        const bool beside = packet->flags & TUG_TCP_BESIDE_FLAG;
        if (!hand_up_one(link, endpoint, view, packet))
            break;
        at += bytes;
        at += begin_trailer(link, view, packet, beside, have - at);
    }
    link->nrest = have - at;
    if (!link->broken && link->nrest > 0)
        keep_rest(link, memory + at);
}

/* What came behind a packet whose trailer came beside the link. */
static void hand_up_rest(struct tug_tcp_link *link, struct tug_tcp_endpoint *endpoint) {
    if (link->nrest == 0)
        return;
    memcpy(endpoint->received, link->rest, link->nrest);
    hand_up(link, endpoint, (unsigned char *)endpoint->received, link->nrest);
}

/* What follows a packet goes to the address of its trailer. True if anything came. */
static bool take_trailer(struct tug_tcp_link *link, struct tug_tcp_endpoint *endpoint) {
    bool moved = false;
    while (link->left > 0 && !link->broken) {
        struct tug_tcp_link *by = link->left_beside ? link->beside : link;
        size_t room = link->left;
        unsigned char *to = trailer_address(link, &room);
        if (to == NULL && room > TUG_TCP_RECEIVE_BYTES)
            room = TUG_TCP_RECEIVE_BYTES;
        const size_t came = by == link || tug_tcp_link_holds(by)
                                ? get(by, to != NULL ? to : (void *)endpoint->received, room)
                                : 0;
        link->broken |= by->broken;
        if (came == 0)
            break;
        moved = true;
        trailer_came(link, came);
        if (by != link && link->left == 0 && !link->broken)
            hand_up_rest(link, endpoint);
    }
    return moved;
}

/* Bytes to ask for, packets: few, where a trailer may be behind them; and of a link that has one
 * beside it no more than are kept when a trailer comes there. */
static size_t room_for_packets(struct tug_tcp_link *link) {
    size_t most = TUG_TCP_RECEIVE_BYTES;
    if (link->beside != NULL && link->nrest < TUG_TCP_PACKET_BYTES)
        most = TUG_TCP_PACKET_BYTES;
    if (link->long_lately > 0 && link->nrest < GLANCE_BYTES)
        most = GLANCE_BYTES;
    return most - link->nrest;
}

bool tug_tcp_link_take(struct tug_tcp_link *link, struct tug_tcp_endpoint *endpoint) {
    void *memory = endpoint->received;
    bool moved = !link->held && take_trailer(link, endpoint);
    for (unsigned i = 0; i < RECEIVES && !link->broken && !link->held && link->left == 0; i++) {
        const size_t room = room_for_packets(link);
        const size_t came = get(link, (unsigned char *)memory + link->nrest, room);
        if (came == 0)
            break;
        moved = true;
        if (link->long_lately > 0) /* who waits looks again and again, and finds nothing */
            link->long_lately--;
        if (link->nrest > 0)
            memcpy(memory, link->rest, link->nrest);
        hand_up(link, endpoint, memory, link->nrest + came);
        if (!take_trailer(link, endpoint) && came < room)
            break;
    }
    tug_tcp_prick_up(endpoint, link);
    return moved;
}

void tug_tcp_link_resume(struct tug_tcp_link *link, struct tug_tcp_endpoint *endpoint) {
    endpoint->nstuck -= link->stuck;
    link->stuck = false;
    tug_tcp_set(endpoint, link, &link->held, false);
    hand_up_rest(link, endpoint);
    tug_tcp_prick_up(endpoint, link);
}
