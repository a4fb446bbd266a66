/* Accumulates and fetching operations of the packet lane: done by the origin (remote_combine.c), or
 * they become messages and calls of LLCL's.
 *
 * Where all sides lie in one piece an operation is one message. Otherwise the datatypes are walked
 * together, and every run that is a run on all sides is one. Operands are copied into messages, so
 * that the program's datatypes are not needed after the call; those of long runs, of which nothing
 * is fetched, are sent from the program's memory (tug_context_long_message()).
 */
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "host/datatype.h"
#include "host/handles.h"
#include "host/host.h"
#include "llcl/llcl.h"
#include "rma/remote_card.h"
#include "rma/remote_owed.h"
#include "rma/remote_ways.h"

/* ---- messages and calls ---- */

/* Long ones have memory of their own until they have been sent. */
struct payload {
    struct tug_remote_head head;
    unsigned char data[];
};

static void free_payload(void *payload, int status) {
    (void)status;
    free(payload);
}

static struct tug_remote_head head_of(const struct tug_ways *ways, MPI_Op op, MPI_Datatype type,
                                      MPI_Aint offset, size_t n) {
    return (struct tug_remote_head){
        .window = ways->target->number,
        .op = (uint8_t)tug_op_number(op),
        .type = tug_type_number(type),
        .range = (uint64_t)(ways->offset + offset) << 16 | (uint16_t)n,
    };
}

/* on_local: with a payload that is not copied by the call; else of nothing. */
static inline void send_message(const struct tug_ways *ways, const void *payload, size_t bytes,
                                struct tug_callback on_local) {
    struct tug_callback then;
    struct tug_peer_message message = {.peer = &ways->state->peer,
                                       .handler = TUG_MESSAGE_ACCUMULATE,
                                       .payload = payload,
                                       .bytes = bytes,
                                       .on_local = on_local};
    if (__builtin_expect(ways->bundle != NULL, 0)) {
        then = tug_ways_next_of_request(ways);
        message.then = &then;
    }
    tug_peer_message(&message);
}

static const struct tug_callback nothing;

/* A copy that is freed when it has been sent. NULL: no memory. */
static const void *copy_payload(const void *payload, size_t bytes, struct tug_callback *on_local) {
    void *copy = malloc(bytes);
    *on_local = (struct tug_callback){free_payload, copy};
    return copy != NULL ? memcpy(copy, payload, bytes) : NULL;
}

/* answer: where what is fetched goes, by way of the pairs if there are any. A payload without
 * on_local is copied. */
static inline void send_call(const struct tug_ways *ways, unsigned id, const void *payload,
                             size_t bytes, void *answer, size_t answer_bytes,
                             struct tug_callback on_local, struct tug_pairs *pairs) {
    const bool alone = tug_peer_is_free(&ways->state->peer);
    const struct tug_callback end = tug_ways_next_part(ways);
    struct tug_call_params call = {.dest_proc = ways->target->process,
                                   .handler = id,
                                   .payload = payload,
                                   .size_in_bytes = bytes,
                                   .answer = pairs != NULL ? pairs->data : answer,
                                   .answer_in_bytes = answer_bytes,
                                   .on_local = on_local,
                                   .on_complete =
                                       pairs != NULL ? tug_pairs_deliver_then(pairs, end) : end};
    if (alone && tug_peer_call_alone(&ways->state->peer, &call)) {
        if (on_local.f != NULL)
            on_local.f(on_local.d, 0);
        return;
    }
    if (bytes > TUG_COPIED_MOST && on_local.f == NULL &&
        (call.payload = copy_payload(payload, bytes, &call.on_local)) == NULL)
        call.on_complete.f(call.on_complete.d, TUG_ERR_NO_MEMORY);
    else
        TUG_REMOTE_TRY(ways->context, tug_try_call_async(ways->context, &call));
}

/* The head and up to 8 bytes: copied by the call. And as many to compare with. */
struct short_payload {
    struct tug_remote_head head;
    unsigned char data[8];
};
struct compare_payload {
    struct short_payload element;
    unsigned char data[8];
};

/* ---- accumulates ---- */

/* Copies n elements from the run they lie in, or the runs; nothing behind their last byte. */
static void gather(unsigned char *to, struct tug_run *from, const void *base, size_t n,
                   const struct tug_elements *elements) {
    size_t extent = elements->extent;
    while (n > 0 && tug_run_refill(from)) {
        size_t now = from->left < n ? from->left : n;
        size_t span = tug_elements_span(elements, now);
        tug_copy(to, tug_run_address(base, from->at), span);
        memset(to + span, 0, now * extent - span);
        tug_run_consume(from, now, extent);
        to += now * extent;
        n -= now;
    }
}

/* One piece: n elements that lie together at the target and, if fetched, in the result. */
static int send_piece(const struct tug_ways *ways, MPI_Op op, const struct tug_elements *elements,
                      MPI_Aint offset, size_t n, struct tug_run *origin, const void *base,
                      unsigned char *result) {
    struct tug_remote_head head = head_of(ways, op, elements->type, offset, n);
    size_t bytes = n * elements->extent, sent = origin == NULL ? 0 : bytes;
    int error = tug_ways_check(ways, offset, tug_elements_span(elements, n));
    if (error != MPI_SUCCESS)
        return error;
    struct tug_callback on_local = nothing;
    struct short_payload little;
    struct payload *payload = (struct payload *)&little;
    if (sent > sizeof(little.data)) {
        payload = malloc(sizeof(*payload) + sent);
        if (payload == NULL)
            return MPI_ERR_NO_MEM;
        on_local = (struct tug_callback){free_payload, payload};
    }
    payload->head = head;
    if (sent > 0)
        gather(payload->data, origin, base, n, elements);
    if (result == NULL) {
        send_message(ways, payload, sizeof(head) + sent, on_local);
        return MPI_SUCCESS;
    }
    struct tug_pairs *pairs = NULL;
    if (elements->size != elements->extent &&
        (pairs = tug_pairs_fetch(elements, result, n)) == NULL) {
        if (on_local.f != NULL)
            free(payload);
        return MPI_ERR_NO_MEM;
    }
    send_call(ways, TUG_CALL_FETCH, payload, sizeof(head) + sent, result, bytes, on_local, pairs);
    return MPI_SUCCESS;
}

/* As many of the elements that come next as go in a long message; 0: none. */
static size_t long_elements(const struct tug_elements *elements, const struct tug_run *its,
                            struct tug_run *mine) {
    if (elements->size != elements->extent || !tug_run_refill(mine))
        return 0;
    const size_t n = its->left < mine->left ? its->left : mine->left;
    return n * elements->extent > TUG_REMOTE_PIECE ? n : 0;
}

/* n elements that lie together at the target and here. */
static int send_long(const struct tug_ways *ways, MPI_Op op, const struct tug_elements *elements,
                     MPI_Aint offset, size_t n, const void *data) {
    const struct tug_remote_head head = head_of(ways, op, elements->type, offset, 0);
    const size_t bytes = n * elements->extent;
    const int error = tug_ways_check(ways, offset, bytes);
    if (error != MPI_SUCCESS)
        return error;
    struct tug_long_message message = {.dest_proc = ways->target->process,
                                       .handler = TUG_LONG_ACCUMULATE,
                                       .data = data,
                                       .bytes = bytes,
                                       .element = elements->extent,
                                       .on_complete =
                                           tug_outstanding_start(&ways->state->peer.remote)};
    _Static_assert(sizeof(head) == sizeof(message.head), "a head is two words");
    memcpy(message.head, &head, sizeof(head));
    message.on_local = ways->bundle != NULL
                           ? tug_ways_next_of_request(ways)
                           : tug_outstanding_start_reading(&ways->state->peer.local);
    TUG_REMOTE_TRY(ways->context, tug_context_long_message(ways->context, &message));
    return MPI_SUCCESS;
}

/* Messages have gone behind what waited. What another thread has gathered since has no order to
 * them, but this thread's next operations have, and would join it: it is submitted. They find
 * nothing gathered and, as the messages are counted or noted, that the target is not quiet. */
static inline void settle_again(const struct tug_ways *ways) {
    tug_peer_settle(&ways->state->peer);
}

/* Walks the sides together. Behind the origin's last element the target's are only fetched. */
static int send_pieces(const struct tug_ways *ways, const struct tug_rma *o,
                       const struct tug_elements *elements, const struct tug_data *data,
                       const struct tug_data *origin, const struct tug_data *result) {
    struct tug_run its, mine, back;
    const size_t most = TUG_REMOTE_PIECE / elements->extent;
    size_t given = origin != NULL ? origin->bytes / elements->size : 0;
    if (!tug_run_begin(&its, data, TUG_WALK_ELEMENTS) ||
        (origin != NULL && !tug_run_begin(&mine, origin, TUG_WALK_ELEMENTS)) ||
        (result != NULL && !tug_run_begin(&back, result, TUG_WALK_ELEMENTS)))
        return MPI_ERR_NO_MEM;
    while (tug_run_refill(&its) && (result == NULL ? given > 0 : tug_run_refill(&back))) {
        size_t n = result == NULL ? long_elements(elements, &its, &mine) : 0;
        unsigned char *fetched = NULL;
        if (n > 0) {
            tug_burst_more_follows(its.left > n);
            const int error =
                send_long(ways, o->op, elements, its.at, n, tug_run_address(o->origin, mine.at));
            if (error != MPI_SUCCESS)
                return error;
            given -= n;
            tug_run_consume(&its, n, elements->extent);
            tug_run_consume(&mine, n, elements->extent);
            continue;
        }
        n = its.left < most ? its.left : most;
        n = given > 0 && given < n ? given : n;
        if (result != NULL) {
            n = back.left < n ? back.left : n;
            fetched = tug_run_address(result->address, back.at);
            tug_run_consume(&back, n, elements->extent);
        }
        tug_burst_more_follows(its.left > n);
        int error = send_piece(ways, given > 0 ? o->op : MPI_NO_OP, elements, its.at, n,
                               given > 0 ? &mine : NULL, o->origin, fetched);
        if (error != MPI_SUCCESS)
            return error;
        given -= given > 0 ? n : 0;
        tug_run_consume(&its, n, elements->extent);
    }
    return MPI_SUCCESS;
}

/* Are there as many elements on all sides, together? */
static bool are_together(const struct tug_data *data, const struct tug_data *origin,
                         const struct tug_data *result) {
    return data->bytes > 0 && data->contiguous &&
           (origin == NULL || (origin->contiguous && origin->bytes == data->bytes)) &&
           (result == NULL || result->contiguous);
}

/* Accumulates origin (NULL: MPI_NO_OP reads none) and fetches into result (NULL: it does not). */
static int accumulate(const struct tug_rma *o, const struct tug_data *origin,
                      const struct tug_data *result) {
    struct tug_elements elements;
    struct tug_data data;
    struct tug_ways ways;
    int error = tug_operand_describe_elements(o, origin, result, &data, &elements);
    if (error != MPI_SUCCESS)
        return error;
    TUG_RETURN_IF_NOBODY(o);
    error = tug_ways_find(o, &data, &ways);
    if (error != MPI_SUCCESS)
        return error;
    if (!tug_operand_fits(&data, origin, result))
        return MPI_ERR_TRUNCATE;
    struct tug_remote_combination all = {
        .remote = ways.remote,
        .rank = ways.rank,
        .offset = ways.offset,
        .now = o->request != NULL,
        .update = {.reduce = elements.reduce,
                   .origin = origin != NULL ? origin->address : NULL,
                   .result = result != NULL ? result->address : NULL,
                   .n = are_together(&data, origin, result) ? data.bytes / elements.size : 0,
                   .extent = elements.size}};
    all.update.bytes = all.update.n * elements.size;
    if (data.bytes > 0 && tug_card_combine(o, elements.type, &ways, &all, &error))
        return error;
    if (all.update.n > 0 && tug_remote_combine(&all, &error)) {
        if (error != MPI_SUCCESS || o->request == NULL)
            return error;
        tug_context_pass(ways.context);
        return tug_rma_complete_request(o);
    }
    tug_peer_settle(&ways.state->peer); /* messages come behind what waits */
    /* pieces are copied by the call: such a request is complete, as a put's that is copied */
    const bool copied = o->request != NULL && result == NULL && data.bytes <= TUG_REMOTE_PIECE;
    error = copied ? MPI_SUCCESS : tug_ways_begin_request(o, &ways);
    if (error != MPI_SUCCESS)
        return error;
    if (data.bytes > 0)
        error = send_pieces(&ways, o, &elements, &data, origin, result);
    tug_burst_more_follows(false);
    settle_again(&ways);
    if (!copied)
        return tug_ways_end_request(&ways, error);
    tug_context_pass(ways.context);
    return error != MPI_SUCCESS ? error : tug_rma_complete_request(o);
}

/* One element of a basic type at the target and here, the most common: no walk. */
static inline bool is_simple(const struct tug_rma *o) {
    return tug_ways_is_plain(o, o->origin) && o->origin_count == 1 &&
           tug_type_basic_size(o->target_type) <= 8;
}

/* Writes the payload of an operation on one element of at most 8 bytes of o->origin_type. */
static inline int write_short(const struct tug_rma *o, struct tug_ways *ways,
                              struct short_payload *payload, size_t *bytes) {
    *bytes = tug_type_basic_size(o->origin_type);
    int error = tug_ways_find_plain(o, *bytes, ways);
    if (__builtin_expect(error == MPI_SUCCESS, 1))
        error = tug_ways_check(ways, 0, *bytes);
    if (__builtin_expect(error != MPI_SUCCESS, 0))
        return error;
    payload->head = head_of(ways, o->op, o->origin_type, 0, 1);
    if (__builtin_expect(*bytes == 8 && o->op != MPI_NO_OP, 1))
        memcpy(payload->data, o->origin, 8);
    else if (o->op != MPI_NO_OP)
        tug_copy(payload->data, o->origin, *bytes);
    return MPI_SUCCESS;
}

/* The element that write_short() has found; result, compare: or NULL. */
static inline struct tug_remote_combination one_of(const struct tug_rma *o,
                                                   const struct tug_ways *ways, size_t bytes,
                                                   tug_reduction reduce, void *result,
                                                   const void *compare) {
    return (struct tug_remote_combination){
        .remote = ways->remote,
        .rank = ways->rank,
        .offset = ways->offset,
        .update = {.reduce = reduce,
                   .origin = o->op != MPI_NO_OP ? o->origin : NULL,
                   .compare = compare,
                   .result = result,
                   .n = 1,
                   .extent = bytes,
                   .bytes = bytes}};
}

static inline int accumulate_one(const struct tug_rma *o) {
    struct tug_ways ways;
    struct short_payload payload = {0};
    size_t bytes;
    tug_reduction reduce = tug_reduction_find(o->op, o->target_type);
    if (__builtin_expect(reduce == NULL, 0))
        return tug_operand_no_reduction(o->op);
    int error = write_short(o, &ways, &payload, &bytes);
    if (__builtin_expect(error != MPI_SUCCESS, 0))
        return error;
    const struct tug_remote_combination one = one_of(o, &ways, bytes, reduce, NULL, NULL);
    if (tug_card_combine(o, o->origin_type, &ways, &one, &error) ||
        (tug_remote_may_combine(ways.target, ways.state) && tug_remote_combine(&one, &error)))
        return error;
    tug_peer_settle(&ways.state->peer);
    if (ways.rank == ways.remote->rank && ways.remote->attachments == NULL)
        __builtin_prefetch(ways.remote->base + ways.offset, 1); /* it is there when it is handled */
    send_message(&ways, &payload, sizeof(payload), nothing);
    settle_again(&ways);
    return MPI_SUCCESS;
}

int tug_remote_accumulate(const struct tug_rma *o) {
    if (tug_owed_joins(o, TUG_OWED_ACCUMULATE, false))
        return MPI_SUCCESS;
    if (__builtin_expect(is_simple(o) && o->op != MPI_NO_OP, 1))
        return accumulate_one(o);
    return tug_operand_accumulate(o, false, accumulate);
}

int tug_remote_get_accumulate(const struct tug_rma *o) {
    if (tug_owed_joins(o, TUG_OWED_FETCH, false))
        return MPI_SUCCESS;
    return tug_operand_accumulate(o, true, accumulate);
}

/* ---- one element ---- */

/* Of at most 8 bytes; compare: or NULL. */
static int fetch_one(const struct tug_rma *o, tug_reduction reduce, const void *compare) {
    struct tug_ways ways;
    struct compare_payload payload;
    size_t bytes, sent = sizeof(payload.element.head);
    int error = write_short(o, &ways, &payload.element, &bytes);
    if (error != MPI_SUCCESS)
        return error;
    const struct tug_remote_combination one = one_of(o, &ways, bytes, reduce, o->result, compare);
    if (tug_card_combine(o, o->origin_type, &ways, &one, &error) ||
        tug_remote_combine(&one, &error))
        return error;
    sent += o->op != MPI_NO_OP ? bytes : 0;
    if (compare != NULL) {
        memcpy((unsigned char *)&payload + sent, compare, bytes);
        sent += bytes;
    }
    tug_peer_settle(&ways.state->peer);
    send_call(&ways, compare != NULL ? TUG_CALL_COMPARE : TUG_CALL_FETCH, &payload, sent, o->result,
              bytes, nothing, NULL);
    settle_again(&ways);
    return MPI_SUCCESS;
}

int tug_remote_fetch_and_op(const struct tug_rma *o) {
    if (tug_owed_joins(o, TUG_OWED_FETCH, true))
        return MPI_SUCCESS;
    tug_reduction reduce = tug_reduction_find(o->op, o->origin_type);
    if (reduce == NULL)
        return tug_type_is_basic(o->origin_type) ? tug_operand_no_reduction(o->op)
                                                 : TUG_RMA_REFUSED;
    if (!tug_operand_has_buffers(o, false))
        return MPI_ERR_ARG;
    TUG_RETURN_IF_NOBODY(o);
    if (!tug_type_is_basic(o->origin_type) || tug_type_basic_size(o->origin_type) > 8) {
        const struct tug_rma as_vector = tug_operand_as_vector(o);
        return tug_remote_get_accumulate(&as_vector);
    }
    return fetch_one(o, reduce, NULL);
}

int tug_remote_compare_and_swap(const struct tug_rma *o) {
    struct tug_rma swap = *o;
    if (tug_owed_joins(o, TUG_OWED_COMPARE, true))
        return MPI_SUCCESS;
    if (!tug_reduction_compares(o->origin_type) || !tug_type_is_basic(o->origin_type))
        return TUG_RMA_REFUSED;
    if (!tug_operand_has_buffers(o, true))
        return MPI_ERR_ARG;
    TUG_RETURN_IF_NOBODY(o);
    swap.op = MPI_REPLACE;
    return fetch_one(&swap, tug_reduction_find(MPI_REPLACE, o->origin_type), o->compare);
}
