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
static inline bool count_in_hand(struct tug_generation *generation, int change) {
    uint64_t n = atomic_load_explicit(&generation->in_hand, memory_order_relaxed);
    atomic_store_explicit(&generation->in_hand, n + (uint64_t)change, memory_order_relaxed);
    return false;
}

/* ---- into packets, by the holder ---- */

static bool start_noted(struct tug_context *context, const struct tug_try *request,
                        const void *data) {
    if (!tug_try_post_in_hand(context, request, (unsigned char *)(uintptr_t)data, NULL))
        return false;
    tug_engine_service_began(&context->service);
    return true;
}

/* A read or write of memory that only packets reach, for which the key's first word does. False: no
 * room, nothing happened. */
static bool move_noted(struct tug_context *context, uint8_t kind, uint32_t process, uint64_t word,
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
    return start_noted(context, &request, data);
}

static inline bool write_noted(struct tug_context *context, uint32_t process, uint64_t key,
                               uint64_t offset, const void *data, size_t bytes,
                               struct tug_counter *counter) {
    if (!tug_packets_write_on(context->fabric.packets, process, key, offset, data, bytes, counter))
        return move_noted(context, TUG_OPERATION_WRITE, process, key, offset, data, bytes,
                          (struct tug_callback){tug_counter_add, counter});
    tug_stat_add(TUG_STAT_OPERATIONS, 1);
    return true;
}

static bool message_noted(struct tug_context *context, uint32_t process, unsigned handler,
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
    return start_noted(context, &request, payload);
}

/* ---- in company ---- */

static inline struct tug_peer *peer_of(const struct tug_company *company) {
    return (struct tug_peer *)(uintptr_t)company->words[TUG_SMALL_PEER];
}

/* Where the one at `at` of a run is in what the key names. */
static inline uint64_t offset_at(const struct tug_company *company, const unsigned char *at) {
    int32_t distance;
    memcpy(&distance, at, sizeof(distance));
    return company->words[TUG_SMALL_OFFSET] + (uint64_t)(int64_t)distance;
}

/* Writes to a process of the node go by themselves, in one piece (transport/lone.h), else in
 * packets. */
static uint32_t execute_writes(const struct tug_company *company, const unsigned char *run,
                               uint32_t n) {
    const uint64_t *words = company->words, key = words[TUG_SMALL_KEY];
    const size_t bytes = words[TUG_SMALL_BYTES], step = tug_run_step(bytes);
    struct tug_peer *peer = peer_of(company);
    struct tug_generation *generation = tug_outstanding_open(&peer->remote);
    uint32_t done = 0;
    count_in_hand(generation, (int)n);
    if (tug_lone_write_run(&peer->context->fabric, peer->process, key, words[TUG_SMALL_OFFSET], run,
                           n, (uint32_t)bytes, &generation->ended))
        return n;
    for (const unsigned char *at = run; done < n; done++, at += step)
        if (!write_noted(peer->context, peer->process, key, offset_at(company, at),
                         at + sizeof(int32_t), bytes, &generation->ended))
            break;
    count_in_hand(generation, (int)done - (int)n);
    return done;
}

/* What stands in the ring of a read: where what is read goes, and, of those that end by themselves,
 * the pointer of their end. The function of all of it is the form's first word. */
struct read_place {
    unsigned char *to;
    void *end;
};
#define PLACE_BYTES ((uint32_t)sizeof(unsigned char *))

static inline void (*each_end_of(const struct tug_company *company))(void *, int) {
    return company->bytes == PLACE_BYTES
               ? NULL
               : (void (*)(void *, int))(uintptr_t)company->words[TUG_SMALL_FORM];
}

static uint32_t execute_reads(const struct tug_company *company, const unsigned char *run,
                              uint32_t n) {
    const uint64_t *words = company->words, key = words[TUG_SMALL_KEY];
    const size_t bytes = words[TUG_SMALL_BYTES], step = tug_run_step(company->bytes);
    struct tug_peer *peer = peer_of(company);
    struct tug_generation *generation = tug_outstanding_open(&peer->local);
    void (*const each_ends)(void *, int) = each_end_of(company);
    const int counted = each_ends == NULL ? (int)n : 0; /* others were, as they were started */
    uint32_t done = 0;
    count_in_hand(generation, counted);
    while (done < n) {
        const uint32_t now = n - done < TUG_LONE_READS ? n - done : TUG_LONE_READS;
        if (!tug_lone_read_run(&peer->context->fabric, peer->process, key, words[TUG_SMALL_OFFSET],
                               run + done * step, now, (uint32_t)bytes, &generation->ended,
                               each_ends))
            break;
        done += now;
    }
    for (; done < n; done++) {
        const unsigned char *at = run + done * step;
        struct read_place place;
        memcpy(&place, at + sizeof(int32_t), company->bytes);
        const struct tug_callback end =
            each_ends != NULL ? (struct tug_callback){each_ends, place.end}
                              : (struct tug_callback){tug_counter_add, &generation->ended};
        if (!move_noted(peer->context, TUG_OPERATION_READ, peer->process, key,
                        offset_at(company, at), place.to, bytes, end))
            break;
    }
    if (counted > 0)
        count_in_hand(generation, (int)done - counted);
    return done;
}

/* The bytes of one in the ring. */
static inline uint32_t bytes_in_company(const struct tug_transfer *t, enum tug_company_kind kind) {
    return kind == TUG_COMPANY_WRITES ? (uint32_t)t->bytes
           : t->then == NULL          ? PLACE_BYTES
                                      : (uint32_t)sizeof(struct read_place);
}

/* One that ends by itself. */
static inline bool join_with_end(struct tug_company *company, const struct tug_transfer *read) {
    const struct read_place place = {read->here, read->then->d};
    const uint64_t distance = read->offset - company->words[TUG_SMALL_OFFSET];
    if (distance + ((uint64_t)1 << 31) > UINT32_MAX ||
        company->words[TUG_SMALL_FORM] != (uintptr_t)read->then->f)
        return false;
    tug_burst_add();
    tug_company_add(company, TUG_COMPANY_READS, (uint32_t)distance, &place, sizeof(place));
    return true;
}

/* Is the company that is open one of operations like this, and is there room? Then it has it. */
static inline bool join_company(const struct tug_transfer *t, enum tug_company_kind kind) {
    struct tug_company *company = tug_burst.companies[kind];
    if (company == NULL || company->bytes != bytes_in_company(t, kind) ||
        company->words[TUG_SMALL_BYTES] != t->bytes ||
        company->words[TUG_SMALL_PEER] != (uintptr_t)t->peer ||
        company->words[TUG_SMALL_KEY] != t->key->word[0] ||
        (!tug_company_has_room(company, kind) && !tug_company_go(company, kind)))
        return false;
    if (kind == TUG_COMPANY_READS && t->then != NULL)
        return join_with_end(company, t);
    if (!tug_small_join(kind == TUG_COMPANY_WRITES, t->offset, t->here))
        return false;
    if (t->form[TUG_FORM_WORDS - 1] != TUG_NO_FORM)
        memcpy(&company->words[TUG_SMALL_FORM], t->form, sizeof(t->form));
    return true;
}

/* The first one of a company, which may wait: one of many, to another process of the node. Not
 * between nodes: there the message that ends an epoch must come behind what it ends, and notes,
 * messages among them, are executed before what is in company. False: there is none for it. */
static bool open_company(const struct tug_transfer *t, enum tug_company_kind kind) {
    if (!t->peer->beside || tug_burst_is_single())
        return false;
    if (tug_notebook != NULL) { /* what an earlier burst has left waiting may be like this */
        tug_burst.companies[kind] = &tug_notebook->companies[kind];
        if (join_company(t, kind))
            return true;
    }
    struct tug_company *company = tug_burst.companies[kind] =
        tug_company_open(kind, bytes_in_company(t, kind));
    if (company == NULL)
        return false;
    company->execute = kind == TUG_COMPANY_READS ? execute_reads : execute_writes;
    company->words[TUG_SMALL_PEER] = (uintptr_t)t->peer;
    company->words[TUG_SMALL_KEY] = t->key->word[0];
    company->words[TUG_SMALL_OFFSET] = t->offset;
    company->words[TUG_SMALL_BYTES] = t->bytes;
    if (kind == TUG_COMPANY_READS && t->then != NULL)
        company->words[TUG_SMALL_FORM] = (uintptr_t)t->then->f;
    company->words[TUG_SMALL_FORM + TUG_FORM_WORDS - 1] = TUG_NO_FORM;
    return join_company(t, kind);
}

/* ---- noted ---- */

bool tug_small_execute_write(const struct tug_note *note) {
    const struct tug_noted_write *noted = (const struct tug_noted_write *)note->payload.bytes;
    const struct tug_peer *peer = noted->peer;
    struct tug_generation *generation = tug_outstanding_open(&noted->peer->remote);
    count_in_hand(generation, 1);
    return write_noted(peer->context, peer->process, noted->key, noted->offset, noted->data,
                       noted->bytes, &generation->ended) ||
           count_in_hand(generation, -1);
}

/* Can a write to memory that is not mapped wait for others? */
static inline bool may_wait(const struct tug_transfer *write) {
    return write->bytes - 1 < TUG_COPIED_MOST &&
           !(write->shortcut == TUG_SHORTCUT_SINGLE && tug_burst_is_single() &&
             (tug_burst.awaited || !tug_peer_serves(write->peer->context, write->peer->process)));
}

_Thread_local uint64_t tug_small_noted[TUG_COMPANY_WORDS];

bool tug_small_note(uint64_t offset, const void *here) {
    struct tug_note *note = tug_note_begin(TUG_NOTE_ANY);
    return note != NULL && tug_small_fill(note, offset, here);
}

/* False: it does not wait. Those to another node that follow may be like it. */
static inline bool note_write(const struct tug_transfer *write) {
    if (!may_wait(write))
        return false;
    if (join_company(write, TUG_COMPANY_WRITES) || open_company(write, TUG_COMPANY_WRITES))
        return true; /* others than those in the company that waits */
    tug_small_noted[TUG_SMALL_PEER] = (uintptr_t)write->peer;
    tug_small_noted[TUG_SMALL_KEY] = write->key->word[0];
    tug_small_noted[TUG_SMALL_BYTES] = write->bytes;
    memcpy(&tug_small_noted[TUG_SMALL_FORM], write->form, sizeof(write->form));
    tug_burst.noted = !write->peer->beside && write->form[TUG_FORM_WORDS - 1] != TUG_NO_FORM;
    return tug_small_note(write->offset, write->here);
}

/* The same of a program's write of at most 16 bytes, which counts at a counter of its own. */
struct noted_try {
    struct tug_context *context;
    struct tug_counter *counter;
    uint64_t key, offset;
    uint32_t peer, bytes;
    unsigned char data[TUG_TRY_NOTED_MOST];
};
_Static_assert(sizeof(struct noted_try) <= TUG_NOTE_PAYLOAD, "it fits a note");

static bool execute_try(const struct tug_note *note) {
    const struct noted_try *noted = (const struct noted_try *)note->payload.bytes;
    return write_noted(noted->context, noted->peer, noted->key, noted->offset, noted->data,
                       noted->bytes, noted->counter);
}

bool tug_try_note(struct tug_context *context, const struct tug_try *write,
                  const unsigned char *local) {
    struct tug_note *note = tug_note_begin(TUG_NOTE_PROMPT);
    if (note == NULL)
        return false;
    struct noted_try *noted = (struct noted_try *)note->payload.bytes;
    note->execute = execute_try;
    noted->context = context;
    noted->counter = write->on_complete->d;
    noted->key = write->remote->key->word[0];
    noted->offset = write->remote->offset;
    noted->peer = (uint32_t)write->peer;
    noted->bytes = (uint32_t)write->bytes;
    tug_try_copy(noted->data, local, write->bytes);
    tug_note_end();
    return true;
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
    if (writes && tug_burst.companies[TUG_COMPANY_READS] != NULL)
        tug_reads_settle(); /* it does not overtake them */
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
         (write->then == NULL && note_write(write)))) {
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

#define TOGETHER_MOST 128 /* bytes of a read that others accompany */

_Static_assert(TUG_LONE_READS *TOGETHER_MOST <= TUG_LONE_READ_MOST && TOGETHER_MOST <= UINT8_MAX,
               "there is room for them");

/* A short read of many, of a process beside this one that looks, goes with others. False: it goes
 * another way. */
static inline bool accompany_read(const struct tug_transfer *read) {
    return read->bytes - 1 < TOGETHER_MOST &&
           (join_company(read, TUG_COMPANY_READS) ||
            (!tug_burst_is_single() && tug_peer_serves(read->peer->context, read->peer->process) &&
             open_company(read, TUG_COMPANY_READS)));
}

void tug_peer_read(const struct tug_transfer *read) {
    struct tug_context *context = read->peer->context;
    if (read->shortcut < TUG_SHORTCUT_DEVICE &&
        (gather(read, false) || accompany_read(read) || move_alone(read, false)))
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
static inline bool handle_here(const struct tug_peer *peer, const struct tug_noted_message *noted) {
    struct tug_fabric *fabric = &peer->context->fabric;
    return peer->process == fabric->rank && (fabric->ways & TUG_WAY_SELF) &&
           fabric->deliver(fabric, fabric->rank, noted->handler, noted->payload, noted->bytes, 1) ==
               0;
}

bool tug_small_execute_message(const struct tug_note *note) {
    const struct tug_noted_message *noted = (const struct tug_noted_message *)note->payload.bytes;
    const struct tug_peer *peer = noted->peer;
    if (handle_here(peer, noted))
        return true;
    struct tug_generation *generation = tug_outstanding_open(&noted->peer->remote);
    count_in_hand(generation, 1);
    return message_noted(peer->context, peer->process, noted->handler, noted->payload, noted->bytes,
                         &generation->ended) ||
           count_in_hand(generation, -1);
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
