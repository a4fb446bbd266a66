/* The row ofi: packets and operations through libfabric, which has providers for Slingshot, EFA,
 * Omni-Path and others, and for sockets.
 *
 * A process has one *endpoint* (endpoint.c), which comes with its first context and goes with its
 * last. A context's wire is a *view* of it: it knows where its processes are, by rank, and the id
 * by which the packets for it are known. All processes must have the same provider, and each sees
 * when a context is made that a greeting arrives from another node, if there is one: a provider
 * that is there but does not reach the others is not used.
 *
 * What comes is not trusted before it is checked: packets are checked by their reader (packet.h). A
 * packet that cannot be sent means that the peer is lost, for all contexts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "host/agreement.h"
#include "host/polite.h"
#include "transport/ofi/private.h"

#define GREETING_NS ((uint64_t)10 * 1000000000u) /* for the greeting to come */

/* The row where the provider does not read: all goes in packets. */
static struct tug_transport without;

static bool lacks(bool by_card, char *reason) {
    struct fi_info *info = tug_ofi_choose(by_card, reason);
    if (info != NULL)
        tug_ofi.freeinfo(info);
    return info == NULL;
}

/* By default only a card counts. */
static bool ofi_missing(char *reason) {
    return lacks(!tug_settings.transports_named, reason);
}

bool tug_wire_ofi_lacks_card(char *reason) {
    return lacks(true, reason);
}

/* ---- opening and closing ---- */

struct tug_ofi_view *tug_ofi_view_make(struct tug_ofi_endpoint *endpoint,
                                       struct tug_fabric *fabric) {
    struct tug_ofi_view *view = calloc(1, sizeof(*view));
    if (view == NULL)
        return NULL;
    without = tug_transport_ofi;
    without.longs = (struct tug_longs){0};
    tug_endpoint_add(&endpoint->base, &view->wire,
                     tug_ofi_reads(endpoint) ? &tug_transport_ofi : &without, fabric,
                     TUG_OFI_PACKET_BYTES);
    view->endpoint = endpoint;
    view->wire.ports = tug_ofi_operates(endpoint) && fabric->states[TUG_BY_VERBS] == NULL;
    view->wire.atomics = view->wire.ports > 0 && tug_ofi_has_atomics(endpoint);
    view->addresses = calloc(fabric->nranks, sizeof(fi_addr_t));
    view->told = calloc(fabric->nranks, sizeof(struct tug_ofi_address));
    if (view->addresses != NULL && view->told != NULL)
        return view;
    tug_endpoint_close_wire(view);
    return NULL;
}

static struct tug_endpoint *make_endpoint(void *reason) {
    return (struct tug_endpoint *)tug_ofi_endpoint_make(reason);
}

/* NULL, and why: none can be had. */
static struct tug_ofi_view *open_view(struct tug_fabric *fabric, char *reason) {
    static struct tug_endpoint *home;
    struct tug_endpoint *endpoint = tug_endpoint_share(&home, NULL, make_endpoint, reason);
    if (endpoint == NULL)
        return NULL;
    struct tug_ofi_view *view = tug_ofi_view_make((struct tug_ofi_endpoint *)endpoint, fabric);
    tug_endpoint_release(endpoint);
    return view;
}

/* All have a view, and of the same provider. Names may differ in length: shm's tell the process by
 * its number, in decimal. */
static bool all_alike(const struct tug_fabric *fabric, const struct tug_ofi_view *view) {
    int64_t words[3] = {view == NULL};
    if (view != NULL) {
        const struct fi_info *info = view->endpoint->info;
        words[1] = (int64_t)info->addr_format * 8 + tug_ofi_reads(view->endpoint) * 4 +
                   view->wire.ports * 2 + view->wire.atomics;
        for (const char *at = info->fabric_attr->prov_name; *at != '\0'; at++)
            words[1] = (words[1] * 131 + *at) % 0x7fffffff;
    }
    words[2] = ~words[1];
    return tug_agree(fabric->comm, MPI_MAX, words, 3) == MPI_SUCCESS && words[0] == 0 &&
           words[1] == ~words[2];
}

/* Tells all where this process is. True: the view is entered with all. Collective. */
static bool introduce(struct tug_ofi_view *view) {
    const int bytes = sizeof(struct tug_ofi_address);
    MPI_Comm comm = view->wire.fabric->comm;
    const bool entered = TUG_POLITE(Iallgather, &view->endpoint->address, bytes, MPI_BYTE,
                                    view->told, bytes, MPI_BYTE, comm) == MPI_SUCCESS &&
                         tug_endpoint_call_enter(&view->wire);
    free(view->told);
    view->told = NULL;
    return tug_all_agree(comm, entered);
}

static void greet(void *argument) {
    struct tug_ofi_view *view = argument;
    const struct tug_fabric *fabric = view->wire.fabric;
    const uint32_t step = fabric->node_size < fabric->nranks ? fabric->node_size : 1;
    if (!view->greeted)
        view->greeted = tug_ofi_greet(view, (fabric->rank + step) % fabric->nranks);
    (void)tug_endpoint_look(view->wire.endpoint);
    tug_endpoint_serve_others(view->wire.endpoint, &view->wire);
}

/* Does a greeting go to a process of another node, and come from one, for all? Collective. */
static bool meet(struct tug_ofi_view *view) {
    const uint64_t start = tug_clock_ns();
    do
        tug_engine_call(greet, view);
    while (!(view->greeted && view->heard) && tug_clock_ns() - start < GREETING_NS &&
           sched_yield() == 0);
    return tug_all_agree(view->wire.fabric->comm, view->heard);
}

static int ofi_open(struct tug_fabric *fabric, void **state, char *reason) {
    struct tug_ofi_view *view = open_view(fabric, reason);
    const char *why = NULL;
    if (!all_alike(fabric, view))
        why = view != NULL ? "other processes have no such provider of libfabric" : NULL;
    else if (!introduce(view))
        why = "no memory, or addresses that the provider does not know";
    else if (!meet(view))
        why = "the provider does not reach another node";
    else {
        *state = view;
        return 0;
    }
    if (view != NULL)
        tug_endpoint_close_wire(view);
    if (why != NULL)
        snprintf(reason, 256, "%s", why);
    return TUG_ERR_UNSUPPORTED;
}

const struct tug_transport tug_transport_ofi = {
    .name = "ofi",
    .packet_bytes = TUG_OFI_PACKET_BYTES,
    .help =
        "libfabric: RMA, atomics and packets over Slingshot, EFA, Omni-Path and others, sockets",
    .missing = ofi_missing,
    .open = ofi_open,
    .close = tug_endpoint_close_wire,
    .register_memory = tug_ofi_register,
    .deregister_memory = tug_ofi_deregister,
    .takes = tug_ofi_takes,
    .post = tug_ofi_post,
    .poll = tug_endpoint_poll,
    .arm = tug_ofi_arm,
    .send = tug_ofi_send,
    .longs = {TUG_OFI_LONG_LEAST, TUG_OFI_LONG_LEAST, TUG_LONG_PIECE, TUG_LONG_PIECE,
              TUG_LONGS_MOST},
    .lost = tug_ofi_abandon};

size_t tug_wire_ofi_footprint(uint64_t nranks) {
    return sizeof(struct tug_ofi_view) + nranks * sizeof(fi_addr_t);
}

size_t tug_wire_ofi_endpoint_footprint(void) {
    return sizeof(struct tug_ofi_endpoint) + TUG_LONG_PIECE;
}
