/* Operations become work requests, completions become the operations' ends.
 *
 * post() only queues at the pair. flush() makes a chain of what waits at a pair and posts it by one
 * call: one doorbell for many operations. While a peer has work of ours, a few small operations
 * wait for more of them until the next poll. Small writes that follow one another in the queue and
 * in the remote memory become one request, whose data are copied together. In a chain only some
 * requests report their end (are *signalled*): the last one, every 64th,
 * every large one and the one before it, so that a small operation is not told late because a large
 * one follows. The device works one sender's requests off in order, so a reported end ends all
 * before it; `slots` remembers them.
 *
 * What is under way never exceeds the sender's depth, nor, over all pairs, the completion queue:
 * each slot's request may come back by itself when something goes wrong. What has no room waits.
 *
 * Atomics that the device does not have (and, or, xor, swap) are tried as compare-and-swap with the
 * value that was found the last time until nobody came between. Those of 4 bytes are left to
 * packets: a compare-and-swap of the 8 bytes around them would undo what the owner's CPU writes
 * to the other four meanwhile.
 *
 * After an error
 *   the requests before it on the sender are complete. If the peer refused it (NAK), it alone has
 *   failed: the peer has executed none of those behind it, and they start again on a new sender, as
 *   it does, too, if the peer found it invalid: keys, addresses and lengths have been checked here.
 *   Otherwise nobody knows what has been executed. Reads and writes, that one too, start again:
 *   nothing of the old sender arrives any more when the peer answers, since its old server is in
 *   error by then. If a new sender fails before it has done anything, or the device has, they start
 *   again by the next row. Atomics fail with TUG_ERR_PEER. Operations that have not been posted
 * wait for the new sender, or the next row, in any case.
 *
 * Callbacks run from tug_fabric_complete() and tug_fabric_local() and may post: both are called
 * when everything here is in order. Threading: the holder. */
#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/stats.h"
#include "transport/verbs/origin.h"
#include "transport/verbs/private.h"

#define LARGE 16384 /* bytes: reports its end by itself */
#define BATCH 32    /* completions taken at once */
#define ROUNDS 8    /* times that BATCH completions are taken in one poll */
/* So long a pair is closed whose senders fail: a minute, up to an hour. */
#define FAILED_NS UINT64_C(60000000000)
#define MOST_FAILURES 8

/* Of a slot: what it is for. */
#define WHAT (TUG_SLOT_MESSAGE | TUG_SLOT_TAG)

/* Where the device puts what an atomic found. */
static unsigned char *result_of(struct tug_operation *operation) {
    return operation->data + 16;
}

/* One that the device lacks (and, or, xor, swap): repeated CMP_SWAPs do it. */
static bool is_tried(const struct tug_operation *operation) {
    return operation->kind == TUG_OPERATION_FETCH && operation->op != TUG_ADD &&
           operation->op < TUG_ATOMIC_BY_CARD;
}

/* Has its signal been posted, too? */
static bool is_ahead(const struct tug_operation *operation) {
    return operation->kind == TUG_OPERATION_WRITE && (operation->op & TUG_WRITE_AHEAD);
}

/* A list of operations goes behind those of another one. */
static void put_behind(struct tug_verbs *verbs, struct tug_verbs_list *list, uint32_t first,
                       uint32_t last) {
    if (list->first == TUG_NO_TAG)
        list->first = first;
    else
        tug_verbs_operation(verbs, list->last)->next = first;
    list->last = last;
}

static void finish(struct tug_verbs *verbs, uint32_t number, int status) {
    struct tug_operation *operation = tug_verbs_operation(verbs, number);
    if (is_ahead(operation))
        status = status != 0
                     ? tug_verbs_signalled_ends(tug_verbs_view_of(verbs, number), operation, status)
                     : operation->status; /* its signal may have ended, and may until it is told */
    operation->status = (int8_t)status;
    operation->next = TUG_NO_TAG;
    put_behind(verbs, &verbs->finished, number, number);
}

static bool complete_finished(struct tug_verbs *verbs) {
    bool any = false;
    while (verbs->finished.first != TUG_NO_TAG) {
        struct tug_verbs_view *view = tug_verbs_view_of(verbs, verbs->finished.first);
        struct tug_operation *operation = tug_verbs_operation(verbs, verbs->finished.first);
        verbs->finished.first = operation->next;
        view->out--;
        any = true;
        tug_endpoint_note(&view->wire);
        if (is_ahead(operation))
            operation->status = (int8_t)tug_verbs_signalled_ends(view, operation, 0);
        tug_origin_end(verbs, operation);
        tug_fabric_complete(view->wire.fabric, operation);
    }
    return any;
}

/* It is for another rail, or the next row. Atomics are not: the card's and the CPU's are not atomic
 * to each other, and where this row takes atomics, all of this memory are the card's. */
static void pass_on(struct tug_verbs_view *view, struct tug_operation *operation) {
    if (tug_operation_is_atomic(operation)) {
        view->out++;
        finish(view->verbs, view->first + tug_fabric_tag(view->wire.fabric, operation),
               TUG_ERR_DEVICE);
        return;
    }
    if (is_ahead(operation))
        tug_verbs_signalled_passes(view, operation);
    tug_origin_return(view->verbs, operation);
    if (!tug_verbs_share_goes_on(view, operation))
        tug_fabric_pass_on(view->wire.fabric, operation, TUG_BY_VERBS);
}

/* ---- what waits at a pair ---- */

static void count_in(struct tug_verbs_pair *pair, const struct tug_operation *operation) {
    pair->waiting++;
    pair->ordered += is_ahead(operation);
}

static void count_out(struct tug_verbs_pair *pair, const struct tug_operation *operation) {
    pair->waiting--;
    pair->ordered -= is_ahead(operation);
}

static void append(struct tug_verbs *verbs, struct tug_verbs_pair *pair, uint32_t number) {
    struct tug_operation *operation = tug_verbs_operation(verbs, number);
    operation->next = TUG_NO_TAG;
    operation->left = operation->bytes;
    put_behind(verbs, &pair->operations, number, number);
    count_in(pair, operation);
    pair->urgent |= operation->bytes >= LARGE;
    tug_verbs_touch(verbs, pair);
}

static void take_head(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    const struct tug_operation *operation = tug_verbs_operation(verbs, pair->operations.first);
    pair->operations.first = operation->next;
    count_out(pair, operation);
}

void tug_verbs_wait_with(struct tug_verbs *verbs, struct tug_verbs_pair *pair,
                         struct tug_verbs_pair *other) {
    if (pair->operations.first == TUG_NO_TAG)
        return;
    put_behind(verbs, &other->operations, pair->operations.first, pair->operations.last);
    other->waiting += pair->waiting;
    other->ordered += pair->ordered;
    other->urgent |= pair->urgent;
    pair->operations.first = TUG_NO_TAG;
    pair->waiting = pair->ordered = 0;
}

void tug_verbs_fail_waiting(struct tug_verbs *verbs, struct tug_verbs_pair *pair, int status) {
    while (pair->operations.first != TUG_NO_TAG) {
        const uint32_t number = pair->operations.first;
        take_head(verbs, pair);
        finish(verbs, number, status);
    }
}

void tug_verbs_pass_waiting(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    while (pair->operations.first != TUG_NO_TAG) {
        struct tug_verbs_view *view = tug_verbs_view_of(verbs, pair->operations.first);
        struct tug_operation *operation = tug_verbs_operation(verbs, pair->operations.first);
        take_head(verbs, pair);
        view->out--;
        pass_on(view, operation);
    }
}

void tug_verbs_received(struct tug_verbs *verbs, struct tug_verbs_pair *pair, uint32_t number) {
    uint32_t *at = &pair->operations.first, before = TUG_NO_TAG;
    if (pair->ordered == 0)
        return;
    while (*at != TUG_NO_TAG) {
        const uint32_t write = *at;
        struct tug_operation *operation = tug_verbs_operation(verbs, write);
        if (!is_ahead(operation) || !tug_verbs_signalled_came(operation, number)) {
            before = write;
            at = &operation->next;
            continue;
        }
        *at = operation->next;
        if (pair->operations.last == write)
            pair->operations.last = before;
        count_out(pair, operation);
        finish(verbs, write, 0);
    }
}

static bool is_known(const struct tug_verbs *verbs, const struct tug_registration *registration) {
    return registration != NULL && tug_verbs_memory_of(registration, verbs->rail) != NULL;
}

void tug_verbs_post(struct tug_verbs_view *view, struct tug_operation *operation) {
    struct tug_verbs *verbs = view->verbs;
    const uint32_t number = view->first + tug_fabric_tag(view->wire.fabric, operation);
    struct tug_verbs_contact *contact = NULL;
    if (!verbs->device_given_up)
        contact = tug_verbs_contact_of(view, operation->peer);
    const bool foreign = !tug_operation_is_atomic(operation) && operation->bytes > 0 &&
                         operation->local != NULL && !is_known(verbs, operation->registration);
    if (contact == NULL || tug_verbs_pair_closed(contact->pair) ||
        (foreign && !tug_origin_lend(verbs, operation))) {
        pass_on(view, operation);
        return;
    }
    view->out++;
    operation->address = tug_verbs_address(operation->key, operation->address - operation->offset) +
                         operation->offset;
    if (operation->kind == TUG_OPERATION_FETCH)
        operation->compare = 0; /* the first guess of those that are tried */
    append(verbs, contact->pair, number);
}

/* ---- work requests ---- */

static uint64_t applied(const struct tug_operation *operation, uint64_t value) {
    switch (operation->op) {
    case TUG_AND:
        return value & operation->operand;
    case TUG_OR:
        return value | operation->operand;
    case TUG_XOR:
        return value ^ operation->operand;
    default:
        return operation->operand;
    }
}

/* The device repeats a READ whose answer is lost, perhaps after it has executed the atomic that was
 * posted next. IBV_SEND_FENCE makes that atomic wait for the READ. */
static void fill_atomic(struct tug_verbs_pair *pair, uint32_t lkey, struct tug_operation *operation,
                        struct ibv_send_wr *request, struct ibv_sge *piece) {
    const bool loads = operation->op == TUG_ATOMIC_LOADS;
    *piece = (struct ibv_sge){(uint64_t)(uintptr_t)result_of(operation), 8, lkey};
    operation->left = 0;
    request->send_flags = pair->has_loaded && !loads ? IBV_SEND_FENCE : 0;
    pair->has_loaded = loads;
    if (loads) {
        request->opcode = IBV_WR_RDMA_READ;
        request->wr.rdma.remote_addr = operation->address;
        request->wr.rdma.rkey = operation->rkey;
        return;
    }
    request->wr.atomic.remote_addr = operation->address;
    request->wr.atomic.rkey = operation->rkey;
    request->opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    request->wr.atomic.compare_add = operation->compare;
    if (operation->kind == TUG_OPERATION_COMPARE) {
        request->wr.atomic.swap = operation->operand;
    } else if (is_tried(operation)) {
        request->wr.atomic.swap = applied(operation, operation->compare);
    } else {
        request->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        request->wr.atomic.compare_add = operation->operand;
    }
}

/* The data are copied into the request when it is posted. */
static bool goes_inline(const struct tug_verbs_pair *pair, const struct tug_operation *operation) {
    return operation->kind == TUG_OPERATION_WRITE && operation->bytes <= pair->most_inline;
}

/* Where the device has memory of ours, and what it calls it. */
static void locate(const struct tug_verbs *verbs, const struct tug_registration *registration,
                   const unsigned char *data, struct ibv_sge *piece) {
    const struct ibv_mr *mr = tug_verbs_memory_of(registration, verbs->rail);
    piece->addr = tug_verbs_address(registration->id, (uint64_t)(uintptr_t)registration->base) +
                  (uint64_t)(data - registration->base);
    piece->lkey = mr->lkey;
}

/* Fills a request with the operation's next piece. */
static void fill(struct tug_verbs *verbs, struct tug_verbs_pair *pair, uint32_t number,
                 struct ibv_send_wr *request, struct ibv_sge *piece) {
    struct tug_operation *operation = tug_verbs_operation(verbs, number);
    const uint32_t lkey = tug_verbs_view_of(verbs, number)->operations_mr->lkey;
    request->sg_list = piece;
    request->num_sge = 1;
    request->send_flags = 0;
    if (tug_operation_is_atomic(operation)) {
        fill_atomic(pair, lkey, operation, request, piece);
        return;
    }
    const uint64_t done = operation->bytes - operation->left;
    const uint32_t most = verbs->device.most_message;
    const uint32_t length = operation->left < most ? (uint32_t)operation->left : most;
    request->wr.rdma.remote_addr = operation->address + done;
    request->wr.rdma.rkey = operation->rkey;
    request->opcode = operation->kind == TUG_OPERATION_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    const struct tug_registration *registration = operation->registration;
    const unsigned char *data = tug_operation_data(operation) + done;
    *piece = (struct ibv_sge){(uint64_t)(uintptr_t)data, length, lkey};
    if (goes_inline(pair, operation))
        request->send_flags = IBV_SEND_INLINE; /* read by the CPU: where it is for us */
    else if (operation->local != NULL && is_known(verbs, registration))
        locate(verbs, registration, data, piece);
    if (length == 0)
        request->num_sge = 0;
    operation->left -= length;
}

/* Joins what waits behind an inline write to it as long as it goes on where that ends. Returns the
 * slots that this takes; *tag becomes that of the last one. */
static uint32_t join(struct tug_verbs *verbs, struct tug_verbs_pair *pair, uint32_t n,
                     uint32_t used, uint32_t room, uint32_t *tag) {
    struct ibv_send_wr *request = &verbs->chain[n];
    struct ibv_sge *piece = &verbs->pieces[n];
    const uint32_t most =
        pair->most_inline < TUG_VERBS_INLINE ? pair->most_inline : TUG_VERBS_INLINE;
    uint32_t taken = 0;
    while (used + taken < room && pair->operations.first != TUG_NO_TAG) {
        struct tug_operation *next = tug_verbs_operation(verbs, pair->operations.first);
        if (next->kind != TUG_OPERATION_WRITE || next->rkey != request->wr.rdma.rkey ||
            next->address != request->wr.rdma.remote_addr + piece->length ||
            next->bytes > most - piece->length)
            break;
        if (taken == 0)
            memcpy(verbs->joined[n], (void *)(uintptr_t)piece->addr, piece->length);
        memcpy(verbs->joined[n] + piece->length, tug_operation_data(next), next->bytes);
        piece->addr = (uint64_t)(uintptr_t)verbs->joined[n];
        piece->length += (uint32_t)next->bytes;
        next->left = 0;
        pair->slots[(pair->sent + used + taken - 1) % TUG_VERBS_DEPTH] |= TUG_SLOT_JOINED;
        *tag = pair->operations.first;
        take_head(verbs, pair);
        pair->slots[(pair->sent + used + taken) % TUG_VERBS_DEPTH] = *tag | TUG_SLOT_LAST;
        taken++;
    }
    return taken;
}

static void signal_end(struct tug_verbs *verbs, struct tug_verbs_pair *pair, uint32_t n,
                       uint32_t used) {
    verbs->chain[n].send_flags |= IBV_SEND_SIGNALED;
    pair->slots[(pair->sent + used - 1) % TUG_VERBS_DEPTH] |= TUG_SLOT_SIGNALLED;
}

/* The id of a request: the slot's tag, the pair, and its sender's life. */
static uint64_t id_of(const struct tug_verbs_pair *pair, uint32_t tag) {
    return (uint64_t)tag | (uint64_t)pair->index << 32 | (uint64_t)pair->number << 52;
}

/* Messages go ahead of operations, but for one of which a piece is under way: its pieces follow one
 * another; and for writes whose signals messages may bring. */
static bool is_message_next(const struct tug_verbs *verbs, const struct tug_verbs_pair *pair) {
    if (!tug_verbs_message_waits(pair))
        return false;
    if (pair->operations.first == TUG_NO_TAG)
        return true;
    if (pair->ordered > 0)
        return false;
    const struct tug_operation *operation = tug_verbs_operation(verbs, pair->operations.first);
    return operation->left == operation->bytes;
}

/* The n-th request of a chain is the next message. */
static void build_message(struct tug_verbs *verbs, struct tug_verbs_pair *pair, uint32_t n,
                          uint32_t used) {
    struct ibv_send_wr *request = &verbs->chain[n];
    const uint32_t slot =
        TUG_SLOT_MESSAGE | tug_verbs_message_fill(verbs, pair, request, &verbs->pieces[n]);
    pair->slots[(pair->sent + used) % TUG_VERBS_DEPTH] = slot;
    request->wr_id = id_of(pair, slot);
    request->next = request + 1;
    if (n % TUG_VERBS_SIGNAL == TUG_VERBS_SIGNAL - 1)
        signal_end(verbs, pair, n, used + 1);
}

static bool waits(const struct tug_verbs_pair *pair) {
    return pair->operations.first != TUG_NO_TAG || tug_verbs_message_waits(pair);
}

/* Makes a chain of what waits, in at most `room` slots. Returns how many; *requests: work
 * requests. */
static uint32_t build(struct tug_verbs *verbs, struct tug_verbs_pair *pair, uint32_t room,
                      uint32_t *requests) {
    uint32_t n = 0, used = 0;
    for (; used < room && waits(pair); n++) {
        if (is_message_next(verbs, pair)) {
            build_message(verbs, pair, n, used++);
            continue;
        }
        uint32_t tag = pair->operations.first;
        struct tug_operation *operation = tug_verbs_operation(verbs, tag);
        struct ibv_send_wr *request = &verbs->chain[n];
        fill(verbs, pair, tag, request, &verbs->pieces[n]);
        const bool last = operation->left == 0;
        if (last)
            take_head(verbs, pair);
        const bool large = verbs->pieces[n].length >= LARGE;
        /* the message with its signal tells of it, and is short */
        const bool is_told =
            last && is_ahead(operation) && used + 1 < room && is_message_next(verbs, pair);
        if (large && n > 0)
            signal_end(verbs, pair, n - 1, used);
        pair->slots[(pair->sent + used++) % TUG_VERBS_DEPTH] = tag | (last ? TUG_SLOT_LAST : 0);
        if ((request->send_flags & IBV_SEND_INLINE) && operation->bytes < TUG_VERBS_INLINE &&
            operation->bytes > 0)
            used += join(verbs, pair, n, used, room, &tag);
        request->wr_id = id_of(pair, tag);
        request->next = request + 1;
        if ((large && !is_told) || n % TUG_VERBS_SIGNAL == TUG_VERBS_SIGNAL - 1)
            signal_end(verbs, pair, n, used);
    }
    verbs->chain[n - 1].next = NULL;
    signal_end(verbs, pair, n - 1, used);
    *requests = n;
    return used;
}

/* Which operations that are under way on a sender that has failed start again. */
enum again { NONE_AGAIN, SAFE_AGAIN, ALL_AGAIN };

static void break_sender(struct tug_verbs *verbs, struct tug_verbs_pair *pair, enum again again,
                         int status);

/* The pair's sender has failed and is dropped. If the one before has, too, and this one has done
 * nothing, the next would hardly do better: the pair moves, each time for twice as long; that of
 * another rail than the first at once. */
static void count_failure(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    if (pair->failed < MOST_FAILURES)
        pair->failed++;
    const unsigned patience = verbs->rail == 0; /* by the first other rails' shares go on */
    if (pair->failed > patience)
        tug_verbs_pair_move(verbs, pair,
                            tug_clock_ns() + (FAILED_NS << (pair->failed - patience - 1)));
}

/* Data that went into the requests themselves are not needed any more, once there is a copy of them
 * for the case that the operation has to start again. */
static void tell_local(struct tug_verbs *verbs, struct tug_verbs_pair *pair, uint32_t n) {
    uint32_t told[TUG_VERBS_DEPTH], ntold = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t slot = pair->slots[(pair->sent - n + i) % TUG_VERBS_DEPTH];
        if (slot & TUG_SLOT_MESSAGE)
            continue;
        const uint32_t number = slot & TUG_SLOT_TAG;
        struct tug_operation *operation = tug_verbs_operation(verbs, number);
        if (operation->on_local.f == NULL || !goes_inline(pair, operation) ||
            operation->bytes > TUG_OPERATION_INLINE)
            continue;
        if (operation->local != NULL)
            memcpy(operation->data, operation->local, operation->bytes);
        operation->local = NULL;
        told[ntold++] = number;
    }
    for (uint32_t i = 0; i < ntold; i++)
        tug_fabric_local(tug_verbs_operation(verbs, told[i]));
}

/* Does a context wait to be told that there is a connection? */
static bool is_met(const struct tug_verbs_pair *pair) {
    const struct tug_verbs_contact *contact = pair->contacts;
    while (contact != NULL && !contact->met)
        contact = contact->next;
    return contact != NULL;
}

/* Posts what waits at the pair as far as there is room. */
static void pump(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    pair->urgent = false;
    if (pair->moving > 0)
        return; /* what waits goes by the next row when the peer has answered */
    if (pair->phase == TUG_PAIR_IDLE && is_met(pair))
        tug_verbs_pair_connect(verbs, pair);
    while (waits(pair)) {
        if (pair->phase == TUG_PAIR_IDLE)
            tug_verbs_pair_connect(verbs, pair);
        if (pair->phase != TUG_PAIR_UP)
            return;
        uint32_t room = TUG_VERBS_DEPTH - (pair->sent - pair->done);
        if (room == 0)
            return; /* the next completion touches the pair */
        room = tug_settings.aggregate ? room : 1;
        room = room < verbs->cq_room ? room : verbs->cq_room;
        if (room == 0) {
            tug_verbs_touch(verbs, pair);
            return;
        }
        uint32_t requests;
        const uint32_t n = build(verbs, pair, room, &requests);
        struct ibv_send_wr *bad = NULL;
        const int error = ibv_post_send(pair->sender, verbs->chain, &bad);
        pair->sent += n;
        pair->used = ++verbs->uses;
        verbs->cq_room -= n;
        verbs->chains++;
        verbs->posted += requests;
        tug_stat_add(TUG_STAT_VERBS_DOORBELLS, 1);
        tug_stat_add(TUG_STAT_VERBS_REQUESTS, requests);
        if (error != 0) {
            tug_warn_once("verbs: %s does not take work for rank %u, whose operations fail or take "
                          "other ways: %s; look at the device (ibv_devinfo)",
                          verbs->device.name, tug_verbs_rank(pair), strerror(error));
            break_sender(verbs, pair, NONE_AGAIN, TUG_ERR_DEVICE);
            count_failure(verbs, pair);
            return;
        }
        tell_local(verbs, pair, n);
    }
}

static bool may_wait(const struct tug_verbs_pair *pair, enum tug_verbs_batch batch) {
    if (batch == TUG_BATCH_GOES || !tug_settings.aggregate || pair->urgent)
        return false;
    return batch == TUG_BATCH_GROWS ? pair->waiting < TUG_VERBS_DEPTH
                                    : pair->sent != pair->done && pair->waiting < TUG_VERBS_WAIT;
}

void tug_verbs_flush(struct tug_verbs *verbs, enum tug_verbs_batch batch) {
    struct tug_verbs_pair *pair = verbs->touched;
    verbs->touched = NULL;
    while (pair != NULL) {
        struct tug_verbs_pair *next = pair->next_touched;
        pair->touched = false;
        if (may_wait(pair, batch))
            tug_verbs_touch(verbs, pair);
        else
            pump(verbs, pair);
        pair = next;
    }
}

/* ---- completions ---- */

static void succeeded(struct tug_verbs *verbs, struct tug_verbs_pair *pair, uint32_t number) {
    struct tug_operation *operation = tug_verbs_operation(verbs, number);
    if (tug_operation_is_atomic(operation)) {
        uint64_t found;
        memcpy(&found, result_of(operation), 8);
        if (is_tried(operation) && found != operation->compare) {
            operation->compare = found;
            append(verbs, pair, number);
            return;
        }
        if (operation->local != NULL)
            memcpy(operation->local, &found, 8);
    }
    finish(verbs, number, 0);
}

/* The oldest slot's request has ended well. Returns the slot. */
static uint32_t pop(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    const uint32_t slot = pair->slots[pair->done++ % TUG_VERBS_DEPTH];
    verbs->cq_room++;
    pair->failed = 0;
    if (slot & TUG_SLOT_MESSAGE)
        tug_verbs_message_give(verbs, pair, slot & TUG_SLOT_TAG);
    else if (slot & TUG_SLOT_LAST)
        succeeded(verbs, pair, slot & TUG_SLOT_TAG);
    return slot;
}

/* Messages that were under way go again, ahead of those that wait: the peer knows which have come.
 */
static void take_messages_back(struct tug_verbs *verbs, struct tug_verbs_pair *pair) {
    for (uint32_t at = pair->sent; at != pair->done; at--) {
        const uint32_t slot = pair->slots[(at - 1) % TUG_VERBS_DEPTH];
        if (slot & TUG_SLOT_MESSAGE)
            tug_verbs_message_again(verbs, pair, slot & TUG_SLOT_TAG);
    }
}

static bool starts_again(const struct tug_operation *operation, enum again again) {
    return again == ALL_AGAIN || (again == SAFE_AGAIN && !tug_operation_is_atomic(operation));
}

/* The sender has failed: operations that are under way on it start again, ahead of those that wait,
 * or end with status. */
static void break_sender(struct tug_verbs *verbs, struct tug_verbs_pair *pair, enum again again,
                         int status) {
    struct tug_verbs_list starting = {TUG_NO_TAG, TUG_NO_TAG};
    uint32_t before = TUG_NO_TAG;
    take_messages_back(verbs, pair);
    for (uint32_t at = pair->done; at != pair->sent; at++) {
        const uint32_t slot = pair->slots[at % TUG_VERBS_DEPTH], number = slot & TUG_SLOT_TAG;
        if ((slot & TUG_SLOT_MESSAGE) || number == before)
            continue; /* or another piece of the same operation */
        struct tug_operation *operation = tug_verbs_operation(verbs, number);
        before = number;
        if (number == pair->operations.first)
            take_head(verbs, pair); /* the rest of the operation waited */
        if (!starts_again(operation, again)) {
            finish(verbs, number, status);
            continue;
        }
        operation->left = operation->bytes;
        count_in(pair, operation);
        if (is_ahead(operation))
            tug_verbs_signalled_again(verbs, pair, operation, at);
        operation->next = TUG_NO_TAG;
        put_behind(verbs, &starting, number, number);
    }
    if (pair->operations.first != TUG_NO_TAG)
        put_behind(verbs, &starting, pair->operations.first, pair->operations.last);
    pair->operations = starting;
    tug_verbs_pair_drop_sender(verbs, pair);
    if (waits(pair))
        tug_verbs_touch(verbs, pair);
}

/* What a completion that failed means. */
struct fault {
    int error; /* of the operation that it is of; 0: it goes again */
    enum again behind;
};

static struct fault fault_of(enum ibv_wc_status status) {
    switch (status) {
    case IBV_WC_REM_INV_REQ_ERR: /* not its fault: Soft-RoCE says so of some that it sent again */
        return (struct fault){0, ALL_AGAIN};
    case IBV_WC_REM_ACCESS_ERR:
        return (struct fault){TUG_ERR_KEY, ALL_AGAIN};
    case IBV_WC_REM_OP_ERR:
        return (struct fault){TUG_ERR_PEER, ALL_AGAIN};
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
        return (struct fault){TUG_ERR_RANGE, NONE_AGAIN};
    case IBV_WC_FATAL_ERR:
    case IBV_WC_GENERAL_ERR:
        return (struct fault){TUG_ERR_DEVICE, NONE_AGAIN};
    default: /* the peer is lost, or this queue pair is */
        return (struct fault){0, SAFE_AGAIN};
    }
}

static void say_once(struct tug_verbs *verbs, const struct tug_verbs_pair *pair,
                     enum ibv_wc_status status) {
    const uint64_t bit = 1ull << (status & 63);
    if (verbs->said & bit)
        return;
    verbs->said |= bit;
    tug_log(TUG_VERBOSE_WARN,
            "verbs: an operation to rank %u failed on %s: %s (said once for each reason); look at "
            "that rank, the cable and the switch",
            tug_verbs_rank(pair), verbs->device.name, tug_ibv.wc_status_str(status));
}

/* Where the work request ends that begins at a slot. */
static uint32_t last_slot(const struct tug_verbs_pair *pair, uint32_t at) {
    assert(at != pair->sent && "a completion without work request");
    while (pair->slots[at % TUG_VERBS_DEPTH] & TUG_SLOT_JOINED)
        at++;
    return at;
}

/* The operation of the oldest slots, up to `end`, has failed, or those that have been joined; so
 * have its further pieces, posted or not. */
static void fail_oldest(struct tug_verbs *verbs, struct tug_verbs_pair *pair, uint32_t tag,
                        uint32_t end, int status) {
    while (end + 1 != pair->sent && (pair->slots[(end + 1) % TUG_VERBS_DEPTH] & WHAT) == tag)
        end++;
    if (pair->operations.first == tag)
        take_head(verbs, pair);
    uint32_t before = TUG_NO_TAG;
    for (; pair->done != end + 1; pair->done++) {
        const uint32_t failing = pair->slots[pair->done % TUG_VERBS_DEPTH] & TUG_SLOT_TAG;
        if (failing != before)
            finish(verbs, failing, status);
        before = failing;
        verbs->cq_room++;
    }
}

static void failed(struct tug_verbs *verbs, struct tug_verbs_pair *pair, uint32_t tag,
                   enum ibv_wc_status why) {
    say_once(verbs, pair, why);
    uint32_t end = last_slot(pair, pair->done);
    while ((pair->slots[end % TUG_VERBS_DEPTH] & WHAT) != tag) {
        while (pair->done != end + 1)
            pop(verbs, pair);
        end = last_slot(pair, pair->done);
    }
    const struct fault fault = fault_of(why);
    const bool refused = fault.behind == ALL_AGAIN; /* by a peer that is there */
    if (!(tag & TUG_SLOT_MESSAGE) && fault.error != 0)
        fail_oldest(verbs, pair, tag, end, fault.error);
    pair->lost = !refused;
    break_sender(verbs, pair, fault.behind, TUG_ERR_PEER);
    if (!refused || fault.error == 0)
        count_failure(verbs, pair);
}

static void take(struct tug_verbs *verbs, const struct ibv_wc *completion) {
    const uint32_t tag = (uint32_t)completion->wr_id;
    if (tag & TUG_REQUEST_RECEIVES) {
        tug_verbs_message_came(verbs, completion);
        return;
    }
    struct tug_verbs_pair *pair =
        verbs->pairs[(uint32_t)(completion->wr_id >> 32) & (TUG_VERBS_INDICES - 1)];
    if (pair->phase != TUG_PAIR_UP || (completion->wr_id >> 52) != (pair->number & 0xfff))
        return; /* of a sender that is gone */
    if (completion->status != IBV_WC_SUCCESS) {
        failed(verbs, pair, tag, completion->status);
        return;
    }
    uint32_t slot;
    do {
        assert(pair->done != pair->sent && "a completion without work request");
        slot = pop(verbs, pair);
    } while (!(slot & TUG_SLOT_SIGNALLED));
    assert((slot & WHAT) == tag && "completions come in order");
    if (waits(pair))
        tug_verbs_touch(verbs, pair);
}

/* The device is gone. What was under way and what waits takes the next row, but for atomics. */
static void give_up_device(struct tug_verbs *verbs) {
    verbs->device_given_up = true;
    for (uint32_t i = 0; i < verbs->npairs; i++) {
        struct tug_verbs_pair *pair = verbs->pairs[i];
        break_sender(verbs, pair, SAFE_AGAIN, TUG_ERR_DEVICE);
        tug_verbs_pair_move(verbs, pair, UINT64_MAX);
    }
}

/* ---- polling ---- */

/* True: the queue was empty. */
static bool take_some(struct tug_verbs *verbs, bool *any) {
    struct ibv_wc completions[BATCH];
    const int n = ibv_poll_cq(verbs->cq, BATCH, completions);
    for (int i = 0; i < n; i++)
        take(verbs, &completions[i]);
    complete_finished(verbs);
    if (verbs->messages != NULL)
        tug_verbs_messages_renew(verbs);
    if (n > 0)
        tug_stat_add(TUG_STAT_VERBS_COMPLETIONS, (uint64_t)n);
    *any |= n > 0;
    return n < BATCH;
}

static bool poll_queue(struct tug_verbs *verbs) {
    bool any = false;
    if (verbs->messages != NULL && verbs->messages->nheld > 0)
        tug_verbs_messages_resume(verbs);
    for (int round = 0;
         round < ROUNDS && (verbs->messages != NULL || verbs->cq_room < verbs->cq_size); round++)
        if (take_some(verbs, &any) && tug_verbs_drop_retired(verbs))
            break;
    return any;
}

bool tug_verbs_poll(struct tug_endpoint *base) {
    struct tug_verbs *verbs = (struct tug_verbs *)base;
    tug_verbs_pairs_forget(verbs);
    bool moved = poll_queue(verbs);
    /* seq_cst: pairs with the watcher's store; what it rang for is seen */
    if (!verbs->device_given_up && atomic_load(&verbs->base.lost))
        give_up_device(verbs);
    moved |= tug_verbs_pairs_expire(verbs);
    moved |= tug_verbs_tell(verbs);
    if (verbs->touched != NULL)
        tug_verbs_flush(verbs, TUG_BATCH_GOES);
    if (verbs->nsenders > tug_settings.verbs_pairs)
        tug_verbs_pairs_shed(verbs, (uint32_t)tug_settings.verbs_pairs);
    return complete_finished(verbs) || moved;
}
