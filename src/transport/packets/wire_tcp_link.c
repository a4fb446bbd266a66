#include "transport/packets/wire_tcp_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/log.h"
#include "transport/transport.h"

#define RECEIVES 4u        /* in one look at a link */
#define GLANCE_BYTES 2048u /* asked for where data are expected that have a place of their own */
#define LONG_LATELY 16u    /* receives after the last such data */

/* An error of a socket: there is no room, or nothing has come; or the link is over. */
static void mind(struct tug_tcp_link *link) {
    if (errno != EAGAIN && errno != EWOULDBLOCK)
        link->broken = true;
}

/* ---- going ---- */

void tug_tcp_link_greet(struct tug_tcp_link *link, const struct tug_fabric *fabric, uint32_t to,
                        enum tug_tcp_word word) {
    const struct tug_tcp_hello hello = {.magic = TUG_TCP_HELLO_MAGIC,
                                        .session = fabric->session,
                                        .source = fabric->rank,
                                        .destination = to,
                                        .word = word};
    /* an empty socket has room for so little */
    if (send(link->socket.number, &hello, sizeof(hello), MSG_NOSIGNAL | MSG_DONTWAIT) !=
        sizeof(hello))
        link->broken = true;
}

/* Sends what is left of a buffer, packet and trailer, from link->sent on. False: some still is. */
static bool put(struct tug_tcp_link *link, struct tug_wire *wire, struct tug_buffer *buffer) {
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
        wire->sent(wire->receiver, link->peer, buffer);
    tug_pool_give(&wire->pool, buffer);
    return true;
}

bool tug_tcp_link_put_rest(struct tug_tcp_link *link, struct tug_wire *wire) {
    if (link->part == NULL)
        return true;
    if (!put(link, wire, link->part))
        return false;
    link->part = NULL;
    return true;
}

bool tug_tcp_link_put(struct tug_tcp_link *link, struct tug_wire *wire, struct tug_buffer *buffer) {
    link->sent = 0;
    if (put(link, wire, buffer))
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

/* Bytes of the packet that begins there, 0: it has not come whole. */
static size_t whole_packet(struct tug_tcp_link *link, const void *memory, size_t bytes) {
    const struct tug_packet_header *header = memory;
    if (bytes < sizeof(*header))
        return 0;
    if (header->magic != TUG_PACKET_MAGIC || header->bytes < sizeof(*header) ||
        header->bytes > TUG_TCP_PACKET_BYTES || header->bytes % 8 != 0 ||
        header->source != link->peer || header->trailer > TUG_TRAILER_MOST ||
        header->trailer % 8 != 0) {
        tug_log(TUG_LOG_ERROR, "what comes from process %u are not packets of ours: it is cut off",
                link->peer);
        link->broken = true;
        return 0;
    }
    return header->bytes <= bytes ? header->bytes : 0;
}

/* Bytes of the trailer of the last packet have come. */
static void trailer_came(struct tug_tcp_link *link, struct tug_wire *wire, size_t bytes) {
    link->left -= bytes;
    link->come += bytes;
    if (link->left == 0)
        wire->arrived(wire->receiver, link->peer, true);
}

/* A packet has been handed up; of what follows it, so many bytes stand behind it. Returns how many
 * of them are its. */
static size_t begin_trailer(struct tug_tcp_link *link, struct tug_wire *wire, const void *packet,
                            const unsigned char *behind, size_t bytes) {
    const struct tug_packet_header *header = packet;
    if (header->trailer == 0 || link->broken)
        return 0;
    link->long_lately = LONG_LATELY;
    link->left = header->trailer;
    link->come = 0;
    if (bytes > link->left)
        bytes = link->left;
    unsigned char *place = wire->place(wire->receiver, link->peer, 0);
    if (place != NULL)
        memcpy(place, behind, bytes);
    trailer_came(link, wire, bytes);
    return bytes;
}

/* Hands packets up and keeps what is left for the next time. */
static void hand_up(struct tug_tcp_link *link, struct tug_wire *wire, const unsigned char *memory,
                    size_t have) {
    size_t at = 0, bytes;
    while (!link->broken && (bytes = whole_packet(link, memory + at, have - at)) > 0) {
        const unsigned char *packet = memory + at;
        wire->receive(wire->receiver, wire, packet, bytes);
        at += bytes;
        at += begin_trailer(link, wire, packet, memory + at, have - at);
    }
    link->nrest = have - at;
    if (link->broken || link->nrest == 0)
        return;
    if (link->rest == NULL)
        link->rest = malloc(TUG_TCP_PACKET_BYTES);
    if (link->rest != NULL) {
        memcpy(link->rest, memory + at, link->nrest);
    } else {
        tug_log(TUG_LOG_ERROR, "no memory for a packet of process %u: it is cut off", link->peer);
        link->broken = true;
    }
}

/* What follows a packet goes to its place. True if anything came. */
static bool take_trailer(struct tug_tcp_link *link, struct tug_wire *wire, void *memory) {
    bool moved = false;
    while (link->left > 0 && !link->broken) {
        unsigned char *place = wire->place(wire->receiver, link->peer, link->come);
        size_t room = link->left;
        if (place == NULL && room > TUG_TCP_RECEIVE_BYTES)
            room = TUG_TCP_RECEIVE_BYTES;
        const size_t came = get(link, place != NULL ? place : memory, room);
        if (came == 0)
            break;
        moved = true;
        trailer_came(link, wire, came);
    }
    return moved;
}

/* Bytes to ask for, packets: few, where data that have a place of their own may be behind them. */
static size_t room_for_packets(struct tug_tcp_link *link) {
    size_t most = TUG_TCP_RECEIVE_BYTES;
    if (link->long_lately > 0) {
        link->long_lately--;
        most = link->nrest < GLANCE_BYTES ? GLANCE_BYTES : TUG_TCP_RECEIVE_BYTES;
    }
    return most - link->nrest;
}

bool tug_tcp_link_take(struct tug_tcp_link *link, struct tug_wire *wire, void *memory) {
    bool moved = take_trailer(link, wire, memory);
    for (unsigned i = 0; i < RECEIVES && !link->broken && link->left == 0; i++) {
        const size_t room = room_for_packets(link);
        const size_t came = get(link, (unsigned char *)memory + link->nrest, room);
        if (came == 0)
            break;
        moved = true;
        if (link->nrest > 0)
            memcpy(memory, link->rest, link->nrest);
        hand_up(link, wire, memory, link->nrest + came);
        if (!take_trailer(link, wire, memory) && came < room)
            break;
    }
    return moved;
}
