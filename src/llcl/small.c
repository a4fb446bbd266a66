/* Small operations: see small.h. */
#include "llcl/small.h"

#include <string.h>

#include "base/stats.h"
#include "llcl/try.h"
#include "llcl/vector.h"
#include "transport/lone.h"
#include "transport/packets/packets.h"

void tug_peer_begin(struct tug_peer *peer, tug_context *context, uint32_t process) {
    const struct tug_fabric *fabric = &context->fabric;
    *peer = (struct tug_peer){.context = context,
                              .process = process,
                              .beside = process != fabric->rank &&
                                        tug_fabric_node_rank(fabric, process) != TUG_ELSEWHERE};
}

/* Counts operations that are about to be started, as the holder of the baton: plain stores do.
 * Counts them back if they could not be. */
static inline void count_in_hand(struct tug_generation *generation, int change) {
    uint64_t n = atomic_load_explicit(&generation->in_hand, memory_order_relaxed);
    atomic_store_explicit(&generation->in_hand, n + (uint64_t)change, memory_order_relaxed);
}

/* ---- into packets, by the holder ---- */

static bool start_packed(struct tug_context *context, const struct tug_try *request,
                         const void *data) {
    const bool room =
        tug_try_post_in_hand(context, request, (unsigned char *)(uintptr_t)data, NULL);
    if (room)
        tug_engine_service_began(&context->service);
    else
        tug_context_ask(context); /* those that rest may have all tags */
    return room;
}

/* A read or write of memory that only packets reach, for which the key's first word does. False: no
 * room, nothing happened. */
static bool move_packed(struct tug_context *context, uint8_t kind, uint32_t process, uint64_t word,
                        uint64_t offset, const void *data, size_t bytes,
                        struct tug_callback on_complete) {
    const struct tug_key key = {.word = {[0] = word}};
    const struct tug_remote_address remote = {&key, offset};
    const struct tug_local_address local = {&context->everything, (size_t)(uintptr_t)data};
    const struct tug_try request = {.kind = kind,
                                    .peer = (int)process,
                                    .remote = &remote,
                                    .local = &local,
                                    .bytes = bytes,
                                    .on_local = &tug_no_callback,
                                    .on_complete = &on_complete};
    return start_packed(context, &request, data);
}

/* Where the one at `at` of a run is in what the key names. */
static inline uint64_t offset_at(const struct tug_batch_form *form, const unsigned char *at) {
    int32_t distance;
    memcpy(&distance, at, sizeof(distance));
    return form->offset + (uint64_t)(int64_t)distance;
}

/* Of n writes of a form, whose records stand together, returns how many are in packets. */
static uint32_t write_packed(struct tug_context *context, uint32_t process,
                             const struct tug_batch_form *form, const unsigned char *run,
                             uint32_t n, struct tug_counter *counter) {
    const size_t step = tug_batch_step(form->record);
    uint32_t done = 0;
    while (done < n) {
        const unsigned char *at = run + done * step;
        const uint32_t now =
            tug_packets_write_run(context->fabric.packets, process, form->key, form->offset, at,
                                  n - done, form->bytes, counter);
        if (now == 0 && !move_packed(context, TUG_OPERATION_WRITE, process, form->key,
                                     offset_at(form, at), at + sizeof(int32_t), form->bytes,
                                     (struct tug_callback){tug_counter_add, counter}))
            break;
        tug_stat_add(TUG_STAT_OPERATIONS, now);
        done += now > 0 ? now : 1;
    }
    return done;
}

static bool message_packed(struct tug_context *context, uint32_t process, unsigned handler,
                           const void *payload, size_t bytes, struct tug_counter *counter) {
    if (tug_packets_message_on(context->fabric.packets, process, handler, payload, bytes,
                               counter)) {
        tug_stat_add(TUG_STAT_OPERATIONS, 1);
        return true;
    }
    const struct tug_callback counts = {tug_counter_add, counter};
    const struct tug_try request = {.kind = TUG_OPERATION_AM,
                                    .op = (uint8_t)handler,
                                    .peer = (int)process,
                                    .payload = payload,
                                    .bytes = bytes,
                                    .on_local = &tug_no_callback,
                                    .on_complete = &counts};
    return start_packed(context, &request, payload);
}

/* ---- in batches ---- */

enum { PACKED, ALONE };

/* Those of which the form says so go by themselves, in one piece (transport/lone.h), else in
 * packets. */
static uint32_t start_writes(const struct tug_batch_form *form, const unsigned char *run,
                             uint32_t n) {
    struct tug_peer *peer = form->target;
    struct tug_generation *generation = tug_outstanding_open(&peer->remote);
    count_in_hand(generation, (int)n);
    if (form->number == ALONE &&
        tug_lone_write_run(&peer->context->fabric, peer->process, form->key, form->offset, run, n,
                           form->bytes, &generation->ended))
        return n;
    const uint32_t done =
        write_packed(peer->context, peer->process, form, run, n, &generation->ended);
    count_in_hand(generation, (int)done - (int)n);
    return done;
}

/* The record of a read: where what is read goes, and, of those that end by themselves, the pointer
 * of their end. The function of all of it is the form's `end`. */
struct read_place {
    unsigned char *to;
    void *end;
};

static uint32_t start_reads(const struct tug_batch_form *form, const unsigned char *run,
                            uint32_t n) {
    const size_t step = tug_batch_step(form->record);
    struct tug_peer *peer = form->target;
    struct tug_generation *generation = tug_outstanding_open(&peer->local);
    void (*const each_ends)(void *, int) = (void (*)(void *, int))(uintptr_t)form->end;
    const int counted = each_ends == NULL ? (int)n : 0; /* others were, as they were started */
    uint32_t done = 0;
    count_in_hand(generation, counted);
    while (done < n) {
        const uint32_t now = n - done < TUG_LONE_READS ? n - done : TUG_LONE_READS;
        if (!tug_lone_read_run(&peer->context->fabric, peer->process, form->key, form->offset,
                               run + done * step, now, form->bytes, &generation->ended, each_ends))
            break;
        done += now;
    }
    for (; done < n; done++) {
        const unsigned char *at = run + done * step;
        struct read_place place;
        memcpy(&place, at + sizeof(int32_t), form->record);
        const struct tug_callback end =
            each_ends != NULL ? (struct tug_callback){each_ends, place.end}
                              : (struct tug_callback){tug_counter_add, &generation->ended};
        if (!move_packed(peer->context, TUG_OPERATION_READ, peer->process, form->key,
                         offset_at(form, at), place.to, form->bytes, end))
            break;
    }
    if (counted > 0)
        count_in_hand(generation, (int)done - counted);
    return done;
}

_Thread_local uint64_t tug_small_form[TUG_FORM_WORDS];

/* Is it like the thread's last one, and of the same burst? Then what was found out for that holds.
 */
static inline bool goes_on(const struct tug_batch_form *form, enum tug_follows follows) {
    return follows != TUG_FOLLOWS_NOTHING && tug_burst.follows == follows &&
           tug_batch_has_form(tug_batch, form);
}

bool tug_small_begin_like(uint64_t offset, uint32_t *distance) {
    /* callbacks may write others meanwhile */
    const struct tug_batch_form form = tug_batch->form;
    const enum tug_follows follows = tug_burst.follows;
    uint64_t known[TUG_FORM_WORDS];
    memcpy(known, tug_small_form, sizeof(known));
    if (!tug_batch_begin(&form, tug_batch->how, offset, distance))
        return false;
    memcpy(tug_small_form, known, sizeof(known));
    tug_burst.follows = (uint8_t)follows;
    return true;
}

/* Puts one into the batch, where others may follow it, known by those words (NULL: by none). on:
 * goes_on(). False: it goes another way. What is known of it stands before it is written: callbacks
 * may write others then. */
static inline bool put_in(const struct tug_batch_form *form, uint64_t offset, const void *record,
                          unsigned how, enum tug_follows follows, bool on, const uint64_t *known) {
    uint32_t distance;
    if (!(on && tug_batch_continues(tug_batch, offset, &distance)) &&
        !tug_batch_begin(form, how, offset, &distance))
        return false;
    if (known != NULL && (!on || known[TUG_FORM_WORDS - 1] != TUG_NO_FORM))
        memcpy(tug_small_form, known, sizeof(tug_small_form));
    tug_burst.follows = (uint8_t)follows;
    tug_batch_add(distance, record, form->record);
    return true;
}

/* The same of one that counts in the thread's burst. */
static inline bool put_in_burst(const struct tug_transfer *t, const struct tug_batch_form *form,
                                const void *record, unsigned how, enum tug_follows follows,
                                bool on) {
    if (!put_in(form, t->offset, record, how, follows, on, t->form))
        return false;
    tug_burst_add();
    return true;
}

/* Can a write to memory that is not mapped wait for others? */
static inline bool may_wait(const struct tug_transfer *write) {
    return write->bytes - 1 < TUG_COPIED_MOST &&
           !(write->shortcut == TUG_SHORTCUT_SINGLE && tug_burst_is_single() &&
             (tug_burst.awaited || !tug_peer_serves(write->peer->context, write->peer->process)));
}

/* False: it does not wait. Of those to a process of the node, one of many waits for others, and
 * goes with them by itself. */
static inline bool batch_write(const struct tug_transfer *write) {
    if (!may_wait(write))
        return false;
    const bool beside = write->peer->beside, many = beside && !tug_burst_is_single();
    const struct tug_batch_form form = {.start = start_writes,
                                        .target = write->peer,
                                        .key = write->key->word[0],
                                        .number = many ? ALONE : PACKED,
                                        .bytes = (uint16_t)write->bytes,
                                        .record = (uint16_t)write->bytes};
    const enum tug_follows follows = beside && !many ? TUG_FOLLOWS_NOTHING : TUG_FOLLOWS_WRITES;
    return put_in_burst(write, &form, write->here, many ? TUG_BATCH_WAITS : 0, follows,
                        goes_on(&form, follows));
}

#define TOGETHER_MOST 128 /* bytes of a read that others accompany */

_Static_assert(TUG_LONE_READS *TOGETHER_MOST <= TUG_LONE_READ_MOST && TOGETHER_MOST <= UINT8_MAX,
               "there is room for them");

/* A short read of many, of a process beside this one that looks, goes with others. False: it goes
 * another way. */
static inline bool batch_read(const struct tug_transfer *read) {
    if (read->bytes - 1 >= TOGETHER_MOST || !read->peer->beside || tug_burst_is_single())
        return false;
    const struct read_place place = {read->here, read->then != NULL ? read->then->d : NULL};
    const struct tug_batch_form form = {
        .start = start_reads,
        .target = read->peer,
        .end = read->then != NULL ? (uintptr_t)read->then->f : 0,
        .key = read->key->word[0],
        .bytes = (uint16_t)read->bytes,
        .record = (uint16_t)(read->then != NULL ? sizeof(place) : sizeof(place.to))};
    const bool on = goes_on(&form, TUG_FOLLOWS_READS);
    return (on || tug_peer_serves(read->peer->context, read->peer->process)) &&
           put_in_burst(read, &form, &place, TUG_BATCH_WAITS | TUG_BATCH_READS, TUG_FOLLOWS_READS,
                        on);
}

/* The same of a program's write, which counts at a counter of its own. */
static uint32_t start_tries(const struct tug_batch_form *form, const unsigned char *run,
                            uint32_t n) {
    return write_packed(form->target, form->number, form, run, n,
                        (struct tug_counter *)(uintptr_t)form->end);
}

bool tug_try_batch(struct tug_context *context, const struct tug_try *write,
                   const unsigned char *local) {
    const struct tug_batch_form form = {.start = start_tries,
                                        .target = context,
                                        .end = (uintptr_t)write->on_complete->d,
                                        .key = write->remote->key->word[0],
                                        .number = (uint32_t)write->peer,
                                        .bytes = (uint16_t)write->bytes,
                                        .record = (uint16_t)write->bytes};
    return put_in(&form, write->remote->offset, local, TUG_BATCH_PROMPT, TUG_FOLLOWS_TRIES,
                  goes_on(&form, TUG_FOLLOWS_TRIES), NULL);
}

/* ---- alone ---- */

/* What goes by itself (transport/lone.h) to a process of the node has at most so many bytes; writes
 * of fewer than the least, if there are many, go in packets: they are copied together. */
#define ALONE_MOST 4096
#define ALONE_LEAST 1024

_Static_assert(ALONE_MOST <= TUG_LONE_READ_MOST && ALONE_MOST <= TUG_LONE_WRITE_MOST &&
                   TUG_AM_MAX_PAYLOAD <= TUG_LONE_READ_MOST,
               "there is room for them");

/* few: not one of many that follow one another. */
static inline bool may_go_alone(bool writes, size_t bytes, bool few) {
    return bytes <= ALONE_MOST && (!writes || few || bytes >= ALONE_LEAST);
}

/* Its end only counts: whoever looks first tells it, beside the holder of the baton. What is read
 * comes into the program's memory, which stays: nothing says that it is in use. */
bool tug_try_alone(struct tug_context *context, const struct tug_try *request, unsigned char *local,
                   bool few) {
    const bool writes = request->kind == TUG_OPERATION_WRITE && request->op == 0;
    struct tug_fabric *fabric = &context->fabric;
    const uint32_t peer = (uint32_t)request->peer, bytes = (uint32_t)request->bytes;
    const uint64_t offset = request->remote->offset;
    if (request->on_complete->f != tug_counter_add || fabric->lone == NULL ||
        !may_go_alone(writes, request->bytes, few))
        return false;
    if (writes)
        return tug_lone_write(fabric, peer, request->remote->key->word[0], offset, local, bytes,
                              request->on_local, *request->on_complete);
    return request->kind == TUG_OPERATION_READ &&
           request->local->registration == &context->everything &&
           tug_lone_read(fabric, peer, request->remote->key->word[0], offset, local, bytes,
                         *request->on_complete);
}

/* ---- reads and writes ---- */

static void end_reading(void *counter, int status) {
    (void)status;
    tug_counter_add(counter, 0);
}

struct tug_callback tug_outstanding_start_reading(struct tug_outstanding *outstanding) {
    return (struct tug_callback){end_reading, tug_outstanding_start(outstanding).d};
}

/* A write's on_local, of which only the memory here is left to wait for. */
static inline struct tug_callback next_reading(const struct tug_transfer *write) {
    if (write->then != NULL)
        return *write->then;
    if (write->bytes <= TUG_COPIED_MOST) /* copied by the call */
        return tug_no_callback;
    return tug_outstanding_start_reading(&write->peer->local);
}

static inline struct tug_callback next_read(const struct tug_transfer *read) {
    return read->then != NULL ? *read->then : tug_outstanding_start(&read->peer->local);
}

/* It has not been started, but counted, unless something else is to be called. */
static void count_back(const struct tug_callback *then, struct tug_callback counted) {
    if (then == NULL)
        counted.f(counted.d, 0);
}

/* False: it does not go by itself, nothing happened. */
static inline bool move_alone(const struct tug_transfer *t, bool writes) {
    struct tug_peer *peer = t->peer;
    struct tug_fabric *fabric = &peer->context->fabric;
    const uint32_t bytes = (uint32_t)t->bytes;
    if (!peer->beside ||
        !may_go_alone(writes, t->bytes, tug_burst_is_single() && tug_burst.awaited) ||
        !tug_peer_serves(peer->context, peer->process))
        return false;
    if (writes && tug_batch_has_reads())
        tug_batch_settle_reads(); /* it does not overtake them */
    const struct tug_callback end = writes ? tug_outstanding_start(&peer->remote) : next_read(t);
    const bool gone = writes ? tug_lone_write(fabric, peer->process, t->key->word[0], t->offset,
                                              t->here, bytes, &tug_no_callback, end)
                             : tug_lone_read(fabric, peer->process, t->key->word[0], t->offset,
                                             t->here, bytes, end);
    if (gone)
        tug_burst_add();
    else
        count_back(writes ? NULL : t->then, end);
    return gone;
}

bool tug_peer_write_alone(const struct tug_transfer *write) {
    return move_alone(write, true);
}

/* Next to a peer that computes. False: it goes another way. */
static inline bool gather(const struct tug_transfer *t, bool writes) {
    return t->shortcut == TUG_SHORTCUT_SINGLE && t->bytes < TUG_CMA_LEAST && t->then == NULL &&
           tug_peer_may_gather(t->peer) && tug_vector_move(t, writes);
}

void tug_peer_write(const struct tug_transfer *write) {
    struct tug_context *context = write->peer->context;
    if (write->shortcut < TUG_SHORTCUT_DEVICE &&
        (gather(write, true) || tug_peer_write_alone(write) ||
         (write->then == NULL && batch_write(write)))) {
        if (__builtin_expect(write->then != NULL, 0))
            write->then->f(write->then->d, 0);
        return;
    }
    const struct tug_write_params params = {
        .dest_proc = (int)write->peer->process,
        .dest_raddr = {write->key, write->offset},
        .src_laddr = {&context->everything, (size_t)(uintptr_t)write->here},
        .size_in_bytes = write->bytes,
        .on_local = next_reading(write),
        .on_complete = tug_outstanding_start(&write->peer->remote)};
    while (__builtin_expect(!tug_try_write_async(context, &params), 0))
        tug_progress(context);
}

void tug_peer_read(const struct tug_transfer *read) {
    struct tug_context *context = read->peer->context;
    if (read->shortcut < TUG_SHORTCUT_DEVICE &&
        (gather(read, false) || batch_read(read) || move_alone(read, false)))
        return;
    const struct tug_read_params params = {
        .src_proc = (int)read->peer->process,
        .src_raddr = {read->key, read->offset},
        .dest_laddr = {&context->everything, (size_t)(uintptr_t)read->here},
        .size_in_bytes = read->bytes,
        .on_complete = next_read(read)};
    while (__builtin_expect(!tug_try_read_async(context, &params), 0))
        tug_progress(context);
}

/* ---- messages and calls ---- */

/* A message to this process itself is handled there and then. False: it has failed, as others do
 * that are sent. */
static inline bool handle_here(const struct tug_peer *peer, unsigned handler, const void *payload,
                               size_t bytes) {
    struct tug_fabric *fabric = &peer->context->fabric;
    return peer->process == fabric->rank && (fabric->ways & TUG_WAY_SELF) &&
           fabric->deliver(fabric, fabric->rank, handler, payload, bytes, 1) == 0;
}

uint32_t tug_small_start_messages(const struct tug_batch_form *form, const unsigned char *run,
                                  uint32_t n) {
    struct tug_peer *peer = form->target;
    uint32_t done = 0;
    for (const unsigned char *at = run + sizeof(int32_t); done < n;
         done++, at += tug_batch_step(form->record)) {
        if (handle_here(peer, form->number, at, form->bytes))
            continue;
        struct tug_generation *generation = tug_outstanding_open(&peer->remote);
        count_in_hand(generation, 1);
        if (!message_packed(peer->context, peer->process, form->number, at, form->bytes,
                            &generation->ended)) {
            count_in_hand(generation, -1);
            break;
        }
    }
    return done;
}

/* Whether the process looks is asked last: its page is in its cache. */
bool tug_peer_is_free(const struct tug_peer *peer) {
    return peer->beside && !tug_burst.pieces && tug_peer_is_quiet(peer) &&
           tug_peer_serves(peer->context, peer->process);
}

static inline struct tug_callback next_message(const struct tug_peer_message *message) {
    return message->then != NULL ? *message->then : tug_outstanding_start(&message->peer->remote);
}

/* False: it does not go by itself, nothing happened. */
static bool message_alone(const struct tug_peer_message *message) {
    const struct tug_peer *peer = message->peer;
    const struct tug_callback end = next_message(message);
    if (!tug_lone_message(&peer->context->fabric, peer->process, message->handler, message->payload,
                          (uint32_t)message->bytes, end)) {
        count_back(message->then, end);
        return false;
    }
    if (message->on_local.f != NULL)
        message->on_local.f(message->on_local.d, 0);
    return true;
}

void tug_peer_send(const struct tug_peer_message *message, bool alone) {
    struct tug_context *context = message->peer->context;
    if (alone && message_alone(message))
        return;
    const struct tug_am_params params = {.dest_proc = (int)message->peer->process,
                                         .handler = message->handler,
                                         .payload = message->payload,
                                         .size_in_bytes = message->bytes,
                                         .on_local = message->on_local,
                                         .on_complete = next_message(message)};
    while (__builtin_expect(!tug_try_am_async(context, &params), 0))
        tug_progress(context);
}

bool tug_peer_call_alone(const struct tug_peer *peer, const struct tug_call_params *call) {
    return tug_lone_call(&peer->context->fabric, peer->process, call->handler, call->payload,
                         (uint32_t)call->size_in_bytes, call->answer,
                         (uint32_t)call->answer_in_bytes, call->on_complete);
}
