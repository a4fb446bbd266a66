/* The try_ calls.
 *
 * An operation on memory in reach (mapped, or this process's own) is done at once by the caller;
 * so are, by cross-memory attach, large blocks in the memory of a process of the node, and small
 * ones that are single. Everything else takes a tag and goes to a transport: directly if the baton
 * is free, through the ring if not.
 *
 * Callbacks start operations, whose callbacks start operations: the stack would grow where
 * everything is done at once. From DEPTH_MOST on such operations are queued like others.
 */
#include <string.h>

#include "base/log.h"
#include "base/stats.h"
#include "engine/notes.h"
#include "llcl/private.h"
#include "node/page.h"
#include "node/team.h"
#include "transport/atomic.h"
#include "transport/lone.h"
#include "transport/packets/packets.h"

#define DEPTH_MOST 8
#define POSTS_A_POLL 512

static _Thread_local unsigned depth; /* of callbacks, on this thread */

/* What the calls have in common. */
struct request {
    uint8_t kind;
    uint8_t op; /* as in struct tug_operation */
    int peer;
    const struct tug_remote_address *remote; /* messages: NULL */
    const struct tug_local_address *local;   /* messages: NULL */
    const void *payload;                     /* of messages */
    void *answer;                            /* CALL */
    size_t answer_bytes;
    size_t bytes;
    uint64_t operand;
    uint64_t compare;
    const struct tug_callback *on_local; /* pointers: what was just written in pieces is slow to */
    const struct tug_callback *on_complete; /* copy whole before it has reached the cache */
};

static const struct tug_callback nothing;

_Static_assert(TUG_COPIED_MOST == TUG_OPERATION_INLINE, "what the operation has room for");

static inline bool is_atomic(unsigned kind) {
    return kind == TUG_OPERATION_FETCH || kind == TUG_OPERATION_COMPARE ||
           kind == TUG_OPERATION_SIGNAL;
}

/* ---- ending at once ---- */

static inline void call_back(const struct tug_callback *callback, int status) {
    if (callback->f != NULL)
        callback->f(callback->d, status);
}

static inline bool finish(const struct request *request, int status) {
    depth++;
    call_back(request->on_local, status);
    call_back(request->on_complete, status);
    depth--;
    return true;
}

static __attribute__((noinline)) bool fail(const struct request *request, int status) {
    if (request->on_complete->f == NULL)
        tug_log(TUG_LOG_ERROR, "an operation on process %d fails and nobody is told: %s",
                request->peer, tug_strerror(status));
    return finish(request, status);
}

/* ---- checks ---- */

/* Sets *local to the local memory (NULL: none is needed). */
static inline int check_local(const struct tug_context *context, const struct request *request,
                              unsigned char **local) {
    const struct tug_registration *registration = request->local->registration;
    *local = NULL;
    if (registration == NULL)
        return is_atomic(request->kind) || request->bytes == 0 ? 0 : TUG_ERR_INVALID;
    if (registration->context != context)
        return TUG_ERR_INVALID;
    if (request->local->offset > registration->bytes ||
        request->bytes > registration->bytes - request->local->offset)
        return TUG_ERR_RANGE;
    *local = registration == &context->everything
                 ? (unsigned char *)(uintptr_t)request->local->offset
                 : registration->base + request->local->offset;
    return 0;
}

static inline int check(const struct tug_context *context, const struct request *request,
                        unsigned char **local) {
    if (request->peer < 0 || (uint32_t)request->peer >= context->fabric.nranks)
        return TUG_ERR_INVALID;
    if (request->remote == NULL) {
        *local = (unsigned char *)(uintptr_t)request->payload;
        return request->bytes <= TUG_AM_MAX_PAYLOAD && (*local != NULL || request->bytes == 0) &&
                       request->answer_bytes <= TUG_AM_MAX_PAYLOAD &&
                       (request->answer != NULL || request->answer_bytes == 0)
                   ? 0
                   : TUG_ERR_INVALID;
    }
    if (request->remote->key == NULL)
        return TUG_ERR_KEY;
    if (is_atomic(request->kind)) {
        if ((request->bytes != 4 && request->bytes != 8) ||
            (request->kind == TUG_OPERATION_FETCH && request->op > TUG_SWAP) ||
            (request->remote->key->word[2] + request->remote->offset) % request->bytes != 0)
            return TUG_ERR_INVALID;
    }
    return check_local(context, request, local);
}

/* ---- memory in reach ---- */

/* Where the remote memory is in this process; NULL: not in reach, or the key is wrong. */
static inline unsigned char *reach(const struct tug_context *context,
                                   const struct request *request) {
    return tug_fabric_address(&context->fabric, request->remote->key, (uint32_t)request->peer,
                              request->remote->offset, request->bytes);
}

static inline void copy(unsigned char *to, const unsigned char *from, size_t bytes) {
    if (bytes == 8)
        memcpy(to, from, 8);
    else if (bytes > 0)
        memmove(to, from, bytes);
}

static inline void do_here(unsigned kind, unsigned op, unsigned char *reached, unsigned char *local,
                           size_t bytes, uint64_t operand, uint64_t compare) {
    uint64_t old;
    switch (kind) {
    case TUG_OPERATION_READ:
        copy(local, reached, bytes);
        return;
    case TUG_OPERATION_WRITE:
        copy(reached, local, bytes);
        return;
    case TUG_OPERATION_FETCH:
        old = tug_atomic_fetch(reached, (unsigned)bytes, op, operand);
        break;
    default:
        old = tug_atomic_compare(reached, (unsigned)bytes, compare, operand);
        break;
    }
    if (local != NULL)
        tug_atomic_result(local, (unsigned)bytes, old);
}

enum tug_shortcut tug_context_shortcut(struct tug_context *context, uint32_t peer,
                                       const struct tug_key *key) {
    const struct tug_fabric *fabric = &context->fabric;
    if ((peer == fabric->rank && (fabric->ways & TUG_WAY_SELF)) ||
        ((fabric->ways & TUG_WAY_MAPPED) && tug_mapped_address(fabric, key, peer, 0, 0) != NULL))
        return TUG_SHORTCUT_ANY;
    return (fabric->ways & TUG_WAY_CMA) && tug_fabric_attachable(fabric, key, peer)
               ? TUG_SHORTCUT_SINGLE
               : TUG_SHORTCUT_NONE;
}

/* ---- memory of the node ---- */

bool tug_peer_serves(const struct tug_context *context, uint32_t process) {
    const struct tug_fabric *fabric = &context->fabric;
    const uint32_t node_rank = tug_fabric_node_rank(fabric, process);
    return (fabric->ways & TUG_WAY_SHM) && node_rank != TUG_ELSEWHERE &&
           !fabric->team->oversubscribed &&
           tug_node_page_served(fabric->team->neighbours[node_rank]->page);
}

void tug_context_pass(const struct tug_context *context) {
    const struct tug_lone *lone = context->fabric.lone;
    if (lone != NULL && tug_engine_come_again() && tug_lone_has_come(lone))
        tug_engine_look_by();
}

bool tug_reach_possible(const tug_context *context, uint32_t process) {
    const struct tug_fabric *fabric = &context->fabric;
    return (fabric->ways & (TUG_WAY_MAPPED | TUG_WAY_CMA)) &&
           tug_fabric_node_rank(fabric, process) != TUG_ELSEWHERE;
}

bool tug_reach_begin(const tug_context *context, const struct tug_key *key, uint32_t owner,
                     uint64_t offset, uint64_t bytes, struct tug_reach *reach) {
    return tug_fabric_reach(&context->fabric, key, owner, offset, bytes, reach);
}

_Thread_local struct tug_burst tug_burst;

/* Is a call of cross-memory attach better than packets? */
static bool is_worth_a_call(const struct tug_context *context, const struct request *request) {
    if (request->bytes >= TUG_CMA_LEAST_SERVED)
        return true;
    if (tug_burst.peers_come && request->bytes < TUG_CMA_LEAST_COMING)
        return false;
    /* in allocated memory integers come as a whole, which the kernel does not promise */
    const bool single = tug_burst_is_single() && tug_key_segment(request->remote->key) == 0;
    return (single || request->bytes >= TUG_CMA_LEAST) &&
           !tug_peer_serves(context, (uint32_t)request->peer);
}

/* Shall this operation on memory that is not mapped be one? Counts it. */
static inline bool takes_a_call(const struct tug_context *context, const struct request *request) {
    const bool worth = !is_atomic(request->kind) && is_worth_a_call(context, request);
    tug_burst_add();
    return worth;
}

/* By loads and stores, or by cross-memory attach. False: it is for packets, nothing happened. The
 * key is right. */
static bool do_there(struct tug_context *context, const struct request *request,
                     unsigned char *local, int *status) {
    const struct tug_key *key = request->remote->key;
    const uint32_t owner = (uint32_t)request->peer;
    struct tug_reach there;
    const bool attached = tug_fabric_only_attachable(&context->fabric, key, owner);
    if (attached && !takes_a_call(context, request))
        return false; /* soon: most that goes to a peer that looks is such */
    if (!tug_fabric_reach(&context->fabric, key, owner, request->remote->offset, request->bytes,
                          &there))
        return false;
    const bool here = there.mapped != NULL;
    const bool done = here || attached || takes_a_call(context, request);
    *status = 0;
    if (here) {
        do_here(request->kind, request->op, there.mapped, local, request->bytes, request->operand,
                request->compare);
        tug_stat_add(TUG_STAT_MAPPED, 1);
    } else if (done) {
        *status = request->kind == TUG_OPERATION_READ
                      ? tug_reach_read(&there, local, request->bytes)
                      : tug_reach_write(&there, local, request->bytes);
    }
    tug_reach_end(&there);
    return done;
}

/* ---- by itself to a process of the node ---- */

_Static_assert(TUG_ALONE_MOST <= TUG_LONE_READ_MOST && TUG_ALONE_MOST <= TUG_LONE_WRITE_MOST &&
                   TUG_AM_MAX_PAYLOAD <= TUG_LONE_READ_MOST &&
                   TUG_LONE_READS * TUG_READ_TOGETHER_MOST <= TUG_LONE_READ_MOST &&
                   TUG_READ_TOGETHER_MOST <= UINT8_MAX,
               "there is room for them");

/* May it, as the next of its burst? Its end only counts: whoever looks first tells it, beside the
 * holder of the baton. What is read comes into the program's memory, which stays: nothing says that
 * it is in use. */
static inline bool may_go_alone(const struct tug_context *context, const struct request *request) {
    if (context->fabric.lone == NULL || request->bytes > TUG_ALONE_MOST ||
        request->on_complete->f != tug_counter_add)
        return false;
    if (request->kind == TUG_OPERATION_WRITE)
        return request->op == 0 && (request->bytes >= TUG_ALONE_LEAST || tug_burst_is_single());
    return request->kind == TUG_OPERATION_READ &&
           request->local->registration == &context->everything;
}

/* False: it goes another way, nothing happened. */
static bool go_alone(struct tug_context *context, const struct request *request,
                     unsigned char *local) {
    struct tug_fabric *fabric = &context->fabric;
    const uint32_t peer = (uint32_t)request->peer;
    const uint64_t key = request->remote->key->word[0], offset = request->remote->offset;
    if (request->kind == TUG_OPERATION_READ)
        return tug_lone_read(fabric, peer, key, offset, local, (uint32_t)request->bytes,
                             *request->on_complete);
    return tug_lone_write(fabric, peer, key, offset, local, (uint32_t)request->bytes,
                          request->on_local, *request->on_complete);
}

bool tug_context_write_alone(struct tug_context *context, uint32_t process,
                             const struct tug_key *key, uint64_t offset, const void *from,
                             size_t bytes, struct tug_callback on_complete) {
    return tug_lone_write(&context->fabric, process, key->word[0], offset, from, (uint32_t)bytes,
                          &nothing, on_complete);
}

bool tug_context_read_alone(struct tug_context *context, uint32_t process,
                            const struct tug_key *key, uint64_t offset, void *to, size_t bytes,
                            struct tug_callback on_complete) {
    return tug_lone_read(&context->fabric, process, key->word[0], offset, to, (uint32_t)bytes,
                         on_complete);
}

bool tug_context_message_alone(struct tug_context *context, uint32_t process, unsigned handler,
                               const void *payload, size_t bytes, struct tug_callback on_complete) {
    return tug_lone_message(&context->fabric, process, handler, payload, (uint32_t)bytes,
                            on_complete);
}

bool tug_context_call_alone(struct tug_context *context, uint32_t process, unsigned handler,
                            const void *payload, size_t bytes, void *answer, size_t answer_bytes,
                            struct tug_callback on_complete) {
    return tug_lone_call(&context->fabric, process, handler, payload, (uint32_t)bytes, answer,
                         (uint32_t)answer_bytes, on_complete);
}

/* ---- the transports' way ---- */

#define DO_HERE 8 /* in scratch: address lies in this process */

static void fill(struct tug_operation *operation, const struct request *request,
                 unsigned char *local, unsigned char *reached) {
    operation->on_complete = *request->on_complete;
    operation->on_local = *request->on_local;
    operation->peer = (uint32_t)request->peer;
    operation->bytes = request->bytes;
    operation->status = 0;
    operation->op = request->op;
    operation->local = local;
    struct tug_registration *registration = NULL;
    if (request->remote != NULL) {
        const struct tug_key *key = request->remote->key;
        operation->key = key->word[0];
        operation->offset = request->remote->offset;
        operation->address = key->word[2] + request->remote->offset;
        operation->rkey = (uint32_t)key->word[4];
        registration = request->local->registration;
    } else {
        operation->address = (uint64_t)(uintptr_t)request->answer;
        operation->offset = request->answer_bytes;
    }
    if (is_atomic(request->kind) || request->kind == TUG_OPERATION_LONG_AM) {
        operation->operand = request->operand;
        operation->compare = request->compare;
    } else if (request->kind != TUG_OPERATION_READ && request->bytes <= TUG_OPERATION_INLINE &&
               reached == NULL) {
        copy(operation->data, local, request->bytes);
        operation->local = NULL;
        registration = NULL;
    }
    operation->scratch = 0;
    if (reached != NULL) {
        operation->address = (uint64_t)(uintptr_t)reached;
        operation->scratch = DO_HERE;
    }
    operation->registration = registration;
    operation->kind = request->kind;
}

/* The operation is out from now on. Holder only. */
static inline void begin(struct tug_fabric *fabric, struct tug_operation *operation) {
    fabric->out++;
    if (operation->registration != NULL)
        operation->registration->users++;
    tug_stat_add(TUG_STAT_OPERATIONS, 1);
}

/* Holder only. */
static void post(struct tug_context *context, struct tug_operation *operation) {
    struct tug_fabric *fabric = &context->fabric;
    begin(fabric, operation);
    if (__builtin_expect(operation->scratch == DO_HERE, 0)) {
        do_here(operation->kind, operation->op, (unsigned char *)(uintptr_t)operation->address,
                operation->local, operation->bytes, operation->operand, operation->compare);
        tug_fabric_complete(fabric, operation);
        return;
    }
    tug_fabric_post(fabric, operation);
}

static void execute_post(struct tug_command *command) {
    struct tug_context *context = command->payload.pointers[0];
    post(context, command->payload.pointers[1]);
    if (!context->service.was_busy)
        tug_engine_service_changed(&context->service);
}

static void execute_nothing(struct tug_command *command) {
    (void)command;
}

/* The holder has posted an operation of its own: the batch ends. Now and then a look for answers
 * keeps the table from filling up. More operations are coming, and a packet that is not full waits
 * for them; if none come, the offload thread's next beat sends it. */
static inline void after_post(struct tug_context *context) {
    if (++context->posts >= POSTS_A_POLL) {
        tug_engine_look(true);
        return;
    }
    context->fabric.more_comes = tug_burst.gathers || tug_burst.pieces;
    tug_context_flush(context);
    context->fabric.more_comes = false;
}

/* A write like the one before it needs no operation of its own. Holder only. */
static inline bool write_on(struct tug_context *context, const struct request *request,
                            const unsigned char *local, const unsigned char *reached) {
    if (request->kind != TUG_OPERATION_WRITE || request->bytes > TUG_OPERATION_INLINE ||
        request->on_complete->f != tug_counter_add || request->on_local->f != NULL ||
        reached != NULL ||
        !tug_packets_write_on(context->fabric.packets, (uint32_t)request->peer,
                              request->remote->key->word[0], request->remote->offset, local,
                              request->bytes, request->on_complete->d))
        return false;
    tug_stat_add(TUG_STAT_OPERATIONS, 1);
    if (++context->posts >= POSTS_A_POLL)
        tug_engine_look(true);
    return true;
}

/* Takes a tag and hands the operation to its transport. False: all are out. Holder only. */
static bool post_in_hand(struct tug_context *context, const struct request *request,
                         unsigned char *local, unsigned char *reached) {
    struct tug_fabric *fabric = &context->fabric;
    uint32_t tag;
    if (!tug_tags_take_in_hand(&fabric->tags, &tag))
        return false;
    struct tug_operation *operation = &fabric->operations[tag];
    fill(operation, request, local, reached);
    post(context, operation);
    return true;
}

static bool start_noted(struct tug_context *context, const struct request *request,
                        const void *data) {
    if (!post_in_hand(context, request, (unsigned char *)(uintptr_t)data, NULL))
        return false;
    if (!context->service.was_busy)
        tug_engine_service_changed(&context->service);
    return true;
}

bool tug_context_write_noted(struct tug_context *context, uint32_t peer, const struct tug_key *key,
                             uint64_t offset, const void *data, size_t bytes,
                             struct tug_counter *counter) {
    if (tug_packets_write_on(context->fabric.packets, peer, key->word[0], offset, data, bytes,
                             counter)) {
        tug_stat_add(TUG_STAT_OPERATIONS, 1);
        return true;
    }
    const struct tug_callback counts = {tug_counter_add, counter};
    const struct tug_remote_address remote = {key, offset};
    const struct tug_local_address local = {&context->everything, (size_t)(uintptr_t)data};
    const struct request request = {.kind = TUG_OPERATION_WRITE,
                                    .peer = (int)peer,
                                    .remote = &remote,
                                    .local = &local,
                                    .bytes = bytes,
                                    .on_local = &nothing,
                                    .on_complete = &counts};
    return start_noted(context, &request, data);
}

uint32_t tug_context_write_run(struct tug_context *context, uint32_t peer,
                               const struct tug_key *key, uint64_t offset, const unsigned char *run,
                               uint32_t n, size_t bytes, struct tug_counter *counter) {
    if (tug_lone_write_run(&context->fabric, peer, key->word[0], offset, run, n, (uint32_t)bytes,
                           counter))
        return n;
    for (uint32_t i = 0; i < n; i++, run += tug_run_step(bytes)) {
        int32_t distance;
        memcpy(&distance, run, sizeof(distance));
        if (!tug_context_write_noted(context, peer, key, offset + (uint64_t)(int64_t)distance,
                                     run + sizeof(distance), bytes, counter))
            return i;
    }
    return n;
}

/* One of a run, in a packet. */
static bool read_noted(struct tug_context *context, uint32_t peer, const struct tug_key *key,
                       uint64_t offset, unsigned char *to, size_t bytes,
                       struct tug_counter *counter) {
    const struct tug_callback counts = {tug_counter_add, counter};
    const struct tug_remote_address remote = {key, offset};
    const struct tug_local_address local = {&context->everything, (size_t)(uintptr_t)to};
    const struct request request = {.kind = TUG_OPERATION_READ,
                                    .peer = (int)peer,
                                    .remote = &remote,
                                    .local = &local,
                                    .bytes = bytes,
                                    .on_local = &nothing,
                                    .on_complete = &counts};
    return start_noted(context, &request, to);
}

uint32_t tug_context_read_run(struct tug_context *context, uint32_t peer, const struct tug_key *key,
                              uint64_t offset, const unsigned char *run, uint32_t n, size_t bytes,
                              struct tug_counter *counter) {
    const size_t step = tug_run_step(sizeof(unsigned char *));
    uint32_t done = 0;
    while (done < n) {
        const uint32_t now = n - done < TUG_LONE_READS ? n - done : TUG_LONE_READS;
        if (!tug_lone_read_run(&context->fabric, peer, key->word[0], offset, run + done * step, now,
                               (uint32_t)bytes, counter))
            break;
        done += now;
    }
    for (; done < n; done++) {
        const unsigned char *at = run + done * step;
        int32_t distance;
        unsigned char *to;
        memcpy(&distance, at, sizeof(distance));
        memcpy(&to, at + sizeof(distance), sizeof(to));
        if (!read_noted(context, peer, key, offset + (uint64_t)(int64_t)distance, to, bytes,
                        counter))
            break;
    }
    return done;
}

bool tug_context_message_noted(struct tug_context *context, uint32_t peer, unsigned handler,
                               const void *payload, size_t bytes, struct tug_counter *counter) {
    if (tug_packets_message_on(context->fabric.packets, peer, handler, payload, bytes, counter)) {
        tug_stat_add(TUG_STAT_OPERATIONS, 1);
        return true;
    }
    const struct tug_callback counts = {tug_counter_add, counter};
    const struct request request = {.kind = TUG_OPERATION_AM,
                                    .op = (uint8_t)handler,
                                    .peer = (int)peer,
                                    .payload = payload,
                                    .bytes = bytes,
                                    .on_local = &nothing,
                                    .on_complete = &counts};
    return start_noted(context, &request, payload);
}

static bool submit(struct tug_context *context, const struct request *request, unsigned char *local,
                   unsigned char *reached) {
    struct tug_fabric *fabric = &context->fabric;
    struct tug_ticket ticket;
    uint32_t tag;
    enum tug_entry entry = tug_engine_enter(&ticket);
    if (entry == TUG_ENTRY_FULL)
        return false;
    if (entry == TUG_ENTRY_BATON) {
        bool room = true;
        if (!write_on(context, request, local, reached)) {
            room = post_in_hand(context, request, local, reached);
            if (room)
                after_post(context);
            else
                tug_engine_look(false);
            if (!context->service.was_busy)
                tug_engine_service_changed(&context->service);
        }
        tug_engine_leave();
        return room;
    }
    bool room = tug_tags_take(&fabric->tags, &tag);
    struct tug_operation *operation = room ? &fabric->operations[tag] : NULL;
    if (room)
        fill(operation, request, local, reached);
    ticket.cell->execute = room ? execute_post : execute_nothing;
    ticket.cell->payload.pointers[0] = context;
    ticket.cell->payload.pointers[1] = operation;
    tug_engine_commit(&ticket);
    return room;
}

/* ---- writes with a signal ---- */

/* The write is over, behind which no packet with its signal could be sent. left: the fabric. Holder
 * only. */
static void raise_signal(void *pointer, int status) {
    struct tug_operation *signal = pointer;
    struct tug_fabric *fabric = (struct tug_fabric *)(uintptr_t)signal->left;
    if (status == 0) {
        tug_packets_post(fabric->packets, signal);
        return;
    }
    signal->status = (int8_t)status;
    tug_fabric_complete(fabric, signal);
}

/* Where both go in packets, in one or in a row, the peer sees to their order; the signal's end
 * tells of both. Holder only. */
static void post_pair(struct tug_context *context, struct tug_operation *write,
                      struct tug_operation *signal) {
    struct tug_fabric *fabric = &context->fabric;
    void *state;
    begin(fabric, write);
    begin(fabric, signal);
    if (tug_fabric_route(fabric, write, 0, &state) == NULL &&
        tug_packets_keep_order(fabric->packets, write)) {
        tug_packets_post(fabric->packets, write);
        tug_packets_post(fabric->packets, signal);
        return;
    }
    write->op = 0;
    write->on_complete = (struct tug_callback){raise_signal, signal};
    signal->left = (uintptr_t)fabric;
    tug_fabric_post(fabric, write);
}

static void execute_pair(struct tug_command *command) {
    struct tug_context *context = command->payload.pointers[0];
    post_pair(context, command->payload.pointers[1], command->payload.pointers[2]);
    if (!context->service.was_busy)
        tug_engine_service_changed(&context->service);
}

/* The one tag that was taken for a pair goes back. */
static void execute_give(struct tug_command *command) {
    struct tug_context *context = command->payload.pointers[0];
    tug_tags_give(&context->fabric.tags,
                  tug_fabric_tag(&context->fabric, command->payload.pointers[1]));
}

/* Two tags, or as many as there are. in_hand: by the holder. */
static unsigned take_tags(struct tug_tags *tags, bool in_hand, uint32_t taken[2]) {
    bool (*take)(struct tug_tags *, uint32_t *) = in_hand ? tug_tags_take_in_hand : tug_tags_take;
    unsigned n = 0;
    while (n < 2 && take(tags, &taken[n]))
        n++;
    return n;
}

static bool submit_pair(struct tug_context *context, const struct request *write,
                        const struct request *signal, unsigned char *local,
                        unsigned char *payload) {
    struct tug_operation *operations = context->fabric.operations;
    struct tug_ticket ticket;
    uint32_t tags[2] = {0};
    const enum tug_entry entry = tug_engine_enter(&ticket);
    if (entry == TUG_ENTRY_FULL)
        return false;
    const unsigned taken = take_tags(&context->fabric.tags, entry == TUG_ENTRY_BATON, tags);
    const bool room = taken == 2;
    if (room) {
        fill(&operations[tags[0]], write, local, NULL);
        fill(&operations[tags[1]], signal, payload, NULL);
    }
    if (entry != TUG_ENTRY_BATON) { /* the holder alone gives tags back */
        ticket.cell->execute = room ? execute_pair : taken == 1 ? execute_give : execute_nothing;
        ticket.cell->payload.pointers[0] = context;
        ticket.cell->payload.pointers[1] = &operations[tags[0]];
        ticket.cell->payload.pointers[2] = &operations[tags[1]];
        tug_engine_commit(&ticket);
        return room;
    }
    if (room) {
        post_pair(context, &operations[tags[0]], &operations[tags[1]]);
        after_post(context);
    } else {
        if (taken == 1)
            tug_tags_give(&context->fabric.tags, tags[0]);
        tug_engine_look(false);
    }
    if (!context->service.was_busy)
        tug_engine_service_changed(&context->service);
    tug_engine_leave();
    return room;
}

/* The caller does the write at once, if it can. */
static bool write_here(struct tug_context *context, const struct request *write,
                       unsigned char *local, int *status) {
    unsigned char *reached = reach(context, write);
    *status = 0;
    if (reached == NULL)
        return do_there(context, write, local, status);
    copy(reached, local, write->bytes);
    tug_stat_add(TUG_STAT_MAPPED, 1);
    return true;
}

static int check_signal(const struct tug_context *context, const struct request *signal,
                        unsigned char **payload) {
    if (signal->remote == NULL && signal->bytes > TUG_SIGNAL_MAX_PAYLOAD)
        return TUG_ERR_INVALID;
    const int status = check(context, signal, payload);
    return status != 0 || signal->remote == NULL
               ? status
               : tug_key_allows(signal->remote->key, context->fabric.id, (uint32_t)signal->peer,
                                signal->remote->offset, signal->bytes);
}

bool tug_try_write_signal_async(tug_context *context,
                                const struct tug_write_signal_params *params) {
    static const struct tug_local_address nowhere;
    const bool message = params->signal_raddr.key == NULL;
    const struct request write = {.kind = TUG_OPERATION_WRITE,
                                  .op = 1,
                                  .peer = params->dest_proc,
                                  .remote = &params->dest_raddr,
                                  .local = &params->src_laddr,
                                  .bytes = params->size_in_bytes,
                                  .on_local = &params->on_local,
                                  .on_complete = &nothing};
    struct request signal = {.kind = message ? TUG_OPERATION_SIGNAL_AM : TUG_OPERATION_SIGNAL,
                             .op = message ? (uint8_t)params->handler : 0,
                             .peer = params->dest_proc,
                             .remote = message ? NULL : &params->signal_raddr,
                             .local = message ? NULL : &nowhere,
                             .payload = params->payload,
                             .bytes = message ? params->payload_in_bytes : sizeof(uint64_t),
                             .operand = params->value,
                             .on_local = &nothing,
                             .on_complete = &params->on_complete};
    const struct request both = {.peer = params->dest_proc,
                                 .on_local = &params->on_local,
                                 .on_complete = &params->on_complete};
    unsigned char *local, *payload;
    int status = message && params->handler >= TUG_AM_HANDLERS ? TUG_ERR_INVALID
                                                               : check(context, &write, &local);
    if (status == 0)
        status = check_signal(context, &signal, &payload);
    if (status == 0)
        status = tug_key_allows(write.remote->key, context->fabric.id, (uint32_t)write.peer,
                                write.remote->offset, write.bytes);
    if (status != 0)
        return fail(&both, status);
    if (!write_here(context, &write, local, &status))
        return submit_pair(context, &write, &signal, local, payload);
    if (status != 0)
        return fail(&both, status);
    signal.on_local = &params->on_local; /* false below, and the write is done anew */
    return submit(context, &signal, payload, NULL);
}

/* A short write that only counts, one of many, to memory that only packets reach. */
struct noted_write {
    struct tug_context *context;
    struct tug_counter *counter;
    uint64_t key, offset;
    uint32_t peer, bytes;
    unsigned char data[16];
};
_Static_assert(sizeof(struct noted_write) <= TUG_NOTE_PAYLOAD, "it fits a note");

static bool execute_write(const struct tug_note *note) {
    const struct noted_write *noted = (const struct noted_write *)note->payload.bytes;
    const struct tug_key key = {.word = {[0] = noted->key}};
    return tug_context_write_noted(noted->context, noted->peer, &key, noted->offset, noted->data,
                                   noted->bytes, noted->counter);
}

/* False: it has not been noted. */
static inline bool note_write(struct tug_context *context, const struct request *request,
                              const unsigned char *local, const unsigned char *reached) {
    if (request->kind != TUG_OPERATION_WRITE || request->bytes - 1 >= 16 || reached != NULL ||
        request->on_local->f != NULL || request->on_complete->f != tug_counter_add || depth > 0 ||
        context->fabric.ntakers > 0 || tug_engine_driving())
        return false;
    struct tug_note *note = tug_note_begin(TUG_NOTE_PROMPT);
    if (note == NULL)
        return false;
    struct noted_write *noted = (struct noted_write *)note->payload.bytes;
    note->execute = execute_write;
    noted->context = context;
    noted->counter = request->on_complete->d;
    noted->key = request->remote->key->word[0];
    noted->offset = request->remote->offset;
    noted->peer = (uint32_t)request->peer;
    noted->bytes = (uint32_t)request->bytes;
    copy(noted->data, local, request->bytes);
    tug_note_end();
    return true;
}

/* ---- the calls ---- */

static bool take_way(struct tug_context *context, const struct request *request,
                     unsigned char *local, unsigned char *reached) {
    if (request->remote != NULL && reached == NULL) {
        const struct tug_remote_address *remote = request->remote;
        int status = tug_key_allows(remote->key, context->fabric.id, (uint32_t)request->peer,
                                    remote->offset, request->bytes);
        if (status != 0)
            return fail(request, status);
        const bool alone = may_go_alone(context, request);
        if (depth < DEPTH_MOST && do_there(context, request, local, &status))
            return finish(request, status);
        if (alone && go_alone(context, request, local))
            return true;
    }
    return note_write(context, request, local, reached) || submit(context, request, local, reached);
}

static inline __attribute__((always_inline)) bool start(struct tug_context *context,
                                                        const struct request *request) {
    unsigned char *local, *reached = NULL;
    int status = check(context, request, &local);
    if (__builtin_expect(status != 0, 0))
        return fail(request, status);
    if (request->remote != NULL) {
        reached = reach(context, request);
        if (__builtin_expect(reached != NULL && depth < DEPTH_MOST, 1)) {
            do_here(request->kind, request->op, reached, local, request->bytes, request->operand,
                    request->compare);
            tug_stat_add(TUG_STAT_MAPPED, 1);
            return finish(request, 0);
        }
    }
    return take_way(context, request, local, reached);
}

bool tug_try_read_async(tug_context *context, const struct tug_read_params *params) {
    const struct request request = {.kind = TUG_OPERATION_READ,
                                    .peer = params->src_proc,
                                    .remote = &params->src_raddr,
                                    .local = &params->dest_laddr,
                                    .bytes = params->size_in_bytes,
                                    .on_local = &nothing,
                                    .on_complete = &params->on_complete};
    return start(context, &request);
}

bool tug_try_write_async(tug_context *context, const struct tug_write_params *params) {
    const struct request request = {.kind = TUG_OPERATION_WRITE,
                                    .peer = params->dest_proc,
                                    .remote = &params->dest_raddr,
                                    .local = &params->src_laddr,
                                    .bytes = params->size_in_bytes,
                                    .on_local = &params->on_local,
                                    .on_complete = &params->on_complete};
    return start(context, &request);
}

bool tug_try_fetch_and_op_async(tug_context *context,
                                const struct tug_fetch_and_op_params *params) {
    const struct request request = {.kind = TUG_OPERATION_FETCH,
                                    .op = (unsigned)params->op <= TUG_SWAP ? (uint8_t)params->op
                                                                           : UINT8_MAX,
                                    .peer = params->dest_proc,
                                    .remote = &params->dest_raddr,
                                    .local = &params->result_laddr,
                                    .bytes = params->size_in_bytes,
                                    .operand = params->operand,
                                    .on_local = &nothing,
                                    .on_complete = &params->on_complete};
    return start(context, &request);
}

bool tug_try_compare_and_swap_async(tug_context *context,
                                    const struct tug_compare_and_swap_params *params) {
    const struct request request = {.kind = TUG_OPERATION_COMPARE,
                                    .peer = params->dest_proc,
                                    .remote = &params->dest_raddr,
                                    .local = &params->result_laddr,
                                    .bytes = params->size_in_bytes,
                                    .operand = params->desired,
                                    .compare = params->expected,
                                    .on_local = &nothing,
                                    .on_complete = &params->on_complete};
    return start(context, &request);
}

bool tug_try_am_async(tug_context *context, const struct tug_am_params *params) {
    const struct request request = {.kind = TUG_OPERATION_AM,
                                    .op = (uint8_t)params->handler,
                                    .peer = params->dest_proc,
                                    .payload = params->payload,
                                    .bytes = params->size_in_bytes,
                                    .on_local = &params->on_local,
                                    .on_complete = &params->on_complete};
    if (params->handler >= TUG_AM_HANDLERS)
        return fail(&request, TUG_ERR_INVALID);
    return start(context, &request);
}

bool tug_try_call_async(tug_context *context, const struct tug_call_params *params) {
    const struct request request = {.kind = TUG_OPERATION_CALL,
                                    .op = (uint8_t)params->handler,
                                    .peer = params->dest_proc,
                                    .payload = params->payload,
                                    .bytes = params->size_in_bytes,
                                    .answer = params->answer,
                                    .answer_bytes = params->answer_in_bytes,
                                    .on_local = &params->on_local,
                                    .on_complete = &params->on_complete};
    if (params->handler >= TUG_AM_HANDLERS)
        return fail(&request, TUG_ERR_INVALID);
    return start(context, &request);
}

bool tug_context_long_message(tug_context *context, const struct tug_long_message *message) {
    const struct request request = {.kind = TUG_OPERATION_LONG_AM,
                                    .op = (uint8_t)message->handler,
                                    .peer = message->dest_proc,
                                    .bytes = message->bytes,
                                    .answer_bytes = message->element,
                                    .operand = message->head[0],
                                    .compare = message->head[1],
                                    .on_local = &message->on_local,
                                    .on_complete = &message->on_complete};
    return submit(context, &request, (unsigned char *)(uintptr_t)message->data, NULL);
}

void tug_answer(tug_context *context, struct tug_caller caller, const void *answer,
                size_t size_in_bytes) {
    if (caller.tag & TUG_LONE_CALLER)
        tug_lone_answer(&context->fabric, caller, 0, answer, size_in_bytes);
    else
        tug_packets_reply(context->fabric.packets, caller, 0, answer, size_in_bytes);
}
