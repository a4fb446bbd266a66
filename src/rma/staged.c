#include "rma/staged.h"

#include "host/staged.h"
#include "rma/operand.h"
#include "rma/window.h"

struct buffers {
    struct tug_staged origin, result, compare;
};

/* The buffers of an operation that has counts and types of its own. */
static int stage_counted(const struct tug_rma *o, enum tug_rma_family family, struct buffers *b) {
    MPI_Comm comm = o->window->comm;
    int error = MPI_SUCCESS;
    if (family == TUG_RMA_GET)
        return tug_stage(&b->result, o->result, o->origin_count, o->origin_type, false, comm);
    if (family != TUG_RMA_GETACC || o->op != MPI_NO_OP)
        error = tug_stage(&b->origin, o->origin, o->origin_count, o->origin_type, true, comm);
    if (family == TUG_RMA_GETACC && error == MPI_SUCCESS)
        error = tug_stage(&b->result, o->result, o->result_count, o->result_type, false, comm);
    return error;
}

/* Those of one on a single element. */
static int stage_single(const struct tug_rma *o, enum tug_rma_family family, struct buffers *b) {
    MPI_Comm comm = o->window->comm;
    int error = tug_stage(&b->result, o->result, 1, o->origin_type, false, comm);
    if (error == MPI_SUCCESS && (family == TUG_RMA_CAS || o->op != MPI_NO_OP))
        error = tug_stage(&b->origin, o->origin, 1, o->origin_type, true, comm);
    if (error == MPI_SUCCESS && family == TUG_RMA_CAS)
        error = tug_stage(&b->compare, o->compare, 1, o->origin_type, true, comm);
    return error;
}

/* The operation on the arrays, without a request. */
static struct tug_rma replaced(const struct tug_rma *o, enum tug_rma_family family,
                               const struct buffers *b) {
    struct tug_rma plain = *o;
    const struct tug_data *here = &(family == TUG_RMA_GET ? &b->result : &b->origin)->array;
    plain.request = NULL;
    if (tug_is_staged(&b->origin))
        plain.origin = b->origin.array.address;
    if (tug_is_staged(&b->result))
        plain.result = b->result.array.address;
    if (tug_is_staged(&b->compare))
        plain.compare = b->compare.array.address;
    if (here->address != NULL && family < TUG_RMA_FOP) {
        plain.origin_count = here->count;
        plain.origin_type = here->type;
    }
    if (tug_is_staged(&b->result) && family == TUG_RMA_GETACC) {
        plain.result_count = b->result.array.count;
        plain.result_type = b->result.array.type;
    }
    return plain;
}

/* Brings what has been fetched to where the program wants it: as much as the target has. */
static int deliver(const struct tug_rma *o, enum tug_rma_family family,
                   const struct tug_staged *result) {
    struct tug_data target = result->data;
    if (family < TUG_RMA_FOP &&
        !tug_operand_describe(&target, NULL, o->target_count, o->target_type, o))
        return MPI_ERR_TYPE;
    return tug_staged_deliver(result, target.bytes);
}

/* Waits until the arrays are used no more; an operation that fails may have begun. */
static int flush(const struct tug_rma *o, int error) {
    struct tug_window *window = o->window;
    if (error == TUG_RMA_REFUSED || (unsigned)o->target >= (unsigned)window->epochs.nranks)
        return error;
    int flushed = window->lane->flush(window, o->target, true);
    return error == MPI_SUCCESS ? flushed : error;
}

static int run_staged(struct tug_rma *o, enum tug_rma_family family, const struct buffers *b,
                      int (*lane)(const struct tug_rma *)) {
    const struct tug_rma plain = replaced(o, family, b);
    int error = flush(o, lane(&plain));
    if (error == MPI_SUCCESS && tug_is_staged(&b->result) && o->target != MPI_PROC_NULL)
        error = deliver(o, family, &b->result);
    if (error == MPI_SUCCESS && o->request != NULL)
        error = tug_rma_complete_request(o);
    o->request = NULL;
    return error;
}

int tug_staged_operation(struct tug_rma *o, enum tug_rma_family family,
                         int (*lane)(const struct tug_rma *)) {
    struct buffers b = {0};
    int error = family < TUG_RMA_FOP ? stage_counted(o, family, &b) : stage_single(o, family, &b);
    bool any = tug_is_staged(&b.origin) || tug_is_staged(&b.result) || tug_is_staged(&b.compare);
    if (error == MPI_SUCCESS)
        error = any ? run_staged(o, family, &b, lane) : lane(o);
    tug_staged_release(&b.origin);
    tug_staged_release(&b.result);
    tug_staged_release(&b.compare);
    return error;
}
