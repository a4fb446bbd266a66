/* Links: connections of the tcp wire, each between two processes, which both send by it, packets of
 * all contexts that both are in.
 *
 * Were there one for each direction, every packet would be acknowledged by the kernel on the spot,
 * which takes a third of a short round trip; on one connection the answer does that.
 *
 * Long data that go both ways at once are slow on one connection, though: to send and to receive
 * wait for each other in the kernel. Where they have come, and long data are to go back, a second
 * connection is made *beside* the link, for those of one of the two processes and in one direction:
 *
 *      lower id                              higher id, which makes it
 *        | == packets, and its long data ====> |
 *        | <============= packets, by the link |
 *        | <===== long data, beside the link = |
 *
 * The packet that long data follow says that they come there. Nothing else of the link is taken
 * until they have come, so the order of packets and data is the same as on one connection. It can
 * be done without: where none can be made, or it ends with nothing under way, the link goes on
 * alone. (1 MiB each way between two nodes of one machine: 390 us, and 300.)
 *
 * What goes, goes in buffers, one of which may have gone in part. What comes is what proof.h shows
 * and then packets, each perhaps with a trailer behind it; it is checked as far as that takes
 * (packet.h has the rest). A link that broke, or that brings nonsense, is only marked: to end it is
 * its owner's.
 */
#ifndef TUG_TRANSPORT_TCP_LINK_H
#define TUG_TRANSPORT_TCP_LINK_H

#include "base/descriptors.h"
#include "transport/packets/wire.h"
#include "transport/tcp/proof.h"

#define TUG_TCP_PACKET_BYTES 32768u /* a system call a packet is small beside copying it */
#define TUG_TCP_RECEIVE_BYTES ((size_t)256 << 10) /* asked of a socket at a time */

struct tug_tcp_endpoint;
struct tug_tcp_peer;

/* Long data that may go beside the link: fewer gain nothing by it. */
#define TUG_TCP_BESIDE_LEAST 65536u

/* In the flags of a packet's header, on the wire only: what follows it comes beside the link. */
#define TUG_TCP_BESIDE_FLAG 0x80u

enum tug_tcp_word {
    TUG_TCP_WELCOME, /* packets may go */
    TUG_TCP_GONE,    /* no packets go any more, and no link is made again */
    TUG_TCP_BY_HOST, /* packets go by the host's messages: there are no descriptors here */
    TUG_TCP_ASIDE,   /* there is a link already, this connection is beside it */
    TUG_TCP_WORDS
};

/* What is to come next by a connection (proof.h). */
enum tug_tcp_due {
    TUG_TCP_HELLO_DUE, /* of a stranger */
    TUG_TCP_PROOF_DUE, /* of a stranger who has said hello */
    TUG_TCP_CHALLENGE_DUE,
    TUG_TCP_ANSWER_DUE,
    TUG_TCP_PACKETS_DUE
};

/* Descriptors that are kept: a free one takes the place of the first that is missing (meet.c). */
enum tug_tcp_reserve { TUG_TCP_TO_ACCEPT, TUG_TCP_TO_CONNECT, TUG_TCP_RESERVES };

struct tug_tcp_link {
    struct tug_own socket;
    uint64_t tick;             /* the clock's tick when the socket was last seen to be ours */
    bool blind;                /* the epoll set could not take it: it is looked at in each poll */
    struct tug_tcp_peer *peer; /* NULL: the peer has not said hello */
    bool connecting;           /* connecting from here, not connected yet */
    bool greeted;              /* the peer has proved who it is: packets may go and come */
    bool later;                /* the link is to be made again at again_ns */
    bool final;                /* the link will not be made again */
    bool last;                 /* made with a reserve, and not both are there again since */
    bool by_host;              /* packets go by the host's messages */
    enum tug_tcp_word word;    /* what this process, which connected, says in its hello */
    bool waits;                /* the epoll set tells when there is room */
    bool held;                 /* the next packet is for a view that is not ready, or: */
    bool stuck;                /* the view could not take it, for want of memory */
    bool deaf;                 /* the epoll set does not tell of what comes: it is not its turn */
    bool broken;               /* nothing can be sent or received any more */
    bool closed;               /* broken, and closed by its owner */
    bool to_tell;              /* closed, and the streams have not been told yet */
    unsigned tries;
    uint64_t since_ns; /* when it came to be, or was first wanted */
    uint64_t again_ns;
    uint64_t out_since_ns; /* what went was seen not to be acknowledged, at least once since; 0: it
                              was not */
    struct tug_tcp_link *beside; /* the connection beside it; of that one, the link; or NULL */
    bool is_beside;              /* it is beside a link: long data of one process go by it */
    bool is_ours;                /* it is beside a link, and our long data go by it */
    bool sought;                 /* there is, was or will be one beside it, or none could be had */
    bool wants_beside;           /* it is sought, and the next poll makes it */
    bool brought_long;           /* such data have come by it as would go beside it */
    /* going */
    struct tug_buffer *part;    /* the packet that is sent in part; NULL: none is */
    size_t sent;                /* bytes of `part` that have been sent */
    struct tug_wire *part_wire; /* the wire that sends `part` */
    uint32_t part_peer;         /* the peer's rank in part_wire's context */
    bool part_beside;           /* what follows `part` goes beside the link */
    /* coming */
    enum tug_tcp_due due;
    struct tug_tcp_said said; /* what both sides have said so far */
    union tug_tcp_comes {
        struct tug_tcp_hello hello;
        struct tug_tcp_challenge challenge;
        unsigned char proof[TUG_DIGEST_BYTES];
        struct tug_tcp_answer answer;
    } comes;                    /* what is to come next, as far as it has come */
    unsigned char *rest;        /* beginning of the next packet; NULL: no memory yet */
    size_t rest_bytes;          /* bytes of memory at `rest` */
    size_t nrest;               /* bytes of what is to come next, or of a packet, that have come */
    size_t left, come;          /* bytes that follow the last packet: still to come, and received */
    struct tug_wire *left_wire; /* the wire that gets those bytes; NULL: they are dropped */
    uint32_t left_peer;         /* the peer's rank in left_wire's context */
    bool left_beside;           /* they come beside the link */
    unsigned long_lately; /* receives for which trailers are still expected: one came a while ago */
    struct tug_tcp_link *next;
};

/* Says that, before packets go: an empty socket has room for so little. */
void tug_tcp_link_say(struct tug_tcp_link *link, const void *what, size_t bytes);

/* Sends the rest of the buffer that went in part. False: some is left. */
bool tug_tcp_link_put_rest(struct tug_tcp_link *link);

/* Of the link and the one beside it, that which what went in part waits for. */
struct tug_tcp_link *tug_tcp_link_in_the_way(const struct tug_tcp_link *link);

/* Sends a buffer of that wire to its process `peer`: no other has gone in part. False: nothing of
 * it went, it is still the caller's. */
bool tug_tcp_link_put(struct tug_tcp_link *link, struct tug_wire *wire, uint32_t peer,
                      struct tug_buffer *buffer);

/* Has what is to come next, which is not packets, come whole? */
bool tug_tcp_link_hear(struct tug_tcp_link *link);

/* Hands up what has come since, a bounded amount, to the views that the packets are for. A packet
 * for one that is not there is passed over; one for a view that is not ready holds the link. True
 * if anything came. */
bool tug_tcp_link_take(struct tug_tcp_link *link, struct tug_tcp_endpoint *endpoint);

/* Of a connection beside a link, by which nothing is to come next: has it ended? Then it is broken.
 */
void tug_tcp_link_see_end(struct tug_tcp_link *link);

/* Looks whether the peer's kernel, which acknowledges what comes even for a process that is stopped
 * or computes, has not done so for limit_ns, though something is out. To be asked about once a
 * second; looked_ns: when it was asked last, of any link. */
bool tug_tcp_link_is_silent(struct tug_tcp_link *link, uint64_t looked_ns, uint64_t now_ns,
                            uint64_t limit_ns);

/* A view is ready, or there may be memory again: hands up what was held for it. */
void tug_tcp_link_resume(struct tug_tcp_link *link, struct tug_tcp_endpoint *endpoint);

#endif
