/* Packet lane: windows whose targets are reached through the low-level layer.
 *
 * For windows over several nodes, and over memory that the program brings. Puts and gets are writes
 * and reads of LLCL on the target's registered memory: small ones travel together in packets, large
 * ones by themselves, and what a node maps is loaded and stored by the caller. Accumulates,
 * fetching operations, locks and notices are messages and calls, which the target's engine handles
 * while its program computes: one at a time, so that all accumulates on a window's memory are
 * atomic to each other. Messages of one thread to one target are handled in the order in which they
 * were sent: that is MPI's order of accumulates.
 *
 * Between ranks of a node fences, epochs and locks live in memory that they share (node_sync.h),
 * and no messages are sent for them; and so does what they have attached to a dynamic window. There
 * an origin also does accumulates and fetching operations itself where it has mapped the target's
 * memory, or if the target does not look and cross-memory attach reaches it: under a mutex of the
 * target's, one for all of its memory, which its engine takes once for a run of messages. It keeps
 * MPI's order by doing so only while nothing is under way to the target.
 *
 * Where every rank has a node of its own, cards take locks (remote_card_lock.h). Other origins on
 * other nodes ask the target's engine for its lock. It draws a ticket of that same lock
 * for each when the request comes, and waits for none: who moves the lock while such tickets are
 * out tells it (TUG_MESSAGE_MOVED), and it tries again.
 *
 * A derived datatype at the target never travels. The origin walks it and sends runs (datatype.h).
 *
 * Where every rank has a node of its own, and a card that knows its memory, cards do accumulates of
 * 8-byte integers until a rank needs one that they cannot do (remote_card.h).
 *
 * Completion: operations end in any order (what is mapped at once, large blocks late), so a flush
 * cannot just count. Each target has two *generations*; an operation belongs to the one that is
 * open when it starts. A flush closes it, opens the other, and waits until all of the closed one
 * have ended, whoever started them: the flushes of several threads are one wait, and none waits for
 * what was started after it. Errors found at the target come back the same way and surface in the
 * flush. There are two such pairs (struct tug_peer): one for what this rank's buffers are
 * needed for (gets, fetches, and puts that are not copied by the call), which is all that a local
 * flush waits for, and one for all else.
 *
 *   remote.c        contexts and who shares them, creation and end of windows
 *   remote_rma.c    the origin: puts and gets become LLCL's
 *   remote_accumulate.c  ... accumulates and fetching operations become messages
 *   remote_ways.c   ... what all of them begin and end with
 *   remote_combine.c  ... or, next to a target that computes, are done at once
 *                     (llcl/vector.h: or with the next flush)
 *   remote_card.c   ... or by the cards
 *   remote_card_lock.c  locks by the cards
 *   remote_serve.c  the target: accumulates, fetching operations, locks, notices
 *   remote_attach.c dynamic windows: what is attached, and who knows of it (book.h)
 *   remote_sync.c   what epochs wait for
 *   remote_owed.c   locks that go with the epoch's operations
 *
 * What is kept of a target is made when the two first have to do with each other: a window costs a
 * struct tug_remote_target for each of its ranks, and a struct tug_remote_state for those that are
 * used.
 *
 * Threads: operations and synchronisation on any, under MPI's rules; handlers (remote_serve.c) by
 * whoever holds the engine's baton.
 */
#ifndef TUG_RMA_REMOTE_H
#define TUG_RMA_REMOTE_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/deferred.h"
#include "host/reduction.h"
#include "llcl/llcl.h"
#include "llcl/vector.h"
#include "rma/apply.h"
#include "rma/book.h"
#include "node/team.h"
#include "rma/node_sync.h"
#include "rma/rma.h"
#include "tugboat/llcl.h"

struct tug_attachments;
struct tug_chunk;
struct tug_lane;

#define TUG_REMOTE_WINDOWS 4096 /* open at once in a domain */
#define TUG_REMOTE_ROUNDS 31    /* of a barrier: 2^31 ranks */

/* What windows share: a context of LLCL and the numbers by which messages name windows. Made for a
 * communicator, and used by the windows of all those whose ranks it has. */
struct tug_domain {
    tug_context *context;
    tug_registration *everything; /* all memory of this process, see llcl.h */
    struct tug_team *team;        /* the team that the domain was made for */
    bool cards;                   /* have atomics; the same on all */
    bool card_locks;              /* they take locks; the same on all. See remote_card_lock.h: */
    uint64_t *lock_words;         /* [TUG_REMOTE_WINDOWS] this rank's, by its windows' numbers */
    tug_registration *lock_memory;
    struct tug_key *lock_keys; /* [nranks of the team] of all */
    struct tug_deferred_list deferred;
    struct tug_domain *next;
    struct tug_remote *_Atomic windows[TUG_REMOTE_WINDOWS]; /* by their numbers here */
};

/* What must be before operations go to a target: bits of its contact. The first two are of the
 * shared lock that an epoch of MPI_Win_lock_all needs there. */
enum {
    TUG_CONTACT_ASKED = 1, /* a thread asks for it */
    TUG_CONTACT_LOCKED = 2,
    TUG_CONTACT_SETTLED = 4, /* of any epoch: no lock is owed there (remote_owed.h) */
};

/* A lock that this rank's memory is under for a rank that has asked by message, or that waits for
 * it; holder only. */
struct tug_lock_entry {
    struct tug_remote_state *next; /* the next rank that waits; NULL: none */
    uint32_t tag;                  /* the waiting call's, to be answered */
    uint32_t ticket;               /* of the lock */
    uint8_t holds, wants;          /* enum tug_lock_state */
    bool ends;                     /* it unlocks when it has done what came with it: */
    uint16_t bytes;
    unsigned char *records; /* of a call that waits; to be freed */
};

enum tug_lock_state {
    TUG_LOCK_NONE,
    TUG_LOCK_WAITS,
    TUG_LOCK_SHARED,
    TUG_LOCK_GROUP, /* shared, by MPI_Win_lock_all: see tug_rwlock_join() */
    TUG_LOCK_EXCLUSIVE
};

/* A lock there that this rank has been asked for, and not yet taken: remote_owed.h. */
struct tug_owed {
    pthread_mutex_t mutex;
    enum tug_lock_state kind;               /* TUG_LOCK_NONE: nothing is owed */
    struct tug_owed_operations *operations; /* what waits; NULL: nothing */
    struct tug_remote *remote;
    const void *owner;             /* the thread that has asked for it */
    struct tug_remote_state *next; /* that owes a lock */
};

/* What is kept of a rank that this one has to do with. */
struct tug_remote_state {
    struct tug_peer peer;    /* what is out to it */
    _Atomic bool overtaken;  /* since its lock something was moved that messages overtake */
    _Atomic uint8_t contact; /* TUG_CONTACT_* */
    const struct tug_remote_target *target;
    struct tug_remote_state *next; /* the next in the list of targets used */
    _Atomic uint32_t posts;        /* exposure epochs that it has opened for this rank */
    uint32_t posts_used;           /* access epochs that this rank has started in those */
    _Atomic uint32_t completes;    /* access epochs to this rank that it has ended */
    uint32_t completes_used;       /* how many of those this rank has waited for */
    struct tug_lock_entry entry;   /* its lock on our memory */
    _Atomic bool card_met;         /* one of our atomics by its card has succeeded */
    bool card_asks;                /* it waits for the answer of a TUG_CALL_CARD; holder only */
    uint32_t card_tag;             /* that call's tag; holder only */
    uint8_t card_holds;            /* the lock that is held there by card, enum tug_lock_state */
    bool card_leaves_exclusive;    /* what the unlock gives back */
    _Atomic bool card_leaves;      /* an unlock by card is under way */
    uint64_t card_found;           /* the lock word before it */
    struct tug_callback card_left; /* counts its end */
    struct tug_deferred card_tells;
    struct tug_owed owed;    /* our lock on its memory */
    struct tug_book books[]; /* dynamic windows: TUG_BOOKS, of what the rank has attached */
};

enum tug_books {
    TUG_BOOK_SHOWN, /* its own, where it shows it; without a room: it does not */
    TUG_BOOK_ASKED, /* of what it has said when it was asked */
    TUG_BOOKS
};

/* What is known of every rank. */
struct tug_remote_target {
    struct tug_key key;
    MPI_Aint size;
    MPI_Aint disp_unit;
    int process;                            /* its rank in the domain */
    uint16_t number;                        /* the window's number on that rank */
    uint8_t shortcut;                       /* the shortcut to its memory, enum tug_shortcut */
    bool near;                              /* it has its part of `sync` in memory of this node */
    struct tug_remote_state *_Atomic state; /* NULL: not used so far */
};

/* Do cards do a window's accumulates of 8-byte integers? See remote_card.h. */
enum tug_card_state {
    TUG_CARD_NOT_YET, /* this rank is making the window */
    TUG_CARD_OPEN,    /* yes, unless a rank has closed it meanwhile */
    TUG_CARD_GONE,    /* no, and no card has an atomic under way */
};
#define TUG_CARD_CLOSED (UINT64_C(1) << 63)
#define TUG_CARD_BELOW 2 /* children of a rank in the tree */

struct tug_card {
    _Atomic uint8_t state; /* enum tug_card_state */
    _Atomic uint64_t out;  /* own atomics under way, and TUG_CARD_CLOSED: no new ones begin */
    /* Holder only: */
    bool asks;      /* the ranks below have been asked, and none of them has failed */
    uint32_t below; /* those of them that have not answered */
    uint64_t told;  /* the worst answer */
    uint64_t answers[TUG_CARD_BELOW];
};

/* How the lock on this rank's memory passes between the cards and its engine: remote_card_lock.h.
 */
enum tug_gate_state {
    TUG_GATE_NONE, /* cards take no locks */
    TUG_GATE_CARDS,
    TUG_GATE_RECALLED,
    TUG_GATE_SHARED,
    TUG_GATE_OWNER,
    TUG_GATE_RETURNING,
    TUG_GATE_FAILED
};

/* Holder only. */
struct tug_gate {
    uint8_t state;
    bool queued; /* QUEUED is set */
    bool again;  /* a TUG_MESSAGE_MOVED has come while an atomic was under way */
    /* atomics under way, or whose end is being handled: one at most, but while one's end starts the
     * next; read by any thread */
    _Atomic uint8_t busy;
    uint32_t ticket; /* the cards', of the lock */
    uint64_t found;  /* the word before the atomic */
    struct tug_card_atomic atomic;
    struct tug_deferred work;
};

struct tug_remote {
    struct tug_team *team; /* kept from ending by the window */
    struct tug_domain *domain;
    struct tug_chunk *block;   /* the memory of `sync`; NULL: every rank has a node of its own */
    struct tug_node_sync sync; /* fences, epochs and locks of the ranks of this node */
    /* behind it, of dynamic windows: the books of the ranks of this node; NULL: without a block */
    struct tug_book_room *rooms;
    tug_registration *memory;
    /* a notice of that rank + 1 was lost, because there was no memory to keep it; < 0: of several
     */
    _Atomic int forgotten;
    bool allocated; /* memory is LLCL's own, mapped by the node */
    bool ordered;   /* what is small goes in packets, as messages do, and none overtakes another */
    unsigned char *brought; /* memory of this rank alone, to be freed; NULL: none */
    uint32_t number;
    uint32_t serial; /* of this process's windows: no other has had it */
    int nranks, rank;
    unsigned char *base;
    MPI_Aint size;
    struct tug_card card;
    bool card_locks; /* cards take locks; the same on all ranks */
    struct tug_gate gate;
    struct tug_attachments *attachments; /* dynamic windows: what this rank has attached */
    struct tug_counter struck;  /* ranks told to forget a detached region that have done so */
    _Atomic uint64_t to_strike; /* ranks told to forget a detached region */
    /* The TUG_CONTACT_* that an operation's target must have. MPI_Win_lock_all: LOCKED is one of
     * them, and targets are locked when they are first used in the epoch. While a lock is owed:
     * SETTLED. */
    _Atomic uint8_t contact_wanted;
    uint32_t nowed; /* targets whose lock is owed; under the lock of all that is */
    struct tug_remote_state *_Atomic used; /* the targets that were used, newest first */
    struct tug_rwlock *lock;               /* on this rank's memory: in `sync`, or `own_lock` */
    struct tug_rwlock own_lock;
    /* ranks that wait for it by message, in order of arrival; NULL: none; holder only */
    struct tug_remote_state *lock_first, *lock_last;
    /* barrier messages that have come in each round */
    _Atomic uint32_t arrived[TUG_REMOTE_ROUNDS];
    uint32_t barriers; /* begun so far */
    struct tug_remote_target targets[];
};

extern const struct tug_lane tug_remote_lane;      /* epochs by messages too */
extern const struct tug_lane tug_remote_node_lane; /* epochs in memory that all ranks share */

/* Where a window's memory comes from. */
enum tug_remote_memory {
    TUG_REMOTE_GIVEN,
    TUG_REMOTE_ALLOCATED, /* by us */
    TUG_REMOTE_ATTACHED,  /* later, by each rank */
};

/* What a rank tells the others of its part of a window. */
struct tug_remote_part {
    MPI_Aint size;
    MPI_Aint disp_unit;
    struct tug_key key;
    uint32_t number; /* the window's, here */
    uint32_t block;  /* the id of the block for what the ranks of a node share; 0: none */
};

/* Makes this rank's part of a window of `size` bytes, at `base` if they are given, of what the team
 * has already, and says what the others are to be told: messages may come as soon as they have
 * been. NULL: it takes more than that, or memory. Local. Either all ranks accept it, with what all
 * have told (`stride` bytes from one to the next, of the team's ranks in turn) and the same block,
 * or all withdraw. */
struct tug_remote *tug_remote_propose(struct tug_team *team, void *base, MPI_Aint size,
                                      MPI_Aint disp_unit, enum tug_remote_memory memory,
                                      struct tug_remote_part *mine);
void tug_remote_accept(struct tug_remote *remote, const void *parts, size_t stride);
void tug_remote_withdraw(struct tug_remote *remote);

/* Could windows of the team have the packet lane, and would it be worth it? The same answer on all
 * ranks. */
bool tug_remote_serves(const struct tug_team *team);

/* Makes the packet lane's part of a window of `size` bytes, at `base` if they are given. Collective
 * over the team; the same answer on all ranks: NULL if any of them cannot. */
struct tug_remote *tug_remote_create(struct tug_team *team, void *base, MPI_Aint size,
                                     MPI_Aint disp_unit, enum tug_remote_memory memory);

/* Gives all back, when no rank uses the window any more. Collective. */
void tug_remote_release(struct tug_window *window);

/* The operations: begun when they return, and complete when the target is flushed. MPI_SUCCESS, an
 * error class for the window's handler, or TUG_RMA_REFUSED, as tug_direct_x. With o->request they
 * set it to a request that completes with the operation. */
int tug_remote_put(const struct tug_rma *o);
int tug_remote_get(const struct tug_rma *o);
int tug_remote_accumulate(const struct tug_rma *o);
int tug_remote_get_accumulate(const struct tug_rma *o);
int tug_remote_fetch_and_op(const struct tug_rma *o);
int tug_remote_compare_and_swap(const struct tug_rma *o);

/* MPI_Win_attach and MPI_Win_detach on a dynamic window: an error class. MPI_ERR_RMA_ATTACH: it
 * overlaps what is attached, or a device refuses it; MPI_ERR_BASE: nothing is attached there. */
int tug_remote_attach(struct tug_remote *remote, void *base, MPI_Aint size);
int tug_remote_detach(struct tug_remote *remote, const void *base);

/* ---- between the files ---- */

/* What a message or call begins with; operands follow. Host byte order. The window's number is the
 * target's. */
struct tug_remote_head {
    uint16_t window;
    uint8_t op;     /* number of the operation (host/handles.h); notices: the round; locks: 1, the
                       unlock too, 0, without it */
    uint8_t what;   /* notices: enum tug_notice; locks: enum tug_lock_state */
    uint32_t type;  /* number of the elements' predefined type; all but accumulates and
                       fetching operations: the sender's rank in the window */
    uint64_t range; /* offset in the target's memory (dynamic windows: the address) << 16 |
                       elements (long messages: 0, the data say how many) */
};

#define TUG_REMOTE_OFFSET_BITS 48 /* of a window's size, too */
/* Bytes of elements in a message: two of them fill a packet. */
#define TUG_REMOTE_PIECE 3936
/* Bytes combined under a mutex at once: 25 us; of 32 KiB, 1 MiB takes x1.3 where an origin does it.
 */
#define TUG_REMOTE_LOCKED ((size_t)128 << 10)

enum tug_notice { TUG_NOTICE_POST, TUG_NOTICE_COMPLETE, TUG_NOTICE_BARRIER };

enum tug_remote_message {
    TUG_MESSAGE_ACCUMULATE,
    TUG_MESSAGE_UNLOCK,
    TUG_MESSAGE_MOVED, /* the target's lock was locked or unlocked, by a rank of its node */
    TUG_MESSAGE_NOTICE,
    TUG_MESSAGE_DETACHED
};
enum tug_remote_long { TUG_LONG_ACCUMULATE };
enum tug_remote_call {
    TUG_CALL_FETCH,
    TUG_CALL_COMPARE,
    TUG_CALL_LOCK,
    TUG_CALL_REGION,
    TUG_CALL_CARD /* cards do no more accumulates (remote_card.h) */
};

/* Makes the context call the handlers. */
void tug_remote_serve(struct tug_domain *domain);

/* Grants the lock on this rank's memory to those who wait for it by message, as far as it can be.
 * Holder only. */
void tug_remote_grant(struct tug_remote *remote);

/* What is kept of a target. NULL: it has not been used. Any thread. */
static inline struct tug_remote_state *tug_remote_state_of(const struct tug_remote *remote,
                                                           int rank) {
    /* acquire: pairs with the release in tug_remote_meet() */
    return atomic_load_explicit(&remote->targets[rank].state, memory_order_acquire);
}

/* Is its contact what operations want, TUG_CONTACT_*? Of a target that is used. */
static inline __attribute__((always_inline)) bool
tug_remote_has_contact(const struct tug_remote *remote, int rank, uint8_t wanted) {
    const struct tug_remote_state *state = tug_remote_state_of(remote, rank);
    /* acquire: pairs with the changes in tug_remote_contact() by another thread */
    return state != NULL &&
           (atomic_load_explicit(&state->contact, memory_order_acquire) & wanted) == wanted;
}

/* Makes what is kept of a target and puts it in the list of those used, where it stays as long as
 * the window: waits for all targets visit this list only. To be called before anything is sent to
 * the target. NULL: no memory, which has been logged. Any thread. */
struct tug_remote_state *tug_remote_meet(struct tug_remote *remote, int rank);

/* What the ranks of this node share of a near one. */
static inline struct tug_control *tug_remote_control(const struct tug_remote *remote, int rank) {
    return &remote->sync.controls[remote->team->places.node_rank_of[rank]];
}

/* Unlocks what was locked so. */
static inline void tug_remote_drop_lock(struct tug_rwlock *lock, enum tug_lock_state held) {
    if (held == TUG_LOCK_EXCLUSIVE)
        tug_rwlock_unlock_exclusive(lock);
    else if (held == TUG_LOCK_GROUP)
        tug_rwlock_quit(lock);
    else
        tug_rwlock_unlock_shared(lock);
}

/* Who changes elements of a rank's memory by accumulates holds it. NULL: its engine alone does. */
static inline struct tug_mutex *tug_remote_mutex(const struct tug_remote *remote, int rank) {
    return remote->targets[rank].near ? &tug_remote_control(remote, rank)->stripes[0] : NULL;
}

static inline struct tug_guard tug_remote_guard(const struct tug_remote *remote, int rank) {
    return (struct tug_guard){tug_remote_mutex(remote, rank), 1, TUG_REMOTE_LOCKED};
}

/* An accumulate or fetching operation on elements that lie together on all sides. */
struct tug_remote_combination {
    struct tug_remote *remote;
    int rank;
    MPI_Aint offset; /* in the target's memory, within its bounds; dynamic windows: the address */
    bool now;        /* it does not wait for the flush */
    struct tug_update update;
};

/* Does it, now or with the flush. True: it is begun, or has failed (an error class). False: it is
 * for a message; nothing has happened, and nothing waits that was gathered for the target. */
bool tug_remote_combine(const struct tug_remote_combination *c, int *error);

/* May tug_remote_combine() be worth its while for one small element of many? */
static inline bool tug_remote_may_combine(const struct tug_remote_target *target,
                                          struct tug_remote_state *state) {
    return tug_burst_is_single() || (target->near && target->shortcut == TUG_SHORTCUT_ANY) ||
           tug_peer_may_gather(&state->peer);
}

/* Sends a message of no data to the target's engine. An error class. */
int tug_remote_tell(struct tug_remote *remote, int rank, unsigned id, unsigned what,
                    unsigned round);

/* Makes the contact that operations want with a target, perhaps for several threads at once. An
 * error class. */
int tug_remote_contact(struct tug_remote *remote, int rank);

/* Waits until all that was started to the rank is complete, or (local) until it needs no buffers of
 * ours any more. An error class. */
int tug_remote_flush(struct tug_remote *remote, int rank, bool local);

/* Returns when done(argument) is true. Meanwhile this rank's engine serves the others, and its host
 * MPI gets on, on which what is waited for may depend. */
void tug_remote_wait(struct tug_remote *remote, bool (*done)(void *), void *argument);

/* Waits likewise until the counter has reached `value`. A TUG_ERR_*. */
int tug_remote_wait_counter(struct tug_remote *remote, struct tug_counter *counter, uint64_t value);

/* Ends a registration, as soon as the transports let go of it. */
void tug_remote_deregister(struct tug_remote *remote, tug_registration **registration);

/* Dynamic windows, at the origin: the region of the target's around an address; it is asked for if
 * its book cannot be read here, and it has not been before. An error class, MPI_ERR_RMA_RANGE if
 * there is none. */
int tug_remote_find(struct tug_remote *remote, int rank, uint64_t address,
                    struct tug_region *region);

/* MPI_SUCCESS if all the bytes are attached at the target, perhaps in neighbouring regions. */
int tug_remote_check(struct tug_remote *remote, int rank, uint64_t address, size_t bytes);

/* At the target, holder only: the memory, or NULL if not all bytes of it are attached. */
unsigned char *tug_remote_attached(const struct tug_remote *remote, uint64_t address, size_t bytes);

/* At the target, holder only: the region around the address, for a rank that will have it in a book
 * of its own. TUG_ERR_RANGE: there is none; TUG_ERR_NO_MEMORY: it cannot be noted that this rank
 * has it. */
int tug_remote_tell_region(struct tug_remote *remote, uint32_t rank, uint64_t address,
                           struct tug_region *region);

/* Returns when no other rank knows of regions that have been detached. */
void tug_remote_await_detached(struct tug_remote *remote);

struct tug_attachments *tug_attachments_make(void);
/* Nothing is attached so far. */
void tug_attachments_show(struct tug_attachments *attachments, struct tug_book_room *room);
void tug_attachments_free(struct tug_remote *remote);

/* The error class for a TUG_ERR_*. */
int tug_remote_error(int status);

/* Tries until there is room. */
#define TUG_REMOTE_TRY(context, call)                                                              \
    while (__builtin_expect(!(call), 0))                                                           \
    tug_progress(context)

#endif
