/* The target's side of the packet lane: what its engine does for others while its program computes.
 *
 * Everything here is run by the holder of the baton, one handler at a time: that makes accumulates
 * atomic to each other. A message is input: what it names is checked before it is used. Origins
 * check arguments first, so what fails here is a damaged or a foreign message: it is logged and
 * dropped, and a call is answered with nothing, which its origin takes for an error.
 */
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "host/handles.h"
#include "host/host.h"
#include "host/reduction.h"
#include "llcl/llcl.h"
#include "rma/operand.h"
#include "rma/remote_card.h"
#include "rma/remote_card_lock.h"
#include "rma/remote_owed.h"

#define ANSWER_MOST TUG_AM_MAX_PAYLOAD

/* ---- what a message is about ---- */

/* A message taken apart. */
struct request {
    struct tug_remote_head head;
    struct tug_remote *remote;
    const unsigned char *data;
    size_t bytes; /* of data */
    unsigned char *memory;
    struct tug_elements elements;
    size_t n;
    size_t span; /* from the first byte to behind the last one that is data */
};

static bool read_head(const struct tug_domain *domain, const void *payload, size_t bytes,
                      struct request *request) {
    if (bytes < sizeof(request->head))
        return false;
    memcpy(&request->head, payload, sizeof(request->head));
    request->data = (const unsigned char *)payload + sizeof(request->head);
    request->bytes = bytes - sizeof(request->head);
    if (request->head.window >= TUG_REMOTE_WINDOWS)
        return false;
    /* acquire: pairs with the release in tug_remote_create */
    request->remote =
        atomic_load_explicit(&domain->windows[request->head.window], memory_order_acquire);
    return request->remote != NULL;
}

/* Where [offset, offset + bytes) of this rank's memory is, or NULL. */
static unsigned char *memory_at(const struct tug_remote *remote, uint64_t offset, size_t bytes) {
    uint64_t size = (uint64_t)remote->size;
    if (remote->attachments != NULL)
        return tug_remote_attached(remote, offset, bytes);
    return offset > size || bytes > size - offset ? NULL : remote->base + offset;
}

static bool find_elements(struct request *request) {
    MPI_Datatype type = tug_type_of_number(request->head.type);
    return (tug_type_is_basic(type) || tug_reduction_find(MPI_REPLACE, type) != NULL) &&
           tug_elements_measure(type, &request->elements);
}

/* Finds the elements in this rank's memory. */
static bool find_memory(struct request *request) {
    uint64_t offset = request->head.range >> 16;
    request->n = request->head.range & UINT16_MAX;
    if (!find_elements(request) || request->n * request->elements.extent > TUG_REMOTE_PIECE)
        return false;
    request->span = tug_elements_span(&request->elements, request->n);
    request->memory = memory_at(request->remote, offset, request->span);
    return request->memory != NULL;
}

/* Is the sender of a lock or a notice who it says? */
static bool is_sender(const struct request *request, int process) {
    const uint32_t rank = request->head.type;
    return rank < (uint32_t)request->remote->nranks &&
           request->remote->targets[rank].process == process;
}

static void complain(int source) {
    tug_message_complain(source, "a one-sided operation");
}

static tug_reduction find_reduction(const struct request *request) {
    return tug_reduction_find(tug_op_of_number(request->head.op),
                              tug_type_of_number(request->head.type));
}

/* ---- accumulates ---- */

/* Origins on the node may be at the same elements (remote_combine.c). */
static inline struct tug_mutex *lock(const struct tug_remote *remote) {
    struct tug_mutex *mutex = tug_remote_mutex(remote, remote->rank);
    tug_guard_lock(mutex);
    return mutex;
}

static void apply(const struct request *request, const struct tug_update *update) {
    const struct tug_guard guard = tug_remote_guard(request->remote, request->remote->rank);
    tug_guard_apply(&guard, 0, request->memory, update);
}

/* Are there operands for so many bytes? Those of a short message are filled up to 8 bytes. What
 * MPI_NO_OP fetches has none. */
static inline bool has_operands(const struct request *request, size_t bytes, bool fetches) {
    return request->bytes == bytes || (!fetches && bytes < 8 && request->bytes == 8) ||
           (fetches && request->bytes == 0 && request->head.op == TUG_OP_NO_OP);
}

/* Does what a request is about. What it fetches, if anything, goes to `old`, where there are
 * *bytes, which it sets. compares: the operands are the element, then what it is compared with.
 * False: it makes no sense. */
static bool perform(struct request *request, bool compares, unsigned char *old, size_t *bytes) {
    if (!find_memory(request))
        return false;
    const size_t all = request->n * request->elements.extent;
    const struct tug_update update = {.reduce = find_reduction(request),
                                      .origin = request->bytes > 0 ? request->data : NULL,
                                      .compare = compares ? request->data + all : NULL,
                                      .result = old,
                                      .n = request->n,
                                      .extent = request->elements.extent,
                                      .bytes = request->span};
    if (update.reduce == NULL || (compares && request->n != 1) || (old != NULL && all > *bytes) ||
        !has_operands(request, compares ? 2 * all : all, old != NULL))
        return false;
    apply(request, &update);
    if (old == NULL)
        return true;
    memset(old + request->span, 0, all - request->span);
    *bytes = all;
    return true;
}

static void on_accumulate(tug_context *context, int source, const void *payload, size_t bytes,
                          void *domain) {
    struct request request;
    (void)context;
    if (!read_head(domain, payload, bytes, &request) || !perform(&request, false, NULL, NULL))
        complain(source);
}

/* Begins to fetch the memory that a message is about, if that is easily found. */
static inline void fetch_early(const struct tug_remote *remote, const unsigned char *payload) {
    struct tug_remote_head head;
    memcpy(&head, payload, sizeof(head));
    uint64_t offset = head.range >> 16;
    if (head.window == remote->number && offset < (uint64_t)remote->size)
        __builtin_prefetch(remote->base + offset, 1);
}

/* Are two messages on elements of one kind, one each, in one window? */
static inline bool are_alike(const struct tug_remote_head *one,
                             const struct tug_remote_head *other) {
    return one->window == other->window && one->op == other->op && one->type == other->type &&
           (one->range & UINT16_MAX) == 1 && (other->range & UINT16_MAX) == 1;
}

#define AHEAD 8 /* messages: about as many lines can be on their way to a core */

/* The first of several is taken apart. Those that are like it need only their range, which is
 * somewhere in memory: what comes later is fetched meanwhile. */
static void on_accumulates(tug_context *context, int source, const unsigned char *payloads,
                           size_t bytes, size_t n, void *domain) {
    struct request first;
    tug_reduction reduce = NULL;
    if (read_head(domain, payloads, bytes, &first) && find_memory(&first) &&
        has_operands(&first, first.n * first.elements.extent, false) &&
        first.remote->attachments == NULL)
        reduce = find_reduction(&first);
    struct tug_mutex *mutex = reduce != NULL ? lock(first.remote) : NULL;
    for (size_t i = 0; i < n; i++) {
        const unsigned char *payload = payloads + i * bytes;
        struct tug_remote_head head;
        if (reduce == NULL) {
            on_accumulate(context, source, payload, bytes, domain);
            continue;
        }
        if (i + AHEAD < n)
            fetch_early(first.remote, payload + AHEAD * bytes);
        memcpy(&head, payload, sizeof(head));
        unsigned char *memory = NULL;
        if (__builtin_expect(are_alike(&head, &first.head), 1))
            memory = memory_at(first.remote, head.range >> 16, first.span);
        if (__builtin_expect(memory != NULL, 1)) {
            reduce(memory, payload + sizeof(head), 1);
            continue;
        }
        tug_guard_unlock(mutex);
        on_accumulate(context, source, payload, bytes, domain);
        mutex = lock(first.remote);
    }
    tug_guard_unlock(mutex);
}

/* Finds the elements of the next bytes of a long message that begin `position` bytes on. */
static bool find_part(struct request *request, uint64_t position, size_t bytes) {
    const uint64_t offset = (request->head.range >> 16) + position;
    if (position >> TUG_REMOTE_OFFSET_BITS != 0 || !find_elements(request))
        return false;
    const size_t extent = request->elements.extent;
    if (request->elements.end != extent || position % extent != 0)
        return false;
    request->n = bytes / extent;
    request->span = request->n * extent;
    request->memory = memory_at(request->remote, offset, request->span);
    return request->memory != NULL;
}

static size_t on_long_accumulate(tug_context *context, int source, const uint64_t head[2],
                                 uint64_t position, const void *data, size_t bytes, void *domain) {
    struct request request;
    tug_reduction reduce = NULL;
    (void)context;
    if (read_head(domain, head, sizeof(request.head), &request) &&
        find_part(&request, position, bytes))
        reduce = find_reduction(&request);
    if (reduce == NULL) {
        complain(source);
        return bytes;
    }
    apply(&request,
          &(struct tug_update){
              .reduce = reduce, .origin = data, .n = request.n, .extent = request.elements.extent});
    return request.span;
}

static void answer_with(tug_context *context, struct tug_caller caller, const void *payload,
                        size_t bytes, const struct tug_domain *domain, bool compares) {
    unsigned char old[ANSWER_MOST];
    struct request request;
    size_t fetched = sizeof(old);
    if (!read_head(domain, payload, bytes, &request) ||
        !perform(&request, compares, old, &fetched)) {
        complain(caller.process);
        fetched = 0;
    }
    tug_answer(context, caller, old, fetched);
}

static void on_fetch(tug_context *context, struct tug_caller caller, const void *payload,
                     size_t bytes, void *domain) {
    answer_with(context, caller, payload, bytes, domain, false);
}

static void on_compare(tug_context *context, struct tug_caller caller, const void *payload,
                       size_t bytes, void *domain) {
    answer_with(context, caller, payload, bytes, domain, true);
}

/* ---- operations that come with a lock (remote_owed.h) ---- */

/* To a lock, and to what came with it. */
struct lock_answer {
    size_t bytes;
    union {
        uint64_t word;
        unsigned char bytes[ANSWER_MOST];
    } data;
};

static bool put(const struct request *request) {
    const size_t n = request->head.range & UINT16_MAX;
    unsigned char *memory = memory_at(request->remote, request->head.range >> 16, n);
    if (memory == NULL || n != request->bytes)
        return false;
    tug_copy(memory, request->data, n);
    return true;
}

static bool get(struct request *request, unsigned char *to, size_t *bytes) {
    const size_t n = request->head.range & UINT16_MAX;
    const unsigned char *memory = memory_at(request->remote, request->head.range >> 16, n);
    if (memory == NULL || n > *bytes)
        return false;
    tug_copy(to, memory, n);
    *bytes = n;
    return true;
}

static bool do_record(struct request *request, struct lock_answer *answer) {
    unsigned char *to = answer->data.bytes + answer->bytes;
    const size_t room = sizeof(answer->data) - answer->bytes;
    size_t fetched = room;
    bool good;
    switch (request->head.what) {
    case TUG_OWED_PUT:
        return put(request);
    case TUG_OWED_ACCUMULATE:
        return perform(request, false, NULL, NULL);
    case TUG_OWED_GET:
        good = get(request, to, &fetched);
        break;
    case TUG_OWED_FETCH:
    case TUG_OWED_COMPARE:
        good = perform(request, request->head.what == TUG_OWED_COMPARE, to, &fetched);
        break;
    default:
        return false;
    }
    if (!good)
        return false;
    const size_t whole = tug_owed_padded(fetched); /* not more than the room, which is padded */
    memset(to + fetched, 0, whole - fetched);
    answer->bytes += whole;
    return true;
}

/* One record after the other. False: one makes no sense. */
static bool do_records(struct tug_remote *remote, const unsigned char *records, size_t bytes,
                       struct lock_answer *answer) {
    while (bytes > 0) {
        struct request request = {.remote = remote};
        if (bytes < sizeof(request.head))
            return false;
        memcpy(&request.head, records, sizeof(request.head));
        request.data = records + sizeof(request.head);
        request.bytes = request.head.window;
        const size_t whole = sizeof(request.head) + tug_owed_padded(request.bytes);
        if (bytes < whole || !do_record(&request, answer))
            return false;
        records += whole;
        bytes -= whole;
    }
    return true;
}

/* ---- locks: in order of arrival, shared ones together, whether asked for by message or taken by
 * ranks of the node themselves ---- */

/* False: who moves the lock will tell (on_moved). */
static bool take(struct tug_remote *remote, const struct tug_lock_entry *entry) {
    const bool exclusive = entry->wants == TUG_LOCK_EXCLUSIVE;
    if (!tug_rwlock_take(remote->lock, entry->ticket, exclusive)) {
        tug_rwlock_watch(remote->lock, true);
        if (!tug_rwlock_take(remote->lock, entry->ticket, exclusive))
            return false;
    }
    if (entry->wants == TUG_LOCK_GROUP)
        tug_rwlock_found(remote->lock);
    return true;
}

/* The lock is the sender's, who has sent these records with it; NULL for some: there was no memory
 * to keep them. */
static void hold(struct tug_remote *remote, struct tug_remote_state *sender,
                 const unsigned char *records) {
    struct tug_lock_entry *entry = &sender->entry;
    const struct tug_caller caller = {sender->target->process, entry->tag};
    struct lock_answer answer;
    bool good = records != NULL || entry->bytes == 0;
    answer.bytes = sizeof(answer.data.word);
    answer.data.word = TUG_LOCK_GRANTED;
    if (good && !do_records(remote, records, entry->bytes, &answer)) {
        complain(caller.process);
        good = false;
    }
    entry->holds = entry->wants;
    if (entry->ends || !good) {
        tug_remote_drop_lock(remote->lock, entry->wants);
        entry->holds = TUG_LOCK_NONE;
    }
    tug_answer(remote->domain->context, caller, &answer.data, good ? answer.bytes : 0);
}

static void refuse(struct tug_remote *remote, struct tug_remote_state *sender) {
    sender->entry.holds = TUG_LOCK_NONE;
    tug_answer(remote->domain->context,
               (struct tug_caller){sender->target->process, sender->entry.tag}, NULL, 0);
}

void tug_remote_grant(struct tug_remote *remote) {
    const bool failed = remote->gate.state == TUG_GATE_FAILED;
    struct tug_remote_state *sender;
    while ((sender = remote->lock_first) != NULL && (failed || take(remote, &sender->entry))) {
        unsigned char *records = sender->entry.records;
        remote->lock_first = sender->entry.next;
        sender->entry.records = NULL;
        if (failed)
            refuse(remote, sender);
        else
            hold(remote, sender, records);
        free(records);
    }
    if (remote->lock_first != NULL) {
        tug_card_recall(remote);
        return;
    }
    tug_card_return(remote);
    if (tug_rwlock_is_watched(remote->lock))
        tug_rwlock_watch(remote->lock, false);
}

/* Its turn comes later. */
static void await_turn(struct tug_remote *remote, struct tug_remote_state *sender,
                       const unsigned char *records) {
    struct tug_lock_entry *entry = &sender->entry;
    if (entry->bytes > 0 && (entry->records = malloc(entry->bytes)) != NULL)
        memcpy(entry->records, records, entry->bytes);
    if (remote->lock_first == NULL)
        remote->lock_first = sender;
    else
        remote->lock_last->entry.next = sender;
    remote->lock_last = sender;
}

/* The lock is somebody's who cannot say so here. */
static void on_moved(tug_context *context, int source, const void *payload, size_t bytes,
                     void *domain) {
    struct request request;
    (void)context;
    if (!read_head(domain, payload, bytes, &request) || !is_sender(&request, source))
        complain(source);
    else {
        tug_card_moved(request.remote);
        tug_remote_grant(request.remote);
    }
}

static void on_lock(tug_context *context, struct tug_caller caller, const void *payload,
                    size_t bytes, void *domain) {
    struct request request;
    const bool known =
        read_head(domain, payload, bytes, &request) && is_sender(&request, caller.process);
    struct tug_remote_state *sender =
        known ? tug_remote_meet(request.remote, (int)request.head.type) : NULL;
    const uint8_t wants = sender != NULL ? request.head.what : TUG_LOCK_NONE;
    if (wants < TUG_LOCK_SHARED || wants > TUG_LOCK_EXCLUSIVE ||
        sender->entry.holds != TUG_LOCK_NONE || request.head.op > 1) {
        if (!known || sender != NULL) /* else there is no memory, which has been said */
            complain(caller.process);
        tug_answer(context, caller, NULL, 0);
        return;
    }
    struct tug_remote *remote = request.remote;
    sender->entry = (struct tug_lock_entry){.tag = caller.tag,
                                            .holds = TUG_LOCK_WAITS,
                                            .wants = wants,
                                            .ends = request.head.op,
                                            .bytes = (uint16_t)request.bytes};
    if (wants == TUG_LOCK_GROUP && sender->target != &remote->targets[remote->rank] &&
        tug_rwlock_join(remote->lock)) {
        hold(remote, sender, request.data);
        return;
    }
    sender->entry.ticket = tug_rwlock_ask(remote->lock);
    if (remote->lock_first == NULL && take(remote, &sender->entry))
        hold(remote, sender, request.data);
    else
        await_turn(remote, sender, request.data);
    tug_remote_grant(remote);
}

static void on_unlock(tug_context *context, int source, const void *payload, size_t bytes,
                      void *domain) {
    struct request request;
    struct tug_remote_state *sender = NULL;
    (void)context;
    if (read_head(domain, payload, bytes, &request) && is_sender(&request, source))
        sender = tug_remote_state_of(request.remote, (int)request.head.type);
    if (sender == NULL || sender->entry.holds < TUG_LOCK_SHARED) {
        complain(source);
        return;
    }
    tug_remote_drop_lock(request.remote->lock, sender->entry.holds);
    sender->entry.holds = TUG_LOCK_NONE;
    tug_remote_grant(request.remote);
}

/* ---- cards ---- */

static void on_card(tug_context *context, struct tug_caller caller, const void *payload,
                    size_t bytes, void *domain) {
    struct request request;
    struct tug_remote_state *sender = NULL;
    if (!read_head(domain, payload, bytes, &request) || !is_sender(&request, caller.process))
        complain(caller.process);
    else
        sender = tug_remote_meet(request.remote, (int)request.head.type);
    if (sender != NULL)
        tug_card_asked(request.remote, sender, caller.tag);
    else
        tug_answer(context, caller, NULL, 0);
}

/* ---- notices ---- */

/* Who waits for it learns that it will not come (await() in remote_sync.c). */
static void forget(struct tug_remote *remote, int rank) {
    int before = 0;
    if (!atomic_compare_exchange_strong(&remote->forgotten, &before, rank + 1) &&
        before != rank + 1)
        atomic_store(&remote->forgotten, -1);
}

/* Of who takes part in a barrier nothing is kept. False: it makes no sense. */
static bool take_notice(const struct request *request) {
    _Atomic uint32_t *count = &request->remote->arrived[request->head.op];
    if (request->head.what < TUG_NOTICE_BARRIER) {
        struct tug_remote_state *from = tug_remote_meet(request->remote, (int)request->head.type);
        if (from == NULL) {
            forget(request->remote, (int)request->head.type);
            return true;
        }
        count = request->head.what == TUG_NOTICE_POST ? &from->posts : &from->completes;
    } else if (request->head.what > TUG_NOTICE_BARRIER) {
        return false;
    }
    atomic_fetch_add(count, 1); /* seq_cst: threads that wait push their wait before they look */
    return true;
}

static void on_notice(tug_context *context, int source, const void *payload, size_t bytes,
                      void *domain) {
    struct request request;
    (void)context;
    if (!read_head(domain, payload, bytes, &request) || request.head.op >= TUG_REMOTE_ROUNDS ||
        !is_sender(&request, source) || !take_notice(&request))
        complain(source);
}

/* ---- dynamic windows ---- */

static void on_region(tug_context *context, struct tug_caller caller, const void *payload,
                      size_t bytes, void *domain) {
    struct request request;
    struct tug_region region = {0};
    int status = TUG_ERR_RANGE;
    if (read_head(domain, payload, bytes, &request) && is_sender(&request, caller.process) &&
        request.remote->attachments != NULL)
        status = tug_remote_tell_region(request.remote, request.head.type, request.head.range >> 16,
                                        &region);
    if (status == TUG_ERR_NO_MEMORY)
        region.bytes = 0; /* says so, see learn() in remote_attach.c */
    /* there is none: that is the program's mistake, and its origin's to report */
    tug_answer(context, caller, &region, status == TUG_ERR_RANGE ? 0 : sizeof(region));
}

static void on_detached(tug_context *context, int source, const void *payload, size_t bytes,
                        void *domain) {
    struct request request;
    struct tug_remote_state *from = NULL;
    (void)context;
    if (read_head(domain, payload, bytes, &request) && is_sender(&request, source) &&
        request.remote->attachments != NULL)
        from = tug_remote_state_of(request.remote, (int)request.head.type);
    if (from == NULL)
        complain(source);
    else
        tug_book_strike_out(&from->books[TUG_BOOK_ASKED], request.head.range >> 16, 1);
}

void tug_remote_serve(struct tug_domain *domain) {
    tug_context *context = domain->context;
    (void)tug_am_register_run(context, TUG_MESSAGE_ACCUMULATE, on_accumulate, on_accumulates,
                              domain);
    tug_am_register_part(context, TUG_LONG_ACCUMULATE, on_long_accumulate, domain);
    (void)tug_am_register(context, TUG_MESSAGE_UNLOCK, on_unlock, domain);
    (void)tug_am_register(context, TUG_MESSAGE_MOVED, on_moved, domain);
    (void)tug_am_register(context, TUG_MESSAGE_NOTICE, on_notice, domain);
    (void)tug_am_register(context, TUG_MESSAGE_DETACHED, on_detached, domain);
    (void)tug_call_register(context, TUG_CALL_FETCH, on_fetch, domain);
    (void)tug_call_register(context, TUG_CALL_COMPARE, on_compare, domain);
    (void)tug_call_register(context, TUG_CALL_LOCK, on_lock, domain);
    (void)tug_call_register(context, TUG_CALL_REGION, on_region, domain);
    (void)tug_call_register(context, TUG_CALL_CARD, on_card, domain);
}
