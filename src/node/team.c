#include "node/team.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "base/log.h"
#include "base/random.h"
#include "base/settings.h"
#include "base/shelf.h"
#include "engine/engine.h"
#include "engine/host_progress.h"
#include "host/agreement.h"
#include "host/host.h"
#include "host/keyval.h"
#include "host/level.h"
#include "host/polite.h"
#include "host/spin.h"
#include "host/wait_group.h"
#include "node/arena.h"
#include "node/locks.h"
#include "node/spread.h"
#include "node/words.h"
#include "schedule/torus.h"
#include "tugboat/tugboat.h"

static bool finalizing;
static _Atomic bool keeps_nothing;

/* The team that a thread has asked for last: every collective that may repeat asks, and to ask the
 * host takes its lock. What is known holds until some team's communicator has gone, since its
 * handle may be given out again. */
static _Thread_local struct {
    MPI_Comm comm;
    struct tug_team *team; /* NULL: none yet */
    uint64_t gone;
} known;
_Atomic uint64_t tug_teams_gone;

/* ---- sharing ---- */

/* Meets the processes of this node; pages: of all of them, NULL: they have their own. False: one
 * has none. */
static bool meet_all(struct tug_team *team, const struct tug_introduction *all,
                     struct tug_node_page *pages) {
    bool met = true;
    for (int r = 0; r < team->node_size && met; r++) {
        team->neighbours[r] = tug_neighbour_meet(&all[r], pages != NULL ? &pages[r] : NULL);
        met = team->neighbours[r] != NULL;
        team->pids[r] =
            met && (tug_settings.transports & TUG_WAY_CMA) ? team->neighbours[r]->pid : 0;
    }
    return met;
}

static void leave_all(struct tug_team *team) {
    for (int r = 0; team->neighbours != NULL && r < team->node_size; r++) {
        if (team->neighbours[r] == NULL)
            continue;
        if (team->has_pages)
            tug_engine_forget_bell(&team->neighbours[r]->page->bell);
        tug_neighbour_leave(team->neighbours[r]);
        team->neighbours[r] = NULL;
    }
}

static bool attaches_to_all(const struct tug_team *team) {
    bool all = team->node_most > 1;
    for (int r = 0; r < team->node_size; r++)
        all &= team->pids[r] != 0;
    return all;
}

/* Meets the processes of the node. Collective, the same answer on all ranks. */
static int find_neighbours(struct tug_team *team, struct tug_introduction *all) {
    const struct tug_introduction mine = tug_introduce(team->node_size > 1);
    unsigned char *memory;
    TUG_POLITE(Iallgather, &mine, sizeof(mine), MPI_BYTE, all, sizeof(mine), MPI_BYTE,
               team->node_comm);
    int64_t votes[2] = {!meet_all(team, all, NULL), !attaches_to_all(team)};
    if (tug_agree(team->comm, MPI_MAX, votes, 2) != MPI_SUCCESS)
        return TUG_ERR_MPI;
    team->attaches = votes[1] == 0;
    if (votes[0] == 0)
        return 0;
    leave_all(team);
    team->has_pages = true;
    int error =
        tug_arena_take(team, (size_t)team->node_most * sizeof(struct tug_node_page), &memory);
    if (error)
        return error;
    votes[0] = !meet_all(team, all, (struct tug_node_page *)memory);
    votes[1] = !attaches_to_all(team);
    if (tug_agree(team->comm, MPI_MAX, votes, 2) != MPI_SUCCESS)
        return TUG_ERR_MPI;
    team->attaches = votes[1] == 0;
    return votes[0] == 0 ? 0 : TUG_ERR_NO_MEMORY;
}

static void end_sharing(struct tug_team *team) {
    leave_all(team);
    free((void *)team->neighbours);
    free(team->pids);
    team->neighbours = NULL;
    team->pids = NULL;
}

int tug_team_share(struct tug_team *team) {
    const size_t n = (size_t)team->node_size;
    int error = TUG_ERR_NO_MEMORY;
    if (team->neighbours != NULL)
        return 0;
    struct tug_introduction *all = malloc(n * sizeof(*all));
    team->neighbours = calloc(n, sizeof(struct tug_neighbour *));
    team->pids = calloc(n, sizeof(*team->pids));
    if (tug_all_agree(team->comm, all != NULL && team->neighbours != NULL && team->pids != NULL))
        error = find_neighbours(team, all);
    if (error)
        end_sharing(team);
    else if (n > 1)
        tug_spread_begin();
    free(all);
    return error;
}

int tug_team_share_memory(struct tug_team *team) {
    unsigned char *memory;
    if (team->neighbours[0]->live != NULL)
        return 0;
    int error =
        tug_arena_take(team, (size_t)team->node_most * sizeof(struct tug_node_memory), &memory);
    for (int r = 0; r < team->node_size && !error; r++)
        tug_neighbour_use(team->neighbours[r], &((struct tug_node_memory *)memory)[r]);
    return error;
}

uint64_t tug_team_draw(struct tug_team *team) {
    uint64_t word = 0;
    while (word == 0) {
        word = team->shelved.id + ++team->drawn * 0x9e3779b97f4a7c15u;
        word = (word ^ word >> 32) * 0xff51afd7ed558ccdu;
        word ^= word >> 32;
    }
    return word;
}

#define RANKS_A_CORE_MOST 8 /* with so many nothing is measured */

uint32_t tug_team_takers(const struct tug_team *team, uint32_t n) {
    const uint32_t most = 2 * team->cores;
    return team->oversubscribed && n > most ? most : n;
}

bool tug_team_measures(const struct tug_team *team) {
    return team->crowd < RANKS_A_CORE_MOST;
}

/* ---- making ---- */

/* The same answer on all ranks. */
static bool is_one_node(const struct tug_team *team) {
    return team->node_size == team->nranks;
}

/* The torus that was set, if it has as many nodes. */
static int arrange_as_set(struct tug_places *places) {
    struct tug_torus torus = {.naxes = TUG_TORUS_AXES};
    uint64_t nodes = 1;
    uint32_t sides[3];
    for (int d = 0; d < TUG_TORUS_AXES && nodes <= places->nnodes; d++)
        nodes *= torus.sides[d] = tug_settings.torus[d];
    if (nodes != places->nnodes)
        return 0;
    while (torus.naxes > 1 && torus.sides[torus.naxes - 1] == 1)
        torus.naxes--;
    uint32_t *position = malloc(places->nnodes * sizeof(*position));
    if (position == NULL)
        return TUG_ERR_NO_MEMORY;
    tug_torus_count(&torus, sides, position);
    int error = tug_places_arrange(places, sides, torus.naxes > 3 ? position : NULL);
    free(position);
    return error;
}

/* The node's ranks tell each other which cores they may use. all: [node size] for that. */
static void find_cores(struct tug_team *team, struct tug_cores all[]) {
    const struct tug_cores mine = tug_cores_find();
    TUG_POLITE(Iallgather, &mine, (int)sizeof(mine), MPI_BYTE, all, (int)sizeof(mine), MPI_BYTE,
               team->node_comm);
    const struct tug_sharing sharing = tug_cores_sharing(all, (size_t)team->node_size, mine.id);
    tug_cores_shared_by(sharing.processes, mine.count);
    tug_park_configure(tug_settings.spin_us, tug_cores_crowded());
    team->cores = sharing.cores > mine.count ? sharing.cores : mine.count;
}

/* Numbers the nodes by the first rank of each, and finds out how crowded they are. */
static int map_nodes(struct tug_team *team) {
    uint32_t *node_of = malloc((size_t)team->nranks * sizeof(*node_of));
    struct tug_cores *cores = calloc((size_t)team->node_size, sizeof(*cores));
    if (!tug_all_agree(team->comm, node_of != NULL && cores != NULL)) {
        free(cores);
        free(node_of);
        return TUG_ERR_NO_MEMORY;
    }
    find_cores(team, cores);
    free(cores);
    uint32_t leader = (uint32_t)team->rank; /* the lowest rank of a node */
    if (is_one_node(team)) {
        memset(node_of, 0, (size_t)team->nranks * sizeof(*node_of));
    } else {
        TUG_POLITE(Ibcast, &leader, 1, MPI_UINT32_T, 0, team->node_comm);
        TUG_POLITE(Iallgather, &leader, 1, MPI_UINT32_T, node_of, 1, MPI_UINT32_T, team->comm);
    }
    team->nnodes = (int)tug_places_number(node_of, (uint32_t)team->nranks);
    int error = TUG_ERR_PEER;
    if (team->nnodes > 0)
        error = tug_places_init(&team->places, (uint32_t)team->nranks, node_of);
    free(node_of);
    if (error == 0)
        error = arrange_as_set(&team->places);
    int64_t failed = error != 0;
    if (tug_agree(team->comm, MPI_MAX, &failed, 1) != MPI_SUCCESS)
        return TUG_ERR_MPI;
    return failed ? TUG_ERR_NO_MEMORY : 0;
}

/* Each takes the host 0.1 ms: on one node one serves for both. */
static int split(struct tug_team *team, MPI_Comm comm) {
    int rank;
    tug_host.Comm_rank(comm, &rank);
    tug_host.Comm_size(comm, &team->nranks);
    if (tug_host.Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL,
                                 &team->node_comm) != MPI_SUCCESS)
        return TUG_ERR_MPI;
    tug_host.Comm_set_errhandler(team->node_comm, MPI_ERRORS_RETURN);
    tug_host.Comm_rank(team->node_comm, &team->node_rank);
    tug_host.Comm_size(team->node_comm, &team->node_size);
    team->rank = rank;
    if (is_one_node(team)) {
        team->comm = team->node_comm;
        return 0;
    }
    if (tug_host.Comm_split(comm, 0, rank, &team->comm) != MPI_SUCCESS)
        return TUG_ERR_MPI;
    tug_host.Comm_set_errhandler(team->comm, MPI_ERRORS_RETURN);
    return 0;
}

/* Communicators that the host has left for a new team's memory, and the program's window. */
#define COMMS_LEFT 4

/* That the host has none left is no error of the program's, and its handler does not hear of it. */
static int make_communicators(struct tug_team *team, MPI_Comm comm) {
    MPI_Errhandler handler;
    tug_host.Comm_get_errhandler(comm, &handler);
    tug_host.Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int error = split(team, comm);
    if (!error && !tug_host_has_comms(team->comm, COMMS_LEFT))
        error = TUG_ERR_MPI;
    tug_host.Comm_set_errhandler(comm, handler);
    tug_host.Errhandler_free(&handler);
    return error;
}

/* Of this process. Each takes two ids of communicators to four, which the program may need. */
#define TEAMS_MOST 128
static _Atomic int teams;

/* Teams within MPI_COMM_WORLD, sorted by id. Ids are the same on all ranks. */
static struct {
    pthread_mutex_t lock;
    struct tug_team *first;
} in_order = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void enlist(struct tug_team *team) {
    pthread_mutex_lock(&in_order.lock);
    struct tug_team **link = &in_order.first;
    while (*link != NULL && (*link)->shelved.id < team->shelved.id)
        link = &(*link)->later;
    team->later = *link;
    *link = team;
    pthread_mutex_unlock(&in_order.lock);
}

static void strike_off(const struct tug_team *team) {
    pthread_mutex_lock(&in_order.lock);
    for (struct tug_team **link = &in_order.first; *link != NULL; link = &(*link)->later)
        if (*link == team) {
            *link = team->later;
            break;
        }
    pthread_mutex_unlock(&in_order.lock);
}

/* Frees what there is. Collective if the communicators were made. */
static void team_free(struct tug_team *team) {
    strike_off(team);
    for (int i = 0; i < TUG_PARTS; i++)
        if (team->parts[i].state != NULL)
            team->parts[i].end(team->parts[i].state);
    end_sharing(team);
    tug_words_fini(team);
    tug_arena_fini(team);
    const bool has_two = team->node_comm != team->comm;
    if (team->node_comm != MPI_COMM_NULL)
        tug_host.Comm_free(&team->node_comm);
    if (has_two && team->comm != MPI_COMM_NULL)
        tug_host.Comm_free(&team->comm);
    tug_places_fini(&team->places);
    pthread_mutex_destroy(&team->blocks.lock);
    atomic_fetch_sub(&teams, 1);
    free(team);
}

/* A team across worlds would tie their ends together. */
static bool is_in_world(MPI_Comm comm) {
    MPI_Group group, world;
    if (atomic_load(&keeps_nothing)) /* there may be no world */
        return false;
    tug_host.Comm_group(comm, &group);
    tug_host.Comm_group(MPI_COMM_WORLD, &world);
    const bool within = tug_group_is_within(group, world);
    tug_host.Group_free(&group);
    tug_host.Group_free(&world);
    return within;
}

/* Those that have communicators, and may have more. */
static struct tug_shelf shared = TUG_SHELF;

/* May communicators have the team together? The same answer on all ranks. */
static bool is_shared(const struct tug_team *team) {
    return team->in_world && !team->threaded;
}

static bool is_that(const struct tug_shelved *team, void *that) {
    return team == that;
}

/* team: zeroed memory. */
static int team_make(MPI_Comm comm, struct tug_team *team) {
    team->comm = MPI_COMM_NULL;
    team->node_comm = MPI_COMM_NULL;
    team->references = team->communicators = 1;
    atomic_fetch_add(&teams, 1);
    team->blocks = (struct tug_shelf)TUG_SHELF;
    int error = make_communicators(team, comm);
    if (!error)
        error = map_nodes(team);
    if (error) {
        team_free(team);
        return error;
    }
    uint64_t word = (uint64_t)(uintptr_t)team ^ (uint64_t)random() << 20;
    if (team->rank == 0)
        (void)tug_random_draw(&word, sizeof(word));
    int64_t most[6] = {team->node_size,
                       team->rank == 0 ? (int64_t)(word >> 1) : 0,
                       tug_level.requested == MPI_THREAD_MULTIPLE,
                       team->cores,
                       (int64_t)(tug_cores_crowd() * 1e6),
                       !is_in_world(comm)};
    (void)tug_agree(team->comm, MPI_MAX, most, 6);
    team->node_most = (int)most[0];
    team->shelved.id = (uint64_t)most[1];
    team->threaded = most[2] != 0;
    team->cores = (uint32_t)most[3];
    team->crowd = (double)most[4] * 1e-6;
    team->oversubscribed = team->crowd > 1;
    team->in_world = most[5] == 0;
    if (team->in_world)
        enlist(team);
    if (is_shared(team))
        tug_shelf_put(&shared, &team->shelved);
    return 0;
}

/* ---- idle ones ---- */

/* A rank leaves a team without the others, since they may wait elsewhere for what this rank does
 * next: MPI_Request_free and the end of a communicator are local. It lies here until a communicator
 * of the same ranks takes it, or all its ranks come to make another. */
static struct tug_shelf resting = TUG_SHELF;
static _Atomic int idle_weight;

#define IDLE_MOST 4                   /* so much may be idle when a team is made */
#define LARGE_BYTES ((size_t)4 << 20) /* of shared memory: not to be idle for long */

static int weight(const struct tug_team *team) {
    return team->arena_bytes > LARGE_BYTES ? IDLE_MOST + 1 : 1;
}

static void rest(struct tug_team *team) {
    atomic_fetch_add(&idle_weight, weight(team));
    tug_shelf_put(&resting, &team->shelved);
}

static struct tug_team *wake(bool (*fits)(const struct tug_shelved *, void *), void *argument) {
    struct tug_team *team = (struct tug_team *)tug_shelf_borrow(&resting, fits, argument);
    if (team != NULL)
        atomic_fetch_sub(&idle_weight, weight(team));
    return team;
}

void tug_teams_keep_nothing(void) {
    atomic_store(&keeps_nothing, true);
}

#define OFFERED_MOST 32

/* Is the team idle on all its ranks? all: what the ranks that meet offer. */
static bool is_left_by_all(const struct tug_team *team, const uint64_t *all, size_t n) {
    int offers = 0;
    for (size_t i = 0; i < n; i++)
        offers += all[i] == team->shelved.id;
    return offers == team->nranks;
}

/* Frees the teams whose ranks are all here and have left them, in the order of their ids.
 * Collective over comm. */
static void free_idle(MPI_Comm comm) {
    struct tug_team *offered[OFFERED_MOST];
    uint64_t ids[OFFERED_MOST] = {0};
    int nranks, n = 0;
    tug_host.Comm_size(comm, &nranks);
    uint64_t *all = calloc((size_t)nranks, sizeof(ids));
    const bool ready = tug_all_agree(comm, all != NULL);
    while (ready && n < OFFERED_MOST && (offered[n] = wake(NULL, NULL)) != NULL) {
        ids[n] = offered[n]->shelved.id;
        n++;
    }
    const bool told = ready && TUG_POLITE(Iallgather, ids, OFFERED_MOST, MPI_UINT64_T, all,
                                          OFFERED_MOST, MPI_UINT64_T, comm) == MPI_SUCCESS;
    for (int i = 0; i < n; i++) {
        if (told && is_left_by_all(offered[i], all, (size_t)nranks * OFFERED_MOST))
            team_free(offered[i]);
        else
            rest(offered[i]);
    }
    free(all);
}

/* ---- finding ---- */

struct search {
    MPI_Comm comm;
    uint64_t least; /* of ids */
    bool may_make;  /* this rank, then all: there is memory for a new one */
    bool crowded;   /* some rank has too much that is idle */
};

static bool fits(const struct tug_shelved *team, void *argument) {
    const struct search *search = argument;
    int how = MPI_UNEQUAL;
    return team->id >= search->least &&
           tug_host.Comm_compare(search->comm, ((const struct tug_team *)team)->comm, &how) ==
               MPI_SUCCESS &&
           how == MPI_CONGRUENT;
}

static void put_back(struct tug_team *team) {
    if (team->communicators > 0)
        tug_shelf_put(&shared, &team->shelved);
    else
        rest(team);
}

/* The first whose ranks are those of the communicator, or NULL. */
static struct tug_team *borrow(struct search *search) {
    if (atomic_load(&keeps_nothing))
        return NULL;
    struct tug_team *used = (struct tug_team *)tug_shelf_borrow(&shared, fits, search),
                    *spare = wake(fits, search);
    if (used != NULL && spare != NULL) {
        struct tug_team *later = used->shelved.id < spare->shelved.id ? spare : used;
        put_back(later);
        return later == used ? spare : used;
    }
    return used != NULL ? used : spare;
}

/* The team is this communicator's from now on, too. */
static struct tug_team *take(struct tug_team *team) {
    team->communicators++;
    team->references++;
    if (is_shared(team))
        tug_shelf_put(&shared, &team->shelved);
    return team;
}

/* Returns the team, in use or idle, that all ranks have found, or NULL. Each rank offers the first
 * fitting team that it has. If the offers differ, the next round offers teams from the latest of
 * them on. A team in use must have as many communicators on all ranks: its parts drop what they
 * know when it has none, on all ranks or on none. */
static struct tug_team *find_team(struct search *search) {
    for (;;) {
        struct tug_team *found = borrow(search);
        const int64_t users = found != NULL ? found->communicators : 0;
        const int64_t id = found != NULL ? (int64_t)found->shelved.id : 0;
        int64_t votes[6] = {id,    ~id,    !search->may_make,
                            users, ~users, atomic_load(&idle_weight) > IDLE_MOST};
        const bool agreed = tug_agree(search->comm, MPI_MAX, votes, 6) == MPI_SUCCESS;
        const bool same = agreed && votes[0] == ~votes[1], alike = same && votes[3] == ~votes[4];
        search->may_make = agreed && votes[2] == 0;
        search->crowded = agreed && votes[5] != 0;
        if (alike)
            return found != NULL ? take(found) : NULL;
        if (found != NULL)
            put_back(found);
        if (!agreed || ~votes[1] == 0)
            return NULL;
        search->least = (uint64_t)votes[0] + same;
    }
}

/* Where one rank's does not start no rank has a team, and all leave their calls to the host. */
static bool has_engine(void) {
    return !tug_level.active || tug_engine_bring_up();
}

/* Takes a team that there is, if all ranks have the same, or makes one. Collective. */
static int take_or_make(MPI_Comm comm, struct tug_team **result) {
    struct tug_team *fresh = calloc(1, sizeof(*fresh));
    struct search search = {.comm = comm,
                            .may_make =
                                fresh != NULL && has_engine() && atomic_load(&teams) < TEAMS_MOST};
    struct tug_team *found = find_team(&search);
    *result = found != NULL ? found : fresh;
    if (found == NULL && search.crowded)
        free_idle(comm);
    if (found == NULL && search.may_make)
        return team_make(comm, fresh);
    free(fresh);
    return found != NULL ? 0 : TUG_ERR_NO_MEMORY;
}

/* ---- meeting ---- */

struct tug_meeting {
    struct tug_barrier barrier;
    struct tug_word words[]; /* [2][node size], in turn */
};

int tug_team_prepare_to_meet(struct tug_team *team) {
    unsigned char *memory;
    if (team->meeting != NULL)
        return 0;
    int error = tug_arena_take(
        team, sizeof(struct tug_meeting) + 2 * (size_t)team->node_most * sizeof(struct tug_word),
        &memory);
    if (!error)
        team->meeting = (struct tug_meeting *)memory;
    return error;
}

const struct tug_word *tug_team_meet(struct tug_team *team, const void *mine, size_t bytes,
                                     void (*idle)(void)) {
    uint32_t turn = team->meetings++ % 2;
    struct tug_word *words = &team->meeting->words[turn * (uint32_t)team->node_size];
    memcpy(&words[team->node_rank], mine, bytes);
    tug_barrier_wait(&team->meeting->barrier, (uint32_t)team->node_size, idle);
    return words;
}

static bool can_meet(const struct tug_team *team) {
    return team->nnodes == 1 && team->meeting != NULL;
}

int tug_team_agree(struct tug_team *team, MPI_Op how, int64_t words[], int n) {
    if (!can_meet(team))
        return tug_agree(team->comm, how, words, n);
    const struct tug_word *all =
        tug_team_meet(team, words, (size_t)n * sizeof(*words), tug_engine_poll_host);
    for (int r = 0; r < team->nranks; r++) {
        int64_t theirs[TUG_TEAM_WORDS];
        memcpy(theirs, all[r].bytes, sizeof(theirs));
        for (int i = 0; i < n; i++)
            words[i] = how == MPI_BOR         ? words[i] | theirs[i]
                       : theirs[i] > words[i] ? theirs[i]
                                              : words[i];
    }
    return MPI_SUCCESS;
}

bool tug_team_all_agree(struct tug_team *team, bool mine) {
    int64_t refused = !mine;
    return tug_team_agree(team, MPI_MAX, &refused, 1) == MPI_SUCCESS && !refused;
}

int tug_team_gather(struct tug_team *team, const struct tug_word *mine, struct tug_word *all) {
    if (!can_meet(team))
        return TUG_POLITE(Iallgather, mine, sizeof(*mine), MPI_BYTE, all, sizeof(*all), MPI_BYTE,
                          team->comm);
    memcpy(all, tug_team_meet(team, mine, sizeof(*mine), tug_engine_poll_host),
           (size_t)team->nranks * sizeof(*all));
    return MPI_SUCCESS;
}

/* ---- belonging to a communicator ---- */

void tug_team_drop(struct tug_team *team) {
    if (--team->references == 0 && team->in_world)
        rest(team);
}

void tug_team_leave(struct tug_team *team, MPI_Comm comm) {
    if (team->in_world)
        tug_team_drop(team);
    else if (tug_all_agree(comm, --team->references == 0))
        team_free(team);
}

/* A communicator has gone. A team across worlds goes with it, if no rank needs it; else its memory
 * stays for them until the process ends, or the last context has left. */
static void follow(struct tug_team *team) {
    for (int i = 0; i < TUG_PARTS && team->communicators == 0; i++)
        if (team->parts[i].state != NULL && team->parts[i].drop != NULL)
            team->parts[i].drop(team->parts[i].state);
    if (team->in_world)
        tug_team_drop(team);
    else if (tug_team_all_agree(team, --team->references == 0))
        team_free(team);
}

/* Those whose communicators go within a call of this thread that comes back before they follow. */
static _Thread_local struct {
    bool wait;
    struct tug_team *first;
} followers;

int tug_team_request_free(MPI_Request *request) {
    followers.wait = true;
    int error = tug_host.Request_free(request);
    followers.wait = false;
    while (followers.first != NULL) {
        struct tug_team *team = followers.first;
        followers.first = team->follows;
        follow(team);
    }
    return error;
}

static int forget(MPI_Comm comm, int key, void *attribute, void *state) {
    struct tug_team *team = attribute;
    (void)comm;
    (void)key;
    (void)state;
    /* release: pairs with the acquire in is_known(), in threads that get the handle from now on */
    atomic_fetch_add_explicit(&tug_teams_gone, 1, memory_order_release);
    if (--team->communicators == 0)
        (void)tug_shelf_borrow(&shared, is_that, team);
    if (finalizing)
        return MPI_SUCCESS;
    if (!followers.wait) {
        follow(team);
    } else {
        team->follows = followers.first;
        followers.first = team;
    }
    return MPI_SUCCESS;
}

static struct tug_keyval of_comm = {.forget = forget};

bool tug_team_goes_alone(MPI_Comm comm) {
    struct tug_team *team;
    int flag = 0;
    const int key = tug_keyval_number(&of_comm);
    if (key == MPI_KEYVAL_INVALID ||
        tug_host.Comm_get_attr(comm, key, (void *)&team, &flag) != MPI_SUCCESS)
        return false;
    return !flag || team->in_world;
}

static bool is_known(MPI_Comm comm) {
    return known.team != NULL && known.comm == comm &&
           known.gone == atomic_load_explicit(&tug_teams_gone, memory_order_acquire);
}

static int found(MPI_Comm comm, struct tug_team *team) {
    known.comm = comm;
    known.team = team;
    known.gone = atomic_load_explicit(&tug_teams_gone, memory_order_acquire);
    return 0;
}

int tug_team_get(MPI_Comm comm, struct tug_team **team) {
    int flag = 0, inter = 0;
    if (is_known(comm)) {
        *team = known.team;
        return 0;
    }
    const int key = tug_keyval_number(&of_comm);
    if (key == MPI_KEYVAL_INVALID)
        return TUG_ERR_MPI;
    tug_host.Comm_get_attr(comm, key, (void *)team, &flag);
    if (flag)
        return found(comm, *team);
    if (tug_host.Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter)
        return TUG_ERR_UNSUPPORTED;
    tug_spin_meeting_begin(tug_engine_driving);
    int error = take_or_make(comm, team);
    tug_spin_meeting_end();
    if (error)
        return error;
    if (tug_host.Comm_set_attr(comm, key, *team) != MPI_SUCCESS)
        return TUG_ERR_MPI;
    return found(comm, *team);
}

void tug_team_finalize(bool ends) {
    finalizing = ends;
    if (ends) {
        tug_teams_keep_nothing(); /* what is kept goes with the process */
        atomic_fetch_add_explicit(&tug_teams_gone, 1, memory_order_release);
    }
}

/* MPI_Finalize of Open MPI frees the windows that are left, each with a barrier, in the order in
 * which this process made them. Threads make them in different orders on different ranks. */
void tug_teams_free_memory(void) {
#ifdef OPEN_MPI
    for (struct tug_team *team = in_order.first; team != NULL; team = team->later)
        tug_arena_fini(team);
#endif
}
