/* Teams: what windows, persistent collectives and contexts on a communicator need to know of its
 * ranks, found once: who shares a node, who can attach to whom, and memory that a node's ranks
 * share.
 *
 * A team hangs on the program's communicator as an attribute and is made by the first of these on
 * it, collectively. Further communicators of the same ranks in the same order have the same team,
 * since it takes ids of communicators, of which MPICH has 2 048 in a process: a program may use
 * nearly all of them. (Where some rank has several threads in MPI each has its own: the threads
 * may be in calls on two communicators at once.) When the last one goes, and nothing else holds the
 * team, it is idle: each rank leaves it without the others. The next communicator of the same ranks
 * takes it, or it is freed where another team is made, if all its ranks are there. (One across
 * worlds is freed with its communicator.) It has a private
 * communicator for the traffic between nodes, the map of ranks to nodes as the host sees them
 * (MPI_COMM_TYPE_SHARED), the processes of this node as *neighbours* (neighbour.h), and an
 * *arena*: memory shared by the ranks of this node, taken from the host MPI. Windows and
 * collectives hang what they share on the team as *parts*.
 *
 * Making and freeing happen on the program's threads under MPI's rules for collectives.
 */
#ifndef TUG_NODE_TEAM_H
#define TUG_NODE_TEAM_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/shelf.h"
#include "engine/park.h"
#include "node/neighbour.h"
#include "node/page.h"
#include "schedule/places.h"

/* Ranks that attach to one process at once: the kernel locks its memory map. */
#define TUG_ATTACHERS_MOST 16

/* What those who use a team keep on it. */
enum tug_part { TUG_PART_WINDOWS, TUG_PART_CREATION, TUG_PART_COLLECTIVES, TUG_PARTS };

struct tug_team_part {
    void *state; /* NULL: nothing yet */
    /* The last communicator goes: lets go of requests that only this part holds, and forgets what
     * it knows of communicators. Local; or NULL. */
    void (*drop)(void *state);
    /* The team goes. Collective. */
    void (*end)(void *state);
};

struct tug_team {
    struct tug_shelved shelved; /* by an id alike on all ranks, random; see tug_team_draw() */
    MPI_Comm comm;              /* private: traffic between nodes, agreement at init */
    MPI_Comm node_comm;         /* private: the ranks of this node; if they are all, the same */
    int rank, nranks;
    int node_rank, node_size;
    int node_most; /* ranks of the largest node: all nodes lay out shared memory for so many */
    int nnodes;
    struct tug_places places;
    bool oversubscribed;               /* somewhere ranks outnumber the cores they share */
    uint32_t cores;                    /* that the ranks of a node may use together, at most */
    double crowd;                      /* ranks of the job to a core that they share, where most */
    struct tug_neighbour **neighbours; /* [node size] NULL: see tug_team_share() */
    pid_t *pids;    /* [node size] of processes that can and may be attached to; 0: it cannot */
    bool has_pages; /* the processes' pages are in the arena */
    bool attaches;  /* all ranks can attach to all ranks of their nodes */
    uint64_t drawn; /* words drawn so far */
    struct tug_chunk *chunks;    /* newest first */
    struct tug_shelf blocks;     /* spare ones */
    struct tug_words *words;     /* unused ones, newest first */
    uint32_t last_chunk;         /* id of the newest chunk */
    struct tug_meeting *meeting; /* NULL: not made yet */
    uint32_t meetings;           /* held so far */
    _Atomic int references;      /* of this rank: communicators, requests, windows, contexts */
    bool threaded;               /* some rank has several threads in MPI */
    bool in_world;               /* all ranks are of this process's MPI_COMM_WORLD */
    size_t arena_bytes;          /* of chunks, which stay as long as the team */
    _Atomic int communicators;   /* of the program, that have it */
    struct tug_team *follows;    /* the next one whose communicator went in the same call */
    struct tug_team *later;      /* the next one of this process's world by id */
    struct tug_team_part parts[TUG_PARTS];
};

/* What a rank brings to a meeting. */
#define TUG_WORD_BYTES 128
struct tug_word {
    unsigned char bytes[TUG_WORD_BYTES];
};

/* Makes ready to meet. Collective over a team whose ranks share a node, the same answer on all
 * ranks: 0, TUG_ERR_NO_MEMORY. */
int tug_team_prepare_to_meet(struct tug_team *team);

/* Brings `bytes` (TUG_WORD_BYTES at most) and returns what all ranks brought, by rank, when they
 * have: to be read until the next but one meeting. Through shared memory alone. Collective; after
 * tug_team_prepare_to_meet(). idle: see locks.h. */
const struct tug_word *tug_team_meet(struct tug_team *team, const void *mine, size_t bytes,
                                     void (*idle)(void));

/* Agreement (host/agreement.h) of at most TUG_TEAM_WORDS words, and what all ranks bring by rank,
 * through shared memory if the ranks are ready to meet, else by the host. Collective. */
#define TUG_TEAM_WORDS 8
int tug_team_agree(struct tug_team *team, MPI_Op how, int64_t words[], int n);
bool tug_team_all_agree(struct tug_team *team, bool mine);
int tug_team_gather(struct tug_team *team, const struct tug_word *mine, struct tug_word *all);

static inline struct tug_bell *tug_team_bell(const struct tug_team *team, int node_rank) {
    return &team->neighbours[node_rank]->page->bell;
}

/* This rank's, or NULL if no rank has a neighbour who would ring it. */
static inline struct tug_bell *tug_team_own_bell(const struct tug_team *team) {
    return team->node_most > 1 ? tug_team_bell(team, team->node_rank) : NULL;
}

/* Finds the neighbours, their bells and who can attach to whom, if need be. Their pages are the
 * processes' own, or of the arena where some process cannot open another's. Collective, the same
 * answer on all ranks: 0, TUG_ERR_NO_MEMORY, TUG_ERR_MPI. */
int tug_team_share(struct tug_team *team);

/* After that: gives the neighbours, if need be, the lists and inboxes that come with the pages of
 * their own. Collective, the same answer on all ranks: 0, TUG_ERR_NO_MEMORY. */
int tug_team_share_memory(struct tug_team *team);

/* The next of the team's random words, alike on all ranks: never 0. As often on each. */
uint64_t tug_team_draw(struct tug_team *team);

/* The ranks of a node may reach into one another's buffers, and had better: they have a core each.
 * After tug_team_share(), the same answer on all ranks. */
static inline bool tug_team_reaches(const struct tug_team *team) {
    return team->attaches && !team->oversubscribed && team->node_most > 1 &&
           team->node_most <= TUG_ATTACHERS_MOST;
}

/* Of n ranks of a node, so many do where the machine is to be measured: all of them where they have
 * a core each, else two to a core, since each one more makes it take longer and tells nothing new.
 * The same answer on all ranks, at least 2 if n is. Local. */
uint32_t tug_team_takers(const struct tug_team *team, uint32_t n);

/* Is the machine to be measured at all? Not where eight ranks or more share a core somewhere: what
 * is measured there is when the scheduler lets a rank go on, and all ranks wait meanwhile for those
 * who measure. The same answer on all ranks. Local. */
bool tug_team_measures(const struct tug_team *team);

/* The team of a communicator; made if need be, with the engine brought up. Collective, the same
 * answer on all ranks: 0, TUG_ERR_UNSUPPORTED (an inter-communicator), TUG_ERR_NO_MEMORY (for a
 * rank's engine, too; or there are too many teams), TUG_ERR_MPI (the host has no communicator for
 * it). */
int tug_team_get(MPI_Comm comm, struct tug_team **team);

/* So many communicators with a team have been freed. What is known by a communicator's handle is to
 * be found anew when there are more. */
extern _Atomic uint64_t tug_teams_gone;

/* While a request, window or context of this rank needs the team it outlives its communicator. */
static inline void tug_team_hold(struct tug_team *team) {
    team->references++;
}

/* One less. Where it was the last, the team is idle; one across worlds stays until the process
 * ends. Local. */
void tug_team_drop(struct tug_team *team);

/* The same; one across worlds is freed where it was the last on all ranks. Collective over comm,
 * which has the team's ranks. */
void tug_team_leave(struct tug_team *team, MPI_Comm comm);

/* Can this rank free the communicator without the others? The same answer on all ranks. Local. */
bool tug_team_goes_alone(MPI_Comm comm);

/* From now on nothing is kept, nor taken: the process has a session, and ends by itself. */
void tug_teams_keep_nothing(void);

/* The host's MPI_Request_free. A communicator that was freed before goes with its last request, and
 * MPICH 4.2 cannot be called in there for all that its team lets go of: that follows. */
int tug_team_request_free(MPI_Request *request);

/* While MPI or its world ends communicators' last attributes are deleted where no collective may be
 * called: what is shared then goes with the process. */
void tug_team_finalize(bool ends);

/* Frees the shared memory of the teams within this process's world where the host's MPI_Finalize
 * would do that in an order that depends on the rank. Collective over the world; no thread uses a
 * team any more. */
void tug_teams_free_memory(void);

#endif
