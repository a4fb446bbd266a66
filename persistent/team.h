/* Teams: what the ranks of a communicator need to run persistent collectives together, and what
 * their windows need to know of them.
 *
 * A team hangs on the program's communicator as an attribute, is made by the first persistent
 * collective or window on it (collectively) and goes with it. It has a private communicator for the
 * traffic between nodes, the map of ranks to nodes as the host sees them (MPI_COMM_TYPE_SHARED),
 * and an *arena*: memory shared by the ranks of this node, taken from the host MPI, out of which
 * *channels* are cut.
 *
 *     arena chunk 0:  | how to write | bell of node rank 0 | bell 1 | ... | channel | channel | ...
 *     later chunks:   | channel | channel | ...
 *
 *     channel:        | read count of node rank 0 | 1 | ... | slot head 0 | ... | slot data 0 | ...
 *                       (a cache line each)                   (a cache line each)
 *
 * A channel is a ring of TUG_CHANNEL_SLOTS segments with one writer and many readers. A slot's head
 * carries the number of the segment it holds, and, if the segment is that small, the data too: one
 * cache miss brings both. A reader's count says how many segments it has collected; the writer
 * reuses a slot when all have. Numbers only grow, over all starts and all requests that use the
 * channel one after another, so nothing is ever reset.
 *
 * Making and freeing happen on the program's threads under MPI's rules for collectives; channels
 * are used by the holder of the baton only.
 */
#ifndef TUG_PERSISTENT_TEAM_H
#define TUG_PERSISTENT_TEAM_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/park.h"

#define TUG_CHANNEL_SLOTS 8
#define TUG_SLOT_INLINE 56 /* bytes of data that ride in a slot's head */

struct tug_slot_head {
    _Atomic uint64_t number; /* segments published through this slot's turn: position + 1 */
    unsigned char data[TUG_SLOT_INLINE];
} __attribute__((aligned(64)));

struct tug_read_count {
    _Atomic uint64_t count; /* segments this node rank has collected */
} __attribute__((aligned(64)));

/* Classes of channels by slot size, for what is measured once a class: 4 KiB, 8 KiB, ... */
#define TUG_CHANNEL_CLASSES 16

/* One rank's view of a channel. */
struct tug_channel {
    size_t slot_bytes;
    struct tug_read_count *reads; /* [node size] */
    struct tug_slot_head *heads;  /* [TUG_CHANNEL_SLOTS] */
    unsigned char *data;          /* TUG_CHANNEL_SLOTS x slot_bytes */
    _Atomic uint32_t *streaming;  /* shared: write past the caches (copy.h) */
    uint64_t position;            /* segments that have gone through, on every rank alike */
    uint64_t reads_seen;          /* writer: all readers have collected at least so many */
    int index;                    /* in the team's list: the tag of its messages between nodes */
    bool busy;                    /* a request of this rank uses it */
};

struct tug_team {
    MPI_Comm comm;      /* private: traffic between nodes, agreement at init */
    MPI_Comm node_comm; /* private: the ranks of this node */
    int rank, nranks;
    int node_rank, node_size;
    int *node_of;      /* [nranks] number of each rank's node, by first appearance */
    int *node_rank_of; /* [nranks] rank in its node */
    int *leader_of;    /* [nnodes] lowest rank of each node */
    int nnodes;
    bool crowded;                /* some node has more of our ranks than cores */
    _Atomic uint32_t *streaming; /* [TUG_CHANNEL_CLASSES] shared by the node */
    uint32_t probed;             /* bit set of classes measured */
    struct tug_bell *bells;      /* [node size], a cache line each: see tug_team_bell() */
    struct tug_chunk *chunks;    /* newest first */
    struct tug_chunk *spare;     /* blocks, by id */
    pthread_mutex_t spare_lock;
    uint32_t last_chunk;         /* id */
    struct tug_meeting *meeting; /* NULL: not made yet */
    uint32_t meetings;           /* so far */
    struct tug_channel **channels;
    int nchannels, channel_capacity;
    uint64_t *votes;                   /* room for an agreement over all channels */
    _Atomic int references;            /* requests and windows of this rank */
    void *domain;                      /* what its windows share, or NULL; ends with the team, by */
    void (*domain_free)(void *domain); /* ... this, collective */
};

/* What a rank brings to a meeting. */
struct tug_word {
    unsigned char bytes[64];
};

/* Makes ready to meet. Collective over a team whose ranks share a node, the same answer on all
 * ranks: 0, TUG_ERR_NO_MEMORY. */
int tug_team_prepare_to_meet(struct tug_team *team);

/* Brings `bytes` (64 at most) and returns what all ranks brought, by rank, when they have: to be
 * read until the next but one meeting. Through shared memory alone. Collective; after
 * tug_team_prepare_to_meet(). idle: see locks.h. */
const struct tug_word *tug_team_meet(struct tug_team *team, const void *mine, size_t bytes,
                                     void (*idle)(void));

static inline struct tug_bell *tug_team_bell(const struct tug_team *team, int node_rank) {
    return (struct tug_bell *)((unsigned char *)team->bells + (size_t)node_rank * 64);
}

/* The team of an intra-communicator; made if need be. Collective, the same answer on all ranks: 0,
 * TUG_ERR_NO_MEMORY, TUG_ERR_MPI. */
int tug_team_get(MPI_Comm comm, struct tug_team **team);

/* A channel that no rank uses, for one request of a message of `bytes`, with slots of at least
 * slot_bytes (0: nothing but what rides in a slot's head). Collective over the team, the same
 * answer on all ranks: 0, TUG_ERR_NO_MEMORY if shared memory runs out, TUG_ERR_INVALID if the
 * ranks' messages differ or any of them is not willing (it could not prepare its part). */
int tug_team_channel(struct tug_team *team, size_t slot_bytes, uint64_t bytes, bool willing,
                     struct tug_channel **channel);

/* Ends a request's use of team and channel. Local. */
void tug_team_release(struct tug_team *team, struct tug_channel *channel);

/* While a window of this rank needs the team it outlives its communicator. */
static inline void tug_team_hold(struct tug_team *team) {
    team->references++;
}

static inline void tug_team_drop(struct tug_team *team) {
    team->references--;
}

/* MPI is about to end: the communicators' last attributes are deleted where no collective may be
 * called; what is shared goes with the process. */
void tug_team_finalize(void);

#endif
