/* The tcp wire's own: what its files share. */
#ifndef TUG_TRANSPORT_WIRE_TCP_PRIVATE_H
#define TUG_TRANSPORT_WIRE_TCP_PRIVATE_H

#include "transport/packets/wire.h"
#include "transport/packets/wire_tcp_link.h"
#include "transport/packets/wire_tcp_place.h"
#include "transport/watcher.h"

struct tcp_wire {
    struct tug_wire wire;
    struct tug_own listener;
    struct tug_own reserve[TUG_TCP_RESERVES]; /* kept descriptors; none: it is in use */
    int set;
    uint64_t tick;                /* of the clock: set and listener were seen to be ours still */
    uint64_t looked_ns;           /* when all links were seen to be ours still */
    bool lost;                    /* set or listener is not ours any more */
    struct tug_tcp_place *places; /* [nranks] */
    struct tug_tcp_link **links;  /* [nranks] the one to send by, NULL: none yet */
    struct tug_tcp_link *all;     /* newer ones first */
    uint32_t strangers;           /* links that have not said hello */
    uint32_t nlater;              /* links that are to be made again */
    uint32_t nblind;              /* links that are in no epoll set */
    uint32_t to_tell;             /* links that are over and whose streams have not been told */
    bool closed_any;              /* links that are to be taken out */
    bool full;                    /* the listener is not looked at: newcomers wait in the kernel */
    uint64_t *received;           /* TUG_TCP_RECEIVE_BYTES */
    bool watched;                 /* by the watcher */
    bool unwatched;               /* it could not be armed, which has been counted */
    struct tcp_wire *next_watched;
};

static inline bool tug_tcp_is_way(const struct tcp_wire *tcp, const struct tug_tcp_link *link) {
    return link->peer != TUG_TCP_NOBODY && tcp->links[link->peer] == link;
}

/* ---- wire_tcp.c ---- */

/* Are set, listener and link still ours? Looks once in every tick of the clock. The first is false
 * from then on, and all links end; a link that is not ours is broken. */
bool tug_tcp_holds(struct tcp_wire *tcp);
bool tug_tcp_link_holds(const struct tcp_wire *tcp, struct tug_tcp_link *link);

/* Has the epoll set watch a link or, if need be, has tcp_poll look at it. */
void tug_tcp_watch(struct tcp_wire *tcp, struct tug_tcp_link *link, uint32_t events);

/* Has the epoll set watch the listener, or not. */
bool tug_tcp_watch_listener(const struct tcp_wire *tcp, bool wanted, int how);

/* The epoll set tells of room, or does so no more. */
void tug_tcp_want_room(struct tcp_wire *tcp, struct tug_tcp_link *link, bool wanted);

/* Closes a link that nobody needs any more. / Ends one that has broken. */
void tug_tcp_close_link(struct tcp_wire *tcp, struct tug_tcp_link *link);
void tug_tcp_end_link(struct tcp_wire *tcp, struct tug_tcp_link *link);

/* ---- wire_tcp_watch.c: one thread for all wires ---- */

struct tug_tcp_watch {
    pthread_mutex_t changes; /* one at a time */
    pthread_mutex_t lock;    /* of the list, which the thread looks at */
    struct tcp_wire *wires;
    struct tug_watcher watcher; /* while there are wires */
    int set;                    /* theirs are in it, and watcher.stop */
};
extern struct tug_tcp_watch tug_tcp_watch_all;

/* Has the fabric's bell rung when the set is readable, once for each arm. False: it cannot be. */
bool tug_tcp_watch_begin(struct tcp_wire *tcp);
bool tug_tcp_watch_arm(struct tcp_wire *tcp);
void tug_tcp_watch_end(struct tcp_wire *tcp);

/* ---- wire_tcp_meet.c: how two processes come to their link ---- */

/* Is that descriptor in reserve, now at least? */
bool tug_tcp_have_reserve(struct tcp_wire *tcp, enum tug_tcp_reserve which);

/* Closes its connection. */
void tug_tcp_close_socket(struct tcp_wire *tcp, struct tug_tcp_link *link);

/* Begins to make the link to a peer to which there is none. NULL: no memory. */
struct tug_tcp_link *tug_tcp_connect(struct tcp_wire *tcp, uint32_t peer);

/* An attempt to connect has ended, well or not. */
void tug_tcp_connected(struct tcp_wire *tcp, struct tug_tcp_link *link);

/* Accepts connections, a bounded number. True if there were any. */
bool tug_tcp_take_connections(struct tcp_wire *tcp);

/* A link that has not been greeted brings something. True if it now has been, or has ended. */
bool tug_tcp_hear(struct tcp_wire *tcp, struct tug_tcp_link *link);

/* A link has broken. True: nothing had gone by it, and it will be made again. */
bool tug_tcp_meet_again(struct tcp_wire *tcp, struct tug_tcp_link *link);

/* Does what is due by the clock: makes links again, and looks at the listener again if there is
 * room. */
void tug_tcp_attend(struct tcp_wire *tcp);

/* The parts of opening that need nobody else. A wire that listens at the address in *mine, at a
 * port that is noted there; NULL: no memory or descriptors. */
struct tug_wire *tug_wire_tcp_make(struct tug_fabric *fabric, struct tug_tcp_place *mine);

/* Where all processes listen, by rank; to be filled in. */
static inline struct tug_tcp_place *tug_wire_tcp_places(struct tug_wire *wire) {
    return ((struct tcp_wire *)wire)->places;
}

#endif
