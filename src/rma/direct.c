#include "rma/direct.h"

#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/log.h"
#include "base/stats.h"
#include "engine/host_progress.h"
#include "host/host.h"
#include "node/arena.h"
#include "node/lent.h"
#include "node/team.h"
#include "rma/apply.h"
#include "rma/operand.h"
#include "rma/window.h"

/* ---- memory ---- */

/* Where memory of a rank begins that may begin at `at`. */
static size_t place_for(size_t at, MPI_Aint size, struct tug_direct_layout layout) {
    const size_t unit = size < TUG_DIRECT_PAGE && !layout.pages ? 64 : TUG_DIRECT_PAGE;
    return (at + unit - 1) / unit * unit;
}

/* Lays the window out behind the controls, from address base on, 0 to see how many bytes it takes.
 */
static size_t lay_out(struct tug_direct *direct, struct tug_direct_layout layout, uintptr_t base) {
    size_t at = tug_node_sync_bytes(direct->nranks);
    if (layout.brought)
        return at;
    at = place_for(at, direct->targets[0].size, layout);
    for (int r = 0; r < direct->nranks; r++) {
        struct tug_direct_target *target = &direct->targets[r];
        if (!layout.contiguous)
            at = place_for(at, target->size, layout);
        target->base = target->size > 0 ? (unsigned char *)(base + at) : NULL;
        at += (size_t)target->size;
    }
    return at;
}

static unsigned char *open_offer(const struct tug_offer *offer) {
    return offer->lender == 0 ? tug_block_open(offer) : tug_lent_share(offer);
}

static void close_lent(struct tug_direct *direct) {
    for (int r = 0; direct->lent != NULL && r < direct->nranks; r++) {
        const struct tug_offer *offer = &direct->lent[r];
        if (r != direct->rank && direct->targets[r].base != NULL && offer->lender != 0)
            tug_lent_unshare(offer);
    }
    free(direct->lent);
}

/* Maps what the others have brought. False if some of it cannot be. */
static bool open_lent(struct tug_direct *direct, void *base) {
    bool opened = true;
    for (int r = 0; r < direct->nranks; r++) {
        struct tug_direct_target *target = &direct->targets[r];
        if (r == direct->rank)
            target->base = base;
        else if (target->size > 0)
            target->base = open_offer(&direct->lent[r]);
        opened &= target->base != NULL || target->size == 0;
    }
    return opened;
}

/* NULL without memory. */
static struct tug_direct *make(struct tug_team *team, bool brought, const unsigned char *parts,
                               size_t stride) {
    size_t n = (size_t)team->nranks;
    struct tug_direct *direct = calloc(1, sizeof(*direct) + n * sizeof(direct->targets[0]));
    if (direct == NULL)
        return NULL;
    direct->team = team;
    direct->nranks = team->nranks;
    direct->rank = team->rank;
    if (brought && (direct->lent = calloc(n, sizeof(direct->lent[0]))) == NULL) {
        free(direct);
        return NULL;
    }
    for (size_t r = 0; r < n; r++) {
        struct tug_direct_part part;
        memcpy(&part, parts + r * stride, sizeof(part));
        direct->targets[r].size = part.size;
        direct->targets[r].disp_unit = part.disp_unit;
        if (brought)
            direct->lent[r] = part.offer;
    }
    return direct;
}

/* Leaves it as the next window is to find it. */
static void give_block(struct tug_direct *direct) {
    const struct tug_direct_target *own = &direct->targets[direct->rank];
    tug_node_sync_end(&direct->sync);
    if (direct->block->kept && direct->lent == NULL && own->size > 0)
        memset(own->base, 0, (size_t)own->size);
    tug_block_give(direct->team, direct->block);
}

struct tug_direct *tug_direct_create(struct tug_team *team, struct tug_direct_layout layout,
                                     const void *parts, size_t stride, void *base) {
    struct tug_direct *direct = make(team, layout.brought, parts, stride);
    bool ready = direct != NULL && (!layout.brought || open_lent(direct, base));
    const size_t bytes = direct != NULL ? lay_out(direct, layout, 0) : 0;
    struct tug_chunk *block = tug_block_take(team, bytes, &ready);
    if (block == NULL) {
        if (direct != NULL)
            close_lent(direct);
        free(direct);
        return NULL;
    }
    direct->block = block;
    lay_out(direct, layout, (uintptr_t)block->base);
    tug_node_sync_begin(&direct->sync, block->base, direct->nranks, direct->rank);
    for (int r = 0; r < direct->nranks; r++)
        direct->targets[r].control = &direct->sync.controls[r];
    tug_team_hold(team);
    return direct;
}

static void release(struct tug_window *window) {
    struct tug_direct *direct = window->direct;
    give_block(direct);
    close_lent(direct);
    tug_team_drop(direct->team);
    free(direct);
}

/* ---- what every operation begins with ---- */

/* The target of an operation of `data`, whose address it sets; or why there is none. */
static inline __attribute__((always_inline)) int
reach(const struct tug_rma *o, struct tug_data *data, struct tug_direct_target **found) {
    MPI_Aint offset;
    int error = tug_operand_check_target(o);
    if (__builtin_expect(error != MPI_SUCCESS, 0))
        return error;
    struct tug_direct_target *target = &o->window->direct->targets[o->target];
    error = tug_operand_locate(o, data, target->size, target->disp_unit, &offset);
    if (__builtin_expect(error != MPI_SUCCESS, 0))
        return error;
    data->address =
        (void *)((uintptr_t)target->base + (uintptr_t)offset); /* NULL: it has no bytes */
    *found = target;
    return MPI_SUCCESS;
}

/* ---- put and get ---- */

/* A rank may put a part of its own window into another. */
static __attribute__((noinline)) void copy_long(void *to, const void *from, size_t bytes) {
    const bool apart =
        (uintptr_t)to - (uintptr_t)from >= bytes && (uintptr_t)from - (uintptr_t)to >= bytes;
    if (apart)
        tug_copy(to, from, bytes);
    else
        memmove(to, from, bytes);
}

/* What one store or load can do is done by one: a program that polls its window sees all of it or
 * nothing. */
static inline __attribute__((always_inline)) void copy_plain(void *to, const void *from,
                                                             size_t bytes) {
    if (bytes == 8)
        memcpy(to, from, 8);
    else if (bytes == 4)
        memcpy(to, from, 4);
    else if (bytes <= TUG_COPY_PIECE)
        memmove(to, from, bytes);
    else
        copy_long(to, from, bytes);
}

static inline int move(const struct tug_data *to, const struct tug_data *from, MPI_Comm comm) {
    if (__builtin_expect(!to->contiguous || !from->contiguous || from->bytes == 0, 0))
        return tug_data_move(to, from, comm);
    copy_plain(to->address, from->address, from->bytes);
    return MPI_SUCCESS;
}

/* As many elements of the same basic type here and at the target, between places that are in order:
 * most puts and gets of programs. They need not be described. False: it is something else, or
 * something is wrong; nothing has been done. */
static inline __attribute__((always_inline)) bool move_plain(const struct tug_rma *o, void *here,
                                                             bool into_target) {
    MPI_Aint offset, bytes;
    if (o->origin_type != o->target_type || o->origin_count != o->target_count ||
        o->target_count <= 0 || !tug_type_is_basic(o->origin_type) || here == NULL ||
        tug_operand_check_target(o) != MPI_SUCCESS)
        return false;
    const struct tug_direct_target *target = &o->window->direct->targets[o->target];
    if (__builtin_mul_overflow(o->target_count, tug_type_basic_size(o->origin_type), &bytes) ||
        __builtin_mul_overflow(o->disp, target->disp_unit, &offset) || offset < 0 ||
        offset > target->size - bytes)
        return false;
    unsigned char *there = target->base + offset;
    copy_plain(into_target ? there : here, into_target ? here : there, (size_t)bytes);
    return true;
}

/* All else. Apart, so that what is plain has no frame to make. */
static __attribute__((noinline)) int transfer_described(const struct tug_rma *o, void *here,
                                                        bool into_target) {
    struct tug_data origin, data;
    struct tug_direct_target *target;
    if (!tug_operand_describe(&origin, here, o->origin_count, o->origin_type, o) ||
        !tug_operand_describe(&data, NULL, o->target_count, o->target_type, o))
        return TUG_RMA_REFUSED;
    if (tug_operand_is_nowhere(&origin))
        return MPI_ERR_BUFFER;
    TUG_RETURN_IF_NOBODY(o);
    int error = reach(o, &data, &target);
    if (__builtin_expect(error != MPI_SUCCESS, 0))
        return error;
    if (__builtin_expect(into_target ? origin.bytes > data.bytes : data.bytes > origin.bytes, 0))
        return MPI_ERR_TRUNCATE;
    return into_target ? move(&data, &origin, o->window->comm)
                       : move(&origin, &data, o->window->comm);
}

static inline __attribute__((always_inline)) int transfer(const struct tug_rma *o, void *here,
                                                          bool into_target) {
    return __builtin_expect(move_plain(o, here, into_target), 1)
               ? MPI_SUCCESS
               : transfer_described(o, here, into_target);
}

int tug_direct_put(const struct tug_rma *o) {
    return transfer(o, (void *)o->origin, true);
}

int tug_direct_get(const struct tug_rma *o) {
    return transfer(o, o->result, false);
}

/* ---- accumulates ---- */

static struct tug_guard guard_of(const struct tug_direct_target *target) {
    return (struct tug_guard){target->control->stripes, TUG_STRIPES, TUG_STRIPE_BYTES};
}

/* Does an update of elements that lie together at the target. */
static inline __attribute__((always_inline)) void
update_at(const struct tug_direct_target *target, void *at, const struct tug_update *update) {
    const struct tug_guard guard = guard_of(target);
    tug_guard_apply(&guard, (size_t)((unsigned char *)at - target->base), at, update);
}

static bool is_array(const struct tug_data *data, const struct tug_elements *elements) {
    return data->contiguous || data->type == elements->type;
}

/* An array for the elements of `data`: its own memory if in_place, else new memory. */
static bool array_of(const struct tug_data *data, const struct tug_elements *elements, size_t n,
                     bool in_place, struct tug_data *array, MPI_Comm comm) {
    *array = *data;
    if (in_place)
        return true;
    array->count = (MPI_Count)n;
    array->type = elements->type;
    array->address = malloc(n * elements->extent);
    return array->address != NULL && tug_data_describe(array, comm);
}

static void array_release(const struct tug_data *data, const struct tug_data *array) {
    if (array->address != data->address)
        free(array->address);
}

/* Does an update, of as many elements as it fetches at least, where the target's are scattered:
 * under all mutexes, by way of an array. */
static int update_scattered(const struct tug_direct_target *target, const struct tug_data *data,
                            const struct tug_update *update, const struct tug_elements *elements,
                            MPI_Comm comm) {
    struct tug_data array;
    const size_t nold = update->bytes / elements->extent;
    const size_t n = nold > update->n ? nold : update->n;
    if (!array_of(data, elements, n, false, &array, comm))
        return MPI_ERR_NO_MEM;
    for (int i = 0; i < TUG_STRIPES; i++) /* in this order, always: no two wait for each other */
        tug_mutex_lock(&target->control->stripes[i]);
    int error = tug_data_move(&array, data, comm);
    if (error == MPI_SUCCESS) {
        (void)tug_update_apply(array.address, update);
        array.count = (MPI_Count)update->n;
        array.bytes = update->n * elements->size;
        error = tug_data_move(data, &array, comm);
    }
    for (int i = TUG_STRIPES - 1; i >= 0; i--)
        tug_mutex_unlock(&target->control->stripes[i]);
    array_release(data, &array);
    return error;
}

/* Combines what has been described and fits. */
static inline int combine_all(const struct tug_direct_target *target, const struct tug_data *data,
                              const struct tug_data *origin, const struct tug_data *result,
                              const struct tug_elements *elements, MPI_Comm comm) {
    static const struct tug_data none = {.contiguous = true};
    struct tug_data from = none, old = none;
    const size_t nold = result == NULL ? 0 : data->bytes / elements->size;
    const size_t ncombined = origin == NULL ? nold : origin->bytes / elements->size;
    origin = origin == NULL ? &none : origin;
    result = result == NULL ? &none : result;

    if (ncombined + nold == 0)
        return MPI_SUCCESS;
    int error = MPI_ERR_NO_MEM;
    if (!array_of(origin, elements, ncombined, is_array(origin, elements), &from, comm))
        return error;
    /* never in place where there are gaps: those of the result are the program's */
    if (!array_of(result, elements, nold, result->contiguous, &old, comm))
        goto release_from;
    error = from.address == origin->address ? MPI_SUCCESS : tug_data_move(&from, origin, comm);
    if (error != MPI_SUCCESS)
        goto release_old;
    struct tug_update update = {.reduce = elements->reduce,
                                .origin = from.address,
                                .result = old.address,
                                .n = ncombined,
                                .extent = elements->extent,
                                .bytes = nold * elements->extent};
    if (is_array(data, elements)) {
        if (nold > ncombined) { /* behind the origin's last element they are only fetched */
            struct tug_update rest = tug_update_part(&update, ncombined, nold - ncombined);
            rest.origin = NULL;
            update.bytes = ncombined * elements->extent;
            update_at(target, (unsigned char *)data->address + update.bytes, &rest);
        }
        update_at(target, data->address, &update);
    } else {
        error = update_scattered(target, data, &update, elements, comm);
    }
    if (error == MPI_SUCCESS && old.address != result->address)
        error = tug_data_move(result, &old, comm);
release_old:
    array_release(result, &old);
release_from:
    array_release(origin, &from);
    return error;
}

/* Accumulates origin (NULL: MPI_NO_OP reads none) and fetches into result (NULL: it does not). */
static int accumulate(const struct tug_rma *o, const struct tug_data *origin,
                      const struct tug_data *result) {
    struct tug_elements elements;
    struct tug_data data;
    struct tug_direct_target *target;
    int error = tug_operand_describe_elements(o, origin, result, &data, &elements);
    if (error != MPI_SUCCESS)
        return error;
    TUG_RETURN_IF_NOBODY(o);
    error = reach(o, &data, &target);
    if (error != MPI_SUCCESS)
        return error;
    if (!tug_operand_fits(&data, origin, result))
        return MPI_ERR_TRUNCATE;
    return combine_all(target, &data, origin, result, &elements, o->window->comm);
}

int tug_direct_accumulate(const struct tug_rma *o) {
    return tug_operand_accumulate(o, false, accumulate);
}

int tug_direct_get_accumulate(const struct tug_rma *o) {
    return tug_operand_accumulate(o, true, accumulate);
}

/* ---- one element ---- */

/* compare: or NULL. */
static int update_one(const struct tug_rma *o, tug_reduction reduce, const void *compare) {
    struct tug_data data;
    struct tug_direct_target *target;
    if (!tug_operand_describe(&data, NULL, 1, o->origin_type, o))
        return TUG_RMA_REFUSED;
    const int error = reach(o, &data, &target);
    if (__builtin_expect(error != MPI_SUCCESS, 0))
        return error;
    update_at(target, data.address,
              &(struct tug_update){.reduce = reduce,
                                   .origin = o->origin,
                                   .compare = compare,
                                   .result = o->result,
                                   .n = 1,
                                   .extent = data.bytes,
                                   .bytes = data.bytes});
    return MPI_SUCCESS;
}

int tug_direct_fetch_and_op(const struct tug_rma *o) {
    tug_reduction reduce = tug_reduction_find(o->op, o->origin_type);
    if (reduce == NULL)
        return tug_type_is_basic(o->origin_type) ? tug_operand_no_reduction(o->op)
                                                 : TUG_RMA_REFUSED;
    if (!tug_operand_has_buffers(o, false))
        return MPI_ERR_ARG;
    TUG_RETURN_IF_NOBODY(o);
    if (!tug_type_is_basic(o->origin_type)) { /* a pair, perhaps with a gap */
        const struct tug_rma as_vector = tug_operand_as_vector(o);
        return tug_direct_get_accumulate(&as_vector);
    }
    return update_one(o, reduce, NULL);
}

int tug_direct_compare_and_swap(const struct tug_rma *o) {
    if (!tug_reduction_compares(o->origin_type))
        return TUG_RMA_REFUSED;
    if (!tug_operand_has_buffers(o, true))
        return MPI_ERR_ARG;
    TUG_RETURN_IF_NOBODY(o);
    return update_one(o, tug_reduction_find(MPI_REPLACE, o->origin_type), o->compare);
}

/* ---- synchronisation: operations are plain loads and stores, and the caller (sync.c) puts memory
 * fences around every call here ---- */

static int flush(struct tug_window *window, int rank, bool local) {
    (void)window, (void)rank, (void)local;
    return MPI_SUCCESS;
}

static int flush_all(struct tug_window *window, bool local) {
    (void)window, (void)local;
    return MPI_SUCCESS;
}

const struct tug_lane tug_direct_lane = {
    .name = "direct", TUG_NODE_LANE, .flush = flush, .flush_all = flush_all, .release = release};
