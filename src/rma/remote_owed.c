#include "rma/remote_owed.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "host/device.h"
#include "host/handles.h"
#include "host/reduction.h"
#include "rma/operand.h"
#include "rma/remote_card.h"
#include "rma/remote_card_lock.h"
#include "rma/remote_ways.h"

#define RECORDS_MOST (TUG_AM_MAX_PAYLOAD / sizeof(struct tug_remote_head))

/* What waits for a lock. */
struct tug_owed_operations {
    struct tug_owed_operations *next; /* of those that nobody uses */
    size_t bytes, answer_bytes;       /* of the call */
    unsigned nfetched;
    struct {
        void *to;
        size_t bytes;
    } fetched[RECORDS_MOST];
    union {
        struct tug_remote_head head;
        unsigned char bytes[TUG_AM_MAX_PAYLOAD];
    } payload;
    union {
        uint64_t word;
        unsigned char bytes[TUG_AM_MAX_PAYLOAD];
    } answer;
};

/* About what is owed in this process, and memory for it. May be held before a state's mutex only if
 * that one is tried. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tug_remote_state *owed;
static struct tug_owed_operations *unused;
_Atomic uint32_t tug_owed_locks;

static __thread char myself; /* its address tells threads apart */

/* ---- the list ---- */

static void list(struct tug_remote_state *state) {
    struct tug_remote *remote = state->owed.remote;
    pthread_mutex_lock(&list_lock);
    state->owed.next = owed;
    owed = state;
    remote->nowed++;
    atomic_fetch_or(&remote->contact_wanted, TUG_CONTACT_SETTLED);
    atomic_fetch_add(&tug_owed_locks, 1);
    pthread_mutex_unlock(&list_lock);
}

static void unlist(struct tug_remote_state *state) {
    struct tug_remote *remote = state->owed.remote;
    struct tug_remote_state **at = &owed;
    pthread_mutex_lock(&list_lock);
    while (*at != state)
        at = &(*at)->owed.next;
    *at = state->owed.next;
    if (--remote->nowed == 0)
        atomic_fetch_and(&remote->contact_wanted, (uint8_t)~TUG_CONTACT_SETTLED);
    atomic_fetch_sub(&tug_owed_locks, 1);
    pthread_mutex_unlock(&list_lock);
}

/* NULL: no memory. */
static struct tug_owed_operations *take_operations(void) {
    pthread_mutex_lock(&list_lock);
    struct tug_owed_operations *operations = unused;
    if (operations != NULL)
        unused = operations->next;
    pthread_mutex_unlock(&list_lock);
    if (operations == NULL && (operations = malloc(sizeof(*operations))) == NULL)
        return NULL;
    operations->bytes = sizeof(struct tug_remote_head);
    operations->answer_bytes = sizeof(uint64_t);
    operations->nfetched = 0;
    return operations;
}

static void give_operations(struct tug_owed_operations *operations) {
    if (operations == NULL)
        return;
    pthread_mutex_lock(&list_lock);
    operations->next = unused;
    unused = operations;
    pthread_mutex_unlock(&list_lock);
}

/* ---- the call ---- */

static void deliver(const struct tug_owed_operations *operations) {
    const unsigned char *from = operations->answer.bytes + sizeof(uint64_t);
    for (unsigned i = 0; i < operations->nfetched; i++) {
        tug_copy(operations->fetched[i].to, from, operations->fetched[i].bytes);
        from += tug_owed_padded(operations->fetched[i].bytes);
    }
}

/* With what waits, if there is any. */
static int call(struct tug_remote *remote, int rank, enum tug_lock_state kind, bool ends,
                struct tug_owed_operations *operations) {
    struct tug_counter granted = {0};
    struct tug_remote_head head = {.window = remote->targets[rank].number,
                                   .op = ends,
                                   .what = (uint8_t)kind,
                                   .type = (uint32_t)remote->rank};
    uint64_t word = 0;
    if (operations != NULL)
        operations->payload.head = head;
    const struct tug_call_params params = {
        .dest_proc = remote->targets[rank].process,
        .handler = TUG_CALL_LOCK,
        .payload = operations != NULL ? operations->payload.bytes : (void *)&head,
        .size_in_bytes = operations != NULL ? operations->bytes : sizeof(head),
        .answer = operations != NULL ? operations->answer.bytes : (void *)&word,
        .answer_in_bytes = operations != NULL ? operations->answer_bytes : sizeof(word),
        .on_complete = {tug_counter_add, &granted}};
    TUG_REMOTE_TRY(remote->domain->context, tug_try_call_async(remote->domain->context, &params));
    int status = tug_remote_wait_counter(remote, &granted, 1);
    if (status == 0 && operations != NULL)
        deliver(operations);
    return tug_remote_error(status);
}

int tug_owed_ask(struct tug_remote *remote, int rank, enum tug_lock_state kind) {
    bool held = false;
    const int error = remote->card_locks ? tug_card_lock(remote, rank, kind, &held) : MPI_SUCCESS;
    return error != MPI_SUCCESS || held ? error : call(remote, rank, kind, false, NULL);
}

/* By card, if nothing waits? */
static bool is_for_card(const struct tug_remote_state *state) {
    return state->owed.remote->card_locks && state->owed.operations == NULL;
}

/* ends: the call unlocks, too. Under the state's mutex. */
static int pay(struct tug_remote_state *state, bool ends) {
    struct tug_remote *remote = state->owed.remote;
    struct tug_owed_operations *operations = state->owed.operations;
    const int rank = (int)(state->target - remote->targets);
    const int error = is_for_card(state) ? tug_owed_ask(remote, rank, state->owed.kind)
                                         : call(remote, rank, state->owed.kind, ends, operations);
    state->owed.operations = NULL;
    give_operations(operations);
    if (error == MPI_SUCCESS || ends) {
        unlist(state);
        state->owed.kind = TUG_LOCK_NONE;
    }
    return error;
}

/* ---- the epoch ---- */

void tug_owed_begin(struct tug_remote_state *state, enum tug_lock_state kind) {
    pthread_mutex_lock(&state->owed.mutex);
    state->owed.owner = &myself;
    state->owed.kind = kind;
    atomic_fetch_and(&state->contact, (uint8_t)~TUG_CONTACT_SETTLED);
    list(state);
    pthread_mutex_unlock(&state->owed.mutex);
}

int tug_owed_take(struct tug_remote_state *state) {
    pthread_mutex_lock(&state->owed.mutex);
    const int error = state->owed.kind != TUG_LOCK_NONE ? pay(state, false) : MPI_SUCCESS;
    pthread_mutex_unlock(&state->owed.mutex);
    return error;
}

int tug_owed_flush(struct tug_remote_state *state) {
    pthread_mutex_lock(&state->owed.mutex);
    const bool due = state->owed.kind != TUG_LOCK_NONE &&
                     (state->owed.operations != NULL || state->owed.owner == &myself);
    const int error = due ? pay(state, false) : MPI_SUCCESS;
    pthread_mutex_unlock(&state->owed.mutex);
    return error;
}

int tug_owed_end(struct tug_remote_state *state, bool *taken) {
    pthread_mutex_lock(&state->owed.mutex);
    const bool taken_now = state->owed.kind != TUG_LOCK_NONE && is_for_card(state);
    *taken = state->owed.kind == TUG_LOCK_NONE;
    const int error = *taken ? MPI_SUCCESS : pay(state, true);
    *taken |= taken_now && error == MPI_SUCCESS;
    pthread_mutex_unlock(&state->owed.mutex);
    return error;
}

/* Another thread may be about to take it, or to end its epoch and the window. While the list is
 * locked, none is freed that is in it. */
void tug_owed_take_mine(const struct tug_remote_target *but) {
    for (;;) {
        pthread_mutex_lock(&list_lock);
        struct tug_remote_state *mine = owed;
        while (mine != NULL && mine->owed.owner != &myself)
            mine = mine->owed.next;
        if (mine != NULL && mine->target == but)
            mine = NULL;
        const bool locked = mine != NULL && pthread_mutex_trylock(&mine->owed.mutex) == 0;
        pthread_mutex_unlock(&list_lock);
        if (locked) {
            (void)pay(mine, false);
            pthread_mutex_unlock(&mine->owed.mutex);
        }
        if (locked || mine == NULL)
            return;
        sched_yield();
    }
}

void tug_owed_forget(struct tug_remote_state *state) {
    if (state->owed.kind != TUG_LOCK_NONE)
        unlist(state);
    give_operations(state->owed.operations);
    pthread_mutex_destroy(&state->owed.mutex);
}

/* ---- operations that wait ---- */

/* One of them. */
struct record {
    enum tug_owed_record what;
    MPI_Op op; /* put and get: any */
    MPI_Datatype type;
    size_t n, bytes;         /* elements, and their bytes at the target */
    const void *operands[2]; /* `bytes` long each; NULL: none */
    void *result;            /* `bytes` long; NULL: nothing is fetched */
};

/* False: no room. */
static bool add(struct tug_owed_operations *operations, const struct record *record,
                const struct tug_remote_head *head) {
    const size_t whole = sizeof(*head) + tug_owed_padded(head->window);
    const size_t fetched = record->result != NULL ? record->bytes : 0;
    unsigned char *at = operations->payload.bytes + operations->bytes;
    if (whole > sizeof(operations->payload) - operations->bytes ||
        tug_owed_padded(fetched) > sizeof(operations->answer) - operations->answer_bytes)
        return false;
    memcpy(at, head, sizeof(*head));
    at += sizeof(*head);
    memset(at + head->window / 8 * 8, 0, tug_owed_padded(head->window) - head->window / 8 * 8);
    for (int i = 0; i < 2 && record->operands[i] != NULL; i++)
        memcpy(at + (size_t)i * record->bytes, record->operands[i], record->bytes);
    operations->bytes += whole;
    if (record->result != NULL) {
        operations->fetched[operations->nfetched].to = record->result;
        operations->fetched[operations->nfetched++].bytes = fetched;
        operations->answer_bytes += tug_owed_padded(fetched);
    }
    return true;
}

/* The card takes the lock, and does the operation. */
static bool is_cards(const struct tug_remote_state *state, const struct record *record) {
    return record->what < TUG_OWED_ACCUMULATE ? is_for_card(state)
                                              : tug_card_concerns(state->owed.remote, record->type);
}

static bool add_to(struct tug_remote_state *state, const struct record *record,
                   const struct tug_remote_head *head) {
    bool added = false;
    pthread_mutex_lock(&state->owed.mutex);
    if (state->owed.kind != TUG_LOCK_NONE && !is_cards(state, record)) {
        if (state->owed.operations == NULL)
            state->owed.operations = take_operations();
        added = state->owed.operations != NULL && add(state->owed.operations, record, head);
    }
    pthread_mutex_unlock(&state->owed.mutex);
    return added;
}

static bool locate(const struct tug_rma *o, size_t bytes, MPI_Aint *offset) {
    struct tug_remote *remote = o->window->remote;
    const struct tug_remote_target *target = &remote->targets[o->target];
    const struct tug_data data = {.bytes = bytes, .end = (MPI_Aint)bytes};
    if (remote->attachments == NULL)
        return tug_operand_locate(o, &data, target->size, target->disp_unit, offset) == MPI_SUCCESS;
    *offset = o->disp;
    return tug_remote_check(remote, o->target, (uint64_t)o->disp, bytes) == MPI_SUCCESS;
}

static bool owe(const struct tug_rma *o, const struct record *record) {
    const size_t operands =
        ((record->operands[0] != NULL) + (record->operands[1] != NULL)) * record->bytes;
    MPI_Aint offset;
    if (tug_operand_check_target(o) != MPI_SUCCESS || tug_has_devices())
        return false;
    struct tug_remote *remote = o->window->remote;
    struct tug_remote_state *state = tug_remote_state_of(remote, o->target);
    if (state == NULL || operands > TUG_AM_MAX_PAYLOAD ||
        (atomic_load(&state->contact) & TUG_CONTACT_SETTLED) || !locate(o, record->bytes, &offset))
        return false;
    struct tug_remote_head head = {.window = (uint16_t)operands,
                                   .what = (uint8_t)record->what,
                                   .range = (uint64_t)offset << 16 | (uint16_t)record->n};
    if (record->what >= TUG_OWED_ACCUMULATE) {
        head.op = (uint8_t)tug_op_number(record->op);
        head.type = tug_type_number(record->type);
    }
    return add_to(state, record, &head);
}

bool tug_owed_operation(const struct tug_rma *given, enum tug_owed_record what, bool single) {
    const bool moves = what <= TUG_OWED_GET, compares = what == TUG_OWED_COMPARE;
    const bool reads = what == TUG_OWED_PUT || compares || (!moves && given->op != MPI_NO_OP);
    const bool fetches = what != TUG_OWED_PUT && what != TUG_OWED_ACCUMULATE;
    struct tug_rma o = single ? tug_operand_as_vector(given) : *given;
    if (!moves && !reads) { /* the origin's are not looked at */
        o.origin_count = o.target_count;
        o.origin_type = o.target_type;
    }
    if (!tug_ways_is_plain(&o, reads ? o.origin : o.result) || o.target_count < 1 ||
        o.target_count > TUG_REMOTE_PIECE || (!fetches && !reads) ||
        (fetches && o.result == NULL) || (compares && o.compare == NULL))
        return false;
    if (fetches && !moves && (o.result_count != o.target_count || o.result_type != o.target_type))
        return false;
    if (compares ? !tug_reduction_compares(o.target_type)
                 : !moves && tug_reduction_find(o.op, o.target_type) == NULL)
        return false;
    const size_t n = (size_t)o.target_count, bytes = n * tug_type_basic_size(o.target_type);
    return bytes <= TUG_REMOTE_PIECE &&
           owe(&o,
               &(struct record){.what = what,
                                .op = compares ? MPI_REPLACE : o.op,
                                .type = o.target_type,
                                .n = moves ? bytes : n,
                                .bytes = bytes,
                                .operands = {reads ? o.origin : NULL, compares ? o.compare : NULL},
                                .result = fetches ? o.result : NULL});
}
