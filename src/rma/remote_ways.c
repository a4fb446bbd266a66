/* Requests of the packet lane's operations: see remote_ways.h. */
#include "rma/remote_ways.h"

/* The program has waited for it. */
static void let_go(struct tug_request *request) {
    (void)request;
    tug_burst_end();
}

void tug_ways_end_part(void *pointer, int status) {
    struct tug_bundle *bundle = pointer;
    int none = 0;
    if (status != 0)
        atomic_compare_exchange_strong(&bundle->status, &none, status);
    /* acquire: pairs with the others' ends; the last one need not count */
    if (atomic_load_explicit(&bundle->left, memory_order_acquire) > 1 &&
        atomic_fetch_sub(&bundle->left, 1) > 1)
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
    _Static_assert(sizeof(struct tug_bundle) <= TUG_REQUEST_ONCE_BYTES, "there is room");
    struct tug_bundle *bundle = (struct tug_bundle *)tug_request_begin_once(let_go);
    if (bundle == NULL)
        return MPI_ERR_NO_MEM;
    bundle->request.win = o->window->handle;
    atomic_init(&bundle->left, 1);
    atomic_init(&bundle->status, 0);
    *o->request = bundle->request.handle;
    bundle->counter = tug_outstanding_start(&ways->state->peer.local).d;
    ways->bundle = bundle;
    return MPI_SUCCESS;
}

int tug_ways_end_request(const struct tug_ways *ways, int error) {
    if (ways->bundle == NULL)
        return error;
    if (!ways->one_part)
        tug_ways_end_part(ways->bundle, error == MPI_SUCCESS         ? 0
                                        : error == MPI_ERR_RMA_RANGE ? TUG_ERR_RANGE
                                                                     : TUG_ERR_NO_MEMORY);
    if (!tug_request_pending(&ways->bundle->request)) /* else the call that waits for it looks */
        tug_context_pass(ways->context);
    return error;
}
