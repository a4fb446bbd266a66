/* How two processes come to the one connection between them, their link.
 *
 * Who has the first packet for the other connects. Both say hello, and nothing else goes before
 * that: who has not been greeted has lost nothing when the connection ends, and tries again, for
 * MEET_NS at most. Two that begin at once make two connections, of which that of the lower rank
 * stays; that of the higher one is kept until it is certain that the other is there.
 *
 *     one that connects                     the other
 *       | -- hello -------------------------> |  takes the connection, gives its own up if it has
 *       | <---------- hello, packets ... ---- |  begun to make one and is the higher one
 *       | -- packets ... -------------------> |
 *
 * Crowds. A connection is heard when it is accepted: the hello of one that waited has come by
 * then. Those that have not said it are *strangers*; when STRANGERS of them are open, or there are
 * no descriptors, the listener is not looked at for a while: newcomers wait in the kernel's
 * backlog, until others have spoken or have been silent for SILENT_NS, when they are closed. Nobody
 * is closed for being one of many. A connection without the right hello is closed at once.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/packets/wire_tcp_private.h"

#define ACCEPTS 64u    /* in one poll */
#define STRANGERS 256u /* connections that have not said hello yet */
#define SILENT_NS ((uint64_t)2000000000)
#define MEET_NS ((uint64_t)60000000000)
#define AGAIN_NS ((uint64_t)1000000) /* before the second try; twice as long each time, ... */
#define AGAIN_DOUBLED 7u             /* ... so many times */

/* NULL: no memory. */
static struct tug_tcp_link *add_link(struct tcp_wire *tcp, int socket, uint32_t peer) {
    struct tug_tcp_link *link = calloc(1, sizeof(*link));
    if (link == NULL)
        return NULL;
    *link = (struct tug_tcp_link){
        .socket = socket, .peer = peer, .since_ns = tug_clock_ns(), .next = tcp->all};
    tcp->all = link;
    return link;
}

/* ---- connecting ---- */

/* May it be otherwise the next time? 0: the peer has closed the connection. */
static bool may_pass(int error) {
    return error == 0 || error == ECONNRESET || error == ECONNABORTED || error == EPIPE ||
           error == ETIMEDOUT || error == EAGAIN || error == EADDRNOTAVAIL || error == ENOBUFS ||
           error == ENOMEM || error == EMFILE || error == ENFILE;
}

static void fail(struct tug_tcp_link *link, int error) {
    link->broken = true;
    link->final = !may_pass(error);
    if (link->final)
        tug_log(TUG_LOG_ERROR, "no connection to process %u: %s", link->peer, strerror(error));
}

static void begin(struct tcp_wire *tcp, struct tug_tcp_link *link) {
    struct sockaddr_storage address;
    const int on = 1;
    socklen_t bytes = tug_tcp_address(&tcp->places[link->peer], &address);
    link->connecting = link->waits = true;
    link->socket = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (link->socket < 0 ||
        setsockopt(link->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
        (connect(link->socket, (struct sockaddr *)&address, bytes) != 0 && errno != EINPROGRESS) ||
        !tug_tcp_watch(tcp, link->socket, link, EPOLLIN | EPOLLOUT, EPOLL_CTL_ADD)) {
        fail(link, errno);
        tug_tcp_end_link(tcp, link);
    }
}

struct tug_tcp_link *tug_tcp_connect(struct tcp_wire *tcp, uint32_t peer) {
    struct tug_tcp_link *link = add_link(tcp, -1, peer);
    if (link == NULL)
        return NULL;
    tcp->links[peer] = link;
    begin(tcp, link);
    return link;
}

void tug_tcp_connected(struct tcp_wire *tcp, struct tug_tcp_link *link) {
    int error = 0;
    socklen_t bytes = sizeof(error);
    if (getsockopt(link->socket, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        error = errno;
    link->connecting = false;
    if (error != 0)
        fail(link, error);
    else
        tug_tcp_link_greet(link, tcp->wire.fabric, link->peer, TUG_TCP_WELCOME);
    tug_tcp_want_room(tcp, link, false);
}

/* Another connection to or from that process, by which it has said hello. NULL: there is none. */
static struct tug_tcp_link *other_link(const struct tcp_wire *tcp, uint32_t peer,
                                       const struct tug_tcp_link *way) {
    struct tug_tcp_link *link = tcp->all;
    while (link != NULL && (link == way || link->closed || link->peer != peer))
        link = link->next;
    return link;
}

bool tug_tcp_meet_again(struct tcp_wire *tcp, struct tug_tcp_link *link) {
    const uint64_t now = tug_clock_ns();
    if (link->greeted || link->closed || link->final || !tug_tcp_is_way(tcp, link))
        return false;
    struct tug_tcp_link *other = other_link(tcp, link->peer, link);
    if (other != NULL) {
        tcp->links[link->peer] = other;
        tug_tcp_close_link(tcp, link);
        tug_tcp_link_greet(other, tcp->wire.fabric, other->peer, TUG_TCP_WELCOME);
        return true; /* if that has broken its next event says so */
    }
    if (now - link->since_ns > MEET_NS) {
        tug_log(TUG_LOG_ERROR, "process %u does not answer: %u connections have ended", link->peer,
                link->tries + 1);
        return false;
    }
    if (link->socket >= 0)
        close(link->socket);
    link->socket = -1;
    link->broken = link->connecting = link->waits = false;
    link->nrest = 0;
    link->again_ns =
        now + (AGAIN_NS << (link->tries < AGAIN_DOUBLED ? link->tries : AGAIN_DOUBLED));
    link->tries++;
    link->later = true;
    tcp->nlater++;
    return true;
}

/* ---- being connected to ---- */

/* That process has made the connection. The word for it; WELCOME: it stays open. */
static enum tug_tcp_word adopt(struct tcp_wire *tcp, struct tug_tcp_link *link, uint32_t source) {
    const struct tug_fabric *fabric = tcp->wire.fabric;
    struct tug_tcp_link *way = tcp->links[source];
    if (way != NULL && (way->closed || (way->greeted && fabric->rank > source)))
        return TUG_TCP_GONE;
    link->peer = source;
    link->greeted = true;
    tcp->strangers--;
    if (way != NULL && !way->later && fabric->rank <= source) {
        if (fabric->rank == source)
            tug_tcp_link_greet(link, fabric, source, TUG_TCP_WELCOME);
        return TUG_TCP_WELCOME; /* ours is the link: the peer will give this one up */
    }
    tcp->links[source] = link;
    if (way != NULL)
        tug_tcp_close_link(tcp, way);
    tug_tcp_link_greet(link, fabric, source, TUG_TCP_WELCOME);
    return TUG_TCP_WELCOME;
}

/* False: the link goes no further. */
static bool take_hello(struct tcp_wire *tcp, struct tug_tcp_link *link) {
    const struct tug_fabric *fabric = tcp->wire.fabric;
    const struct tug_tcp_hello *hello = &link->hello;
    const bool is_answer = link->peer != TUG_TCP_NOBODY;
    if (hello->magic != TUG_TCP_HELLO_MAGIC || hello->session != fabric->session ||
        hello->source >= fabric->nranks || hello->destination != fabric->rank ||
        hello->word >= TUG_TCP_WORDS || (is_answer && hello->source != link->peer)) {
        tug_log(TUG_VERBOSE_WARN, "a connection that is not of this job's was closed");
        link->final = true;
        return false;
    }
    if (is_answer) {
        link->greeted = hello->word == TUG_TCP_WELCOME;
        link->final = !link->greeted;
        return link->greeted;
    }
    const struct tug_tcp_link *other = other_link(tcp, hello->source, tcp->links[hello->source]);
    if (other != NULL || hello->word != TUG_TCP_WELCOME)
        return false; /* that one has ended, which will be seen: there will be another */
    const enum tug_tcp_word word = adopt(tcp, link, hello->source);
    if (word != TUG_TCP_WELCOME)
        tug_tcp_link_greet(link, fabric, hello->source, word);
    return word == TUG_TCP_WELCOME;
}

bool tug_tcp_hear(struct tcp_wire *tcp, struct tug_tcp_link *link) {
    if (!tug_tcp_link_hear(link))
        return link->broken;
    if (!take_hello(tcp, link))
        link->broken = true;
    return true;
}

/* ---- crowds ---- */

static void look_at_listener(struct tcp_wire *tcp, bool wanted) {
    tcp->crowded = !wanted;
    (void)tug_tcp_watch(tcp, tcp->listener, NULL, wanted ? EPOLLIN : 0, EPOLL_CTL_MOD);
}

static void close_silent(struct tcp_wire *tcp, uint64_t now) {
    for (struct tug_tcp_link *link = tcp->all; link != NULL; link = link->next)
        if (link->peer == TUG_TCP_NOBODY && !link->closed && now - link->since_ns > SILENT_NS)
            tug_tcp_close_link(tcp, link);
}

/* The hello of one that has waited is there. */
static void take_connection(struct tcp_wire *tcp, int socket) {
    const int on = 1;
    struct tug_tcp_link *link = add_link(tcp, socket, TUG_TCP_NOBODY);
    if (link == NULL) {
        close(socket);
        return;
    }
    tcp->strangers++;
    if (setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
        !tug_tcp_watch(tcp, socket, link, EPOLLIN, EPOLL_CTL_ADD))
        link->broken = true;
    else
        (void)tug_tcp_hear(tcp, link);
    if (link->broken)
        tug_tcp_end_link(tcp, link);
}

bool tug_tcp_take_connections(struct tcp_wire *tcp) {
    unsigned taken = 0;
    for (; taken < ACCEPTS; taken++) {
        if (tcp->strangers >= STRANGERS)
            close_silent(tcp, tug_clock_ns());
        int socket = -1;
        if (tcp->strangers < STRANGERS) {
            socket = accept4(tcp->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
            if (socket < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
                break;
        }
        if (socket < 0) {
            look_at_listener(tcp, false);
            break;
        }
        take_connection(tcp, socket);
    }
    return taken > 0;
}

void tug_tcp_attend(struct tcp_wire *tcp) {
    const uint64_t now = tug_clock_ns();
    if (tcp->crowded) {
        close_silent(tcp, now);
        if (tcp->strangers < STRANGERS)
            look_at_listener(tcp, true);
    }
    for (struct tug_tcp_link *link = tcp->all; tcp->nlater > 0 && link != NULL; link = link->next) {
        if (!link->later || now < link->again_ns)
            continue;
        link->later = false;
        tcp->nlater--;
        begin(tcp, link);
    }
}
