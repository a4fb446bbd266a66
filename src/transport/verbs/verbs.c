/* The verbs transport: InfiniBand and RoCE by libibverbs.
 *
 * Reads and writes are RDMA, 8-byte atomics the device's, without the peer's processor; packets are
 * SENT. Everybody or nobody has it: open is agreed, so every process reaches every process, itself
 * included. Packets go by it where all have shared receive queues and no row before it goes to all.
 * A process opens its devices once, for all contexts (endpoint.c): a context's state is a view of
 * each. private.h tells how the parts go together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "host/agreement.h"
#include "host/host.h"
#include "transport/verbs/origin.h"
#include "transport/verbs/private.h"
#include "transport/verbs/verbs.h"

static bool missing(char *reason) {
    struct tug_verbs_place place;
    tug_verbs_place_here(&place, 0);
    return tug_verbs_device_missing(&place, reason);
}

/* ---- opening and closing ---- */

/* Packets are carried where they are wanted and there is room for them. */
static bool enter(struct tug_wire *wire) {
    struct tug_verbs_view *view = (struct tug_verbs_view *)wire;
    struct tug_verbs *verbs = view->verbs;
    if (!tug_verbs_number(view))
        return false;
    wire->no_packets = verbs->rail > 0 || !wire->fabric->to_be_carried || verbs->srq == NULL ||
                       !tug_verbs_watch(verbs) || !tug_verbs_messages_open(verbs);
    return true;
}

/* The other rails' views leave with the first one's: their messages go by its context. */
static void leave(struct tug_wire *wire) {
    struct tug_verbs_view *view = (struct tug_verbs_view *)wire;
    for (uint32_t rail = view->nrails; rail-- > 1;)
        tug_endpoint_take_out(&view->rails[rail]->wire);
    if (view->verbs->untold > 0)
        (void)tug_verbs_poll(wire->endpoint); /* who has asked by this context is answered first */
    while (view->out > 0) /* a handler has started it while the others left: the card ends it */
        (void)tug_verbs_poll(wire->endpoint);
    tug_verbs_contacts_end(view);
    tug_verbs_number_not(view);
}

static void close_wire(struct tug_wire *wire) {
    const struct tug_verbs_view *view = (struct tug_verbs_view *)wire;
    if (view->operations_mr != NULL)
        tug_ibv.dereg_mr(view->operations_mr);
}

const struct tug_endpoint_kind tug_verbs_kind = {.poll = tug_verbs_poll,
                                                 .enter = enter,
                                                 .leave = leave,
                                                 .close_wire = close_wire,
                                                 .close = tug_verbs_endpoint_close};

/* Those from that one on. */
static void close_rails(struct tug_verbs_view *first, uint32_t from) {
    while (first->nrails > from && first->nrails > 1)
        tug_endpoint_close_wire(first->rails[--first->nrails]);
    if (from == 0)
        tug_endpoint_close_wire(first);
}

static void verbs_close(void *state) {
    close_rails(state, 0);
}

struct wanted {
    const struct tug_fabric *fabric;
    uint32_t rail;
    struct tug_verbs_device *first; /* of a further rail */
    char *reason;
};

static struct tug_endpoint *make_endpoint(void *d) {
    const struct wanted *wanted = d;
    struct tug_verbs_place place;
    tug_verbs_place_here(&place, wanted->fabric->node_rank);
    return (struct tug_endpoint *)tug_verbs_endpoint_make(wanted->fabric->noperations, wanted->rail,
                                                          &place, wanted->first, wanted->reason);
}

/* Opens a rail, the first or the next one. first: the view of the first rail. */
static bool open_rail(struct tug_verbs_view *view, struct tug_verbs_view *first,
                      struct tug_endpoint **homes, struct tug_fabric *fabric, char *reason) {
    const uint32_t rail = first->nrails;
    struct wanted wanted = {fabric, rail, rail > 0 ? &first->verbs->device : NULL, reason};
    struct tug_endpoint *endpoint = tug_endpoint_share(&homes[rail], NULL, make_endpoint, &wanted);
    if (endpoint == NULL)
        return false;
    struct tug_verbs *verbs = (struct tug_verbs *)endpoint;
    view->verbs = verbs;
    view->first_rail = first;
    tug_endpoint_add(endpoint, &view->wire, &tug_transport_verbs, fabric, TUG_VERBS_PACKET_BYTES);
    tug_endpoint_release(endpoint);
    view->wire.pool.keeps = TUG_VERBS_KEPT;
    view->wire.atomics = verbs->device.atomics;
    view->operations_mr = tug_verbs_device_register(
        &verbs->device, fabric->operations, fabric->noperations * sizeof(struct tug_operation),
        (uintptr_t)fabric->operations, IBV_ACCESS_LOCAL_WRITE);
    if (view->operations_mr == NULL) {
        snprintf(reason, 256, "%s cannot register memory (ulimit -l?)", verbs->device.name);
        return false;
    }
    if (!tug_endpoint_call_enter(&view->wire)) {
        snprintf(reason, 256, "no memory");
        return false;
    }
    first->rails[first->nrails++] = view;
    return true;
}

/* As many more as there are. */
static void add_rails(struct tug_verbs_view *first, struct tug_endpoint **homes,
                      struct tug_fabric *fabric) {
    char reason[256];
    while (first->nrails < tug_settings.verbs_rails) {
        struct tug_verbs_view *view = calloc(1, sizeof *view);
        if (view != NULL && open_rail(view, first, homes, fabric, reason))
            continue;
        if (view != NULL && view->verbs != NULL)
            tug_endpoint_close_wire(view);
        else
            free(view);
        return;
    }
}

/* All processes have a device, and on the same kind of link; atomics and messages if all have them;
 * as many rails as every process has. view: NULL where there is no device. */
static bool agreed(const struct tug_fabric *fabric, struct tug_verbs_view *view) {
    enum { NOT_HERE, NO_ATOMICS, NO_MESSAGES, LINK, NOT_LINK, NO_RAILS, VOTES };
    const bool here = view != NULL;
    const int64_t link = here ? view->verbs->device.link_layer : 0;
    int64_t votes[VOTES] = {
        !here, !here || !view->wire.atomics,     !here || view->wire.no_packets, link,
        ~link, here ? -(int64_t)view->nrails : 0};
    if (fabric->comm != MPI_COMM_NULL &&
        tug_agree(fabric->comm, MPI_MAX, votes, VOTES) != MPI_SUCCESS)
        return false;
    if (!here || votes[NOT_HERE] || votes[LINK] != ~votes[NOT_LINK])
        return false;
    view->wire.atomics = !votes[NO_ATOMICS];
    view->wire.no_packets = votes[NO_MESSAGES];
    close_rails(view, (uint32_t)-votes[NO_RAILS]);
    return true;
}

int tug_verbs_open_at(struct tug_endpoint **homes, struct tug_fabric *fabric, void **state,
                      char *reason) {
    struct tug_verbs_view *view = calloc(1, sizeof *view);
    snprintf(reason, 256, "no memory");
    const bool here = view != NULL && open_rail(view, view, homes, fabric, reason);
    if (here)
        add_rails(view, homes, fabric);
    if (!agreed(fabric, here ? view : NULL)) {
        if (here)
            snprintf(reason, 256, "other processes have no such device");
        if (view != NULL && view->verbs != NULL)
            verbs_close(view);
        else
            free(view);
        return TUG_ERR_UNSUPPORTED;
    }
    for (uint32_t rail = 0; rail < view->nrails; rail++) {
        const struct tug_verbs_device *device = &view->rails[rail]->verbs->device;
        tug_log(TUG_VERBOSE_INFO, "verbs: %s port %u, %s", device->name, device->port,
                view->wire.atomics ? "with atomics" : "without atomics");
    }
    view->wire.ports = view->nrails;
    *state = view;
    return 0;
}

/* A view uses the endpoint from when it is found. */
static int verbs_open(struct tug_fabric *fabric, void **state, char *reason) {
    static struct tug_endpoint *homes[TUG_RKEYS];
    return tug_verbs_open_at(homes, fabric, state, reason);
}

/* ---- the row ---- */

static void verbs_deregister(void *state, struct tug_registration *registration) {
    (void)state;
    tug_verbs_memory_deregister(registration);
}

static bool verbs_takes(void *state, const struct tug_operation *operation) {
    const struct tug_verbs_view *view = state;
    const struct tug_registration *registration = operation->registration;
    if (!tug_fabric_device_takes(view->wire.fabric, operation))
        return false; /* atomics of 4 bytes: see queue.c */
    if (tug_operation_is_atomic(operation))
        return true;
    if (registration != NULL && registration->bytes > 0 && !tug_origin_lends(registration) &&
        registration->of_transport[TUG_BY_VERBS] == NULL)
        return false; /* the device refused it */
    /* of nothing: a card would not look at the key, packets do */
    return operation->bytes > 0 || view->wire.no_packets;
}

static void verbs_post(void *state, struct tug_operation *operation) {
    if (__builtin_expect(tug_operation_port(operation) != 0, 0))
        tug_verbs_post_by_port(state, operation);
    else if (!tug_verbs_cut(state, operation))
        tug_verbs_post(state, operation);
}

static void flush_rails(const struct tug_verbs_view *first, enum tug_verbs_batch batch) {
    for (uint32_t rail = 0; rail < first->nrails; rail++) {
        struct tug_verbs *verbs = first->rails[rail]->verbs;
        if (verbs->touched != NULL)
            tug_verbs_flush(verbs, batch);
    }
}

static void verbs_flush(void *state) {
    const struct tug_verbs_view *view = state;
    flush_rails(view, view->wire.fabric->more_comes ? TUG_BATCH_GROWS : TUG_BATCH_ENDS);
}

static bool verbs_poll(void *state) {
    const struct tug_verbs_view *first = state;
    bool moved = false;
    for (uint32_t rail = 0; rail < first->nrails; rail++)
        moved |= tug_endpoint_poll(first->rails[rail]);
    return moved;
}

static bool arm_rail(struct tug_verbs *verbs) {
    const bool unsent = verbs->touched != NULL && verbs->cq_room > 0;
    if (verbs->finished.first != TUG_NO_TAG || unsent || verbs->asked_again > 0 ||
        verbs->untold > 0 || (verbs->messages != NULL && verbs->messages->nheld > 0))
        return false;
    verbs->base.look = true; /* what has come since the last look does not ring */
    if (verbs->cq_room < verbs->cq_size || verbs->messages != NULL)
        return tug_watcher_sees() && ibv_req_notify_cq(verbs->cq, 0) == 0;
    return true; /* what else can come is a control message */
}

/* To look at more of them before each sleep would cost more than polls of the host. */
#define WIRED_MOST 256

struct look {
    uint32_t wired; /* processes whose packets come by verbs */
    bool by_memory; /* those of the node's do not */
    bool asks;
};

static void look_at(void *value, void *d) {
    const struct tug_verbs_contact *contact = value;
    const struct tug_verbs_pair *pair = contact->pair;
    const struct tug_fabric *fabric = contact->view->wire.fabric;
    struct look *look = d;
    look->asks |= pair->phase == TUG_PAIR_ASKED || pair->id == 0 || pair->moving > 0;
    look->wired +=
        pair->server != NULL && contact->rank != fabric->rank &&
        (!look->by_memory || tug_fabric_node_rank(fabric, contact->rank) == TUG_ELSEWHERE);
}

/* Has every process of another node a connection to this one, and has this one asked for none?
 * Inside a node few ever ask, where packets go by memory there. */
static bool is_wired(const struct tug_verbs_view *view) {
    const struct tug_fabric *fabric = view->wire.fabric;
    struct look look = {.by_memory = fabric->states[TUG_BY_SHM] != NULL};
    const uint32_t others = fabric->nranks - (look.by_memory ? fabric->node_size : 1);
    if (others > WIRED_MOST || view->verbs->nservers < others)
        return false;
    for (uint32_t rail = view->nrails; rail-- > 0;) {
        look.wired = 0; /* those of the first count */
        tug_table_each(&view->rails[rail]->contacts, look_at, &look);
    }
    return look.wired >= others && !look.asks;
}

static bool verbs_arm(void *state) {
    struct tug_verbs_view *first = state;
    bool armed = true;
    for (uint32_t rail = 0; rail < first->nrails; rail++)
        armed &= arm_rail(first->rails[rail]->verbs);
    first->wire.wired = armed && is_wired(first);
    return armed;
}

static void verbs_control(void *state, uint32_t peer, const void *data, size_t bytes) {
    struct tug_verbs_view *view = state;
    tug_verbs_pair_control(view, peer, data, bytes);
    flush_rails(view, TUG_BATCH_GOES);
}

static void verbs_lost(struct tug_wire *wire, uint32_t peer) {
    const struct tug_verbs_view *first = (const struct tug_verbs_view *)wire;
    for (uint32_t rail = 0; rail < first->nrails; rail++)
        tug_verbs_pair_gone(first->rails[rail], peer);
}

/* The end of a message that is under way is reported, and so is the answer of a peer that has been
 * asked: arm() has them ring. */
static bool verbs_tells_of_room(struct tug_wire *wire, uint32_t peer) {
    const struct tug_verbs_view *view = (const struct tug_verbs_view *)wire;
    const struct tug_verbs_contact *contact = tug_table_find(&view->contacts, peer);
    return contact != NULL && (contact->met || wire->endpoint->under_way > 0);
}

const struct tug_transport tug_transport_verbs = {
    .name = "verbs",
    .help = "InfiniBand and RoCE: RDMA and the device's atomics",
    .missing = missing,
    .open = verbs_open,
    .close = verbs_close,
    .register_memory = tug_verbs_memory_register,
    .deregister_memory = verbs_deregister,
    .takes = verbs_takes,
    .orders_atomics = true,
    .post = verbs_post,
    .post_signalled = tug_verbs_post_signalled,
    .flush = verbs_flush,
    .poll = verbs_poll,
    .arm = verbs_arm,
    .control = verbs_control,
    .lost = verbs_lost,
    .send = tug_verbs_send,
    .wired_by_host = true,
    .tells_of_room = verbs_tells_of_room,
    .meet = tug_verbs_meet,
};
