/* Requests of the packet lane's operations: see remote_ways.h. */
#include "rma/remote_ways.h"

#include <stdlib.h>

static void destroy(struct tug_request *request) {
    free(request);
}

void tug_ways_end_part(void *pointer, int status) {
    struct tug_bundle *bundle = pointer;
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

int tug_ways_begin_request(const struct tug_rma *o, struct tug_ways *ways) {
    ways->bundle = NULL;
    if (__builtin_expect(o->request == NULL, 1))
        return MPI_SUCCESS;
    struct tug_bundle *bundle = calloc(1, sizeof(*bundle));
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
    bundle->counter = tug_outstanding_start(&ways->state->peer.local).d;
    ways->bundle = bundle;
    return MPI_SUCCESS;
}

int tug_ways_end_request(const struct tug_ways *ways, int error) {
    if (ways->bundle == NULL)
        return error;
    /* else the call that waits for it looks */
    const bool over = atomic_load_explicit(&ways->bundle->left, memory_order_relaxed) == 1;
    tug_ways_end_part(ways->bundle, error == MPI_SUCCESS         ? 0
                                    : error == MPI_ERR_RMA_RANGE ? TUG_ERR_RANGE
                                                                 : TUG_ERR_NO_MEMORY);
    if (over)
        tug_context_pass(ways->context);
    return error;
}
