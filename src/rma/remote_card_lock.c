#include "rma/remote_card_lock.h"

#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "llcl/llcl.h"

#define SHARED UINT64_C(1)
#define EXCLUSIVE (UINT64_C(1) << 32)
#define QUEUED (UINT64_C(1) << 33)

/* ---- the words ---- */

union part {
    struct tug_key key;
    struct tug_word word;
};

static bool reaches_itself(struct tug_domain *domain, const struct tug_key *key) {
    struct tug_counter ended = {0};
    const struct tug_card_atomic nothing = {.process = domain->team->rank,
                                            .remote = {.key = key},
                                            .on_complete = {tug_counter_add, &ended}};
    if (!tug_key_is_at_card(key))
        return false;
    TUG_REMOTE_TRY(domain->context, tug_context_card_atomic(domain->context, &nothing));
    return tug_counter_wait(domain->context, &ended, 1) == 0;
}

void tug_card_locks_open(struct tug_domain *domain) {
    const size_t bytes = TUG_REMOTE_WINDOWS * sizeof(uint64_t), n = (size_t)domain->team->nranks;
    union part mine = {0}, *all;
    if (!domain->cards)
        return;
    tug_deferred_open(&domain->deferred);
    all = calloc(n, sizeof(*all));
    domain->lock_keys = malloc(n * sizeof(*domain->lock_keys));
    domain->lock_words = calloc(1, bytes);
    bool ready =
        all != NULL && domain->lock_keys != NULL && domain->lock_words != NULL &&
        tug_mem_register(domain->context, domain->lock_words, bytes, &domain->lock_memory) == 0;
    if (ready) {
        tug_mem_key(domain->lock_memory, &mine.key);
        ready = reaches_itself(domain, &mine.key);
    }
    domain->card_locks = tug_team_all_agree(domain->team, ready);
    if (domain->card_locks)
        domain->card_locks = tug_team_all_agree(
            domain->team, tug_team_gather(domain->team, &mine.word, &all->word) == MPI_SUCCESS);
    for (size_t i = 0; domain->card_locks && i < n; i++)
        domain->lock_keys[i] = all[i].key;
    free(all);
}

void tug_card_locks_close(struct tug_domain *domain) {
    if (!domain->cards)
        return;
    while (domain->lock_memory != NULL && tug_mem_deregister(&domain->lock_memory) == TUG_ERR_STATE)
        tug_progress(domain->context);
    tug_deferred_close(&domain->deferred);
    free(domain->lock_words);
    free(domain->lock_keys);
}

/* On the word of a rank of the window. */
static struct tug_card_atomic add_to(const struct tug_remote *remote, int rank, uint32_t window,
                                     uint64_t change, uint64_t *found) {
    const int process = remote->targets[rank].process;
    return (struct tug_card_atomic){
        .process = process,
        .remote = {&remote->domain->lock_keys[process], window * sizeof(uint64_t)},
        .operand = change,
        .result = found};
}

/* ---- the origin ---- */

/* A TUG_ERR_*. */
static int perform(struct tug_remote *remote, struct tug_card_atomic *atomic) {
    struct tug_counter ended = {0};
    atomic->on_complete = (struct tug_callback){tug_counter_add, &ended};
    TUG_REMOTE_TRY(remote->domain->context,
                   tug_context_card_atomic(remote->domain->context, atomic));
    return tug_remote_wait_counter(remote, &ended, 1);
}

/* Must the owner look at the word again after this atomic? */
static bool concerns_owner(bool exclusive, uint64_t found) {
    return exclusive ? (found & QUEUED) != 0 : found == (QUEUED | SHARED);
}

int tug_card_lock(struct tug_remote *remote, int rank, enum tug_lock_state kind, bool *held) {
    const bool exclusive = kind == TUG_LOCK_EXCLUSIVE;
    const uint64_t closed =
        kind == TUG_LOCK_GROUP && rank != remote->rank ? EXCLUSIVE : EXCLUSIVE | QUEUED;
    uint64_t found = 0;
    struct tug_card_atomic atomic =
        add_to(remote, rank, remote->targets[rank].number, exclusive ? EXCLUSIVE : SHARED, &found);
    atomic.compares = exclusive;
    *held = false;
    int status = perform(remote, &atomic);
    if (status != 0) /* DEVICE: the card does not get there, and nothing was done */
        return status == TUG_ERR_DEVICE ? MPI_SUCCESS : tug_remote_error(status);
    *held = exclusive ? found == 0 : (found & closed) == 0;
    if (*held)
        tug_remote_state_of(remote, rank)->card_holds = (uint8_t)kind;
    if (*held || exclusive)
        return MPI_SUCCESS;
    atomic.operand = -SHARED;
    status = perform(remote, &atomic);
    if (status == 0 && concerns_owner(false, found))
        return tug_remote_tell(remote, rank, TUG_MESSAGE_MOVED, 0, 0);
    return tug_remote_error(status);
}

/* Sends TUG_MESSAGE_MOVED. Holder only. */
static void tell(struct tug_deferred *work) {
    struct tug_remote_state *state =
        (struct tug_remote_state *)((char *)work - offsetof(struct tug_remote_state, card_tells));
    struct tug_remote *remote = state->owed.remote;
    const struct tug_remote_head head = {.window = state->target->number,
                                         .type = (uint32_t)remote->rank};
    const struct tug_am_params message = {.dest_proc = state->target->process,
                                          .handler = TUG_MESSAGE_MOVED,
                                          .payload = &head,
                                          .size_in_bytes = sizeof(head),
                                          .on_complete = state->card_left};
    if (tug_try_am_async(remote->domain->context, &message))
        atomic_store(&state->card_leaves, false);
    else
        tug_deferred_retry(&remote->domain->deferred, work);
}

/* The unlock has ended. Holder only. */
static void left(void *argument, int status) {
    struct tug_remote_state *state = argument;
    if (status == 0 && concerns_owner(state->card_leaves_exclusive, state->card_found)) {
        tell(&state->card_tells);
        return;
    }
    const struct tug_callback then = state->card_left;
    atomic_store(&state->card_leaves, false);
    then.f(then.d, status);
}

/* The last unlock has ended, and what it has found is not needed any more. */
static bool has_left(void *state) {
    return !atomic_load(&((struct tug_remote_state *)state)->card_leaves);
}

void tug_card_unlock(struct tug_remote *remote, struct tug_remote_state *state) {
    const int rank = (int)(state->target - remote->targets);
    const bool exclusive = state->card_holds == TUG_LOCK_EXCLUSIVE;
    tug_remote_wait(remote, has_left, state); /* of another thread, by another queue pair */
    state->card_holds = TUG_LOCK_NONE;
    state->card_leaves_exclusive = exclusive;
    state->card_left = tug_outstanding_start(&state->peer.remote);
    state->card_tells.run = tell;
    atomic_store(&state->card_leaves, true);
    struct tug_card_atomic atomic = add_to(remote, rank, state->target->number,
                                           exclusive ? -EXCLUSIVE : -SHARED, &state->card_found);
    atomic.on_complete = (struct tug_callback){left, state};
    TUG_REMOTE_TRY(remote->domain->context,
                   tug_context_card_atomic(remote->domain->context, &atomic));
}

/* ---- the owner ---- */

static void try_post(struct tug_deferred *work) {
    struct tug_remote *remote =
        (struct tug_remote *)((char *)work - offsetof(struct tug_remote, gate.work));
    if (!tug_context_card_atomic(remote->domain->context, &remote->gate.atomic))
        tug_deferred_retry(&remote->domain->deferred, work);
}

static void ended(void *argument, int status);

static void post(struct tug_remote *remote, bool compares, uint64_t compare, uint64_t operand) {
    struct tug_gate *gate = &remote->gate;
    gate->atomic = add_to(remote, remote->rank, remote->number, operand, &gate->found);
    gate->atomic.compares = compares;
    gate->atomic.compare = compare;
    gate->atomic.on_complete = (struct tug_callback){ended, remote};
    gate->work.run = try_post;
    atomic_fetch_add(&gate->busy, 1);
    try_post(&gate->work);
}

/* Takes the word, if nobody holds it. */
static void take_back(struct tug_remote *remote) {
    remote->gate.again = false;
    post(remote, true, remote->gate.queued ? QUEUED : 0, QUEUED | EXCLUSIVE);
}

/* The owner holds the word: no card can take the lock. */
static void own(struct tug_remote *remote) {
    struct tug_gate *gate = &remote->gate;
    if (gate->state == TUG_GATE_SHARED)
        tug_rwlock_unlock_shared(remote->lock);
    else
        tug_rwlock_unlock_exclusive(remote->lock);
    gate->state = TUG_GATE_OWNER;
    tug_remote_grant(remote);
}

/* QUEUED is set, and the word has been seen: nobody holds it exclusively any more. */
static void share(struct tug_remote *remote) {
    struct tug_gate *gate = &remote->gate;
    if (gate->state != TUG_GATE_RECALLED || (gate->found & EXCLUSIVE))
        return;
    gate->state = TUG_GATE_SHARED;
    (void)tug_rwlock_take(remote->lock, gate->ticket, false);
    tug_remote_grant(remote);
}

/* An attempt to take the word, or to set QUEUED, has ended. */
static void go_on(struct tug_remote *remote) {
    struct tug_gate *gate = &remote->gate;
    const bool compares = gate->atomic.compares;
    if (compares && gate->found == gate->atomic.compare) {
        own(remote);
    } else if (compares && !gate->queued) {
        post(remote, false, 0, QUEUED);
    } else {
        gate->queued = true;
        share(remote);
        if (gate->again || (!compares && gate->found == 0))
            take_back(remote);
    }
}

static void ended(void *argument, int status) {
    struct tug_remote *remote = argument;
    struct tug_gate *gate = &remote->gate;
    if (status == 0 && gate->state != TUG_GATE_RETURNING) {
        go_on(remote);
    } else {
        gate->state = status == 0 ? TUG_GATE_CARDS : TUG_GATE_FAILED;
        gate->queued = false;
        tug_remote_grant(remote);
    }
    atomic_fetch_sub(&gate->busy, 1); /* the window may be gone after this */
}

void tug_card_recall(struct tug_remote *remote) {
    if (remote->gate.state != TUG_GATE_CARDS)
        return;
    remote->gate.state = TUG_GATE_RECALLED;
    take_back(remote);
}

void tug_card_moved(struct tug_remote *remote) {
    struct tug_gate *gate = &remote->gate;
    if (gate->state != TUG_GATE_RECALLED && gate->state != TUG_GATE_SHARED)
        return;
    gate->again = true;
    if (atomic_load(&gate->busy) == 0)
        take_back(remote);
}

void tug_card_return(struct tug_remote *remote) {
    struct tug_gate *gate = &remote->gate;
    if (gate->state != TUG_GATE_OWNER || !tug_rwlock_try_exclusive(remote->lock, &gate->ticket))
        return;
    gate->state = TUG_GATE_RETURNING;
    post(remote, false, 0, -(QUEUED | EXCLUSIVE));
}

/* ---- the window ---- */

void tug_card_locks_begin(struct tug_remote *remote) {
    remote->card_locks = remote->domain->card_locks && remote->team->node_most == 1 &&
                         remote->nranks > 1 && remote->attachments == NULL;
    if (!remote->card_locks)
        return;
    remote->domain->lock_words[remote->number] = 0; /* nobody knows of it yet */
    (void)tug_rwlock_try_exclusive(remote->lock, &remote->gate.ticket);
    remote->gate.state = TUG_GATE_CARDS;
}

static bool rests(void *remote) {
    return atomic_load(&((struct tug_remote *)remote)->gate.busy) == 0;
}

void tug_card_locks_end(struct tug_remote *remote) {
    if (remote->card_locks)
        tug_remote_wait(remote, rests, remote);
}
