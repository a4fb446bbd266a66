#include "transport/tcp/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/log.h"
#include "transport/tcp/private.h"

#define RECEIVES 4u        /* in one look at a link */
#define GLANCE_BYTES 2048u /* asked for where a trailer is expected */
#define LONG_LATELY 16u    /* receives after the last such data */

/* An error of a socket: there is no room, or nothing has come; or the link is over. */
static void mind(struct tug_tcp_link *link) {
    if (errno != EAGAIN && errno != EWOULDBLOCK)
        link->broken = true;
}

/* ---- going ---- */

void tug_tcp_link_greet(struct tug_tcp_link *link, const struct tug_tcp_endpoint *endpoint,
                        enum tug_tcp_word word) {
    const struct tug_tcp_hello hello = {.magic = TUG_TCP_HELLO_MAGIC,
                                        .source = endpoint->id,
                                        .destination = link->peer->address.id,
                                        .word = word};
    /* an empty socket has room for so little */
    if (send(link->socket.number, &hello, sizeof(hello), MSG_NOSIGNAL | MSG_DONTWAIT) !=
        sizeof(hello))
        link->broken = true;
}

/* Sends what is left of a buffer, packet and trailer, from link->sent on. False: some still is. */
static bool put(struct tug_tcp_link *link, struct tug_buffer *buffer) {
    struct tug_wire *wire = link->part_wire;
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
        went = sendmsg(link->socket.number, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (went < 0 && errno == EINTR);
    if (went < 0) {
        mind(link);
        return false;
    }
    link->sent += (size_t)went;
    if (link->sent < all)
        return false;
    if (buffer->packet.trailer > 0)
        wire->sent(wire->receiver, link->part_peer, buffer);
    tug_pool_give(&wire->pool, buffer);
    return true;
}

bool tug_tcp_link_put_rest(struct tug_tcp_link *link) {
    if (link->part == NULL)
        return true;
    if (!put(link, link->part))
        return false;
    link->part = NULL;
    return true;
}

bool tug_tcp_link_put(struct tug_tcp_link *link, struct tug_wire *wire, uint32_t peer,
                      struct tug_buffer *buffer) {
    link->sent = 0;
    link->part_wire = wire;
    link->part_peer = peer;
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
    ssize_t came;
    do
        came = recv(link->socket.number, memory, room, MSG_DONTWAIT);
    while (came < 0 && errno == EINTR);
    if (came > 0)
        return (size_t)came;
    if (came == 0)
        link->broken = true;
    else
        mind(link);
    return 0;
}

bool tug_tcp_link_hear(struct tug_tcp_link *link) {
    link->nrest += get(link, (char *)&link->hello + link->nrest, sizeof(link->hello) - link->nrest);
    if (link->nrest < sizeof(link->hello))
        return false;
    link->nrest = 0;
    return true;
}

/* Is it what a packet may begin with? */
static bool makes_sense(const struct tug_packet_header *header) {
    return header->magic == TUG_PACKET_MAGIC && header->bytes >= sizeof(*header) &&
           header->bytes <= TUG_TCP_PACKET_BYTES && header->bytes % 8 == 0 &&
           header->trailer <= TUG_TRAILER_MOST && header->trailer % 8 == 0;
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
    *view = tug_table_find(&endpoint->turns.wires, header->context);
    if (!makes_sense(header) || !is_from(link, *view, header)) {
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
    tug_tcp_note_came((struct tug_tcp_view *)wire);
    wire->arrived(wire->receiver, link->left_peer, true);
}

/* A packet has been handed up; of what follows it, so many bytes stand behind it. Returns how many
 * of them are its. */
static size_t begin_trailer(struct tug_tcp_link *link, struct tug_tcp_view *view,
                            const void *packet, const unsigned char *behind, size_t bytes) {
    const struct tug_packet_header *header = packet;
    if (header->trailer == 0 || link->broken)
        return 0;
    link->long_lately = LONG_LATELY;
    link->left = header->trailer;
    link->come = 0;
    link->left_wire = view != NULL ? &view->wire : NULL;
    link->left_peer = header->source;
    if (bytes > link->left)
        bytes = link->left;
    for (size_t at = 0; at < bytes;) {
        size_t now = bytes - at;
        unsigned char *to = trailer_address(link, &now);
        if (to != NULL)
            memcpy(to, behind + at, now);
        trailer_came(link, now);
        at += now;
    }
    return bytes;
}

/* Hands a packet up. False: not now. */
static bool hand_up_one(struct tug_tcp_link *link, struct tug_tcp_endpoint *endpoint,
                        struct tug_tcp_view *view, const struct tug_packet_header *packet) {
    if (view == NULL) {
        tug_log(TUG_LOG_ERROR,
                "%u bytes came from process %u that are for no context of this process, and are "
                "dropped: let all ranks make and free contexts together",
                packet->bytes, tug_tcp_rank(link->peer));
        return true;
    }
    if (!view->turn.ready) {
        tug_tcp_hold(endpoint, link, true);
        return false;
    }
    tug_tcp_note_came(view);
    view->wire.receive(view->wire.receiver, &view->wire, packet, packet->bytes);
    return true;
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

/* Hands packets up, as many as may be. */
static void hand_up(struct tug_tcp_link *link, struct tug_tcp_endpoint *endpoint,
                    const unsigned char *memory, size_t have) {
    struct tug_tcp_view *view;
    size_t at = 0, bytes;
    while (!link->broken &&
           (bytes = whole_packet(link, endpoint, memory + at, have - at, &view)) > 0) {
        const unsigned char *packet = memory + at;
        if (!hand_up_one(link, endpoint, view, (const void *)packet))
            break;
        at += bytes;
        at += begin_trailer(link, view, packet, memory + at, have - at);
    }
    link->nrest = have - at;
    if (!link->broken && link->nrest > 0)
        keep_rest(link, memory + at);
}

/* What follows a packet goes to the address of its trailer. True if anything came. */
static bool take_trailer(struct tug_tcp_link *link, void *memory) {
    bool moved = false;
    while (link->left > 0 && !link->broken) {
        size_t room = link->left;
        unsigned char *to = trailer_address(link, &room);
        if (to == NULL && room > TUG_TCP_RECEIVE_BYTES)
            room = TUG_TCP_RECEIVE_BYTES;
        const size_t came = get(link, to != NULL ? to : memory, room);
        if (came == 0)
            break;
        moved = true;
        trailer_came(link, came);
    }
    return moved;
}

/* Bytes to ask for, packets: few, where a trailer may be behind them. */
static size_t room_for_packets(struct tug_tcp_link *link) {
    size_t most = TUG_TCP_RECEIVE_BYTES;
    if (link->long_lately > 0) {
        link->long_lately--;
        most = link->nrest < GLANCE_BYTES ? GLANCE_BYTES : TUG_TCP_RECEIVE_BYTES;
    }
    return most - link->nrest;
}

bool tug_tcp_link_take(struct tug_tcp_link *link, struct tug_tcp_endpoint *endpoint) {
    void *memory = endpoint->received;
    bool moved = !link->held && take_trailer(link, memory);
    for (unsigned i = 0; i < RECEIVES && !link->broken && !link->held && link->left == 0; i++) {
        const size_t room = room_for_packets(link);
        const size_t came = get(link, (unsigned char *)memory + link->nrest, room);
        if (came == 0)
            break;
        moved = true;
        if (link->nrest > 0)
            memcpy(memory, link->rest, link->nrest);
        hand_up(link, endpoint, memory, link->nrest + came);
        if (!take_trailer(link, memory) && came < room)
            break;
    }
    return moved;
}

void tug_tcp_link_resume(struct tug_tcp_link *link, struct tug_tcp_endpoint *endpoint) {
    tug_tcp_hold(endpoint, link, false);
    memcpy(endpoint->received, link->rest, link->nrest);
    hand_up(link, endpoint, (const unsigned char *)endpoint->received, link->nrest);
}
