#include "rma/operand.h"

#include <stdlib.h>

#include "host/datatype.h"
#include "host/handles.h"
#include "host/host.h"
#include "rma/remote.h"

/* What is no predefined operation the host refuses; some pairs of op and type that MPI does not
 * define it would try. */
int tug_operand_no_reduction(MPI_Op op) {
    return tug_op_is_predefined(op) ? MPI_ERR_OP : TUG_RMA_REFUSED;
}

/* In a dynamic window a displacement is an address, which the host would go to. */
int tug_operand_no_target(const struct tug_rma *o) {
    const struct tug_window *window = o->window;
    if ((unsigned)o->target >= (unsigned)window->epochs.nranks || window->remote == NULL ||
        window->remote->attachments == NULL)
        return TUG_RMA_REFUSED;
    return tug_epochs_allow(&o->window->epochs, o->target) ? MPI_ERR_RMA_RANGE : MPI_ERR_RMA_SYNC;
}

bool tug_elements_measure(MPI_Datatype type, struct tug_elements *elements) {
    elements->type = type;
    if (tug_type_is_basic(type)) {
        elements->size = elements->extent = elements->end = tug_type_basic_size(type);
        return true;
    }
    const struct tug_flat *flat = tug_flat_get(type);
    if (flat == NULL)
        return false;
    elements->size = flat->element_size;
    elements->extent = flat->element_extent;
    elements->end = (size_t)flat->end;
    return true;
}

int tug_operand_describe_elements(const struct tug_rma *o, const struct tug_data *origin,
                                  const struct tug_data *result, struct tug_data *data,
                                  struct tug_elements *elements) {
    const bool combines = origin != NULL && origin->bytes > 0;
    if (!tug_operand_describe(data, NULL, o->target_count, o->target_type, o))
        return TUG_RMA_REFUSED;
    if (data->bytes == 0 || (!combines && result == NULL)) { /* of no element: any types will do */
        *elements = (struct tug_elements){.type = MPI_BYTE, .size = 1, .extent = 1, .end = 1};
        return tug_op_is_predefined(o->op) ? MPI_SUCCESS : TUG_RMA_REFUSED;
    }
    const MPI_Datatype type = tug_type_element(o->target_type);
    elements->reduce = tug_reduction_find(o->op, type);
    if (elements->reduce == NULL)
        return tug_operand_no_reduction(o->op);
    if (combines && tug_type_element(o->origin_type) != type)
        return MPI_ERR_TYPE;
    return tug_elements_measure(type, elements) ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

struct tug_pairs *tug_pairs_fetch(const struct tug_elements *elements, void *to, size_t n) {
    struct tug_pairs *pairs = malloc(sizeof(*pairs) + n * elements->extent);
    if (pairs != NULL)
        *pairs = (struct tug_pairs){
            .replace = tug_reduction_find(MPI_REPLACE, elements->type), .to = to, .n = n};
    return pairs;
}

static void deliver(void *pointer, int status) {
    struct tug_pairs *pairs = pointer;
    struct tug_callback then = pairs->then;
    if (status == 0)
        pairs->replace(pairs->to, pairs->data, pairs->n);
    free(pairs);
    then.f(then.d, status);
}

struct tug_callback tug_pairs_deliver_then(struct tug_pairs *pairs, struct tug_callback then) {
    pairs->then = then;
    return (struct tug_callback){deliver, pairs};
}

int tug_rma_complete_request(const struct tug_rma *o) {
    return tug_host.Irecv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, o->window->comm, o->request);
}
