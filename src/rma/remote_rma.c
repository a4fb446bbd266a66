/* The origin's side of the packet lane: one-sided operations become LLCL's.
 *
 * Where both sides lie in one piece an operation is one write, read, message or call. Otherwise the
 * two datatypes are walked together, and every run that is a run on both sides is one. Puts and
 * gets work on the program's memory itself; the operands of accumulates are copied into messages,
 * so that the program's datatypes are not needed after the call.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/notes.h"
#include "host/datatype.h"
#include "host/handles.h"
#include "host/host.h"
#include "llcl/llcl.h"
#include "node/team.h"
#include "request/request.h"
#include "rma/operand.h"
#include "rma/remote.h"
#include "rma/window.h"

/* ---- what an operation ends with ---- */

/* The parts of an operation that returns a request. */
struct bundle {
    struct tug_request request;
    _Atomic uint32_t left; /* parts, and one for the call that starts them */
    _Atomic int status;    /* the first error */
    struct tug_counter *counter;
};

static void destroy(struct tug_request *request) {
    free(request);
}

/* One part is over. The last one completes the request, after which the bundle may be gone. */
static void end_part(void *pointer, int status) {
    struct bundle *bundle = pointer;
    int none = 0;
    if (status != 0)
        atomic_compare_exchange_strong(&bundle->status, &none, status);
    if (atomic_fetch_sub(&bundle->left, 1) > 1)
        return;
    struct tug_counter *counter = bundle->counter;
    bundle->request.error = tug_remote_error(atomic_load(&bundle->status));
    tug_request_complete(&bundle->request);
    tug_counter_add(counter, 0);
}

/* An operation under way. */
struct ways {
    tug_context *context;
    struct tug_remote *remote;
    const struct tug_remote_target *target;
    struct tug_remote_state *state;
    int process, rank;
    MPI_Aint offset; /* of the target's first item in its memory; dynamic windows: its address */
    struct bundle *bundle;
};

/* What the next part of a request ends with; counts it. */
static inline struct tug_callback next_of_request(const struct ways *ways) {
    atomic_fetch_add_explicit(&ways->bundle->left, 1, memory_order_relaxed);
    return (struct tug_callback){end_part, ways->bundle};
}

static inline struct tug_callback next_of(struct tug_outstanding *outstanding) {
    return (struct tug_callback){tug_counter_add, &tug_remote_count_start(outstanding)->ended};
}

/* What the next part's on_complete is; counts it. into_ours: it ends in a buffer of ours. */
static inline struct tug_callback next_part(const struct ways *ways, bool into_ours) {
    if (__builtin_expect(ways->bundle != NULL, 0))
        return next_of_request(ways);
    return next_of(into_ours ? &ways->state->local : &ways->state->remote);
}

/* A put has read its buffer. What went wrong, its completion says. */
static void end_reading(void *counter, int status) {
    (void)status;
    tug_counter_add(counter, 0);
}

/* What a put's on_local is; counts it. A put's request is complete when its buffer has been read.
 */
static inline struct tug_callback next_reading(const struct ways *ways, size_t bytes) {
    if (bytes <= TUG_COPIED_MOST) /* copied by the call */
        return (struct tug_callback){0};
    if (__builtin_expect(ways->bundle != NULL, 0))
        return next_of_request(ways);
    return (struct tug_callback){end_reading, &tug_remote_count_start(&ways->state->local)->ended};
}

/* Makes the operation's request, if it has one. */
static int begin_request(const struct tug_rma *o, struct ways *ways) {
    ways->bundle = NULL;
    if (__builtin_expect(o->request == NULL, 1))
        return MPI_SUCCESS;
    struct bundle *bundle = calloc(1, sizeof(*bundle));
    if (bundle == NULL)
        return MPI_ERR_NO_MEM;
    bundle->request.once = true;
    bundle->request.win = o->window->handle;
    bundle->request.destroy = destroy;
    atomic_init(&bundle->left, 1);
    if (tug_request_register(&bundle->request) != 0) {
        free(bundle);
        return MPI_ERR_NO_MEM;
    }
    *o->request = bundle->request.handle;
    bundle->counter = &tug_remote_count_start(&ways->state->local)->ended;
    ways->bundle = bundle;
    return MPI_SUCCESS;
}

/* All parts have been started, or some of them and then there was an error. */
static int end_request(const struct ways *ways, int error) {
    if (ways->bundle != NULL)
        end_part(ways->bundle, error == MPI_SUCCESS         ? 0
                               : error == MPI_ERR_RMA_RANGE ? TUG_ERR_RANGE
                                                            : TUG_ERR_NO_MEMORY);
    return error;
}

/* ---- what every operation begins with ---- */

/* Finds the target of an operation of `data`, or says why there is none. */
static inline __attribute__((always_inline)) int
reach(const struct tug_rma *o, const struct tug_data *data, struct ways *ways) {
    MPI_Aint offset;
    int error = tug_operand_check_target(o);
    if (__builtin_expect(error != MPI_SUCCESS, 0))
        return error;
    struct tug_remote *remote = o->window->remote;
    const struct tug_remote_target *target = &remote->targets[o->target];
    struct tug_remote_state *state = tug_remote_state_of(remote, o->target);
    if (tug_epochs_meet(&o->window->epochs))
        tug_burst.peers_come = true;
    const uint8_t wanted = atomic_load_explicit(&remote->contact_wanted, memory_order_relaxed);
    /* acquire: pairs with the changes in tug_remote_contact() by another thread */
    if (__builtin_expect(
            state == NULL ||
                (wanted != 0 &&
                 (atomic_load_explicit(&state->contact, memory_order_acquire) & wanted) != wanted),
            0)) {
        error = tug_remote_contact(remote, o->target);
        if (error != MPI_SUCCESS)
            return error;
        state = tug_remote_state_of(remote, o->target);
    }
    if (__builtin_expect(remote->attachments != NULL, 0))
        offset = o->disp;
    else
        error = tug_operand_locate(o, data, target->size, target->disp_unit, &offset);
    *ways = (struct ways){.context = remote->domain->context,
                          .remote = remote,
                          .target = target,
                          .state = state,
                          .process = target->process,
                          .rank = o->target,
                          .offset = offset};
    return error;
}

/* The same for a few bytes that lie together. */
static inline __attribute__((always_inline)) int reach_plain(const struct tug_rma *o, size_t bytes,
                                                             struct ways *ways) {
    const struct tug_data data = {.bytes = bytes, .end = (MPI_Aint)bytes};
    return reach(o, &data, ways);
}

/* Is a run of the target's memory there? Without attachments, reach() has seen that. */
static inline int check_run(const struct ways *ways, MPI_Aint offset, size_t bytes) {
    if (__builtin_expect(ways->remote->attachments == NULL, 1))
        return MPI_SUCCESS;
    return tug_remote_check(ways->remote, ways->rank, (uint64_t)(ways->offset + offset), bytes);
}

/* ---- put and get ---- */

/* The most common put, one of many: noted. */
struct noted_put {
    tug_context *context;
    const struct tug_remote_target *target;
    uint64_t offset;
    uint32_t bytes;
    unsigned char data[TUG_COPIED_MOST];
};
_Static_assert(sizeof(struct noted_put) <= TUG_NOTE_PAYLOAD, "it fits a note");

/* Counts an operation that is about to be started, as the holder of the baton: plain stores do.
 * Counts it back if it could not be. */
static inline bool count_in_hand(struct tug_generation *generation, int change) {
    uint64_t n = atomic_load_explicit(&generation->in_hand, memory_order_relaxed);
    atomic_store_explicit(&generation->in_hand, n + (uint64_t)change, memory_order_relaxed);
    return false;
}

static bool execute_put(const struct tug_note *note) {
    const struct noted_put *put = (const struct noted_put *)note->payload.bytes;
    const struct tug_remote_target *target = put->target;
    struct tug_generation *generation = tug_remote_open_generation(&target->state->remote);
    count_in_hand(generation, 1);
    return tug_context_write_noted(put->context, (uint32_t)target->process, &target->key,
                                   put->offset, put->data, put->bytes, &generation->ended) ||
           count_in_hand(generation, -1);
}

/* False: it has not been noted. */
static inline bool note_put(const struct ways *ways, size_t offset, const void *here,
                            size_t bytes) {
    const uint8_t shortcut = ways->target->shortcut;
    if (shortcut == TUG_SHORTCUT_ANY || bytes > TUG_COPIED_MOST || ways->bundle != NULL ||
        (shortcut == TUG_SHORTCUT_SINGLE && tug_burst_is_single() &&
         (tug_burst.awaited || !tug_peer_serves(ways->context, (uint32_t)ways->process))))
        return false;
    struct tug_note *note = tug_note_begin(TUG_NOTE_ANY);
    if (note == NULL)
        return false;
    struct noted_put *put = (struct noted_put *)note->payload.bytes;
    note->execute = execute_put;
    put->context = ways->context;
    put->target = ways->target;
    put->offset = offset;
    put->bytes = (uint32_t)bytes;
    if (__builtin_expect(bytes == 8, 1))
        memcpy(put->data, here, 8);
    else
        memcpy(put->data, here, bytes);
    tug_note_end();
    tug_burst_add();
    return true;
}

/* Moves bytes that lie together on both sides. */
static inline void move_bytes(const struct ways *ways, bool into_target, const struct tug_key *key,
                              size_t offset, char *here, size_t bytes) {
    const struct tug_remote_address there = {key, offset};
    const struct tug_local_address local = {ways->remote->domain->everything,
                                            (size_t)(uintptr_t)here};
    if (bytes >= TUG_REMOTE_ORDERED)
        atomic_store_explicit(&ways->state->overtaken, true, memory_order_relaxed);
    if (into_target) {
        const struct tug_write_params write = {.dest_proc = ways->process,
                                               .dest_raddr = there,
                                               .src_laddr = local,
                                               .size_in_bytes = bytes,
                                               .on_local = next_reading(ways, bytes),
                                               .on_complete = next_of(&ways->state->remote)};
        TUG_REMOTE_TRY(ways->context, tug_try_write_async(ways->context, &write));
    } else {
        const struct tug_read_params read = {.src_proc = ways->process,
                                             .src_raddr = there,
                                             .dest_laddr = local,
                                             .size_in_bytes = bytes,
                                             .on_complete = next_part(ways, true)};
        TUG_REMOTE_TRY(ways->context, tug_try_read_async(ways->context, &read));
    }
}

/* The same, region by region. */
static int move_attached(const struct ways *ways, bool into_target, uint64_t address, char *here,
                         size_t bytes) {
    struct tug_region region;
    while (bytes > 0) {
        int error = tug_remote_find(ways->remote, ways->rank, address, &region);
        if (error != MPI_SUCCESS)
            return error;
        size_t offset = address - region.base, now = region.bytes - offset;
        now = now < bytes ? now : bytes;
        move_bytes(ways, into_target, &region.key, offset, here, now);
        address += now;
        here += now;
        bytes -= now;
    }
    return MPI_SUCCESS;
}

static inline int move_run(const struct ways *ways, bool into_target, MPI_Aint offset, char *here,
                           size_t bytes) {
    if (__builtin_expect(ways->remote->attachments != NULL, 0))
        return move_attached(ways, into_target, (uint64_t)(ways->offset + offset), here, bytes);
    size_t from_base = (size_t)(ways->offset + offset);
    if (!into_target || !note_put(ways, from_base, here, bytes))
        move_bytes(ways, into_target, &ways->target->key, from_base, here, bytes);
    return MPI_SUCCESS;
}

static int move_scattered(const struct ways *ways, bool into_target, const struct tug_data *here,
                          const struct tug_data *there) {
    struct tug_run mine, its;
    if (!tug_run_begin(&mine, here, TUG_WALK_BYTES) || !tug_run_begin(&its, there, TUG_WALK_BYTES))
        return MPI_ERR_NO_MEM;
    while (tug_run_refill(&mine) && tug_run_refill(&its)) {
        size_t bytes = mine.left < its.left ? mine.left : its.left;
        int error = move_run(ways, into_target, its.at,
                             (char *)tug_run_address(here->address, mine.at), bytes);
        if (error != MPI_SUCCESS)
            return error;
        tug_run_consume(&mine, bytes, 1);
        tug_run_consume(&its, bytes, 1);
    }
    return MPI_SUCCESS;
}

/* A put whose bytes the call copies needs its buffer no more: its request is complete. What goes
 * wrong with it the next flush says. */
static int put_with_request(const struct tug_rma *o, const struct tug_data *origin,
                            const struct ways *ways) {
    int error = move_run(ways, true, 0, origin->address, origin->bytes);
    return error != MPI_SUCCESS ? error : tug_rma_complete_request(o);
}

static inline int transfer(const struct tug_rma *o, const void *here, bool into_target) {
    struct tug_data origin, data;
    struct ways ways;
    if (!tug_operand_describe(&origin, here, o->origin_count, o->origin_type, o) ||
        !tug_operand_describe(&data, NULL, o->target_count, o->target_type, o))
        return TUG_RMA_REFUSED;
    if (tug_operand_is_nowhere(&origin))
        return MPI_ERR_BUFFER;
    TUG_RETURN_IF_NOBODY(o);
    int error = reach(o, &data, &ways);
    if (__builtin_expect(error != MPI_SUCCESS, 0))
        return error;
    const size_t bytes = into_target ? origin.bytes : data.bytes;
    if (__builtin_expect(bytes > (into_target ? data.bytes : origin.bytes), 0))
        return MPI_ERR_TRUNCATE;
    if (into_target && o->request != NULL && bytes > 0 && bytes <= TUG_COPIED_MOST &&
        origin.contiguous && data.contiguous)
        return put_with_request(o, &origin, &ways);
    error = begin_request(o, &ways);
    if (error != MPI_SUCCESS)
        return error;
    if (__builtin_expect(origin.contiguous && data.contiguous, 1)) {
        if (bytes > 0)
            error = move_run(&ways, into_target, 0, origin.address, bytes);
    } else {
        error = move_scattered(&ways, into_target, &origin, &data);
    }
    return end_request(&ways, error);
}

/* Elements of a basic type, the same at the target and at an address here, and no request. */
static inline bool is_plain(const struct tug_rma *o) {
    return o->origin_type == o->target_type && o->origin_count == o->target_count &&
           tug_type_is_basic(o->target_type) && o->request == NULL && o->target != MPI_PROC_NULL &&
           o->origin != NULL;
}

int tug_remote_put(const struct tug_rma *o) {
    struct ways ways;
    if (!is_plain(o) || o->origin_count < 1 || o->origin_count > TUG_COPIED_MOST)
        return transfer(o, o->origin, true);
    size_t bytes = (size_t)o->origin_count * tug_type_basic_size(o->target_type);
    int error = reach_plain(o, bytes, &ways);
    return __builtin_expect(error != MPI_SUCCESS, 0)
               ? error
               : move_run(&ways, true, 0, (char *)(uintptr_t)o->origin, bytes);
}

int tug_remote_get(const struct tug_rma *o) {
    return transfer(o, o->result, false);
}

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

static struct tug_remote_head head_of(const struct ways *ways, MPI_Op op, MPI_Datatype type,
                                      MPI_Aint offset, size_t n) {
    return (struct tug_remote_head){
        .window = ways->target->number,
        .op = (uint8_t)tug_op_number(op),
        .type = tug_type_number(type),
        .range = (uint64_t)(ways->offset + offset) << 16 | (uint16_t)n,
    };
}

static inline void send_message(const struct ways *ways, const void *payload, size_t bytes,
                                struct tug_callback on_local) {
    const struct tug_am_params message = {.dest_proc = ways->process,
                                          .handler = TUG_MESSAGE_ACCUMULATE,
                                          .payload = payload,
                                          .size_in_bytes = bytes,
                                          .on_local = on_local,
                                          .on_complete = next_part(ways, false)};
    TUG_REMOTE_TRY(ways->context, tug_try_am_async(ways->context, &message));
}

static inline void send_call(const struct ways *ways, unsigned id, const void *payload,
                             size_t bytes, void *answer, size_t answer_bytes,
                             struct tug_callback on_local, struct tug_callback on_complete) {
    const struct tug_call_params call = {.dest_proc = ways->process,
                                         .handler = id,
                                         .payload = payload,
                                         .size_in_bytes = bytes,
                                         .answer = answer,
                                         .answer_in_bytes = answer_bytes,
                                         .on_local = on_local,
                                         .on_complete = on_complete};
    TUG_REMOTE_TRY(ways->context, tug_try_call_async(ways->context, &call));
}

/* The head and up to 8 bytes: copied by the call. */
struct short_payload {
    struct tug_remote_head head;
    unsigned char data[8];
};

static const struct tug_callback nothing;

/* ---- accumulates ---- */

/* Copies n elements from the run they lie in, or the runs; nothing behind their last byte. */
static void gather(unsigned char *to, struct tug_run *from, const void *base, size_t n,
                   const struct tug_elements *elements) {
    size_t extent = elements->extent;
    while (n > 0 && tug_run_refill(from)) {
        size_t now = from->left < n ? from->left : n;
        size_t span = tug_elements_span(elements, now);
        memcpy(to, tug_run_address(base, from->at), span);
        memset(to + span, 0, now * extent - span);
        tug_run_consume(from, now, extent);
        to += now * extent;
        n -= now;
    }
}

/* One piece: n elements that lie together at the target and, if fetched, in the result. */
static int send_piece(const struct ways *ways, MPI_Op op, const struct tug_elements *elements,
                      MPI_Aint offset, size_t n, struct tug_run *origin, const void *base,
                      unsigned char *result) {
    struct tug_remote_head head = head_of(ways, op, elements->type, offset, n);
    size_t bytes = n * elements->extent, sent = origin == NULL ? 0 : bytes;
    int error = check_run(ways, offset, tug_elements_span(elements, n));
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
    if (elements->gap_from != elements->gap_to &&
        (pairs = tug_pairs_fetch(elements, result, n)) == NULL) {
        if (on_local.f != NULL)
            free(payload);
        return MPI_ERR_NO_MEM;
    }
    const struct tug_callback end = next_part(ways, true);
    send_call(ways, TUG_CALL_FETCH, payload, sizeof(head) + sent,
              pairs != NULL ? pairs->data : result, bytes, on_local,
              pairs != NULL ? tug_pairs_deliver_then(pairs, end) : end);
    return MPI_SUCCESS;
}

/* Walks the sides together. Behind the origin's last element the target's are only fetched. */
static int send_pieces(const struct ways *ways, const struct tug_rma *o,
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
        size_t n = its.left < most ? its.left : most;
        unsigned char *fetched = NULL;
        n = given > 0 && given < n ? given : n;
        if (result != NULL) {
            n = back.left < n ? back.left : n;
            fetched = tug_run_address(result->address, back.at);
            tug_run_consume(&back, n, elements->extent);
        }
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
    struct ways ways;
    int error = tug_operand_describe_elements(o, &data, &elements);
    if (error != MPI_SUCCESS)
        return error;
    TUG_RETURN_IF_NOBODY(o);
    error = reach(o, &data, &ways);
    if (error != MPI_SUCCESS)
        return error;
    if (!tug_operand_fits(&data, origin, result))
        return MPI_ERR_TRUNCATE;
    if (are_together(&data, origin, result) &&
        tug_remote_combine(
            &(struct tug_remote_combination){
                ways.remote, ways.rank, ways.offset, data.bytes / elements.size, elements.size,
                elements.reduce, origin != NULL ? origin->address : NULL,
                result != NULL ? result->address : NULL, NULL},
            &error))
        return error != MPI_SUCCESS || o->request == NULL ? error : tug_rma_complete_request(o);
    error = begin_request(o, &ways);
    if (error != MPI_SUCCESS)
        return error;
    if (data.bytes > 0)
        error = send_pieces(&ways, o, &elements, &data, origin, result);
    return end_request(&ways, error);
}

/* One element of a basic type at the target and here, the most common: no walk. */
static inline bool is_simple(const struct tug_rma *o) {
    return is_plain(o) && o->origin_count == 1 && tug_type_basic_size(o->target_type) <= 8;
}

/* Writes the payload of an operation on one element of at most 8 bytes of o->origin_type. */
static inline int write_short(const struct tug_rma *o, struct ways *ways,
                              struct short_payload *payload, size_t *bytes) {
    *bytes = tug_type_basic_size(o->origin_type);
    int error = reach_plain(o, *bytes, ways);
    if (__builtin_expect(error == MPI_SUCCESS, 1))
        error = check_run(ways, 0, *bytes);
    if (__builtin_expect(error != MPI_SUCCESS, 0))
        return error;
    payload->head = head_of(ways, o->op, o->origin_type, 0, 1);
    if (__builtin_expect(*bytes == 8 && o->op != MPI_NO_OP, 1))
        memcpy(payload->data, o->origin, 8);
    else if (o->op != MPI_NO_OP)
        memcpy(payload->data, o->origin, *bytes);
    return MPI_SUCCESS;
}

/* One of many. */
struct noted_accumulate {
    tug_context *context;
    const struct tug_remote_target *target;
    struct short_payload payload;
};
_Static_assert(sizeof(struct noted_accumulate) <= TUG_NOTE_PAYLOAD, "it fits a note");

static bool execute_accumulate(const struct tug_note *note) {
    const struct noted_accumulate *noted = (const struct noted_accumulate *)note->payload.bytes;
    const struct tug_remote_target *target = noted->target;
    struct tug_generation *generation = tug_remote_open_generation(&target->state->remote);
    count_in_hand(generation, 1);
    return tug_context_message_noted(noted->context, (uint32_t)target->process,
                                     TUG_MESSAGE_ACCUMULATE, &noted->payload,
                                     sizeof(noted->payload), &generation->ended) ||
           count_in_hand(generation, -1);
}

/* One of many on this rank's own memory: atomic to the others', as the holder of the baton. */
struct noted_reduction {
    tug_reduction reduce;
    void *memory;
    struct tug_mutex *mutex; /* NULL: none */
    unsigned char data[8];
};
_Static_assert(sizeof(struct noted_reduction) <= TUG_NOTE_PAYLOAD, "it fits a note");

static bool execute_reduction(const struct tug_note *note) {
    const struct noted_reduction *noted = (const struct noted_reduction *)note->payload.bytes;
    tug_remote_lock(noted->mutex);
    noted->reduce(noted->memory, noted->data, 1);
    tug_remote_unlock(noted->mutex);
    return true;
}

/* False: it has not been noted. */
static inline bool note_accumulate(const struct ways *ways, const struct short_payload *payload,
                                   tug_reduction reduce) {
    struct tug_note *note = tug_note_begin(TUG_NOTE_IN_ORDER);
    if (note == NULL)
        return false;
    if (ways->rank == ways->remote->rank && ways->remote->attachments == NULL) {
        struct noted_reduction *noted = (struct noted_reduction *)note->payload.bytes;
        note->execute = execute_reduction;
        noted->reduce = reduce;
        noted->memory = ways->remote->base + ways->offset;
        noted->mutex = tug_remote_mutex(ways->remote, ways->rank);
        memcpy(noted->data, payload->data, sizeof(noted->data));
        __builtin_prefetch(noted->memory, 1); /* it is there when the note is executed */
    } else {
        struct noted_accumulate *noted = (struct noted_accumulate *)note->payload.bytes;
        note->execute = execute_accumulate;
        noted->context = ways->context;
        noted->target = ways->target;
        noted->payload = *payload;
    }
    tug_note_end();
    return true;
}

static inline int accumulate_one(const struct tug_rma *o) {
    struct ways ways;
    struct short_payload payload = {0};
    size_t bytes;
    tug_reduction reduce = tug_reduction_find(o->op, o->target_type);
    if (__builtin_expect(reduce == NULL, 0))
        return tug_operand_no_reduction(o->op);
    int error = write_short(o, &ways, &payload, &bytes);
    if (__builtin_expect(error != MPI_SUCCESS, 0))
        return error;
    if (tug_remote_may_combine(ways.target, 8) &&
        tug_remote_combine(&(struct tug_remote_combination){ways.remote, ways.rank, ways.offset, 1,
                                                            bytes, reduce, o->origin, NULL, NULL},
                           &error))
        return error;
    if (!note_accumulate(&ways, &payload, reduce))
        send_message(&ways, &payload, sizeof(payload), nothing);
    return MPI_SUCCESS;
}

int tug_remote_accumulate(const struct tug_rma *o) {
    if (__builtin_expect(is_simple(o) && o->op != MPI_NO_OP, 1))
        return accumulate_one(o);
    return tug_operand_accumulate(o, false, accumulate);
}

int tug_remote_get_accumulate(const struct tug_rma *o) {
    return tug_operand_accumulate(o, true, accumulate);
}

/* ---- one element ---- */

int tug_remote_fetch_and_op(const struct tug_rma *o) {
    struct ways ways;
    struct short_payload payload;
    size_t bytes;
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
    int error = write_short(o, &ways, &payload, &bytes);
    if (error != MPI_SUCCESS || tug_remote_combine(
                                    &(struct tug_remote_combination){
                                        ways.remote, ways.rank, ways.offset, 1, bytes, reduce,
                                        o->op == MPI_NO_OP ? NULL : o->origin, o->result, NULL},
                                    &error))
        return error;
    send_call(&ways, TUG_CALL_FETCH, &payload,
              sizeof(payload.head) + (o->op == MPI_NO_OP ? 0 : bytes), o->result, bytes, nothing,
              next_part(&ways, true));
    return MPI_SUCCESS;
}

int tug_remote_compare_and_swap(const struct tug_rma *o) {
    struct tug_data data;
    struct ways ways;
    if (!tug_reduction_compares(o->origin_type))
        return TUG_RMA_REFUSED;
    if (!tug_operand_has_buffers(o, true))
        return MPI_ERR_ARG;
    TUG_RETURN_IF_NOBODY(o);
    if (!tug_operand_describe(&data, NULL, 1, o->origin_type, o))
        return TUG_RMA_REFUSED;
    int error = reach(o, &data, &ways);
    if (__builtin_expect(error == MPI_SUCCESS, 1))
        error = check_run(&ways, 0, data.bytes);
    if (error != MPI_SUCCESS ||
        tug_remote_combine(
            &(struct tug_remote_combination){ways.remote, ways.rank, ways.offset, 1, data.bytes,
                                             tug_reduction_find(MPI_REPLACE, o->origin_type),
                                             o->origin, o->result, o->compare},
            &error))
        return error;
    struct payload *payload = malloc(sizeof(*payload) + 2 * data.bytes);
    if (payload == NULL)
        return MPI_ERR_NO_MEM;
    payload->head = head_of(&ways, MPI_REPLACE, o->origin_type, 0, 1);
    memcpy(payload->data, o->origin, data.bytes);
    memcpy(payload->data + data.bytes, o->compare, data.bytes);
    send_call(&ways, TUG_CALL_COMPARE, payload, sizeof(*payload) + 2 * data.bytes, o->result,
              data.bytes, (struct tug_callback){free_payload, payload}, next_part(&ways, true));
    return MPI_SUCCESS;
}
