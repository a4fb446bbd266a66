/* Turns: the wires of several contexts are views of one endpoint of the process, which is made with
 * the first and closed with the last.
 *
 * They are polled in turn, and one look at the endpoint does for all: that of the newest view, or
 * of one that sees that nobody has looked since it was polled. Contexts to which another's look has
 * brought something are served. The process's watcher (watcher.h) sleeps at the endpoint's
 * descriptor, if it is asked to, and rings the contexts' bells when that has become readable, once
 * for each time that it was armed. (They have one bell, unless the node's processes share no memory
 * but that of each context.)
 *
 * Holder only where nothing else is said; init and fini by who makes and closes the endpoint.
 */
#ifndef TUG_TRANSPORT_TURNS_H
#define TUG_TRANSPORT_TURNS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/table.h"
#include "transport/packets/wire.h"
#include "transport/watcher.h"

/* A view's part; all zeros but for the wire: it has not entered. */
struct tug_turn {
    struct tug_wire *wire; /* the view's, its first member */
    bool entered;
    bool ready;            /* the view has been polled: packets may be handed up */
    bool came;             /* something has come since it was polled */
    bool rung;             /* the watcher rings its fabric's bell */
    uint64_t polls;        /* the endpoint's when it was polled */
    struct tug_turn *next; /* that of the next view, an older one */
};

/* The endpoint's. */
struct tug_turns {
    struct tug_watch watch;  /* the first member */
    _Atomic bool begun;      /* the watcher sleeps at the descriptor; never reset */
    pthread_mutex_t lock;    /* of the list and `rung`, which the watcher reads */
    struct tug_turn *first;  /* that of the newest view */
    struct tug_table wires;  /* by their contexts' ids */
    uint64_t polls;          /* looks at the endpoint so far, which it counts */
    bool came;               /* something has come for a view, which may have to be served */
    _Atomic uint32_t users;  /* views, entered or not */
    struct tug_turns **home; /* where the process's one is found; NULL: it is not */
    void (*close)(struct tug_turns *turns); /* closes the endpoint: nothing uses it any more */
};

/* The endpoint at *home, for one to make views of it, until he releases it: what `find` says, which
 * is told of the one that is there, or NULL. NULL: it says so. A view is a user from when it is
 * made (users++) to its release. By the program. */
struct tug_turns *tug_turns_share(struct tug_turns **home,
                                  struct tug_turns *(*find)(struct tug_turns *there, void *d),
                                  void *d);
void tug_turns_release(struct tug_turns *turns);

/* fini: before the descriptor is closed. */
void tug_turns_init(struct tug_turns *turns, void (*close)(struct tug_turns *turns));
void tug_turns_fini(struct tug_turns *turns);

/* The view is polled, and found by its context's id, from enter to leave. False: there is one of
 * that id, or no memory. */
bool tug_turns_enter(struct tug_turns *turns, struct tug_turn *turn);
void tug_turns_leave(struct tug_turns *turns, struct tug_turn *turn);

/* Something has come for the view. */
static inline void tug_turns_note(struct tug_turns *turns, struct tug_turn *turn) {
    turn->came = turns->came = true;
}

/* The view is polled: is it to look at the endpoint? */
static inline bool tug_turns_is_due(const struct tug_turns *turns, const struct tug_turn *turn) {
    return turn == turns->first || turn->polls == turns->polls;
}

/* It has been polled. True if something has come for it. */
bool tug_turns_end(struct tug_turns *turns, struct tug_turn *turn);

/* All but this one are served for which something has come, if anything has. */
void tug_turns_serve_others(struct tug_turns *turns, const struct tug_turn *looked);

/* A row's `descriptor` (transport.h): that of the endpoint, or -1 where the bell of the view, which
 * has entered, is rung instead until it leaves. One thread at a time, the holder or not. */
int tug_turns_descriptor(struct tug_turns *turns, struct tug_turn *turn, int descriptor,
                         bool watch);

/* Rings the bells of all views that have entered. Any thread. */
void tug_turns_ring(struct tug_turns *turns);

/* Sees to it that the next news ring, if any bell is to be rung at all. False: they cannot. */
bool tug_turns_arm(struct tug_turns *turns);

#endif
