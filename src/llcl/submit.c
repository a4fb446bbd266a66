/* The way of operations to their transports: tags, the ring, and what the holder of the baton does.
 */
#include "base/stats.h"
#include "llcl/copies.h"
#include "llcl/try.h"
#include "node/team.h"
#include "transport/packets/packets.h"

#define POSTS_A_POLL 512

_Static_assert(TUG_COPIED_MOST == TUG_OPERATION_INLINE, "what the operation has room for");

#define DO_HERE 8 /* in scratch: address lies in this process */

/* The key names a port: the operation goes by that one, if it is one that may. */
static void choose_port(struct tug_operation *operation, const struct tug_try *request,
                        const struct tug_key *key) {
    const uint32_t port = tug_key_port(key);
    uint32_t rkeys[TUG_RKEYS];
    tug_key_rkeys(key, rkeys);
    if ((request->kind != TUG_OPERATION_READ && request->kind != TUG_OPERATION_WRITE) ||
        request->op != 0 || request->bytes >= TUG_OPERATION_LONG || rkeys[port] == 0)
        return;
    operation->rkey = rkeys[port];
    operation->op = (uint8_t)(port << TUG_PORT_SHIFT);
}

static void fill(struct tug_operation *operation, const struct tug_try *request,
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
        if (__builtin_expect(tug_key_port(key) != 0, 0))
            choose_port(operation, request, key);
        registration = request->local->registration;
        if (request->bytes >= TUG_OPERATION_LONG)
            tug_key_rkeys(key, operation->rkeys);
    } else {
        operation->address = (uint64_t)(uintptr_t)request->answer;
        operation->offset = request->answer_bytes;
    }
    if (tug_try_is_atomic(request->kind) || request->kind == TUG_OPERATION_LONG_AM ||
        reached != NULL) {
        operation->operand = request->operand;
        operation->compare = request->compare;
    } else if (request->kind != TUG_OPERATION_READ && request->bytes <= TUG_OPERATION_INLINE &&
               reached == NULL) {
        tug_try_copy(operation->data, local, request->bytes);
        operation->local = NULL;
        registration = NULL;
    }
    operation->scratch = 0;
    if (reached != NULL) {
        operation->address = (uint64_t)(uintptr_t)reached;
        operation->scratch = DO_HERE;
    }
    if (request->kind >= TUG_OPERATION_SIGNAL)
        operation->rkey =
            (request->late ? TUG_SIGNAL_LATE : 0) | (tug_engine_in_job() ? TUG_SIGNAL_AT_ONCE : 0);
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
        if (operation->bytes > context->here_most) {
            tug_copies_add(context, operation);
            return;
        }
        tug_try_do_here(operation->kind, operation->op,
                        (unsigned char *)(uintptr_t)operation->address, operation->local,
                        operation->bytes, operation->operand, operation->compare);
        tug_fabric_complete(fabric, operation);
        return;
    }
    tug_fabric_post(fabric, operation);
}

static void execute_post(struct tug_command *command) {
    struct tug_context *context = command->payload.pointers[0];
    post(context, command->payload.pointers[1]);
    tug_engine_service_began(&context->service);
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

/* All tags are out: those of operations that rest come back when they are asked for. Holder only.
 */
static void make_room(struct tug_context *context) {
    const bool in_job = tug_engine_set_in_job(false);
    tug_context_ask(context);
    tug_engine_look(false);
    tug_context_look(context); /* it may be left alone otherwise */
    (void)tug_engine_set_in_job(in_job);
}

bool tug_try_post_in_hand(struct tug_context *context, const struct tug_try *request,
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

bool tug_try_submit(struct tug_context *context, const struct tug_try *request,
                    unsigned char *local, unsigned char *reached) {
    struct tug_fabric *fabric = &context->fabric;
    struct tug_ticket ticket;
    uint32_t tag;
    enum tug_entry entry = tug_engine_enter(&ticket);
    if (entry == TUG_ENTRY_FULL)
        return false;
    if (entry == TUG_ENTRY_BATON) {
        const bool room = tug_try_post_in_hand(context, request, local, reached);
        if (room)
            after_post(context);
        else
            make_room(context);
        tug_engine_service_began(&context->service);
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

/* Posts the write if its signal may be posted right behind it. Where both go in packets, in one or
 * in a row, the peer sees to their order; where a row does the write by which the packets go, that
 * row does. The signal's end tells of both. Holder only. */
static bool post_first(struct tug_fabric *fabric, struct tug_operation *write,
                       struct tug_operation *signal) {
    void *state;
    const struct tug_transport *row = tug_fabric_route(fabric, write, 0, &state);
    if (row == NULL && tug_packets_keep_order(fabric->packets, write)) {
        tug_packets_post(fabric->packets, write);
        return true;
    }
    return row != NULL && row->post_signalled != NULL &&
           tug_packets_go_by(fabric->packets, write->peer, state) &&
           row->post_signalled(state, write, signal);
}

/* Holder only. */
static void post_pair(struct tug_context *context, struct tug_operation *write,
                      struct tug_operation *signal) {
    struct tug_fabric *fabric = &context->fabric;
    begin(fabric, write);
    begin(fabric, signal);
    if (write->scratch != DO_HERE && post_first(fabric, write, signal)) {
        tug_packets_post(fabric->packets, signal);
        return;
    }
    tug_fabric_follow(fabric, write, signal);
    if (write->scratch == DO_HERE)
        tug_copies_add(context, write);
    else
        tug_fabric_post(fabric, write);
}

static void execute_pair(struct tug_command *command) {
    struct tug_context *context = command->payload.pointers[0];
    post_pair(context, command->payload.pointers[1], command->payload.pointers[2]);
    tug_engine_service_began(&context->service);
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

bool tug_try_submit_pair(struct tug_context *context, const struct tug_try *write,
                         const struct tug_try *signal, unsigned char *local, unsigned char *reached,
                         unsigned char *payload) {
    struct tug_operation *operations = context->fabric.operations;
    struct tug_ticket ticket;
    uint32_t tags[2] = {0};
    const bool in_job = tug_engine_in_job();
    const enum tug_entry entry = in_job ? TUG_ENTRY_BATON : tug_engine_enter(&ticket);
    if (entry == TUG_ENTRY_FULL)
        return false;
    const unsigned taken = take_tags(&context->fabric.tags, entry == TUG_ENTRY_BATON, tags);
    const bool room = taken == 2;
    if (room) {
        fill(&operations[tags[0]], write, local, reached);
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
        make_room(context);
    }
    tug_engine_service_began(&context->service);
    if (!in_job)
        tug_engine_leave();
    return room;
}
