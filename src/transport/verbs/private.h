/* Inside the verbs transport.
 *
 *   library.c         libibverbs, found at run time
 *   device.c          the device and its port
 *   fork.c            what is pinned stays the parent's
 *   memory.c          registered memory
 *   contact.c         which process a context's peer is
 *   pair.c            one peer: connections, made on first use, mended after errors, closed
 *   queue.c           operations to work requests, chains, completions
 *   message.c         packets to and from the peers
 *   signal.c          writes whose signals go right behind them
 *   watch.c           what the watcher does, who sleeps for the engine
 *   endpoint.c        what a process has once for each rail: the device, its queues
 *   rails.c           several ports, and the shares of a long operation that go by them
 *   verbs.c           the table of operations, and the contexts' views
 *
 *      context      context            each has a view of the endpoint
 *         |            |
 *       view         view              numbers of its operations, its packets' wire
 *         |  contacts  |               a view that has had to do with a peer, and its rank there
 *         +--- pair ---+--- pair       processes, by id
 *               |            |
 *         +-----+------------+----+
 *         |  endpoint             |    one a process: device, completion queue, receives
 *         +-----------------------+
 *
 * Where a process has several ports, each that is used is a *rail*, with an endpoint, pairs and a
 * view of each context of its own (the drawing once more for each). The first rail carries packets
 * and all operations; the others carry shares of long reads and writes (rails.c). The processes of
 * a context agree on how many rails it has when it is opened: the n-th of one is connected with the
 * n-th of the other, and messages say which it is. A key has a name from each rail (memory.h).
 *
 * A *pair* is this process and one peer, whatever contexts they share. It has two queue pairs at
 * most, one for each direction: the *sender*, made when the first operation to the peer is posted,
 * and the *server*, made when the peer asks, which answers the peer's operations without this
 * process's help. An error takes a queue pair down with everything on it; so a process's mistakes
 * hit its own operations and never those of its peers.
 *
 *      asker                                              asked
 *      sender made      -- ASK number, address -->        server made and ready
 *      ready, posts     <-- ANSWER number, address, last message taken --
 *
 * A process that asks again has lost its sender: the old server goes, and the answer waits until
 * what has come by it has been taken. A sender has a new number each time it is made, greater than
 * those before, so that a late answer or question is known as such.
 *
 * Every message says the id of its process, which is random. In a context that has not heard of
 * the peer yet it may be a process that is known by another context. Where it can be none of those,
 * the context asks for a connection at once; else for the id (WHO, answered by IAM), and finds the
 * connection that there is. What is posted meanwhile waits at a pair without id, which joins the
 * one of that id, if there is one, when the id is known.
 *
 * There are so many senders, and servers, and no more than TUGBOAT_VERBS_PAIRS of each. Beyond that
 * the one least used is closed that has nothing under way, and is made again when it is wanted:
 *
 *      sender drops     -- CLOSED number -->              takes what has come, and drops the server
 *      drops it if idle <-- CLOSE number --               has too many servers
 *
 * A sender has nothing under way when all that it has sent has been acknowledged by the peer's
 * device: it is in the peer's completion queue at least, which is emptied before the server goes.
 * So nothing is lost. A limit that is all under way is exceeded.
 *
 * A pair without sender and server, and its contacts, are *forgotten* when more than
 * TUG_VERBS_KNOWN pairs exist, so a process of a large job keeps only peers that it uses. Each side
 * decides alone and sends nothing. Its message numbers begin at 1 again: an asker that has
 * forgotten sets `anew` in its ASK; a process that has forgotten takes the asker's `first` as the
 * next number.
 *
 * A device has so many queue pairs, and no more. Where one cannot be had, here or at the peer, the
 * pair is closed for a while: what waits for it, and what comes, takes the next row. So it does
 * where senders fail one after the other, or the device has failed. If there has been a connection
 * before, the pair *moves*: reads and writes that were under way, and packets, wait until nothing
 * comes by the old one any more and the peer has said how many packets it has taken.
 *
 *      sender dropped   -- MOVE number -->                takes what has come, and drops the server
 *      by the next row  <-- MOVED number, taken, last --  (in each context with packets)
 *
 * The packets of a context that have moved stay with that row; operations, and contexts that are
 * made later, come back when the pair is not closed any more.
 *
 * Threading: the holder of the baton, but for making and closing endpoint and views, the registered
 * memory (any thread), the watcher, and what is constant after open.
 */
#ifndef TUG_TRANSPORT_VERBS_PRIVATE_H
#define TUG_TRANSPORT_VERBS_PRIVATE_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/table.h"
#include "transport/endpoint.h"
#include "transport/packets/wire.h"
#include "transport/transport.h"
#include "transport/watcher.h"

/* ---- the library ---- */

/* Functions that verbs.h does not define in line. */
#define TUG_VERBS_FUNCTIONS(X)                                                                     \
    X(ack_async_event)                                                                             \
    X(ack_cq_events)                                                                               \
    X(alloc_pd)                                                                                    \
    X(close_device)                                                                                \
    X(create_comp_channel)                                                                         \
    X(create_cq)                                                                                   \
    X(create_qp)                                                                                   \
    X(create_srq)                                                                                  \
    X(dealloc_pd)                                                                                  \
    X(dereg_mr)                                                                                    \
    X(destroy_comp_channel)                                                                        \
    X(destroy_cq)                                                                                  \
    X(destroy_qp)                                                                                  \
    X(destroy_srq)                                                                                 \
    X(event_type_str)                                                                              \
    X(fork_init)                                                                                   \
    X(free_device_list)                                                                            \
    X(get_async_event)                                                                             \
    X(get_cq_event)                                                                                \
    X(get_device_list)                                                                             \
    X(get_device_name)                                                                             \
    X(modify_qp)                                                                                   \
    X(open_device)                                                                                 \
    X(query_device)                                                                                \
    X(query_gid)                                                                                   \
    X(query_pkey)                                                                                  \
    X(query_port)                                                                                  \
    X(reg_mr)                                                                                      \
    X(reg_mr_iova)                                                                                 \
    X(wc_status_str)

struct tug_ibv {
#define TUG_VERBS_POINTER(name) __typeof__(ibv_##name) *name;
    TUG_VERBS_FUNCTIONS(TUG_VERBS_POINTER)
#undef TUG_VERBS_POINTER
    __typeof__(_ibv_query_gid_ex) *query_gid_ex; /* NULL: libibverbs older than 32 */
    int (*is_fork_initialized)(void);            /* NULL: older than 36 */
    __typeof__(ibv_reg_mr_iova2) *reg_mr_iova2;  /* NULL: libibverbs older than 28 */
};

extern struct tug_ibv tug_ibv;

/* Finds libibverbs, once. False, with a sentence in reason (256 bytes), when it cannot be had. Any
 * thread. */
bool tug_verbs_library(char *reason);

/* Sees to it, once, that memory which a device has pinned stays this process's when it forks:
 * before a device is opened. Any thread. */
void tug_verbs_prepare_fork(void);
/* Does the kernel copy pinned pages for the child of a fork? False: libibverbs takes them from the
 * child. After tug_verbs_prepare_fork(). Any thread. */
bool tug_verbs_fork_copies(void);

/* A device has been opened, or is about to be closed. Any thread. */
void tug_verbs_count_open(int change);

/* ---- the device ---- */

/* What the choice of a port depends on, of the process. */
struct tug_verbs_place {
    uint32_t node_rank;                           /* among the processes of its node */
    int numa_node;                                /* -1: not known */
    const char *sysfs;                            /* where the kernel lists the devices */
    int (*weigh)(const struct in6_addr *address); /* as tug_sockets_weigh() */
};

/* How connections go by a port. */
struct tug_verbs_path {
    union ibv_gid gid;
    uint16_t lid; /* with the path bits */
    uint16_t pkey_index;
    uint8_t gid_index, bits, sl, traffic_class;
    uint8_t mtu; /* enum ibv_mtu */
};

/* A port that a further rail may use. */
struct tug_verbs_other {
    struct ibv_context *context; /* NULL: it is in use, or has been closed */
    char name[TUG_VERBS_NAME_MAX + 1];
    uint8_t port;
};

/* A rail's device and port. */
struct tug_verbs_device {
    struct ibv_context *context;
    struct ibv_pd *pd;
    char name[TUG_VERBS_NAME_MAX + 1];
    uint8_t port;
    uint8_t link_layer;
    uint8_t reads;  /* reads and atomics that one queue pair may have asked for */
    uint8_t serves; /* reads and atomics that one queue pair serves at a time */
    bool atomics;
    uint32_t rate;          /* of the link, in units of 100 Mbit/s */
    uint32_t most_message;  /* bytes of one work request */
    uint32_t most_receives; /* of a shared receive queue */
    int most_cqe;
    struct tug_verbs_path path; /* holder only, once it is used */
    struct tug_verbs_place place;
    struct tug_verbs_other others[TUG_RKEYS - 1]; /* [nothers], the first rail's: as fast as it */
    unsigned nothers;
};

/* This process's place. node_rank: in a context, for where the launcher does not tell the rank
 * among those of the job on this node. */
void tug_verbs_place_here(struct tug_verbs_place *place, uint32_t node_rank);

/* True, with a sentence in reason (256 bytes): no device that the settings allow has a port that
 * may be up. Opens none. Any thread. */
bool tug_verbs_device_missing(const struct tug_verbs_place *place, char *reason);
/* Opens the best active port that the settings allow (device.c). False, with a sentence in reason,
 * when there is none. */
bool tug_verbs_device_open(struct tug_verbs_device *device, const struct tug_verbs_place *place,
                           char *reason);
/* Opens the n-th one, from 0 on, of the others that were found with the first rail's. */
bool tug_verbs_device_open_other(struct tug_verbs_device *device, struct tug_verbs_device *first,
                                 unsigned n, char *reason);
/* Reads the path again. False: the port is not active now, and the path is as it was. Holder only.
 */
bool tug_verbs_device_read_path(struct tug_verbs_device *device);
void tug_verbs_device_close(struct tug_verbs_device *device);
/* A region of memory that the device has at address `at`. In memory that peers do not write to, or
 * where the settings allow it, the device's writes may overtake one another: what they have brought
 * is there once their completion is. NULL: the device refuses, errno. Any thread. */
struct ibv_mr *tug_verbs_device_register(const struct tug_verbs_device *device, void *memory,
                                         size_t bytes, uint64_t at, int access);

/* ---- registered memory ---- */

/* Where the device has the first byte of a registration that lies at `base` in its owner's memory.
 * Every process can tell; no two registrations of one context, one after the other or at once, have
 * addresses in common (but by a chance of 2^-32), so that the device refuses what was remembered of
 * one and comes with the rkey of another. As far on in a GiB as base: huge pages stay whole. */
static inline uint64_t tug_verbs_address(uint64_t id, uint64_t base) {
    const uint64_t gib = UINT64_C(1) << 30;
    return (tug_key_fold(id ^ 0x9e3779b97f4a7c15u, 0xff51afd7ed558ccdu) >> 32) * gib + base % gib;
}

struct tug_verbs;
struct tug_verbs_view;

/* As a row's: makes the memory known to the devices of all rails, which may refuse. */
int tug_verbs_memory_register(void *state, struct tug_registration *registration);
void tug_verbs_memory_deregister(struct tug_registration *registration);
/* Makes memory that no peer accesses known to that rail's device alone. access: IBV_ACCESS_*.
 * False: the device refuses, which is logged unless the program itself may not access it so. */
bool tug_verbs_memory_register_local(const struct tug_verbs *verbs,
                                     struct tug_registration *registration, int access);
/* As that rail's device knows it. NULL: it does not. Any thread. */
struct ibv_mr *tug_verbs_memory_of(const struct tug_registration *registration, uint32_t rail);

/* ---- pairs ---- */

#define TUG_VERBS_DEPTH 64           /* slots of one sender, see below; a power of two */
#define TUG_VERBS_SIGNAL 64          /* every so many requests report their end, see queue.c */
#define TUG_VERBS_WAIT 16            /* fewer wait for more while the peer has work of ours */
#define TUG_VERBS_INLINE 220         /* bytes asked for in a work request itself */
#define TUG_VERBS_INDICES (1u << 20) /* pairs that there may be */
/* Pairs above which some are forgotten (room for a sender each and a server each), and the most
 * between two such times. Pairs that cannot be forgotten come on top. */
#define TUG_VERBS_KNOWN(pairs) ((uint32_t)(2 * (pairs)))
#define TUG_VERBS_KNOWN_MOST(pairs) (TUG_VERBS_KNOWN(pairs) + (uint32_t)((pairs) / 2))

/* A slot for each operation, or piece of one, or message under way on a sender: its number, or that
 * of the message's memory, and these bits. An operation's *number* is its tag behind the first
 * number of its context: among those of all contexts there is one of that number. */
#define TUG_SLOT_SIGNALLED 0x80000000u /* the device reports its end */
#define TUG_SLOT_LAST 0x40000000u      /* the operation ends with it */
#define TUG_SLOT_JOINED 0x20000000u    /* the next slot is of the same work request */
#define TUG_SLOT_MESSAGE 0x10000000u
#define TUG_SLOT_TAG 0x0fffffffu

/* In the id of a work request, whose low half is a slot's number otherwise: it is a receive. */
#define TUG_REQUEST_RECEIVES 0x80000000u

/* ---- messages ---- */

/* Packets are SENT to the peer's server, whose shared receive queue puts them into the memory of
 * the next receive. There are receives for what the connected peers may have under way, up to a
 * limit; a sender for which there is none waits in its device, and with it all that is behind. A
 * packet is copied into a slot of registered memory and stays there until its arrival has been
 * reported: after an error of the sender it goes again, by the next one. Every message bears its
 * number among those to that peer, so that one that has come twice is known and comes once, and in
 * order. */
#define TUG_VERBS_PACKET_BYTES 8000u /* fits where packets go that find no connection */
#define TUG_VERBS_MESSAGE_BYTES 8192u
#define TUG_VERBS_KEPT 4u            /* packets that are not in a slot, kept for later */
#define TUG_VERBS_RECEIVES 32u       /* in one block of memory */
#define TUG_VERBS_RECEIVES_MOST 512u /* for all peers, 4 MiB */
#define TUG_VERBS_SENDS 24u
#define TUG_VERBS_SENDS_EACH 16u /* to one peer, at most */
#define TUG_VERBS_SENDS_LEAST 8u /* to each peer, whatever others do */
#define TUG_NO_MESSAGE UINT32_MAX

/* Slots of registered memory for packets to go, TUG_VERBS_SENDS of them. A peer that does not look
 * keeps its slots until it looks. So another block is made when all slots are taken and a peer has
 * fewer than TUG_VERBS_SENDS_LEAST: its packets do not wait for those to others. As no peer has
 * more than TUG_VERBS_SENDS_EACH, there are at most two blocks for three peers. */
struct tug_verbs_slot {
    uint32_t next, bytes;
    uint32_t number; /* of the message */
};

struct tug_verbs_block {
    struct ibv_mr *mr;
    unsigned char *memory;
    size_t mapped_bytes;
    struct tug_verbs_slot slots[TUG_VERBS_SENDS];
};

struct tug_verbs_messages {
    struct tug_verbs_block **blocks; /* [nblocks]; slots are numbered through all of them */
    uint32_t nblocks;
    bool no_more;   /* another block could not be had */
    uint32_t spare; /* the first slot that no packet is in; linked by next */
    struct tug_verbs_block *receives[TUG_VERBS_RECEIVES_MOST / TUG_VERBS_RECEIVES];
    uint32_t nreceives;
    uint32_t taken[TUG_VERBS_RECEIVES_MOST]; /* [ntaken] receives to be posted again */
    uint32_t ntaken;
    struct ibv_wc held[TUG_VERBS_RECEIVES_MOST]; /* a ring: receives that could not be handed up,
                                                    for want of memory, and those behind them */
    uint32_t first_held, nheld;
};

static inline struct tug_verbs_block *tug_verbs_block(const struct tug_verbs_messages *messages,
                                                      uint32_t slot) {
    return messages->blocks[slot / TUG_VERBS_SENDS];
}

static inline struct tug_verbs_slot *tug_verbs_slot(const struct tug_verbs_messages *messages,
                                                    uint32_t slot) {
    return &tug_verbs_block(messages, slot)->slots[slot % TUG_VERBS_SENDS];
}

/* What the packets' side is to be told of a peer by the next poll. */
enum tug_verbs_word {
    TUG_WORD_NONE,
    TUG_WORD_LEADS,
    TUG_WORD_LEADS_NOT,
    TUG_WORD_ENDED,
    TUG_WORD_MOVES
};

enum tug_verbs_phase { TUG_PAIR_IDLE, TUG_PAIR_ASKED, TUG_PAIR_UP };

struct tug_verbs;

/* A view has had to do with a peer. */
struct tug_verbs_contact {
    struct tug_verbs_view *view;
    struct tug_verbs_pair *pair;
    struct tug_verbs_contact *next; /* the pair's */
    uint32_t rank;                  /* the peer's in the view's context */
    uint8_t word;                   /* enum tug_verbs_word */
    bool met;                       /* the packets' side waits to be told whether it leads there */
    bool leads;                     /* it has been told so */
    bool asked;                     /* for the id */
    bool gone;                      /* nothing can be asked by this context any more */
    bool moving;                    /* the pair moves, and this one is not done */
    uint8_t due;                    /* the message (pair.c) that the peer gets when all has been
                                       taken that has come by its old senders; 0: none */
    uint32_t taken;                 /* TUG_WORD_MOVES: packets that the peer has taken */
};

/* Operations in order, by their numbers; linked by `next`. */
struct tug_verbs_list {
    uint32_t first; /* TUG_NO_TAG: it is empty */
    uint32_t last;
};

struct tug_verbs_pair {
    uint64_t id;     /* of the process; 0: not known yet */
    uint32_t index;  /* its index in verbs->pairs */
    uint32_t number; /* the number of the sender's last question */
    uint32_t served; /* the number of the peer's last question; 0: none */
    uint8_t phase;   /* enum tug_verbs_phase, of the sender */
    bool touched;    /* it is in the list verbs->touched */
    bool lost;       /* the peer did not answer the last time */
    bool fresh;      /* no sender has been ready yet: messages to the peer begin with number 1 */
    bool blank;      /* the peer has had no server yet: its next number is not known */
    bool closed;     /* no message can be on its way here: the peer has said CLOSED or MOVE, or has
                        never had a server */
    uint8_t failed;  /* so many senders in a row failed, and this one has done nothing yet */
    bool urgent;     /* a large operation or a message is among those that wait */
    bool has_loaded; /* the last atomic posted was a READ (TUG_ATOMIC_LOADS): the next one is fenced
                      */
    bool told;       /* the peer has been told to close its sender if it is idle */
    uint32_t psn, server_psn;
    uint32_t most_inline;
    uint64_t deadline_ns; /* when a peer that was lost before must have answered; 0: no limit */
    uint64_t closed_ns;   /* until then no connection can be had; 0: nobody knows */
    uint32_t moving;      /* contacts that are; meanwhile it is closed */
    uint64_t used, heard; /* verbs->uses when something was sent last, and has come */
    struct tug_verbs_contact *contacts;
    struct tug_verbs_contact *asker; /* by which the question went, while phase is ASKED */
    struct ibv_qp *sender;
    struct tug_verbs_server *server;
    uint32_t retired;                    /* older servers in the list verbs->retired */
    struct tug_verbs_pair *next_touched; /* or the next spare one */
    struct tug_verbs_list operations;    /* those that wait */
    uint32_t waiting;                    /* how many they are */
    uint32_t ordered; /* of these, those that messages must not overtake: TUG_WRITE_AHEAD */
    uint32_t message_first, message_last; /* messages that wait, or TUG_NO_MESSAGE */
    uint32_t messages;                    /* in slots */
    uint32_t numbered, received;          /* numbers of the last messages to and from the peer */
    uint32_t sent, done;                  /* slots used so far; their difference is under way */
    uint32_t slots[TUG_VERBS_DEPTH];
};

/* A descriptor of the library's that the process's watcher sleeps at. */
struct tug_verbs_watch {
    struct tug_watch watch; /* the first member */
    struct tug_verbs *verbs;
    struct tug_own file;
    void (*take)(struct tug_verbs *verbs); /* takes what is to be read there */
};

/* A server, the qp_context of its queue pair. It is in a list when it is not used any more: it is
 * in error then, until the device has reported that it takes no more of the receives (or long
 * enough has passed: some devices do not tell), and all that it has received has been taken. */
struct tug_verbs_server {
    struct tug_verbs_server *next;
    struct tug_verbs_pair *pair;
    uint32_t first; /* the number of the first message by it */
    bool restarts;  /* that one has not come; it is the next, whatever number came last: one of the
                       two processes had forgotten the pair */
    struct ibv_qp *qp;
    uint64_t until_ns;
    atomic_bool reported; /* by the watcher */
    bool seen;            /* it was so before the completion queue was looked at */
};

/* The endpoint: made with the first view, closed with the last. */
struct tug_verbs {
    struct tug_endpoint base; /* the first member */
    uint64_t id;              /* this process's random id, on this rail */
    uint32_t rail;
    struct tug_verbs_device device;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_srq *srq;    /* of all servers; NULL: the device has none */
    uint32_t most_receives; /* that fit there, and into the completion queue beside its room */
    uint32_t cq_size;
    uint32_t cq_room; /* completions of requests that fit beside those that may still come; those
                         of receives have their own room */

    struct tug_verbs_view **views; /* [nviews] each has 1 << shift numbers for its operations; NULL:
                                      they are nobody's */
    uint32_t nviews, shift;

    struct tug_verbs_pair **pairs; /* [npairs] */
    uint32_t npairs, pairs_capacity;
    uint32_t nspare;                /* the length of the list `spare` */
    uint32_t forget_at;             /* above this many pairs in use the next poll forgets some */
    struct tug_table ids;           /* pairs by their ids */
    struct tug_table servers;       /* by the numbers of their queue pairs */
    struct tug_verbs_pair *touched; /* what flush looks at */
    struct tug_verbs_pair *spare;   /* unused: joined to another pair, or forgotten */
    uint32_t numbers;
    uint32_t asked_again; /* pairs with a deadline */
    uint32_t nsenders, nservers;
    uint64_t uses;

    struct tug_verbs_list finished; /* operations to be completed by the next poll */
    uint64_t said;                  /* bits of causes that have been logged */

    struct tug_origin *origin; /* memory for operations; NULL: none has needed any (origin.h) */
    struct tug_verbs_messages *messages; /* NULL: it carries no packets */
    uint32_t untold;                     /* words of contacts, and what is due by them: how many */
    struct tug_verbs_server *retired;

    struct ibv_send_wr *chain;                 /* [TUG_VERBS_DEPTH] being built */
    struct ibv_sge *pieces;                    /* [TUG_VERBS_DEPTH] */
    unsigned char (*joined)[TUG_VERBS_INLINE]; /* [TUG_VERBS_DEPTH]: data of joined writes */
    uint64_t chains, posted;                   /* chains and requests so far */

    struct tug_verbs_watch completions, bad_news;
    atomic_bool port_changed; /* the path is read again before the next connection */
    bool device_given_up;
};

/* A context's state for one rail; the row's is that of the first. */
struct tug_verbs_view {
    struct tug_wire wire; /* the first member */
    struct tug_verbs *verbs;
    struct tug_verbs_view *first_rail;
    struct tug_verbs_view *rails[TUG_RKEYS]; /* [nrails], of the first: all, itself too */
    uint32_t nrails;
    struct ibv_mr *operations_mr; /* fabric->operations: source of small data, and where results
                                     arrive */
    uint32_t first;               /* the number of operation 0 */
    uint32_t out;              /* operations taken and not completed, those cut into shares too */
    struct tug_table contacts; /* by the peers' ranks */
};

static inline struct tug_verbs_view *tug_verbs_view_of(const struct tug_verbs *verbs,
                                                       uint32_t number) {
    return verbs->views[number >> verbs->shift];
}

static inline struct tug_operation *tug_verbs_operation(const struct tug_verbs *verbs,
                                                        uint32_t number) {
    const struct tug_verbs_view *view = tug_verbs_view_of(verbs, number);
    return &view->wire.fabric->operations[number - view->first];
}

/* ---- the endpoint ---- */

/* Opens the device, with a completion queue for so many operations; first: the first rail's device,
 * of another rail. NULL, with a sentence in reason (256
 * bytes): it cannot be had. Any thread; who makes it closes it, or the last view's end does. */
struct tug_verbs *tug_verbs_endpoint_make(uint32_t operations, uint32_t rail,
                                          const struct tug_verbs_place *place,
                                          struct tug_verbs_device *first, char *reason);

/* What the endpoint does for its views, endpoint.h. */
extern const struct tug_endpoint_kind tug_verbs_kind;
void tug_verbs_endpoint_close(struct tug_endpoint *base);

/* The numbers of a view's operations, from view->first on. False: no memory, or they are all given.
 * Holder only. */
bool tug_verbs_number(struct tug_verbs_view *view);
void tug_verbs_number_not(struct tug_verbs_view *view);

/* Views of the endpoints at homes[TUG_RKEYS], those of the rails, which are made where there are
 * none. As a row's open. */
int tug_verbs_open_at(struct tug_endpoint **homes, struct tug_fabric *fabric, void **state,
                      char *reason);

/* ---- contacts ---- */

/* The contact of a context's peer, made the first time with a pair of its own. NULL: no memory. */
struct tug_verbs_contact *tug_verbs_contact_of(struct tug_verbs_view *view, uint32_t rank);
/* That contact is the process of that id: it has the id's pair from now on. False: it is another
 * one, or there is no memory. */
bool tug_verbs_contact_is(struct tug_verbs_contact *contact, uint64_t id);
/* One by which the pair's peer can be asked. NULL: none. */
struct tug_verbs_contact *tug_verbs_contact_open(const struct tug_verbs_pair *pair);
/* May the peer, of whom the contact knows no id, be a process that is known here? */
bool tug_verbs_contact_may_be_known(const struct tug_verbs_contact *contact);
/* The peer's rank in some context, for what is logged. */
uint32_t tug_verbs_rank(const struct tug_verbs_pair *pair);
/* The view's contacts end. */
void tug_verbs_contacts_end(struct tug_verbs_view *view);

/* ---- pairs ---- */

/* A pair of which no id is known yet. NULL: no memory. */
struct tug_verbs_pair *tug_verbs_pair_make(struct tug_verbs *verbs);
/* The pair without id is the other one: what waits there waits here, and it is spare. */
void tug_verbs_pair_join(struct tug_verbs *verbs, struct tug_verbs_pair *pair,
                         struct tug_verbs_pair *into);

/* True while no connection to the peer can be had: its operations are for the next row. */
static inline bool tug_verbs_pair_closed(struct tug_verbs_pair *pair) {
    if (__builtin_expect(pair->closed_ns == 0, 1))
        return false;
    if (pair->moving > 0 || tug_clock_ns() < pair->closed_ns)
        return true;
    pair->closed_ns = 0;
    return false;
}

/* Asks the peer for a connection. When it cannot be had here, the waiting operations are handed on.
 */
void tug_verbs_pair_connect(struct tug_verbs *verbs, struct tug_verbs_pair *pair);
/* The pair, whose sender is gone, is closed until then: its work takes the next row. */
void tug_verbs_pair_move(struct tug_verbs *verbs, struct tug_verbs_pair *pair, uint64_t until_ns);
/* A context that may have carried a MOVE of the pair ends: the MOVE is said again. */
void tug_verbs_pair_move_again(struct tug_verbs_pair *pair);
/* The contact is done with moving, or cannot be. */
void tug_verbs_contact_moved(struct tug_verbs_contact *contact);
/* Tells the contact's peer what is due to it: all has been taken that has come by old senders. */
void tug_verbs_tell_due(struct tug_verbs_contact *contact);
/* A message from that rank of the context, whose view of the first rail it is. */
void tug_verbs_pair_control(struct tug_verbs_view *view, uint32_t peer, const void *data,
                            size_t bytes);
/* The peer cannot be asked any more by that context. What is connected goes on. */
void tug_verbs_pair_gone(struct tug_verbs_view *view, uint32_t peer);
/* The completion queue has been empty: destroys the servers that have been replaced, if that was
 * after all that they had received. False: one has just come so far, so that it is to be looked at
 * again. */
bool tug_verbs_drop_retired(struct tug_verbs *verbs);
/* Drops the sender, with its completions. Work under way must have been dealt with before. */
void tug_verbs_pair_drop_sender(struct tug_verbs *verbs, struct tug_verbs_pair *pair);
/* Fails what waits for answers that do not come. */
bool tug_verbs_pairs_expire(struct tug_verbs *verbs);
/* Closes idle senders, the least used first, until there are at most so many. */
void tug_verbs_pairs_shed(struct tug_verbs *verbs, uint32_t most);
/* Forgets pairs without connections, if there are many. No caller up the stack may have a pair or
 * contact in hand. */
void tug_verbs_pairs_forget(struct tug_verbs *verbs);
void tug_verbs_pairs_free(struct tug_verbs *verbs);

/* ---- operations ---- */

/* The pair is looked at by the next flush. */
static inline void tug_verbs_touch(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    if (pair->touched)
        return;
    pair->touched = true;
    pair->next_touched = verbs->touched;
    verbs->touched = pair;
}

/* Posts the operation by the view's rail. */
void tug_verbs_post(struct tug_verbs_view *view, struct tug_operation *operation);
/* Whether operations that wait at a pair go on waiting for more. They do not if a large operation
 * or a message is among them, or if aggregation is off. */
enum tug_verbs_batch {
    TUG_BATCH_GOES,  /* the pair posts as many as it has room for */
    TUG_BATCH_ENDS,  /* the caller has no more for now: fewer than TUG_VERBS_WAIT operations wait
                        until  the next poll, if the pair has work under way */
    TUG_BATCH_GROWS, /* the caller is about to start more: fewer than TUG_VERBS_DEPTH operations
                        wait until the next poll */
};
void tug_verbs_flush(struct tug_verbs *verbs, enum tug_verbs_batch batch);
/* One look at the queue, for all views. */
bool tug_verbs_poll(struct tug_endpoint *base);
/* What waits at the pair waits at the other one, behind what waits there. */
void tug_verbs_wait_with(struct tug_verbs *verbs, struct tug_verbs_pair *pair,
                         struct tug_verbs_pair *other);
/* Everything that waits for the pair ends with status. */
void tug_verbs_fail_waiting(struct tug_verbs *verbs, struct tug_verbs_pair *pair, int status);
/* Everything that waits for the pair is handed on to the next row. */
void tug_verbs_pass_waiting(struct tug_verbs *verbs, struct tug_verbs_pair *pair);
/* The last message that the peer has taken by old senders is that one: writes that wait to start
 * again and are known by that to have been done, are done. */
void tug_verbs_received(struct tug_verbs *verbs, struct tug_verbs_pair *pair, uint32_t number);

/* ---- rails ---- */

/* Cuts the operation into shares and posts them, if it is long and several rails lead to its peer,
 * or another one than the first; it ends with the last share. False: it is as it was. view: of the
 * first rail. */
bool tug_verbs_cut(struct tug_verbs_view *view, struct tug_operation *operation);
/* Posts a short operation by the port that it names. Where that one has no way to the peer, or does
 * not know the memory, the operation takes the next row. view: of the first rail. */
void tug_verbs_post_by_port(struct tug_verbs_view *view, struct tug_operation *operation);
/* The view's rail has no way to the peer: another one takes the operation, if it is a share and
 * there is one that it has not been at. */
bool tug_verbs_share_goes_on(struct tug_verbs_view *view, struct tug_operation *operation);

/* ---- writes whose signals go right behind them ---- */

/* As in a row. */
bool tug_verbs_post_signalled(void *state, struct tug_operation *write,
                              struct tug_operation *signal);
/* The write, which is TUG_WRITE_AHEAD, has ended: with an error, before messages go again; or well,
 * when that is told right behind this. Returns what it ends with. */
int tug_verbs_signalled_ends(struct tug_verbs_view *view, struct tug_operation *write, int status);
/* It is about to go by another row. */
void tug_verbs_signalled_passes(struct tug_verbs_view *view, struct tug_operation *write);
/* It was under way at that slot of a sender that has failed, and starts again. */
void tug_verbs_signalled_again(const struct tug_verbs *verbs, const struct tug_verbs_pair *pair,
                               struct tug_operation *write, uint32_t at);
/* Has it been done, as the peer has taken the message of that number? */
bool tug_verbs_signalled_came(struct tug_operation *write, uint32_t received);

/* ---- messages ---- */

/* Memory for them, if there is none yet. False: the device has no room for it. Holder only. */
bool tug_verbs_messages_open(struct tug_verbs *verbs);
void tug_verbs_messages_close(struct tug_verbs *verbs);
/* Receives for so many peers: as many as they may have under way, and a block at least. */
static inline uint32_t tug_verbs_receives(size_t peers) {
    const size_t blocks =
        (peers * TUG_VERBS_SENDS_EACH + TUG_VERBS_RECEIVES - 1) / TUG_VERBS_RECEIVES;
    const uint32_t most = TUG_VERBS_RECEIVES_MOST / TUG_VERBS_RECEIVES;
    return TUG_VERBS_RECEIVES * (blocks < 1 ? 1 : blocks > most ? most : (uint32_t)blocks);
}
/* So many peers have connections to here: posts receives for them, as far as the device has
 * room. False: there are none at all. Holder only. */
bool tug_verbs_messages_expect(struct tug_verbs *verbs, uint32_t peers);

/* As in a row. */
bool tug_verbs_send(struct tug_wire *wire, uint32_t peer, struct tug_buffer *buffer);
int tug_verbs_meet(struct tug_wire *wire, uint32_t peer);

/* Does a message wait for the sender? */
static inline bool tug_verbs_message_waits(const struct tug_verbs_pair *pair) {
    return pair->message_first != TUG_NO_MESSAGE;
}
/* Fills a request with the first message that waits, which is under way then. Returns its number
 * among the messages' slots. */
uint32_t tug_verbs_message_fill(struct tug_verbs *verbs, struct tug_verbs_pair *pair,
                                struct ibv_send_wr *request, struct ibv_sge *piece);
/* A message that was under way has arrived, or is given up; or it waits again, ahead of the others.
 */
void tug_verbs_message_give(struct tug_verbs *verbs, struct tug_verbs_pair *pair, uint32_t slot);
void tug_verbs_message_again(struct tug_verbs *verbs, struct tug_verbs_pair *pair, uint32_t slot);
/* The context's signal of that tag is void in messages that have not arrived for certain. */
void tug_verbs_messages_void(const struct tug_verbs_view *view, uint32_t tag);
/* A receive has ended. */
void tug_verbs_message_came(struct tug_verbs *verbs, const struct ibv_wc *completion);

/* Is there memory now for what could not be taken? */
void tug_verbs_messages_resume(struct tug_verbs *verbs);
/* Posts the receives again that have been taken. */
void tug_verbs_messages_renew(struct tug_verbs *verbs);
/* There is no way to the peer: what waits is dropped, and the packets' side is told. */
void tug_verbs_messages_drop(struct tug_verbs *verbs, struct tug_verbs_pair *pair);
/* The packets' side is to be told. */
void tug_verbs_say(struct tug_verbs_contact *contact, enum tug_verbs_word word);
/* All contexts' are that mind: ENDED is for those that it leads there, the others for those that
 * wait to be told. */
void tug_verbs_say_all(const struct tug_verbs_pair *pair, enum tug_verbs_word word);
/* Tells it, and peers what is due to them. True if there was something. */
bool tug_verbs_tell(struct tug_verbs *verbs);

/* ---- the watcher ---- */

/* From watch to unwatch the watcher rings the bells of all views. False: it cannot. */
bool tug_verbs_watch(struct tug_verbs *verbs);
void tug_verbs_unwatch(struct tug_verbs *verbs);

#endif
