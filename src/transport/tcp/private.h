/* The tcp wire's own: what its files share.
 *
 *      context      context            each has a wire of its own, a view of the endpoint
 *         |            |
 *       view         view              addresses of its processes, by rank
 *         |  contacts  |               a view that has had to do with a peer, and its rank there
 *         +--- peer ---+--- peer       processes, by id
 *               |            |
 *             link         link        a connection each, with packets of all contexts; perhaps
 *               |            |         another one beside it, for long data (link.h)
 *               |            |
 *         +-----+------------+----+
 *         |  endpoint             |    one a process: listener, epoll set
 *         +-----------------------+
 */
#ifndef TUG_TRANSPORT_TCP_PRIVATE_H
#define TUG_TRANSPORT_TCP_PRIVATE_H

#include "base/table.h"
#include "transport/endpoint.h"
#include "transport/packets/wire.h"
#include "transport/tcp/link.h"
#include "transport/tcp/address.h"

struct tug_tcp_endpoint;

/* A context's wire. */
struct tug_tcp_view {
    struct tug_wire wire;
    struct tug_tcp_endpoint *endpoint;
    struct tug_tcp_address *addresses; /* [nranks] */
    struct tug_table contacts;         /* contacts with peers, by their ranks */
};

/* A view has had to do with a peer. */
struct tug_tcp_contact {
    struct tug_tcp_view *view;
    struct tug_tcp_peer *peer;
    uint32_t rank;                /* the peer's rank in the view's context */
    struct tug_tcp_contact *next; /* the peer's next contact */
};

/* A process. It is kept while its link is good, or says that packets go by the host's messages, so
 * that the next context finds that; and while a view has had to do with it, so that the contexts
 * agree on an end. The link is closed with the endpoint: were it closed with the last context of
 * the two, one of them could make the next before the other has seen that. */
struct tug_tcp_peer {
    struct tug_tcp_address address;
    struct tug_tcp_link *link; /* the one to send by, NULL: none yet */
    struct tug_tcp_contact *contacts;
};

/* Listener and links of a process. Made with the first view, closed with the last. Holder of the
 * baton only, but for making and closing it. */
struct tug_tcp_endpoint {
    struct tug_endpoint base;       /* the first member */
    uint64_t id;                    /* this process's random id */
    bool proves;                    /* who connects is to prove that it knows the key */
    struct tug_tcp_address address; /* where it listens */
    struct tug_table peers;         /* peers by their ids */
    struct tug_own listener;
    struct tug_own reserve[TUG_TCP_RESERVES]; /* kept descriptors; none: it is in use */
    bool spares_links;                        /* the host's messages can do instead of a link */
    uint64_t tick;            /* the clock's tick when set and listener were last seen to be ours */
    uint64_t looked_ns;       /* when all links were seen to be ours still */
    struct tug_tcp_link *all; /* all links, newer ones first */
    struct tug_tcp_link *latest; /* something has come by it last; NULL: it is gone */
    uint32_t in_a_row;           /* looks at it alone */
    uint32_t strangers;          /* links that have not proved who they are */
    uint32_t introduced;         /* those of them that have said hello */
    uint32_t accepted;           /* in this round, but for those that have proved who they are */
    uint64_t round_ns;           /* when the round began */
    uint64_t rest_ns;            /* the listener is not looked at before that */
    uint32_t nlater;             /* links that are to be made again */
    uint32_t nblind;             /* links that are in no epoll set */
    uint32_t nstuck;             /* links that wait for memory */
    uint32_t nbeside;            /* connections beside links */
    uint32_t nwanted;            /* such as the next poll makes */
    uint32_t to_tell;            /* links whose end the streams have not been told yet */
    bool closed_any;             /* links that are to be taken out */
    bool full;                   /* the listener is not looked at: newcomers wait in the kernel */
    uint64_t *received;          /* TUG_TCP_RECEIVE_BYTES */
    bool unwatched;              /* the set could not be armed, which has been counted */
};

static inline bool tug_tcp_is_way(const struct tug_tcp_link *link) {
    return link->peer != NULL && link->peer->link == link;
}

/* ---- tcp.c: views ---- */

/* A view of the endpoint, whose addresses are to be filled in before it enters. NULL: no memory. */
struct tug_tcp_view *tug_tcp_view_make(struct tug_tcp_endpoint *endpoint,
                                       struct tug_fabric *fabric);

/* What the endpoint does for its views, endpoint.h. */
extern const struct tug_endpoint_kind tug_tcp_kind;

/* What is known of a peer is told to the views that have had to do with it. */
void tug_tcp_tell_settled(struct tug_tcp_endpoint *endpoint, struct tug_tcp_peer *peer);
void tug_tcp_tell_ended(struct tug_tcp_peer *peer);

/* The peer's rank in some context, for messages. */
uint32_t tug_tcp_rank(const struct tug_tcp_peer *peer);

/* ---- endpoint.c ---- */

/* Makes an endpoint that listens at the address in *mine, and stores its port and id there. NULL:
 * no memory or descriptors. It is closed when nothing uses it any more. */
struct tug_tcp_endpoint *tug_tcp_endpoint_make(struct tug_tcp_address *mine, bool spares_links);
void tug_tcp_endpoint_close(struct tug_endpoint *base);

/* One look at listener and links. True if anything moved. */
bool tug_tcp_poll(struct tug_endpoint *base);

/* Who calls is about to sleep: will news wake it? */
bool tug_tcp_arm(struct tug_tcp_endpoint *endpoint);

/* The peer of that id, NULL: it is not known. The peer at that address, added the first time; NULL:
 * no memory. */
static inline struct tug_tcp_peer *tug_tcp_find_peer(const struct tug_tcp_endpoint *endpoint,
                                                     uint64_t id) {
    return tug_table_find(&endpoint->peers, id);
}
struct tug_tcp_peer *tug_tcp_peer_at(struct tug_tcp_endpoint *endpoint,
                                     const struct tug_tcp_address *address);

/* Forgets a peer that nobody has to do with, if its link is over. */
void tug_tcp_forget_peer(struct tug_tcp_endpoint *endpoint, struct tug_tcp_peer *peer);

/* Are set and listener, or a link, still ours? Looks once in every tick of the clock. The first is
 * false from then on, and all links end; a link that is not ours is broken. */
bool tug_tcp_holds(struct tug_tcp_endpoint *endpoint);
bool tug_tcp_link_holds(struct tug_tcp_link *link);

/* Has the epoll set watch a link or, if need be, has tug_tcp_poll() look at it. */
void tug_tcp_watch(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link, uint32_t events);

/* Has the epoll set watch the listener, or not. */
bool tug_tcp_watch_listener(const struct tug_tcp_endpoint *endpoint, bool wanted, int how);

/* Sets one of the link's flags by which it depends what the epoll set tells: waits, held, deaf. */
void tug_tcp_set(const struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link, bool *flag,
                 bool value);

/* The epoll set tells of room for what went in part by a link and beside it. */
void tug_tcp_await_room(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link);

/* Has the epoll set tell again of what is to come next, of a link and of the one beside it. */
void tug_tcp_prick_up(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link);

/* close: of a link that nobody needs any more; end: of a link that has broken. */
void tug_tcp_close_link(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link);
void tug_tcp_end_link(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link);

/* ---- meet.c: how two processes come to their link ---- */

/* A stranger's link is closed, or his no more. */
void tug_tcp_no_stranger(struct tug_tcp_endpoint *endpoint, const struct tug_tcp_link *link);

/* Takes the descriptors into reserve that are missing there. True: all are there. */
bool tug_tcp_restock(struct tug_tcp_endpoint *endpoint);

/* Ends a socket, also for the peer and the epoll set: a child that was made by _Fork() or clone()
 * alone has it open, and would keep it in the set with the address of what is freed here. */
void tug_tcp_end_socket(const struct tug_tcp_endpoint *endpoint, struct tug_own *socket);

/* Closes its connection. */
void tug_tcp_close_socket(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link);

/* Begins to make the link to a peer to which there is none. NULL: no memory. */
struct tug_tcp_link *tug_tcp_connect(struct tug_tcp_endpoint *endpoint, struct tug_tcp_peer *peer);

/* Has the next poll make a connection beside a link, if its peer does not: the one with the higher
 * id. Who sends may be inside a try_ call, which makes no connections (llcl.h). Does nothing if
 * there is, was or can be none. */
void tug_tcp_seek_beside(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link);

/* An attempt to connect has ended, well or not. */
void tug_tcp_connected(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link);

/* Accepts connections, a bounded number. True if there were any. */
bool tug_tcp_take_connections(struct tug_tcp_endpoint *endpoint);

/* A link that has not been greeted brings something. True if it goes on, or has ended. */
bool tug_tcp_hear(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link);

/* Has the peer been silent for too long (TUGBOAT_PEER_TIMEOUT)? Then the link is broken, and not
 * made again. Times as in tug_tcp_link_is_silent(). */
bool tug_tcp_gives_up(struct tug_tcp_link *link, uint64_t looked_ns, uint64_t now_ns);

/* A link has broken. True: nothing had gone by it, and it will be made again. */
bool tug_tcp_meet_again(struct tug_tcp_endpoint *endpoint, struct tug_tcp_link *link);

/* Does what is due: makes links again and connections beside links, and looks at the listener again
 * if there is room. */
void tug_tcp_attend(struct tug_tcp_endpoint *endpoint);

#endif
