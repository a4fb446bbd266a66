#include "node/team.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/random.h"
#include "base/settings.h"
#include "engine/engine.h"
#include "host/agreement.h"
#include "host/host.h"
#include "host/polite.h"
#include "host/spin.h"
#include "node/arena.h"
#include "node/cma.h"
#include "node/locks.h"
#include "tugboat/tugboat.h"

static int keyval = MPI_KEYVAL_INVALID;
static bool finalizing;

/* ---- making ---- */

/* Numbers the nodes by the first rank of each. */
static int map_nodes(struct tug_team *team) {
    uint32_t *node_of = malloc((size_t)team->nranks * sizeof(*node_of));
    if (!tug_all_agree(team->comm, node_of != NULL)) {
        free(node_of);
        return TUG_ERR_NO_MEMORY;
    }
    uint32_t leader = (uint32_t)team->rank; /* the lowest rank of a node */
    TUG_POLITE(Ibcast, &leader, 1, MPI_UINT32_T, 0, team->node_comm);
    TUG_POLITE(Iallgather, &leader, 1, MPI_UINT32_T, node_of, 1, MPI_UINT32_T, team->comm);
    for (uint32_t r = 0; r < (uint32_t)team->nranks; r++)
        node_of[r] = node_of[r] == r ? (uint32_t)team->nnodes++ : node_of[node_of[r]];
    int error = tug_places_init(&team->places, (uint32_t)team->nranks, node_of);
    free(node_of);
    const uint32_t *torus = tug_settings.torus;
    if ((uint64_t)torus[0] * torus[1] * torus[2] == (uint64_t)team->nnodes)
        memcpy(team->places.torus, torus, sizeof(team->places.torus));
    return tug_all_agree(team->comm, error == 0) ? 0 : TUG_ERR_NO_MEMORY;
}

static int make_communicators(struct tug_team *team, MPI_Comm comm) {
    int rank;
    tug_host.Comm_rank(comm, &rank);
    if (tug_host.Comm_split(comm, 0, rank, &team->comm) != MPI_SUCCESS)
        return TUG_ERR_MPI;
    tug_host.Comm_set_errhandler(team->comm, MPI_ERRORS_RETURN);
    if (tug_host.Comm_split_type(team->comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL,
                                 &team->node_comm) != MPI_SUCCESS)
        return TUG_ERR_MPI;
    tug_host.Comm_set_errhandler(team->node_comm, MPI_ERRORS_RETURN);
    tug_host.Comm_rank(team->comm, &team->rank);
    tug_host.Comm_size(team->comm, &team->nranks);
    tug_host.Comm_rank(team->node_comm, &team->node_rank);
    tug_host.Comm_size(team->node_comm, &team->node_size);
    return 0;
}

/* Frees what there is. Collective if the communicators were made. */
static void team_free(struct tug_team *team) {
    for (int i = 0; i < TUG_PARTS; i++)
        if (team->parts[i].state != NULL)
            team->parts[i].end(team->parts[i].state);
    for (int r = 0; team->bells != NULL && r < team->node_size; r++)
        tug_engine_forget_bell(tug_team_bell(team, r));
    tug_arena_fini(team);
    if (team->node_comm != MPI_COMM_NULL)
        tug_host.Comm_free(&team->node_comm);
    if (team->comm != MPI_COMM_NULL)
        tug_host.Comm_free(&team->comm);
    tug_places_fini(&team->places);
    pthread_mutex_destroy(&team->spare_lock);
    free(team->pids);
    free(team);
}

static int team_make(MPI_Comm comm, struct tug_team **result) {
    struct tug_team *team = calloc(1, sizeof(*team));
    if (!tug_all_agree(comm, team != NULL)) {
        free(team);
        return TUG_ERR_NO_MEMORY;
    }
    team->comm = MPI_COMM_NULL;
    team->node_comm = MPI_COMM_NULL;
    pthread_mutex_init(&team->spare_lock, NULL);
    int error = make_communicators(team, comm);
    if (!error)
        error = map_nodes(team);
    if (error) {
        team_free(team);
        return error;
    }
    unsigned cores = tug_cores_find().count;
    int64_t most[2] = {team->node_size, (unsigned)team->node_size > cores};
    (void)tug_agree(team->comm, MPI_MAX, most, 2);
    team->node_most = (int)most[0];
    team->oversubscribed = most[1];
    tug_park_configure(tug_settings.spin_us, (unsigned)team->node_size, cores);
    *result = team;
    return 0;
}

/* What the others of the node need to find a rank's address space: a word in it whose value they
 * know. */
struct space {
    pid_t pid;
    uint64_t address, word;
} __attribute__((aligned(64)));

/* Without a random word the process cannot be told from others: nobody attaches. */
static struct space own_space(struct tug_team *team) {
    bool drawn = tug_random_draw(&team->word, sizeof(team->word));
    return (struct space){drawn ? getpid() : 0, (uint64_t)(uintptr_t)&team->word, team->word};
}

/* Tries to attach to all ranks of the node. All have written their space. */
static bool attach_to_all(struct tug_team *team, const struct space *spaces) {
    bool all = tug_settings.transports & TUG_WAY_CMA;
    for (int r = 0; r < team->node_size && all; r++) {
        bool found = tug_cma_probe(spaces[r].pid, spaces[r].address, spaces[r].word);
        team->pids[r] = found ? spaces[r].pid : 0;
        all &= found;
    }
    return all;
}

int tug_team_share(struct tug_team *team) {
    unsigned char *memory;
    if (team->bells != NULL || team->node_most == 1)
        return 0;
    size_t most = (size_t)team->node_most;
    int error = tug_arena_take(team, most * (64 + sizeof(struct space)), &memory);
    if (error)
        return error;
    team->pids = calloc(most, sizeof(*team->pids));
    struct space *spaces = (struct space *)(memory + most * 64);
    spaces[team->node_rank] = own_space(team);
    if (!tug_all_agree(team->comm, team->pids != NULL)) {
        free(team->pids);
        team->pids = NULL;
        return TUG_ERR_NO_MEMORY;
    }
    team->bells = (struct tug_bell *)memory;
    team->attaches = tug_all_agree(team->comm, attach_to_all(team, spaces));
    return 0;
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

/* ---- belonging to a communicator ---- */

/* The communicator goes: so does the team, if no rank has a request left; else its memory stays for
 * them until the process ends. */
static int forget(MPI_Comm comm, int key, void *attribute, void *state) {
    struct tug_team *team = attribute;
    (void)comm;
    (void)key;
    (void)state;
    if (finalizing)
        return MPI_SUCCESS;
    for (int i = 0; i < TUG_PARTS; i++)
        if (team->parts[i].state != NULL && team->parts[i].drop != NULL)
            team->parts[i].drop(team->parts[i].state);
    if (tug_all_agree(team->comm, team->references == 0))
        team_free(team);
    return MPI_SUCCESS;
}

static bool have_keyval(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (keyval == MPI_KEYVAL_INVALID)
        tug_host.Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &keyval, NULL);
    pthread_mutex_unlock(&lock);
    return keyval != MPI_KEYVAL_INVALID;
}

int tug_team_get(MPI_Comm comm, struct tug_team **team) {
    int flag = 0, inter = 0;
    if (!have_keyval())
        return TUG_ERR_MPI;
    tug_host.Comm_get_attr(comm, keyval, (void *)team, &flag);
    if (flag)
        return 0;
    if (tug_host.Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter)
        return TUG_ERR_UNSUPPORTED;
    tug_spin_meeting_begin(tug_engine_driving);
    int error = team_make(comm, team);
    tug_spin_meeting_end();
    if (error)
        return error;
    return tug_host.Comm_set_attr(comm, keyval, *team) == MPI_SUCCESS ? 0 : TUG_ERR_MPI;
}

void tug_team_finalize(bool ends) {
    finalizing = ends;
}
