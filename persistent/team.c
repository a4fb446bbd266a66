#include "persistent/team.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/settings.h"
#include "engine/engine.h"
#include "engine/locks.h"
#include "host/host.h"
#include "persistent/arena.h"
#include "persistent/probe.h"
#include "tugboat/tugboat.h"

#define CHANNELS_AT_FIRST 64

static int keyval = MPI_KEYVAL_INVALID;
static bool finalizing;

/* ---- making ---- */

static bool allocate_maps(struct tug_team *team) {
    size_t n = (size_t)team->nranks;
    team->node_of = malloc(n * sizeof(int));
    team->node_rank_of = malloc(n * sizeof(int));
    team->leader_of = malloc(n * sizeof(int));
    return team->node_of != NULL && team->node_rank_of != NULL && team->leader_of != NULL;
}

/* Numbers the nodes by the first rank of each. */
static int map_nodes(struct tug_team *team) {
    int mine[2] = {team->rank, team->node_rank};
    int *all = malloc(2 * (size_t)team->nranks * sizeof(int));
    int failed = all == NULL || !allocate_maps(team);
    tug_host.Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_LOR, team->comm);
    if (failed) {
        free(all);
        return TUG_ERR_NO_MEMORY;
    }
    tug_host.Bcast(&mine[0], 1, MPI_INT, 0, team->node_comm); /* the leader's rank in the team */
    tug_host.Allgather(mine, 2, MPI_INT, all, 2, MPI_INT, team->comm);
    for (int r = 0; r < team->nranks; r++) {
        int leader = all[2 * (size_t)r];
        if (leader == r) {
            team->leader_of[team->nnodes] = r;
            team->node_of[r] = team->nnodes++;
        } else {
            team->node_of[r] =
                team->node_of[leader]; /* the leader is the lowest rank of its node */
        }
        team->node_rank_of[r] = all[2 * (size_t)r + 1];
    }
    free(all);
    return 0;
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
    if (team->domain != NULL)
        team->domain_free(team->domain);
    for (int r = 0; team->bells != NULL && r < team->node_size; r++)
        tug_engine_forget_bell(tug_team_bell(team, r));
    tug_arena_fini(team);
    if (team->node_comm != MPI_COMM_NULL)
        tug_host.Comm_free(&team->node_comm);
    if (team->comm != MPI_COMM_NULL)
        tug_host.Comm_free(&team->comm);
    for (int i = 0; i < team->nchannels; i++)
        free(team->channels[i]);
    free((void *)team->channels);
    free(team->votes);
    free(team->node_of);
    free(team->node_rank_of);
    free(team->leader_of);
    pthread_mutex_destroy(&team->spare_lock);
    free(team);
}

static int team_make(MPI_Comm comm, struct tug_team **result) {
    struct tug_team *team = calloc(1, sizeof(*team));
    int failed = team == NULL;
    tug_host.Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_LOR, comm);
    if (failed) {
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
    int crowded = (unsigned)team->node_size > tug_cpu_cores();
    tug_host.Allreduce(MPI_IN_PLACE, &crowded, 1, MPI_INT, MPI_LOR, team->comm);
    team->crowded = crowded;
    tug_park_configure(tug_settings.spin_us, (unsigned)team->node_size, tug_cpu_cores());
    *result = team;
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
        team, sizeof(struct tug_meeting) + 2 * (size_t)team->node_size * sizeof(struct tug_word),
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
    int used = team->references > 0;
    tug_host.Allreduce(MPI_IN_PLACE, &used, 1, MPI_INT, MPI_LOR, team->comm);
    if (!used)
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
    int flag = 0;
    finalizing = false; /* a process may open another session after the last */
    if (!have_keyval())
        return TUG_ERR_MPI;
    tug_host.Comm_get_attr(comm, keyval, (void *)team, &flag);
    if (flag)
        return 0;
    int error = team_make(comm, team);
    if (error)
        return error;
    return tug_host.Comm_set_attr(comm, keyval, *team) == MPI_SUCCESS ? 0 : TUG_ERR_MPI;
}

void tug_team_finalize(void) {
    finalizing = true;
}

/* ---- channels ---- */

static bool reserve_channel(struct tug_team *team) {
    if (team->nchannels < team->channel_capacity)
        return true;
    int capacity = team->channel_capacity ? 2 * team->channel_capacity : CHANNELS_AT_FIRST;
    struct tug_channel **channels =
        realloc((void *)team->channels, (size_t)capacity * sizeof(*channels));
    if (channels == NULL)
        return false;
    team->channels = channels;
    uint64_t *votes = realloc(team->votes, (3 + (size_t)capacity / 64) * sizeof(*votes));
    if (votes == NULL)
        return false;
    team->votes = votes;
    team->channel_capacity = capacity;
    return true;
}

/* All ranks' word on a new request, by one bitwise-or: is anybody unwilling, do the messages have
 * one size (all bits of b and of not b agree), and which channels does anybody still use. */
static int vote(struct tug_team *team, uint64_t bytes, bool willing) {
    uint64_t few[3];
    uint64_t *votes = team->votes != NULL ? team->votes : few;
    int words = 3 + (team->nchannels + 63) / 64;
    memset(votes, 0, (size_t)words * sizeof(*votes));
    votes[0] = !willing;
    votes[1] = bytes;
    votes[2] = ~bytes;
    for (int i = 0; i < team->nchannels; i++)
        votes[3 + i / 64] |= (uint64_t)team->channels[i]->busy << (i % 64);
    if (tug_host.Allreduce(MPI_IN_PLACE, votes, words, MPI_UINT64_T, MPI_BOR, team->comm) !=
        MPI_SUCCESS)
        return TUG_ERR_MPI;
    return votes[0] == 0 && votes[1] == ~votes[2] ? 0 : TUG_ERR_INVALID;
}

/* The smallest channel that fits and that nobody uses. */
static struct tug_channel *find_free(const struct tug_team *team, size_t slot_bytes) {
    struct tug_channel *best = NULL;
    for (int i = 0; i < team->nchannels; i++) {
        struct tug_channel *channel = team->channels[i];
        bool used = team->votes[3 + i / 64] >> (i % 64) & 1;
        if (!used && channel->slot_bytes >= slot_bytes &&
            (best == NULL || channel->slot_bytes < best->slot_bytes))
            best = channel;
    }
    return best;
}

/* What the node's ranks share beside channels. */
static int share(struct tug_team *team) {
    unsigned char *memory;
    size_t flags = TUG_CHANNEL_CLASSES * sizeof(*team->streaming);
    int error = tug_arena_take(team, flags + (size_t)team->node_size * 64, &memory);
    if (error)
        return error;
    team->streaming = (_Atomic uint32_t *)memory;
    team->bells = (struct tug_bell *)(memory + flags);
    return 0;
}

static unsigned class_of(size_t slot_bytes) {
    unsigned class = 0;
    while (((size_t)4096 << class) < slot_bytes && class < TUG_CHANNEL_CLASSES - 1)
        class ++;
    return class;
}

/* Lays a channel out in shared memory, and measures how to write it if it is the first of its
 * class. */
static int map_channel(struct tug_team *team, struct tug_channel *channel) {
    unsigned char *memory;
    size_t reads = (size_t)team->node_size * sizeof(struct tug_read_count);
    size_t heads = TUG_CHANNEL_SLOTS * sizeof(struct tug_slot_head);
    int error = team->bells == NULL ? share(team) : 0;
    if (!error)
        error =
            tug_arena_take(team, reads + heads + TUG_CHANNEL_SLOTS * channel->slot_bytes, &memory);
    if (error)
        return error;
    unsigned class = class_of(channel->slot_bytes);
    channel->reads = (struct tug_read_count *)memory;
    channel->heads = (struct tug_slot_head *)(memory + reads);
    channel->data = memory + reads + heads;
    channel->streaming = &team->streaming[class];
    if (channel->slot_bytes >= TUG_PROBE_LEAST && team->node_size > 1 &&
        !(team->probed >> class & 1)) {
        team->probed |= 1u << class;
        tug_probe_channel(team, channel);
    }
    return 0;
}

static int add_channel(struct tug_team *team, size_t slot_bytes, struct tug_channel **result) {
    struct tug_channel *channel = calloc(1, sizeof(*channel));
    int failed = channel == NULL || !reserve_channel(team);
    tug_host.Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_LOR, team->comm);
    if (failed) {
        free(channel);
        return TUG_ERR_NO_MEMORY;
    }
    channel->slot_bytes = (slot_bytes + 63) / 64 * 64;
    channel->index = team->nchannels;
    int error = team->nnodes < team->nranks ? map_channel(team, channel) : 0;
    if (error) {
        free(channel);
        return error;
    }
    team->channels[team->nchannels++] = channel;
    *result = channel;
    return 0;
}

int tug_team_channel(struct tug_team *team, size_t slot_bytes, uint64_t bytes, bool willing,
                     struct tug_channel **channel) {
    int error = vote(team, bytes, willing);
    if (error)
        return error;
    *channel = find_free(team, slot_bytes);
    if (*channel == NULL) {
        error = add_channel(team, slot_bytes, channel);
        if (error)
            return error;
    }
    (*channel)->busy = true;
    team->references++;
    return 0;
}

void tug_team_release(struct tug_team *team, struct tug_channel *channel) {
    channel->busy = false;
    team->references--;
}
