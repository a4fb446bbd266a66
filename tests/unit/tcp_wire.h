/* A tcp wire without a fabric's other rows. */
#ifndef TUG_TEST_TCP_WIRE_H
#define TUG_TEST_TCP_WIRE_H

#include "transport/tcp/private.h"

/* A view, entered, of an endpoint of its own that listens at the address in *mine. NULL: it cannot
 * be had. */
static inline struct tug_wire *tcp_wire_make(struct tug_fabric *fabric,
                                             struct tug_tcp_address *mine) {
    struct tug_tcp_endpoint *endpoint = tug_tcp_endpoint_make(mine, fabric->ways & TUG_WAY_MPI);
    struct tug_tcp_view *view = endpoint != NULL ? tug_tcp_view_make(endpoint, fabric) : NULL;
    if (view != NULL && tug_endpoint_enter(&view->wire))
        return &view->wire;
    if (view != NULL)
        tug_transport_tcp.close(view);
    else if (endpoint != NULL)
        tug_tcp_endpoint_close(&endpoint->base);
    return NULL;
}

/* Where all processes listen, by rank; to be filled in. */
static inline struct tug_tcp_address *tcp_wire_addresses(struct tug_wire *wire) {
    return ((struct tug_tcp_view *)wire)->addresses;
}

#endif
