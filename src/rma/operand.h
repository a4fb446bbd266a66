/* What the lanes of ours find out about a one-sided operation before they do it: its data, its
 * elements, its offset at the target, and what MPI has against it. The answers are those of
 * direct.h: MPI_SUCCESS, an error class for the window's handler, or TUG_RMA_REFUSED. Any thread.
 */
#ifndef TUG_RMA_OPERAND_H
#define TUG_RMA_OPERAND_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "host/layout.h"
#include "host/reduction.h"
#include "rma/rma.h"
#include "rma/window.h"
#include "tugboat/llcl.h"

static inline bool tug_operand_describe(struct tug_data *data, const void *address, MPI_Count count,
                                        MPI_Datatype type, const struct tug_rma *o) {
    data->address = (void *)address;
    data->count = count;
    data->type = type;
    return tug_data_describe(data, o->window->comm);
}

/* A buffer of this rank's that is NULL and should not be. */
static inline bool tug_operand_is_nowhere(const struct tug_data *data) {
    return __builtin_expect(data->address == NULL, 0) && tug_data_lacks_address(data);
}

/* MPI_PROC_NULL: nothing to do, once the arguments have been seen to be right. */
#define TUG_RETURN_IF_NOBODY(o)                                                                    \
    if (__builtin_expect((o)->target == MPI_PROC_NULL, 0))                                         \
    return MPI_SUCCESS

/* The target is none, or the displacement is negative. */
int tug_operand_no_target(const struct tug_rma *o);

/* Is the target one that this rank may access now? */
static inline int tug_operand_check_target(const struct tug_rma *o) {
    struct tug_epochs *epochs = &o->window->epochs;
    if (__builtin_expect((unsigned)o->target >= (unsigned)epochs->nranks || o->disp < 0, 0))
        return tug_operand_no_target(o);
    return __builtin_expect(!tug_epochs_allow(epochs, o->target), 0) ? MPI_ERR_RMA_SYNC
                                                                     : MPI_SUCCESS;
}

/* Where in a target's `size` bytes the operation's data begin. */
static inline int tug_operand_locate(const struct tug_rma *o, const struct tug_data *data,
                                     MPI_Aint size, MPI_Aint disp_unit, MPI_Aint *offset) {
    if (__builtin_expect(
            __builtin_mul_overflow(o->disp, disp_unit, offset) ||
                (data->bytes > 0 && (*offset > size - data->end || *offset + data->first < 0)),
            0))
        return MPI_ERR_RMA_RANGE;
    return MPI_SUCCESS;
}

/* The elements an accumulate works on: of one predefined type. */
struct tug_elements {
    MPI_Datatype type;
    size_t size, extent; /* size: without the gap that a pair of value and index may have */
    size_t end;          /* to behind the last byte that is data */
    tug_reduction reduce;
};

/* Finds out the sizes of a predefined type's elements. False: no memory. */
bool tug_elements_measure(MPI_Datatype type, struct tug_elements *elements);

/* Bytes from the first one of n elements that lie together to behind their last one that is data.
 */
static inline size_t tug_elements_span(const struct tug_elements *elements, size_t n) {
    return n == 0 ? 0 : (n - 1) * elements->extent + elements->end;
}

/* The data that an accumulate works on at the target, wherever they are, and their elements; origin
 * and result are those of tug_operand_accumulate(). The types need not match if no element is
 * combined, as in MPICH. */
int tug_operand_describe_elements(const struct tug_rma *o, const struct tug_data *origin,
                                  const struct tug_data *result, struct tug_data *data,
                                  struct tug_elements *elements);

/* Fetched pairs on their way into memory whose gaps stay as they are. */
struct tug_pairs {
    struct tug_callback then;
    tug_reduction replace; /* leaves gaps alone */
    void *to;
    size_t n;
    unsigned char data[]; /* where they come */
};

/* For n of them; NULL: no memory. */
struct tug_pairs *tug_pairs_fetch(const struct tug_elements *elements, void *to, size_t n);

/* What is called when they have come, or an error: delivers and frees them, and then calls `then`.
 */
struct tug_callback tug_pairs_deliver_then(struct tug_pairs *pairs, struct tug_callback then);

/* Why there is no reduction for an operation. */
int tug_operand_no_reduction(MPI_Op op);

/* Do an accumulate's data fit? The target may have more elements than the origin, which stay as
 * they are but are fetched, and the result more than the target. */
static inline bool tug_operand_fits(const struct tug_data *data, const struct tug_data *origin,
                                    const struct tug_data *result) {
    return (origin == NULL || origin->bytes <= data->bytes) &&
           (result == NULL || data->bytes <= result->bytes);
}

/* Describes what an accumulate reads (`origin`; NULL: MPI_NO_OP reads nothing) and fetches into
 * (`result`; NULL: it does not fetch), and goes on with both. */
static inline int tug_operand_accumulate(const struct tug_rma *o, bool fetches,
                                         int (*go_on)(const struct tug_rma *,
                                                      const struct tug_data *origin,
                                                      const struct tug_data *result)) {
    struct tug_data origin, result;
    bool reads = !fetches || o->op != MPI_NO_OP;
    if ((reads && !tug_operand_describe(&origin, o->origin, o->origin_count, o->origin_type, o)) ||
        (fetches && !tug_operand_describe(&result, o->result, o->result_count, o->result_type, o)))
        return TUG_RMA_REFUSED;
    if ((reads && tug_operand_is_nowhere(&origin)) || (fetches && tug_operand_is_nowhere(&result)))
        return MPI_ERR_BUFFER;
    if (__builtin_expect(!fetches && o->op == MPI_NO_OP, 0))
        return MPI_ERR_OP;
    return go_on(o, reads ? &origin : NULL, fetches ? &result : NULL);
}

/* MPI_Fetch_and_op and MPI_Compare_and_swap: has each of their buffers an address? */
static inline bool tug_operand_has_buffers(const struct tug_rma *o, bool compares) {
    return __builtin_expect(o->result != NULL &&
                                (o->origin != NULL || (!compares && o->op == MPI_NO_OP)) &&
                                (!compares || o->compare != NULL),
                            1);
}

/* The same operation as a fetching accumulate of one element. */
static inline struct tug_rma tug_operand_as_vector(const struct tug_rma *o) {
    struct tug_rma vector = *o;
    vector.origin_count = vector.result_count = vector.target_count = 1;
    vector.result_type = vector.target_type = o->origin_type;
    return vector;
}

#endif
