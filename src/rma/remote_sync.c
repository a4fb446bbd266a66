/* What epochs of the packet lane wait for: answers and notices of the engines of ranks on other
 * nodes, and memory that the ranks of this one share. */
#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/stats.h"
#include "engine/engine.h"
#include "engine/host_progress.h"
#include "engine/service.h"
#include "llcl/llcl.h"
#include "node/team.h"
#include "rma/epoch.h"
#include "rma/remote.h"
#include "rma/remote_card_lock.h"
#include "rma/remote_owed.h"
#include "rma/window.h"

/* ---- telling and waiting ---- */

static struct tug_remote_head head_of(const struct tug_remote *remote, int rank, unsigned what,
                                      unsigned round) {
    return (struct tug_remote_head){.window = remote->targets[rank].number,
                                    .op = (uint8_t)round,
                                    .what = (uint8_t)what,
                                    .type = (uint32_t)remote->rank};
}

static struct tug_remote_state *make_state(struct tug_remote *remote, int rank) {
    const struct tug_remote_target *target = &remote->targets[rank];
    const size_t nbooks = remote->attachments != NULL ? TUG_BOOKS : 0;
    struct tug_remote_state *state = calloc(1, sizeof(*state) + nbooks * sizeof(struct tug_book));
    if (state == NULL)
        return NULL;
    state->target = target;
    state->owed.remote = remote;
    tug_peer_begin(&state->peer, remote->domain->context, (uint32_t)target->process);
    pthread_mutex_init(&state->owed.mutex, NULL);
    if (nbooks > 0 && target->near)
        state->books[TUG_BOOK_SHOWN].room = &remote->rooms[remote->team->places.node_rank_of[rank]];
    return state;
}

/* Who finds it by its rank may count on the list, whichever thread has put it there. */
struct tug_remote_state *tug_remote_meet(struct tug_remote *remote, int rank) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct tug_remote_target *target = &remote->targets[rank];
    struct tug_remote_state *state = tug_remote_state_of(remote, rank);
    if (state != NULL)
        return state;
    pthread_mutex_lock(&lock);
    state = atomic_load(&target->state);
    if (state == NULL && (state = make_state(remote, rank)) != NULL) {
        state->next = atomic_load(&remote->used);
        atomic_store(&remote->used, state);
        /* release: pairs with the acquire in tug_remote_state_of() */
        atomic_store_explicit(&target->state, state, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    if (state == NULL)
        tug_log(TUG_LOG_ERROR,
                "no memory for what a window keeps of rank %d, so operations with that rank fail: "
                "give this process more memory",
                rank);
    return state;
}

int tug_remote_tell(struct tug_remote *remote, int rank, unsigned id, unsigned what,
                    unsigned round) {
    struct tug_remote_state *state = tug_remote_meet(remote, rank);
    if (state == NULL)
        return MPI_ERR_NO_MEM;
    struct tug_remote_head head = head_of(remote, rank, what, round); /* copied by the call */
    const struct tug_am_params message = {.dest_proc = remote->targets[rank].process,
                                          .handler = id,
                                          .payload = &head,
                                          .size_in_bytes = sizeof(head),
                                          .on_complete =
                                              tug_outstanding_start(&state->peer.remote)};
    TUG_REMOTE_TRY(remote->domain->context, tug_try_am_async(remote->domain->context, &message));
    return MPI_SUCCESS;
}

int tug_remote_error(int status) {
    switch (status) {
    case 0:
        return MPI_SUCCESS;
    case TUG_ERR_RANGE:
    case TUG_ERR_KEY:
        return MPI_ERR_RMA_RANGE;
    case TUG_ERR_NO_MEMORY:
        return MPI_ERR_NO_MEM;
    default:
        return MPI_ERR_OTHER;
    }
}

void tug_remote_wait(struct tug_remote *remote, bool (*done)(void *), void *argument) {
    if (!done(argument))
        tug_context_wait(remote->domain->context, done, argument, TUG_WAIT_HOST);
}

int tug_remote_wait_counter(struct tug_remote *remote, struct tug_counter *counter,
                            uint64_t value) {
    struct tug_counter_goal goal = {counter, value};
    tug_remote_wait(remote, tug_counter_reached, &goal);
    return __atomic_load_n(&counter->status, __ATOMIC_RELAXED);
}

/* What a flush waits for: the generation is empty, or has been seen to be so by another, who
 * flipped. */
struct drain {
    struct tug_outstanding *outstanding;
    uint32_t flips;
    uint32_t generation;
};

static bool has_ended(void *argument) {
    const struct drain *drain = argument;
    return tug_generation_is_empty(&drain->outstanding->generations[drain->generation]) ||
           atomic_load(&drain->outstanding->flips) != drain->flips;
}

static void drain_generation(struct tug_remote *remote, struct tug_outstanding *outstanding,
                             uint32_t flips, uint32_t generation) {
    struct drain drain = {outstanding, flips, generation % 2};
    tug_remote_wait(remote, has_ended, &drain);
}

/* Who flips has seen the closed generation empty, while that number of flips stood. The first flip
 * that others make after this call has begun may go back to a look before it; the next two do not,
 * and they are about both generations. Who starts an operation in the open generation just when it
 * is closed (it read `flips` before) does no harm: it is waited for in vain at worst. Checked by
 * tests/model/generations.pml. */
#define FLIPS_ENOUGH 3

static void drain_all(struct tug_remote *remote, struct tug_outstanding *outstanding) {
    uint32_t first = atomic_load(&outstanding->flips), flips = first;
    for (; flips - first < FLIPS_ENOUGH; flips = atomic_load(&outstanding->flips)) {
        drain_generation(remote, outstanding, flips, flips + 1);
        if (atomic_load(&outstanding->flips) != flips)
            continue;
        if (tug_generation_is_empty(&outstanding->generations[flips % 2]))
            return;
        if (atomic_compare_exchange_strong(&outstanding->flips, &flips, flips + 1)) {
            drain_generation(remote, outstanding, flips + 1, flips);
            return;
        }
    }
    tug_stat_add(TUG_STAT_FLUSHES_COMBINED, 1);
}

/* What has failed of what has ended, told once. A TUG_ERR_*. */
static int failure_of(struct tug_outstanding *outstanding) {
    int status = 0;
    for (int i = 0; i < 2; i++) {
        int *failed = &outstanding->generations[i].ended.status;
        if (__builtin_expect(__atomic_load_n(failed, __ATOMIC_RELAXED) != 0, 0))
            status = __atomic_exchange_n(failed, 0, __ATOMIC_RELAXED);
    }
    return status;
}

/* A TUG_ERR_*. */
static int drain_outstanding(struct tug_remote *remote, struct tug_outstanding *outstanding) {
    if (!tug_outstanding_is_empty(outstanding))
        drain_all(remote, outstanding);
    return failure_of(outstanding);
}

static void begin_flush(bool local) {
    tug_burst_end();
    tug_burst.awaited = !local;
    /* operations in batches count as started when the holder starts them */
    if (local)
        tug_batch_settle_reads();
    else
        tug_batch_settle();
}

static void submit_every(const struct tug_remote *remote) {
    for (struct tug_remote_state *state = atomic_load(&remote->used); state != NULL;
         state = state->next)
        tug_peer_end_gathering(&state->peer);
}

static int flush_target(struct tug_remote *remote, struct tug_remote_state *state, bool local) {
    int status = drain_outstanding(remote, &state->peer.local);
    int later = local ? 0 : drain_outstanding(remote, &state->peer.remote);
    return tug_remote_error(status != 0 ? status : later);
}

static bool waits(const struct tug_remote_state *state, bool local) {
    return !tug_outstanding_is_empty(&state->peer.local) ||
           (!local && !tug_outstanding_is_empty(&state->peer.remote));
}

int tug_remote_flush(struct tug_remote *remote, int rank, bool local) {
    struct tug_remote_state *state = tug_remote_state_of(remote, rank);
    if (state != NULL)
        tug_peer_end_gathering(&state->peer); /* before its record is started */
    begin_flush(local);
    if (state == NULL || !waits(state, local))
        tug_context_pass(remote->domain->context);
    return state != NULL ? flush_target(remote, state, local) : MPI_SUCCESS;
}

static int first_error(int error, int later) {
    return error != MPI_SUCCESS ? error : later;
}

static int flush_every(struct tug_remote *remote, bool local) {
    int error = MPI_SUCCESS;
    submit_every(remote);
    begin_flush(local);
    tug_context_pass(remote->domain->context);
    for (struct tug_remote_state *state = atomic_load(&remote->used); state != NULL;
         state = state->next)
        error = first_error(error, flush_target(remote, state, local));
    return error;
}

struct awaited {
    _Atomic uint32_t *count;
    uint32_t value;
    const struct tug_remote *remote;
    int rank;      /* whose */
    uint32_t lost; /* processes, when the wait began */
};

static bool has_come(void *argument) {
    const struct awaited *awaited = argument;
    return (int32_t)(atomic_load(awaited->count) - awaited->value) >= 0;
}

/* It has told, but there was no memory to keep that. */
static bool is_forgotten(const struct awaited *awaited) {
    const int forgotten = atomic_load(&awaited->remote->forgotten);
    return forgotten < 0 || forgotten == awaited->rank + 1;
}

static bool has_come_or_will_not(void *argument) {
    const struct awaited *awaited = argument;
    return has_come(argument) || is_forgotten(awaited) ||
           tug_context_lost(awaited->remote->domain->context) != awaited->lost;
}

/* Waits for what that rank tells. MPI_ERR_OTHER: it never will, for it is lost; MPI_ERR_NO_MEM: it
 * has, in vain. */
static int await(struct tug_remote *remote, int rank, _Atomic uint32_t *count, uint32_t value) {
    tug_context *context = remote->domain->context;
    struct awaited awaited = {count, value, remote, rank, 0};
    for (;;) {
        awaited.lost = tug_context_lost(context);
        if (has_come(&awaited))
            return MPI_SUCCESS;
        if (is_forgotten(&awaited))
            return MPI_ERR_NO_MEM;
        if (awaited.lost > 0 && tug_context_has_lost(context, remote->targets[rank].process))
            return has_come(&awaited) ? MPI_SUCCESS : MPI_ERR_OTHER; /* its last words count */
        tug_remote_wait(remote, has_come_or_will_not, &awaited);
    }
}

/* What has been told goes now, and does not wait for company. */
static void send_all(struct tug_remote *remote) {
    tug_progress(remote->domain->context);
}

/* ---- epochs that end with a message ----
 *
 * What goes in packets is complete at a target when it handles a message that was sent later, by
 * whichever thread. So who tells a target that an epoch is over need not wait for the target's
 * acknowledgement first; only for what has its buffers. What fails is told by a later call. */

/* May the target handle the next message before what was started to it is complete there? Once. */
static bool is_overtaken(const struct tug_remote *remote, struct tug_remote_state *state) {
    return atomic_exchange(&state->overtaken, false) || !remote->ordered;
}

/* Nothing that was started to the target, and told of, has this rank's buffers any more. */
static int end_told(struct tug_remote *remote, struct tug_remote_state *state) {
    int status = drain_outstanding(remote, &state->peer.local);
    int later = failure_of(&state->peer.remote);
    return tug_remote_error(status != 0 ? status : later);
}

/* ---- fence ---- */

/* Where ranks share nodes, a node takes part by its first rank. */
static int first_of_node(const struct tug_remote *remote, int64_t node) {
    return remote->block == NULL ? (int)node
                                 : (int)tug_places_rank(&remote->team->places, (uint32_t)node, 0);
}

/* Everybody tells the one 2^round nodes on, and waits for the one 2^round nodes before: after all
 * rounds everybody has heard of everybody (dissemination: Hensgen, Finkel and Manber 1988). */
static int disseminate(struct tug_remote *remote) {
    const struct tug_team *team = remote->team;
    const bool shared = remote->block != NULL;
    const int64_t n = shared ? team->nnodes : remote->nranks;
    const int64_t mine = shared ? team->places.node_of[remote->rank] : (uint32_t)remote->rank;
    int error = MPI_SUCCESS;
    remote->barriers++;
    for (unsigned round = 0; ((int64_t)1 << round) < n; round++) {
        const int to = first_of_node(remote, (mine + ((int64_t)1 << round)) % n);
        error = first_error(
            error, tug_remote_tell(remote, to, TUG_MESSAGE_NOTICE, TUG_NOTICE_BARRIER, round));
        const int from = first_of_node(remote, (mine + n - ((int64_t)1 << round)) % n);
        _Atomic uint32_t *arrived = &remote->arrived[round];
        if (has_come(&(struct awaited){.count = arrived, .value = remote->barriers}))
            send_all(remote);
        else
            error = first_error(error, await(remote, from, arrived, remote->barriers));
    }
    return error;
}

/* Two ranks, a node each: what says that the fence has come goes with the operations. With a third
 * rank they have to be complete first: it could hear from the target before the target has heard
 * from this rank, leave the fence, and get there what was there before. */
static int fence_of_two(struct tug_remote *remote) {
    int error = MPI_SUCCESS;
    begin_flush(false);
    for (struct tug_remote_state *state = atomic_load(&remote->used); state; state = state->next)
        if (is_overtaken(remote, state) || state->target == &remote->targets[remote->rank])
            error = first_error(error, flush_target(remote, state, false));
    error = first_error(error, disseminate(remote));
    for (struct tug_remote_state *state = atomic_load(&remote->used); state; state = state->next)
        error = first_error(error, end_told(remote, state));
    return error;
}

static int fence(struct tug_window *window) {
    struct tug_remote *remote = window->remote;
    if (remote->nranks == 2 && remote->team->nnodes == 2)
        return fence_of_two(remote);
    int error = flush_every(remote, false);
    if (remote->block == NULL)
        return first_error(error, disseminate(remote));
    tug_node_meet(&remote->sync);
    if (remote->team->node_rank == 0)
        error = first_error(error, disseminate(remote));
    tug_node_meet(&remote->sync);
    return error;
}

/* ---- post, start, complete, wait ---- */

/* Is the epoch with that rank kept in memory of this node? *node_rank: which it is there. */
static bool is_near(const struct tug_remote *remote, int rank, int *node_rank) {
    if (!remote->targets[rank].near)
        return false;
    *node_rank = (int)remote->team->places.node_rank_of[rank];
    return true;
}

/* The posts are acknowledged by what this rank sends in the epoch, or says at its end. */
static int start(struct tug_window *window, const int *ranks, int n) {
    struct tug_remote *remote = window->remote;
    int error = MPI_SUCCESS;
    tug_context_replies(remote->domain->context, true);
    for (int i = 0, near; i < n && error == MPI_SUCCESS; i++)
        if (ranks[i] >= 0 && is_near(remote, ranks[i], &near)) {
            (void)tug_node_start(window, &near, 1);
        } else if (ranks[i] >= 0) {
            struct tug_remote_state *state = tug_remote_meet(remote, ranks[i]);
            if (state == NULL)
                error = MPI_ERR_NO_MEM;
            else
                error = await(remote, ranks[i], &state->posts, ++state->posts_used);
        }
    tug_context_replies(remote->domain->context, false);
    return error;
}

static int tell_listed(struct tug_window *window, const int *ranks, int n, enum tug_notice notice) {
    struct tug_remote *remote = window->remote;
    int error = MPI_SUCCESS;
    for (int i = 0, near; i < n; i++)
        if (ranks[i] >= 0 && !is_near(remote, ranks[i], &near))
            error = first_error(error,
                                tug_remote_tell(remote, ranks[i], TUG_MESSAGE_NOTICE, notice, 0));
        else if (ranks[i] >= 0 && notice == TUG_NOTICE_POST)
            (void)tug_node_post(window, &near, 1);
        else if (ranks[i] >= 0)
            tug_node_end_access(&remote->sync, near);
    return error;
}

static int complete(struct tug_window *window, const int *ranks, int n) {
    struct tug_remote *remote = window->remote;
    int error = MPI_SUCCESS, near;
    begin_flush(false);
    for (int i = 0; i < n; i++)
        if (ranks[i] >= 0 && (is_near(remote, ranks[i], &near) ||
                              is_overtaken(remote, tug_remote_state_of(remote, ranks[i]))))
            error = first_error(error, tug_remote_flush(remote, ranks[i], false));
    error = first_error(error, tell_listed(window, ranks, n, TUG_NOTICE_COMPLETE));
    send_all(remote);
    for (int i = 0; i < n; i++)
        if (ranks[i] >= 0 && !is_near(remote, ranks[i], &near))
            error = first_error(error, end_told(remote, tug_remote_state_of(remote, ranks[i])));
    return error;
}

static int post(struct tug_window *window, const int *ranks, int n) {
    return tell_listed(window, ranks, n, TUG_NOTICE_POST);
}

/* Of the ranks on this node: their number counts, and all of them are waited for at once. */
static uint32_t count_near(const struct tug_remote *remote, const int *ranks, int n) {
    uint32_t count = 0;
    for (int i = 0; i < n; i++)
        count += ranks[i] >= 0 && remote->targets[ranks[i]].near;
    return count;
}

static void end_exposure(struct tug_remote *remote, const int *ranks, int n) {
    const uint32_t near = count_near(remote, ranks, n);
    for (int i = 0; i < n; i++)
        if (ranks[i] >= 0 && !remote->targets[ranks[i]].near)
            tug_remote_state_of(remote, ranks[i])->completes_used++;
    if (near > 0)
        tug_node_end_exposure(&remote->sync, near);
}

static int wait_exposure(struct tug_window *window, const int *ranks, int n) {
    struct tug_remote *remote = window->remote;
    const uint32_t near = count_near(remote, ranks, n);
    for (int i = 0; i < n; i++)
        if (ranks[i] >= 0 && !remote->targets[ranks[i]].near) {
            struct tug_remote_state *from = tug_remote_meet(remote, ranks[i]);
            if (from == NULL)
                return MPI_ERR_NO_MEM;
            const int error = await(remote, ranks[i], &from->completes, from->completes_used + 1);
            if (error != MPI_SUCCESS)
                return error;
        }
    if (near > 0)
        tug_node_await_completes(&remote->sync, near);
    end_exposure(remote, ranks, n);
    return MPI_SUCCESS;
}

static int test_exposure(struct tug_window *window, const int *ranks, int n, int *flag) {
    struct tug_remote *remote = window->remote;
    const uint32_t near = count_near(remote, ranks, n);
    tug_progress(remote->domain->context);
    *flag = near == 0 || tug_node_have_completed(&remote->sync, near);
    for (int i = 0; i < n && *flag; i++)
        if (ranks[i] >= 0 && !remote->targets[ranks[i]].near) {
            struct tug_remote_state *from = tug_remote_meet(remote, ranks[i]);
            if (from == NULL)
                return MPI_ERR_NO_MEM;
            struct awaited awaited = {&from->completes, from->completes_used + 1, remote, ranks[i],
                                      0};
            *flag = has_come(&awaited);
            if (!*flag && is_forgotten(&awaited))
                return MPI_ERR_NO_MEM;
        }
    if (*flag)
        end_exposure(remote, ranks, n);
    return MPI_SUCCESS;
}

/* ---- locks ---- */

/* The lock on the memory of a rank of this node; NULL: of another, or the cards take it. */
static struct tug_rwlock *near_lock(const struct tug_remote *remote, int rank) {
    if (remote->card_locks)
        return NULL;
    if (rank == remote->rank)
        return remote->lock;
    return remote->targets[rank].near ? &tug_remote_control(remote, rank)->lock : NULL;
}

/* This rank has moved it. */
static void tell_moved(struct tug_remote *remote, int rank, const struct tug_rwlock *lock) {
    if (__builtin_expect(tug_rwlock_is_watched(lock), 0))
        (void)tug_remote_tell(remote, rank, TUG_MESSAGE_MOVED, 0, 0);
}

/* The first lock of a group's is the rank's own, which it takes in its turn. */
static void take_near(struct tug_remote *remote, int rank, struct tug_rwlock *lock,
                      enum tug_lock_state kind) {
    if (kind == TUG_LOCK_EXCLUSIVE) {
        tug_rwlock_lock_exclusive(lock, tug_engine_poll_host);
        return;
    }
    if (kind == TUG_LOCK_GROUP && rank != remote->rank && tug_rwlock_join(lock))
        return;
    tug_rwlock_lock_shared(lock, tug_engine_poll_host);
    if (kind == TUG_LOCK_GROUP)
        tug_rwlock_found(lock);
    tell_moved(remote, rank, lock);
}

/* An error class. */
static int take_lock(struct tug_remote *remote, int rank, enum tug_lock_state kind) {
    struct tug_rwlock *near = near_lock(remote, rank);
    if (near == NULL)
        return tug_owed_ask(remote, rank, kind);
    take_near(remote, rank, near, kind);
    return MPI_SUCCESS;
}

/* After a flush; or (by message) before it, where nothing overtakes messages. */
static void leave_lock(struct tug_remote *remote, int rank, enum tug_lock_state kind) {
    struct tug_rwlock *near = near_lock(remote, rank);
    if (near == NULL) {
        struct tug_remote_state *state = tug_remote_state_of(remote, rank);
        if (tug_card_holds(state))
            tug_card_unlock(remote, state);
        else
            (void)tug_remote_tell(remote, rank, TUG_MESSAGE_UNLOCK, 0, 0);
        return;
    }
    tug_remote_drop_lock(near, kind);
    tell_moved(remote, rank, near);
}

static enum tug_lock_state kind_of(bool exclusive) {
    return exclusive ? TUG_LOCK_EXCLUSIVE : TUG_LOCK_SHARED;
}

static int lock(struct tug_window *window, int rank, bool exclusive) {
    struct tug_remote *remote = window->remote;
    struct tug_remote_state *state = tug_remote_meet(remote, rank); /* who unlocks counts on it */
    int error = MPI_SUCCESS;
    if (state == NULL)
        return MPI_ERR_NO_MEM;
    if (rank == remote->rank || remote->targets[rank].near) /* loads and stores count on it */
        error = take_lock(remote, rank, kind_of(exclusive));
    else
        tug_owed_begin(state, kind_of(exclusive));
    /* who locks its own memory in a loop must hear of others who want to, on other nodes or by
     * packets that nobody else gets on */
    if (rank == remote->rank && (remote->domain->team->nnodes > 1 || tug_engine_wants_help()))
        tug_engine_poll();
    return error;
}

static bool is_answered(void *argument) {
    const struct tug_remote_state *state = argument;
    return (atomic_load(&state->contact) & (TUG_CONTACT_ASKED | TUG_CONTACT_LOCKED)) !=
           TUG_CONTACT_ASKED;
}

/* ASKED stays while it is locked: nobody else asks. */
static int lock_late(struct tug_remote *remote, struct tug_remote_state *state, int rank) {
    if (atomic_fetch_or(&state->contact, TUG_CONTACT_ASKED) & TUG_CONTACT_ASKED) {
        tug_remote_wait(remote, is_answered, state);
        return atomic_load(&state->contact) & TUG_CONTACT_LOCKED ? MPI_SUCCESS : MPI_ERR_OTHER;
    }
    int error = take_lock(remote, rank, TUG_LOCK_GROUP);
    if (error == MPI_SUCCESS)
        atomic_fetch_or(&state->contact, TUG_CONTACT_LOCKED);
    else
        atomic_fetch_and(&state->contact, (uint8_t)~TUG_CONTACT_ASKED);
    return error;
}

int tug_remote_contact(struct tug_remote *remote, int rank) {
    struct tug_remote_state *state = tug_remote_meet(remote, rank);
    if (state == NULL)
        return MPI_ERR_NO_MEM;
    const uint8_t wanted = atomic_load(&remote->contact_wanted);
    if (wanted & TUG_CONTACT_SETTLED) {
        const int error = tug_owed_take(state);
        if (error != MPI_SUCCESS)
            return error;
        atomic_fetch_or(&state->contact, TUG_CONTACT_SETTLED);
    }
    if (!(wanted & TUG_CONTACT_LOCKED))
        return MPI_SUCCESS;
    if (atomic_load(&tug_owed_locks) > 0)
        tug_owed_take_mine(NULL);
    return lock_late(remote, state, rank);
}

/* Our own memory at once, for loads and stores count on it. */
static int lock_all(struct tug_window *window) {
    struct tug_remote *remote = window->remote;
    atomic_fetch_or(&remote->contact_wanted, TUG_CONTACT_LOCKED);
    const int error = tug_remote_contact(remote, remote->rank);
    if (error) /* the epoch does not begin: others' locks are not to be taken for it */
        atomic_fetch_and(&remote->contact_wanted, (uint8_t)~TUG_CONTACT_LOCKED);
    return error;
}

/* What is in order with messages is complete at the target when it hears of the unlock, and one
 * wait is enough. A large block travels by itself and may be later than the message: complete
 * first. */
static int unlock(struct tug_window *window, int rank, bool exclusive, bool taken) {
    struct tug_remote *remote = window->remote;
    struct tug_remote_state *state = tug_remote_state_of(remote, rank);
    if (state == NULL) /* MPI_MODE_NOCHECK, and no operation */
        return MPI_SUCCESS;
    if (taken && near_lock(remote, rank) == NULL) {
        const int error = tug_owed_end(state, &taken);
        if (!taken)
            return error;
    }
    const bool overtaken = is_overtaken(remote, state);
    const bool early = !overtaken && near_lock(remote, rank) == NULL;
    tug_batch_settle(); /* puts of other threads go ahead of the message, too */
    if (taken && early)
        leave_lock(remote, rank, kind_of(exclusive));
    int error = tug_remote_flush(remote, rank, false);
    if (taken && !early)
        leave_lock(remote, rank, kind_of(exclusive));
    return error;
}

static int unlock_all(struct tug_window *window, bool taken) {
    struct tug_remote *remote = window->remote;
    int error = flush_every(remote, false);
    for (struct tug_remote_state *state = atomic_load(&remote->used); state != NULL && taken;
         state = state->next)
        if (atomic_exchange(&state->contact, 0) & TUG_CONTACT_LOCKED)
            leave_lock(remote, (int)(state->target - remote->targets), TUG_LOCK_GROUP);
    atomic_fetch_and(&remote->contact_wanted, (uint8_t)~TUG_CONTACT_LOCKED);
    return error;
}

static bool owes(const struct tug_remote *remote) {
    return atomic_load(&remote->contact_wanted) & TUG_CONTACT_SETTLED;
}

static int flush(struct tug_window *window, int rank, bool local) {
    struct tug_remote *remote = window->remote;
    struct tug_remote_state *state = owes(remote) ? tug_remote_state_of(remote, rank) : NULL;
    const int error = state != NULL ? tug_owed_take(state) : MPI_SUCCESS;
    return first_error(error, tug_remote_flush(remote, rank, local));
}

/* A whole one leaves no messages to those who know of memory that has been detached. */
static int flush_all(struct tug_window *window, bool local) {
    struct tug_remote *remote = window->remote;
    int error = MPI_SUCCESS;
    for (struct tug_remote_state *state = atomic_load(&remote->used); state && owes(remote);
         state = state->next)
        error = first_error(error, tug_owed_flush(state));
    error = first_error(error, flush_every(remote, local));
    if (!local)
        tug_remote_await_detached(remote);
    return error;
}

const struct tug_lane tug_remote_lane = {.name = "packet",
                                         .fence = fence,
                                         .start = start,
                                         .complete = complete,
                                         .post = post,
                                         .wait = wait_exposure,
                                         .test = test_exposure,
                                         .lock = lock,
                                         .lock_all = lock_all,
                                         .unlock = unlock,
                                         .unlock_all = unlock_all,
                                         .flush = flush,
                                         .flush_all = flush_all,
                                         .release = tug_remote_release};

const struct tug_lane tug_remote_node_lane = {.name = "packet",
                                              TUG_NODE_LANE,
                                              .flush = flush,
                                              .flush_all = flush_all,
                                              .release = tug_remote_release};
