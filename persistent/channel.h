/* Channels: memory through which the ranks of a node hand each other the segments of a collective.
 *
 * A channel has *rings*, each with one writer and many readers. It may have a *landing*: memory of
 * the message's size that all ranks read. It may have *pairs*: a ring with one reader for each two
 * ranks of the node and direction, for messages between them. A request uses one channel, and of it
 * one ring for each rank of the node that writes.
 *
 *     channel: | ring 0 | ring 1 | ... | landing | pair 0 to 0 | pair 0 to 1 | ... | pair 1 to 0 |
 *
 *     ring:    | read counts, by node rank | slot heads | slot data |
 *     pair:    | the reader's read count | rendezvous | slot heads | slot data |
 *
 * Read counts, rendezvous and slot heads take a cache line each. A read count has beside it what
 * the reader asks of the writer, where the two reach into each other's memory.
 *
 * A slot's head carries the number of the segment it holds. It carries the data too, if they fit:
 * one cache miss brings both. A reader's count says which segment it needs next; the writer reuses
 * a slot when the counts of all readers are past it. Rings of short segments have more slots, so
 * that a writer may be several runs ahead; their readers may keep some reads to themselves (`lag`).
 * Numbers only grow, over all runs of all requests that use the channel one after another, whoever
 * writes, so nothing is ever reset.
 *
 * Cut out of the arena of a team (arena.h), never given back to it, used again by later requests.
 * Made and chosen collectively; used by the holder of the baton only.
 */
#ifndef TUG_PERSISTENT_CHANNEL_H
#define TUG_PERSISTENT_CHANNEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/cma.h"
#include "node/lent.h"

struct tug_collectives;
struct tug_far_stream;
struct tug_team;

#define TUG_PAIR_RANKS 64   /* nodes of more ranks have no pairs: there are too many of them */
#define TUG_SEGMENT_SLOTS 8 /* of a pair in a channel, and of a ring at least */
#define TUG_SLOT_INLINE 56  /* bytes of data that ride in a slot's head */
#define TUG_CHANNEL_TAGS 64 /* tags of its messages between nodes; the last is for oneself */

struct tug_slot_head {
    _Atomic uint64_t number; /* position + 1 of the segment that is in the slot */
    unsigned char data[TUG_SLOT_INLINE];
} __attribute__((aligned(64)));

struct tug_read_count {
    _Atomic uint64_t count; /* position that this node rank needs next */
    struct tug_cma_ask ask; /* by this node rank, of the ring's writer */
} __attribute__((aligned(64)));

/* What both ends of a pair share for a long message: see rendezvous.h. */
struct tug_rendezvous {
    _Atomic uint64_t claims;
    _Atomic uint64_t written; /* pieces that the writer has copied */
    uint64_t to;              /* the address in the reader where the message goes */
} __attribute__((aligned(64)));

/* One rank's view of a ring. */
struct tug_segment_ring {
    struct tug_read_count *reads;      /* [node size]; of a pair [1] */
    struct tug_rendezvous *rendezvous; /* of a pair */
    struct tug_slot_head *heads;       /* [slots] */
    unsigned char *data;               /* slots x slot_bytes */
    uint32_t slots;                    /* a power of two */
    uint32_t lag;        /* of a ring: positions that a reader may have passed and not told */
    uint64_t position;   /* segments of all runs that are over, the same on every rank; of a
                            pair: segments that this rank has written or read */
    uint64_t reads_seen; /* of the writer: all readers are past this position */
};

/* What a request needs. The same on all ranks. */
struct tug_channel_needs {
    size_t slot_bytes;    /* 0: nothing but what rides in a slot's head */
    size_t landing_bytes; /* 0: no landing */
    uint32_t rings;       /* writers on a node, at most */
    size_t pair_bytes;    /* of a slot of a pair; 0: no pairs. Worked out by tug_channel_take() */
};

struct tug_channel {
    struct tug_channel_needs has;
    struct tug_segment_ring *rings; /* [has.rings]; NULL if every rank is alone on its node */
    unsigned char *landing;         /* NULL without */
    struct tug_segment_ring *to;    /* [node size] this rank's pairs; NULL without */
    struct tug_segment_ring *from;  /* [node size] */
    void *far; /* tree (tsearch()) of the streams to and from ranks of other nodes (far.h) */
    struct tug_far_stream *wanted; /* of these, by a request that is about to open them */
    int index;                     /* in the team's list */
    bool busy;                     /* a request of this rank uses it */
};

/* What a rank has to say of a new request. */
struct tug_ballot {
    uint64_t bytes;         /* of the messages, or what else must be the same on all ranks */
    bool willing;           /* it could prepare its part */
    bool plain;             /* its part lies as plain bytes; after the vote: so do all ranks' */
    bool compares;          /* it has the host's request beside; after the vote: all have */
    uint64_t near_bytes;    /* of its longest message through a pair; after the vote: of any rank's,
                               less than twice the longest */
    struct tug_offer offer; /* one rank's at most; after the vote every rank has it */
};

/* A channel that no rank uses, for one request. Collective over the team, the same answer on all
 * ranks: 0, TUG_ERR_NO_MEMORY if shared memory (or the host's tags) run out, TUG_ERR_INVALID if
 * their `bytes` differ or any of them is not willing. */
int tug_channel_take(struct tug_team *team, const struct tug_channel_needs *needs,
                     struct tug_ballot *ballot, struct tug_channel **channel);

/* Ends a request's use of team and channel. Local. */
void tug_channel_release(struct tug_team *team, struct tug_channel *channel);

/* Bytes in a segment of a collective that goes through channels; TUGBOAT_SEGMENT overrides it.
 * Where ranks outnumber the cores a segment costs every rank a turn on one: segments are few and
 * long. Where one rank writes `alone` they are long too: the next message is on its way while one
 * is read. Elsewhere a message has several, long enough to hide their hand-over (a cache miss or
 * two), and short enough that the rings stay in the second-level cache. */
size_t tug_channel_segment(const struct tug_team *team, size_t bytes, bool alone);

/* The team goes, and its channels with it. */
void tug_channel_free_all(struct tug_collectives *collectives);

#endif
