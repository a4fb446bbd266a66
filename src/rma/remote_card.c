#include "rma/remote_card.h"

#include <pthread.h>
#include <string.h>

#include "engine/engine.h"
#include "llcl/llcl.h"

/* Answers, the worst first. AGAIN: ask again. */
enum { FAILED, AGAIN, DONE }; /* AGAIN: no room for a call, or a rank still makes the window */

/* ---- the end ---- */

/* Answers those who have asked, if this rank and those below have none out. Holder only. */
static void answer(void *argument) {
    struct tug_remote *remote = argument;
    struct tug_card *card = &remote->card;
    if (card->below > 0 || atomic_load(&card->out) != TUG_CARD_CLOSED)
        return;
    const uint64_t word = card->told;
    card->asks = word == DONE;
    for (struct tug_remote_state *s = atomic_load(&remote->used); s != NULL; s = s->next) {
        const struct tug_caller caller = {s->target->process, s->card_tag};
        if (s->card_asks)
            tug_answer(remote->domain->context, caller, &word, word != FAILED ? sizeof(word) : 0);
        s->card_asks = false;
    }
}

static void note(struct tug_card *card, uint64_t word) {
    card->told = word < card->told ? word : card->told;
}

/* A child has answered, or is lost. */
static void end_below(void *argument, int status) {
    struct tug_remote *remote = argument;
    struct tug_card *card = &remote->card;
    card->below--;
    note(card, status == 0 ? DONE : FAILED);
    for (int i = 0; i < TUG_CARD_BELOW; i++)
        note(card, card->answers[i]);
    answer(remote);
}

/* False: no room, nothing happened. */
static bool ask(struct tug_remote *remote, int rank, uint64_t *word, struct tug_callback then) {
    const struct tug_remote_head head = {.window = remote->targets[rank].number,
                                         .type = (uint32_t)remote->rank};
    const struct tug_call_params call = {.dest_proc = remote->targets[rank].process,
                                         .handler = TUG_CALL_CARD,
                                         .payload = &head, /* copied by the call */
                                         .size_in_bytes = sizeof(head),
                                         .answer = word,
                                         .answer_in_bytes = sizeof(*word),
                                         .on_complete = then};
    return tug_try_call_async(remote->domain->context, &call);
}

static void ask_below(struct tug_remote *remote) {
    struct tug_card *card = &remote->card;
    card->asks = true;
    card->told = DONE;
    card->below = 1; /* a reference for this loop: an answer may arrive inside it */
    for (int i = 0; i < TUG_CARD_BELOW; i++) {
        const int64_t rank = (int64_t)TUG_CARD_BELOW * remote->rank + 1 + i;
        card->answers[i] = DONE;
        if (rank >= remote->nranks)
            continue;
        card->below++;
        if (!ask(remote, (int)rank, &card->answers[i], (struct tug_callback){end_below, remote})) {
            card->below--;
            note(card, AGAIN);
        }
    }
    card->below--;
}

void tug_card_asked(struct tug_remote *remote, struct tug_remote_state *sender, uint32_t tag) {
    /* acquire: pairs with the release in tug_card_begin(): what is known of other ranks */
    const uint8_t state = atomic_load_explicit(&remote->card.state, memory_order_acquire);
    const struct tug_caller caller = {sender->target->process, tag};
    const uint64_t word = state == TUG_CARD_GONE ? DONE : AGAIN;
    if (state != TUG_CARD_OPEN) {
        tug_answer(remote->domain->context, caller, &word, sizeof(word));
        return;
    }
    sender->card_asks = true;
    sender->card_tag = tag;
    atomic_fetch_or(&remote->card.out, TUG_CARD_CLOSED);
    if (!remote->card.asks)
        ask_below(remote);
    answer(remote);
}

/* Gives the cards up. Blocks until no rank's card has an atomic under way. An error class. One
 * thread of a process asks at a time: rank 0 remembers one call of each rank. */
static int give_up(struct tug_remote *remote) {
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    int status = 0;
    pthread_mutex_lock(&one);
    while (status == 0 && atomic_load(&remote->card.state) != TUG_CARD_GONE) {
        struct tug_counter answered = {0};
        uint64_t word = FAILED;
        TUG_REMOTE_TRY(remote->domain->context,
                       ask(remote, 0, &word, (struct tug_callback){tug_counter_add, &answered}));
        status = tug_remote_wait_counter(remote, &answered, 1);
        if (status == 0 && word == DONE)
            /* release: pairs with the acquire in tug_card_concerns() */
            atomic_store_explicit(&remote->card.state, TUG_CARD_GONE, memory_order_release);
    }
    pthread_mutex_unlock(&one);
    return tug_remote_error(status);
}

/* ---- the beginning ---- */

void tug_card_begin(struct tug_remote *remote) {
    bool open = remote->domain->cards && remote->team->node_most == 1 && remote->nranks > 1 &&
                remote->attachments == NULL;
    for (int r = 0; open && r < remote->nranks; r++)
        open = remote->targets[r].size == 0 || tug_key_is_at_card(&remote->targets[r].key);
    /* release: pairs with the acquire in tug_card_asked() */
    atomic_store_explicit(&remote->card.state, open ? TUG_CARD_OPEN : TUG_CARD_GONE,
                          memory_order_release);
}

/* ---- operations ---- */

/* Takes back enter() for n atomics. */
static void step_back(struct tug_remote *remote, size_t n) {
    if (atomic_fetch_sub(&remote->card.out, n) == TUG_CARD_CLOSED + n)
        tug_engine_call(answer, remote); /* answer() may have found them under way */
}

/* n atomics begin. False: the window is closed, none does. */
static bool enter(struct tug_remote *remote, size_t n) {
    const bool open = !(atomic_fetch_add(&remote->card.out, n) & TUG_CARD_CLOSED);
    if (!open)
        step_back(remote, n);
    return open;
}

/* Holder only. */
static void leave(void *argument, int status) {
    struct tug_remote *remote = argument;
    (void)status;
    if (atomic_fetch_sub(&remote->card.out, 1) == TUG_CARD_CLOSED + 1)
        answer(remote);
}

static void start(const struct tug_ways *ways, struct tug_card_atomic *atomic, MPI_Aint offset) {
    atomic->process = ways->target->process;
    atomic->remote =
        (struct tug_remote_address){&ways->target->key, (uint64_t)(ways->offset + offset)};
    atomic->on_local = (struct tug_callback){leave, ways->remote};
    TUG_REMOTE_TRY(ways->context, tug_context_card_atomic(ways->context, atomic));
}

/* The first time that this rank has to do with the target's card: does it get there? A TUG_ERR_*.
 */
static int meet(const struct tug_ways *ways) {
    struct tug_counter ended = {0};
    struct tug_card_atomic load = {.loads = true, .on_complete = {tug_counter_add, &ended}};
    start(ways, &load, 0);
    const int status = tug_remote_wait_counter(ways->remote, &ended, 1);
    if (status == 0)
        atomic_store(&ways->state->card_met, true);
    return status;
}

static uint64_t word_at(const void *memory, size_t i) {
    uint64_t word = 0;
    if (memory != NULL)
        memcpy(&word, (const unsigned char *)memory + 8 * i, 8);
    return word;
}

static int start_all(const struct tug_rma *o, struct tug_ways *ways,
                     const struct tug_remote_combination *c) {
    struct tug_card_atomic atomic = {.loads = c->update.origin == NULL,
                                     .compares = c->update.compare != NULL};
    const int error = tug_ways_begin_request(o, ways);
    if (error != MPI_SUCCESS) {
        step_back(ways->remote, c->update.n);
        return error;
    }
    for (size_t i = 0; i < c->update.n; i++) {
        atomic.operand = word_at(c->update.origin, i);
        atomic.compare = word_at(c->update.compare, i);
        atomic.result = c->update.result != NULL ? (unsigned char *)c->update.result + 8 * i : NULL;
        atomic.on_complete = tug_ways_next_part(ways);
        tug_burst_more_follows(i + 1 < c->update.n);
        start(ways, &atomic, (MPI_Aint)(8 * i));
    }
    return tug_ways_end_request(ways, MPI_SUCCESS);
}

bool tug_card_take(const struct tug_rma *o, struct tug_ways *ways,
                   const struct tug_remote_combination *c, int *error) {
    struct tug_remote *remote = ways->remote;
    const uint64_t address = ways->target->key.word[2] + (uint64_t)ways->offset;
    bool can = (o->op == MPI_SUM || c->update.origin == NULL || c->update.compare != NULL) &&
               c->update.n - 1 < TUG_CARD_MOST && address % 8 == 0;
    *error = MPI_SUCCESS;
    if (can && !atomic_load(&ways->state->card_met) && (can = enter(remote, 1))) {
        const int status = meet(ways);
        can = status != TUG_ERR_DEVICE;
        *error = can ? tug_remote_error(status) : MPI_SUCCESS;
    }
    if (*error != MPI_SUCCESS)
        return true;
    if (!can || !enter(remote, c->update.n))
        return (*error = give_up(remote)) != MPI_SUCCESS;
    *error = start_all(o, ways, c);
    return true;
}
