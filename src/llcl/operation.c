/* The try_ calls.
 *
 * An operation on memory in reach (mapped, or this process's own) is done at once by the caller;
 * so are, by cross-memory attach, blocks in the memory of a process of the node, and small
 * ones that are single. Long ones of both kinds go to the engine, see copies.h. Everything else
 * goes to a transport, see submit.c.
 *
 * Callbacks start operations, whose callbacks start operations: the stack would grow where
 * everything is done at once. From DEPTH_MOST on such operations are queued like others.
 */
#include <string.h>

#include "base/log.h"
#include "base/stats.h"
#include "base/system_page.h"
#include "llcl/copies.h"
#include "llcl/long.h"
#include "llcl/try.h"
#include "node/page.h"
#include "node/team.h"
#include "transport/lone.h"
#include "transport/packets/packets.h"

#define DEPTH_MOST 8

static _Thread_local unsigned depth; /* of callbacks, on this thread */

/* ---- ending at once ---- */

static inline void call_back(const struct tug_callback *callback, int status) {
    if (callback->f != NULL)
        callback->f(callback->d, status);
}

static inline bool finish(const struct tug_try *request, int status) {
    depth++;
    call_back(request->on_local, status);
    call_back(request->on_complete, status);
    depth--;
    return true;
}

static __attribute__((noinline)) bool fail(const struct tug_try *request, int status) {
    if (request->on_complete->f == NULL)
        tug_log(TUG_LOG_ERROR,
                "an operation on process %d fails, and nobody is told because it was started "
                "without on_complete: %s; give it one",
                request->peer, tug_strerror(status));
    return finish(request, status);
}

/* ---- checks ---- */

/* Sets *local to the local memory (NULL: none is needed). */
static inline int check_local(const struct tug_context *context, const struct tug_try *request,
                              unsigned char **local) {
    const struct tug_registration *registration = request->local->registration;
    *local = NULL;
    if (registration == NULL)
        return tug_try_is_atomic(request->kind) || request->bytes == 0 ? 0 : TUG_ERR_INVALID;
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

static inline bool is_sound_message(const struct tug_try *request) {
    if (request->payload == NULL && request->bytes > 0)
        return false;
    if (request->kind == TUG_OPERATION_LONG_AM)
        return request->bytes <= TUG_AM_MAX_LONG;
    return request->bytes <= TUG_AM_MAX_PAYLOAD && request->answer_bytes <= TUG_AM_MAX_PAYLOAD &&
           (request->answer != NULL || request->answer_bytes == 0);
}

static inline int check(const struct tug_context *context, const struct tug_try *request,
                        unsigned char **local) {
    if (request->peer < 0 || (uint32_t)request->peer >= context->fabric.nranks)
        return TUG_ERR_INVALID;
    if (request->remote == NULL) {
        *local = (unsigned char *)(uintptr_t)request->payload;
        return is_sound_message(request) ? 0 : TUG_ERR_INVALID;
    }
    if (request->remote->key == NULL)
        return TUG_ERR_KEY;
    if (tug_try_is_atomic(request->kind)) {
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
                                   const struct tug_try *request) {
    return tug_fabric_address(&context->fabric, request->remote->key, (uint32_t)request->peer,
                              request->remote->offset, request->bytes);
}

bool tug_key_is_at_card(const struct tug_key *key) {
    uint32_t rkeys[TUG_RKEYS];
    tug_key_rkeys(key, rkeys);
    return rkeys[0] != 0;
}

/* Does the card do it? Inside a node there are shorter ways. */
static bool has_device(const struct tug_fabric *fabric, uint32_t peer, const struct tug_key *key) {
    return fabric->ntakers > 0 && tug_key_is_at_card(key) && !tug_fabric_has_inbox(fabric, peer);
}

enum tug_shortcut tug_context_shortcut(struct tug_context *context, uint32_t peer,
                                       const struct tug_key *key) {
    const struct tug_fabric *fabric = &context->fabric;
    if ((peer == fabric->rank && (fabric->ways & TUG_WAY_SELF)) ||
        ((fabric->ways & TUG_WAY_MAPPED) && tug_mapped_address(fabric, key, peer, 0, 0) != NULL))
        return TUG_SHORTCUT_ANY;
    if ((fabric->ways & TUG_WAY_CMA) && tug_fabric_attachable(fabric, key, peer))
        return TUG_SHORTCUT_SINGLE;
    return has_device(fabric, peer, key) ? TUG_SHORTCUT_DEVICE : TUG_SHORTCUT_NONE;
}

/* ---- memory of the node ---- */

bool tug_peer_comes(const struct tug_context *context, uint32_t process, uint64_t ns) {
    const struct tug_fabric *fabric = &context->fabric;
    const uint32_t node_rank = tug_fabric_node_rank(fabric, process);
    return (fabric->ways & TUG_WAY_SHM) && node_rank != TUG_ELSEWHERE &&
           !fabric->team->oversubscribed &&
           tug_node_page_served_within(fabric->team->neighbours[node_rank]->page, ns);
}

bool tug_peer_serves(const struct tug_context *context, uint32_t process) {
    return tug_peer_comes(context, process, 0);
}

static bool has_come(const void *lone) {
    return tug_lone_has_come(lone);
}

void tug_context_pass(const struct tug_context *context) {
    if (context->fabric.lone != NULL)
        tug_engine_come_again(has_come, context->fabric.lone);
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
static bool is_worth_a_call(const struct tug_context *context, const struct tug_try *request) {
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
static inline bool takes_a_call(const struct tug_context *context, const struct tug_try *request) {
    const bool worth = !tug_try_is_atomic(request->kind) && is_worth_a_call(context, request);
    tug_burst_add();
    return worth;
}

/* By loads and stores, or by cross-memory attach. False: it is for packets, nothing happened. The
 * key is right. */
static bool do_there(struct tug_context *context, const struct tug_try *request,
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
    bool done = here || attached || takes_a_call(context, request);
    *status = 0;
    if (here) {
        tug_try_do_here(request->kind, request->op, there.mapped, local, request->bytes,
                        request->operand, request->compare);
        tug_stat_add(TUG_STAT_MAPPED, 1);
    } else if (done) {
        *status = request->kind == TUG_OPERATION_READ
                      ? tug_reach_read(&there, local, request->bytes)
                      : tug_reach_write(&there, local, request->bytes);
        done = !tug_reach_is_protected(&there, *status, request->bytes);
    }
    tug_reach_end(&there);
    return done;
}

/* A word of 4 bytes that lies in the page of the address and completely inside the registration. If
 * there is none, the address itself. */
static uint64_t word_near(const struct tug_key *key, uint64_t address) {
    const uint64_t word = address & ~(uint64_t)3;
    if (word >= key->word[2])
        return word;
    return word + 4 - key->word[2] <= key->word[3] ? word + 4 : address;
}

bool tug_reach_touch(tug_context *context, const struct tug_reach *reach, const struct tug_key *key,
                     int owner, uint64_t address, void *here, bool writes) {
    struct tug_counter counter = {0};
    struct tug_reach there = *reach;
    uint64_t old;
    there.address = address;
    if (!tug_reach_is_protected(&there, TUG_ERR_RANGE, 1))
        return false;
    const struct tug_callback then = {tug_counter_add, &counter};
    const struct tug_local_address mine = {tug_context_everything(context), (uintptr_t)&old};
    const struct tug_fetch_and_op_params write = {
        .dest_proc = owner,
        .dest_raddr = {key, word_near(key, address) - key->word[2]},
        .size_in_bytes = 4,
        .op = TUG_OR,
        .on_complete = then};
    const struct tug_read_params read = {.src_proc = owner,
                                         .src_raddr = {key, address - key->word[2]},
                                         .dest_laddr = mine,
                                         .size_in_bytes = 1,
                                         .on_complete = then};
    while (!(writes ? tug_try_fetch_and_op_async(context, &write)
                    : tug_try_read_async(context, &read)))
        tug_progress(context);
    tug_page_access(here, !writes);
    return tug_counter_wait(context, &counter, 1) == 0;
}

/* Bytes of a copy between two others' memory that are worth two system calls. */
#define BOUNCE_BYTES 4096

bool tug_reach_copy(const struct tug_reach *to, const struct tug_reach *from, size_t bytes,
                    int *status) {
    unsigned char bounce[BOUNCE_BYTES];
    if (from->mapped != NULL) {
        *status = tug_reach_write(to, from->mapped, bytes);
        return !tug_reach_is_protected(to, *status, bytes);
    }
    if (to->mapped != NULL) {
        *status = tug_reach_read(from, to->mapped, bytes);
        return !tug_reach_is_protected(from, *status, bytes);
    }
    const bool worth = tug_burst_is_single() && bytes <= BOUNCE_BYTES;
    tug_burst_add();
    if (!worth)
        return false;
    *status = tug_reach_read(from, bounce, bytes);
    if (tug_reach_is_protected(from, *status, bytes))
        return false;
    if (*status == 0)
        *status = tug_reach_write(to, bounce, bytes);
    return !tug_reach_is_protected(to, *status, bytes);
}

/* ---- long copies, by the engine ---- */

static inline bool is_long(const struct tug_context *context, const struct tug_try *request) {
    return __builtin_expect(request->bytes > context->here_most, 0);
}

/* Is the memory of a long operation in reach? Sets what tug_copies_reach() has, and *reached. */
static bool reach_long(struct tug_context *context, struct tug_try *request,
                       unsigned char **reached) {
    const struct tug_key *key = request->remote->key;
    const uint32_t owner = (uint32_t)request->peer;
    struct tug_reach there = {.mapped = reach(context, request)};
    if (there.mapped == NULL) {
        if (tug_fabric_only_attachable(&context->fabric, key, owner) &&
            !takes_a_call(context, request))
            return false;
        if (!tug_fabric_reach(&context->fabric, key, owner, request->remote->offset, request->bytes,
                              &there))
            return false;
    }
    request->operand = (uintptr_t)there.entry;
    request->compare = there.mapped != NULL ? 0 : (uint64_t)there.pid;
    *reached = there.mapped != NULL ? there.mapped : (unsigned char *)(uintptr_t)there.address;
    return true;
}

/* There is no room for it. */
static void forget_long(const struct tug_try *request) {
    const struct tug_reach there = {.entry = (struct tug_live *)(uintptr_t)request->operand};
    tug_reach_end(&there);
}

/* False: it is not in reach, or (*full) there is no room. */
static __attribute__((noinline)) bool start_long(struct tug_context *context,
                                                 const struct tug_try *request,
                                                 unsigned char *local, bool *full) {
    struct tug_try copy = *request;
    unsigned char *reached;
    *full = false;
    if (!reach_long(context, &copy, &reached))
        return false;
    if (tug_try_submit(context, &copy, local, reached))
        return true;
    forget_long(&copy);
    *full = true;
    return false;
}

/* ---- writes with a signal ---- */

/* The caller does the write at once, if it can. */
static bool write_here(struct tug_context *context, const struct tug_try *write,
                       unsigned char *local, int *status) {
    unsigned char *reached = reach(context, write);
    *status = 0;
    if (reached == NULL)
        return do_there(context, write, local, status);
    tug_try_copy(reached, local, write->bytes);
    tug_stat_add(TUG_STAT_MAPPED, 1);
    return true;
}

static int check_signal(const struct tug_context *context, const struct tug_try *signal,
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
    struct tug_try write = {.kind = TUG_OPERATION_WRITE,
                            .op = TUG_WRITE_SIGNALLED | (params->late ? TUG_WRITE_LATE : 0),
                            .peer = params->dest_proc,
                            .remote = &params->dest_raddr,
                            .local = &params->src_laddr,
                            .bytes = params->size_in_bytes,
                            .on_local = &params->on_local,
                            .on_complete = &tug_no_callback};
    struct tug_try signal = {.kind = message ? TUG_OPERATION_SIGNAL_AM : TUG_OPERATION_SIGNAL,
                             .op = message ? (uint8_t)params->handler : 0,
                             .late = params->late,
                             .peer = params->dest_proc,
                             .remote = message ? NULL : &params->signal_raddr,
                             .local = message ? NULL : &nowhere,
                             .payload = params->payload,
                             .bytes = message ? params->payload_in_bytes : sizeof(uint64_t),
                             .operand = params->value,
                             .on_local = &tug_no_callback,
                             .on_complete = &params->on_complete};
    const struct tug_try both = {.peer = params->dest_proc,
                                 .on_local = &params->on_local,
                                 .on_complete = &params->on_complete};
    unsigned char *local, *reached, *payload;
    int status = message && params->handler >= TUG_AM_HANDLERS ? TUG_ERR_INVALID
                                                               : check(context, &write, &local);
    if (status == 0)
        status = check_signal(context, &signal, &payload);
    if (status == 0)
        status = tug_key_allows(write.remote->key, context->fabric.id, (uint32_t)write.peer,
                                write.remote->offset, write.bytes);
    if (status != 0)
        return fail(&both, status);
    if (is_long(context, &write) && reach_long(context, &write, &reached)) {
        const bool room = tug_try_submit_pair(context, &write, &signal, local, reached, payload);
        if (!room)
            forget_long(&write);
        return room;
    }
    if (is_long(context, &write) || !write_here(context, &write, local, &status))
        return tug_try_submit_pair(context, &write, &signal, local, NULL, payload);
    if (status != 0)
        return fail(&both, status);
    signal.on_local = &params->on_local; /* false below, and the write is done anew */
    return tug_try_submit(context, &signal, payload, NULL);
}

/* May a write wait for others, in a batch? It is short, and its end only counts. */
static inline bool may_be_batched(const struct tug_context *context, const struct tug_try *request,
                                  const unsigned char *reached) {
    return request->kind == TUG_OPERATION_WRITE && request->bytes - 1 < TUG_COPIED_MOST &&
           reached == NULL && request->on_local->f == NULL &&
           request->on_complete->f == tug_counter_add && depth == 0 &&
           context->fabric.ntakers == 0 && !tug_engine_driving();
}

/* ---- the calls ---- */

static bool take_way(struct tug_context *context, const struct tug_try *request,
                     unsigned char *local, unsigned char *reached) {
    if (request->remote != NULL && reached == NULL) {
        const struct tug_remote_address *remote = request->remote;
        int status = tug_key_allows(remote->key, context->fabric.id, (uint32_t)request->peer,
                                    remote->offset, request->bytes);
        if (status != 0)
            return fail(request, status);
        const bool few = tug_burst_is_single(); /* but for this one */
        if (!is_long(context, request) && depth < DEPTH_MOST &&
            do_there(context, request, local, &status))
            return finish(request, status);
        if (tug_try_alone(context, request, local, few))
            return true;
    }
    return (may_be_batched(context, request, reached) && tug_try_batch(context, request, local)) ||
           tug_try_submit(context, request, local, reached);
}

static inline __attribute__((always_inline)) bool start(struct tug_context *context,
                                                        const struct tug_try *request) {
    unsigned char *local, *reached = NULL;
    int status = check(context, request, &local);
    if (__builtin_expect(status != 0, 0))
        return fail(request, status);
    if (request->remote != NULL && is_long(context, request)) {
        bool full;
        if (start_long(context, request, local, &full))
            return true;
        if (full)
            return false;
    } else if (request->remote != NULL) {
        reached = reach(context, request);
        if (__builtin_expect(reached != NULL && depth < DEPTH_MOST, 1)) {
            tug_try_do_here(request->kind, request->op, reached, local, request->bytes,
                            request->operand, request->compare);
            tug_stat_add(TUG_STAT_MAPPED, 1);
            return finish(request, 0);
        }
    }
    return take_way(context, request, local, reached);
}

bool tug_try_read_async(tug_context *context, const struct tug_read_params *params) {
    const struct tug_try request = {.kind = TUG_OPERATION_READ,
                                    .peer = params->src_proc,
                                    .remote = &params->src_raddr,
                                    .local = &params->dest_laddr,
                                    .bytes = params->size_in_bytes,
                                    .on_local = &tug_no_callback,
                                    .on_complete = &params->on_complete};
    return start(context, &request);
}

bool tug_try_write_async(tug_context *context, const struct tug_write_params *params) {
    const struct tug_try request = {.kind = TUG_OPERATION_WRITE,
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
    const struct tug_try request = {.kind = TUG_OPERATION_FETCH,
                                    .op = (unsigned)params->op <= TUG_SWAP ? (uint8_t)params->op
                                                                           : UINT8_MAX,
                                    .peer = params->dest_proc,
                                    .remote = &params->dest_raddr,
                                    .local = &params->result_laddr,
                                    .bytes = params->size_in_bytes,
                                    .operand = params->operand,
                                    .on_local = &tug_no_callback,
                                    .on_complete = &params->on_complete};
    return start(context, &request);
}

bool tug_try_compare_and_swap_async(tug_context *context,
                                    const struct tug_compare_and_swap_params *params) {
    const struct tug_try request = {.kind = TUG_OPERATION_COMPARE,
                                    .peer = params->dest_proc,
                                    .remote = &params->dest_raddr,
                                    .local = &params->result_laddr,
                                    .bytes = params->size_in_bytes,
                                    .operand = params->desired,
                                    .compare = params->expected,
                                    .on_local = &tug_no_callback,
                                    .on_complete = &params->on_complete};
    return start(context, &request);
}

static __attribute__((noinline)) bool start_long_am(struct tug_context *context,
                                                    const struct tug_am_params *params) {
    const struct tug_try request = {.kind = TUG_OPERATION_LONG_AM,
                                    .op = TUG_PART_AM,
                                    .peer = params->dest_proc,
                                    .payload = params->payload,
                                    .bytes = params->size_in_bytes,
                                    .answer_bytes = 1, /* of an element: parts end anywhere */
                                    .operand = params->handler,
                                    .compare = params->size_in_bytes,
                                    .on_local = &params->on_local,
                                    .on_complete = &params->on_complete};
    if (params->handler >= TUG_AM_HANDLERS)
        return fail(&request, TUG_ERR_INVALID);
    return start(context, &request);
}

bool tug_context_card_atomic(tug_context *context, const struct tug_card_atomic *atomic) {
    static const struct tug_local_address nowhere;
    const struct tug_try request = {.kind = atomic->compares ? TUG_OPERATION_COMPARE
                                                             : TUG_OPERATION_FETCH,
                                    .op = atomic->loads ? TUG_ATOMIC_LOADS : TUG_ATOMIC_BY_CARD,
                                    .peer = atomic->process,
                                    .remote = &atomic->remote,
                                    .local = &nowhere,
                                    .bytes = 8,
                                    .operand = atomic->operand,
                                    .compare = atomic->compare,
                                    .on_local = &atomic->on_local,
                                    .on_complete = &atomic->on_complete};
    return tug_try_submit(context, &request, atomic->result, NULL);
}

bool tug_try_am_async(tug_context *context, const struct tug_am_params *params) {
    if (__builtin_expect(params->size_in_bytes > TUG_AM_MAX_PAYLOAD, 0))
        return start_long_am(context, params);
    const struct tug_try request = {.kind = TUG_OPERATION_AM,
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
    const struct tug_try request = {.kind = TUG_OPERATION_CALL,
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
    const struct tug_try request = {.kind = TUG_OPERATION_LONG_AM,
                                    .op = (uint8_t)message->handler,
                                    .peer = message->dest_proc,
                                    .bytes = message->bytes,
                                    .answer_bytes = message->element,
                                    .operand = message->head[0],
                                    .compare = message->head[1],
                                    .on_local = &message->on_local,
                                    .on_complete = &message->on_complete};
    return tug_try_submit(context, &request, (unsigned char *)(uintptr_t)message->data, NULL);
}

void tug_message_complain(int source, const char *what) {
    tug_log(TUG_LOG_ERROR,
            "rank %d sends %s that makes no sense here, and it is dropped: run the same version of "
            "the library on all ranks",
            source, what);
}

int tug_message_status(int source, const char *what, int32_t told, bool right) {
    if (told < 0 ? told >= TUG_ERR_DEVICE : told == 0 && right)
        return told;
    tug_message_complain(source, what);
    return TUG_ERR_INVALID;
}

void tug_answer(tug_context *context, struct tug_caller caller, const void *answer,
                size_t size_in_bytes) {
    if (caller.tag & TUG_LONE_CALLER)
        tug_lone_answer(&context->fabric, caller, 0, answer, size_in_bytes);
    else
        tug_packets_reply(context->fabric.packets, caller, 0, answer, size_in_bytes);
}
