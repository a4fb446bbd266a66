/* Endpoints: what a process has once of a transport, for all contexts.
 *
 *      context      context            each has a wire of its own, a view of the endpoint
 *         |            |
 *       wire         wire              entered: packets that bear the context's id are handed to it
 *         |            |
 *       +-+------------+-+
 *       |    endpoint    |             one a process (verbs: and rail; shm: and inbox)
 *       +----------------+
 *
 * An endpoint is made with the first wire and closed with the last. tcp, verbs, ofi and shm have
 * one each, whose first member is a struct tug_endpoint; what they do at it is a row of functions,
 * struct tug_endpoint_kind.
 *
 * The wires are polled in turn, and one look at the endpoint does for all: that of the newest wire,
 * or of one that sees that no wire has looked since it was polled. Contexts to which another's look
 * has brought something are served. A context's first poll makes its wire ready: packets that came
 * before wait until then, wherever the kind keeps them.
 *
 * The process's watcher (watcher.h) sleeps at the endpoint's descriptor, if it is asked to, and
 * rings the contexts' bells when that has become readable, once for each time that it was armed.
 * (They have one bell, unless the node's processes share no memory but that of each context.)
 *
 * Holder only where nothing else is said; init and fini by the thread that makes and closes the
 * endpoint.
 */
#ifndef TUG_TRANSPORT_ENDPOINT_H
#define TUG_TRANSPORT_ENDPOINT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/table.h"
#include "transport/packets/wire.h"
#include "transport/watcher.h"

struct tug_endpoint_kind {
    /* One look at the endpoint. True if anything moved. NULL: the kind polls its wires itself. */
    bool (*poll)(struct tug_endpoint *endpoint);
    /* The wire is ready from now on. NULL: nothing was kept for it. */
    void (*ready)(struct tug_wire *wire);
    /* The wire is about to enter. False: it cannot. NULL: nothing is to be done. */
    bool (*enter)(struct tug_wire *wire);
    /* The wire leaves: nothing of it is under way any more, nor told. NULL: nothing ever is. */
    void (*leave)(struct tug_wire *wire);
    /* The wire has left, and is about to be freed: frees what it has of its own. By the program.
     * NULL: nothing. */
    void (*close_wire)(struct tug_wire *wire);
    /* Closes the endpoint: nothing uses it any more. By the program. */
    void (*close)(struct tug_endpoint *endpoint);
};

struct tug_endpoint {
    struct tug_watch watch; /* the first member */
    const struct tug_endpoint_kind *kind;
    _Atomic bool begun;         /* the watcher sleeps at the descriptor; never reset */
    pthread_mutex_t lock;       /* of the list and of `rung`, which the watcher reads */
    struct tug_wire *first;     /* the newest wire that has entered */
    struct tug_table wires;     /* those that have, by their contexts' ids */
    uint64_t polls;             /* looks at the endpoint so far */
    bool look;                  /* the next poll looks, whichever wire's it is */
    bool came;                  /* something has come for a wire, which may have to be served */
    bool inside;                /* this poll is from inside the host (struct tug_wire), */
    bool left;                  /* and has left something to one from outside */
    uint32_t under_way;         /* packets given back to their pools that may not have arrived */
    int descriptor;             /* readable when there is anything to do; -1: none is */
    _Atomic uint32_t users;     /* wires, entered or not */
    struct tug_endpoint **home; /* the list that it is found in; NULL: it is in none */
    struct tug_endpoint *next;  /* in that list, an older one */
    const void *of;             /* of which of several things it is the endpoint; NULL: of one */
    _Atomic bool lost;          /* the kind's, any thread: nothing goes by it any more */
};

/* fini: before the descriptor is closed. */
void tug_endpoint_init(struct tug_endpoint *endpoint, const struct tug_endpoint_kind *kind);
void tug_endpoint_fini(struct tug_endpoint *endpoint);

/* An endpoint of the list at *home, for the caller to make wires of it until it releases it: that
 * of the thing `of` which is not lost, or a new one. NULL: make(d) returned NULL. By the program.
 */
struct tug_endpoint *tug_endpoint_share(struct tug_endpoint **home, const void *of,
                                        struct tug_endpoint *(*make)(void *d), void *d);
void tug_endpoint_release(struct tug_endpoint *endpoint);

/* ---- wires ---- */

/* The wire, all zeros, is one of this row and endpoint, which it uses until it is closed. By the
 * program. */
void tug_endpoint_add(struct tug_endpoint *endpoint, struct tug_wire *wire,
                      const struct tug_transport *row, struct tug_fabric *fabric,
                      uint32_t packet_bytes);

/* From enter to take_out the wire is polled, and found by its context's id. False: there is one of
 * that id, or no memory, or the kind says so. take_out does nothing if the wire has not entered. */
bool tug_endpoint_enter(struct tug_wire *wire);
void tug_endpoint_take_out(struct tug_wire *wire);

/* The same two by the program: returns when the holder has done it. */
bool tug_endpoint_call_enter(struct tug_wire *wire);
void tug_endpoint_leave(struct tug_wire *wire);

/* As a row's (transport.h): leaves, releases the endpoint and frees the wire. */
void tug_endpoint_close_wire(void *wire);

/* The wire of that context, NULL: it is not here. */
static inline void *tug_endpoint_find(const struct tug_endpoint *endpoint, uint64_t id) {
    return tug_table_find(&endpoint->wires, id);
}

/* ---- polling ---- */

/* Something has come for the wire. */
static inline void tug_endpoint_note(struct tug_wire *wire) {
    wire->came = wire->endpoint->came = true;
}

/* As a row's. */
bool tug_endpoint_poll(void *wire);

/* One look, in no wire's turn. True if anything moved. */
bool tug_endpoint_look(struct tug_endpoint *endpoint);

/* All but this wire are served for which something has come, if anything has. */
void tug_endpoint_serve_others(struct tug_endpoint *endpoint, const struct tug_wire *looked);

/* ---- sleeping ---- */

/* The endpoint's descriptor, or -1 where the bell of the wire, which has entered, is rung instead
 * until it leaves: each time after tug_endpoint_arm(). One thread at a time, the holder or not. */
int tug_endpoint_descriptor(struct tug_wire *wire, bool watch);

/* Rings the bells of all wires that have entered. Any thread. */
void tug_endpoint_ring(struct tug_endpoint *endpoint);

/* The next event at the descriptor rings the bells of the wires. False: it would not, and the
 * endpoint is to be polled. True also if no bell is wanted. */
bool tug_endpoint_arm(struct tug_endpoint *endpoint);

#endif
