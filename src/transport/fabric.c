/* The fabric: which transport an operation takes, and how it ends. */
#include <stddef.h>

#include "transport/atomic.h"
#include "transport/transport.h"

const struct tug_transport *const tug_transports[] = {
    [TUG_BY_VERBS] = &tug_transport_verbs,
    [TUG_BY_PACKETS] = &tug_transport_packets,
    [TUG_TRANSPORT_COUNT] = NULL,
};

/* The first row from `first` on that can do the operation. */
static inline const struct tug_transport *find_row(const struct tug_fabric *fabric,
                                                   const struct tug_operation *operation,
                                                   unsigned first, void **state) {
    for (unsigned i = first; i < TUG_TRANSPORT_COUNT; i++) {
        const struct tug_transport *transport = tug_transports[i];
        *state = fabric->states[i];
        if (*state != NULL && transport->reaches(*state, operation->peer) &&
            transport->takes(*state, operation))
            return transport;
    }
    return NULL;
}

const struct tug_transport *tug_fabric_route(const struct tug_fabric *fabric,
                                             const struct tug_operation *operation, void **state) {
    return find_row(fabric, operation, 0, state);
}

void tug_fabric_pass_on(struct tug_fabric *fabric, struct tug_operation *operation, unsigned from) {
    void *state;
    const struct tug_transport *transport = find_row(fabric, operation, from + 1, &state);
    if (transport != NULL) {
        transport->post(state, operation);
        return;
    }
    operation->status = TUG_ERR_PEER;
    tug_fabric_complete(fabric, operation);
}

uint32_t tug_fabric_node_rank(const struct tug_fabric *fabric, uint32_t peer) {
    uint32_t low = 0, high = fabric->node_size;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (fabric->node_ranks[middle] < peer)
            low = middle + 1;
        else
            high = middle;
    }
    return low < fabric->node_size && fabric->node_ranks[low] == peer ? low : TUG_ELSEWHERE;
}

void tug_fabric_result(struct tug_operation *operation, uint64_t value) {
    if (operation->local != NULL)
        tug_atomic_result(operation->local, (unsigned)operation->bytes, value);
}

static inline void release(struct tug_fabric *fabric, struct tug_operation *operation) {
    operation->kind = TUG_OPERATION_NONE;
    operation->scratch = 0;
    if (operation->registration != NULL)
        operation->registration->users--;
    fabric->out--;
    tug_tags_give(&fabric->tags, tug_fabric_tag(fabric, operation));
}

void tug_fabric_complete(struct tug_fabric *fabric, struct tug_operation *operation) {
    struct tug_callback local = operation->on_local;
    struct tug_callback complete = operation->on_complete;
    int status = operation->status;
    release(fabric, operation); /* before the callbacks, which may want the tag */
    if (local.f != NULL)
        local.f(local.d, status);
    if (complete.f != NULL)
        complete.f(complete.d, status);
}

void tug_fabric_join(struct tug_fabric *fabric, struct tug_operation *operation,
                     struct tug_operation *with) {
    with->left++;
    tug_fabric_local(operation);
    release(fabric, operation);
}

/* Completes one operation of a list. */
static void complete_one(struct tug_fabric *fabric, struct tug_operation *operation) {
    void *counter = operation->on_complete.d;
    uint64_t joined = operation->left;
    tug_fabric_complete(fabric, operation); /* first: its status is theirs */
    if (joined > 0)
        fabric->count(counter, joined);
}

void tug_fabric_complete_list(struct tug_fabric *fabric, uint32_t first) {
    void *counter = NULL;
    uint64_t n = 0;
    for (uint32_t tag = first; tag != TUG_NO_TAG;) {
        struct tug_operation *operation = &fabric->operations[tag];
        tag = operation->next;
        if (tag != TUG_NO_TAG)
            __builtin_prefetch(&fabric->operations[tag]);
        if (operation->on_complete.f != fabric->counter || operation->on_complete.f == NULL ||
            operation->status != 0 || operation->on_local.f != NULL) {
            complete_one(fabric, operation);
            continue;
        }
        if (operation->on_complete.d != counter) {
            if (n > 0)
                fabric->count(counter, n);
            counter = operation->on_complete.d;
            n = 0;
        }
        n += 1 + operation->left;
        release(fabric, operation);
    }
    if (n > 0)
        fabric->count(counter, n);
}
