/* The receiver of a tcp wire over which only short packets go, for tests of the wire without the
 * packets' streams: no data follow a packet, and every peer is reached by the wire. */
#ifndef TUG_TEST_TCP_RECEIVER_H
#define TUG_TEST_TCP_RECEIVER_H

#include "check.h"
#include "tcp_wire.h"

static inline unsigned char *tcp_trailer(void *receiver, uint32_t source, size_t come,
                                         size_t *room) {
    (void)receiver, (void)source, (void)come, (void)room;
    return NULL;
}

static inline void tcp_arrived(void *receiver, uint32_t source, bool whole) {
    (void)receiver, (void)source, (void)whole;
}

static inline void tcp_settled(void *receiver, uint32_t peer, bool by_wire) {
    (void)receiver, (void)peer;
    assert_true(by_wire);
}

/* A wire of this process, at a port of the loopback device, which it writes into *address. */
static inline struct tug_wire *
tcp_open(struct tug_fabric *fabric, struct tug_tcp_address *address, void *receiver,
         bool (*receive)(void *receiver, struct tug_wire *wire, const void *memory, size_t bytes),
         void (*ended)(void *receiver, uint32_t peer)) {
    *address = (struct tug_tcp_address){.family = AF_INET, .ip = {127, 0, 0, 1}};
    struct tug_wire *wire = tcp_wire_make(fabric, address);
    assert_non_null(wire);
    wire->receiver = receiver;
    wire->receive = receive;
    wire->trailer_address = tcp_trailer;
    wire->arrived = tcp_arrived;
    wire->settled = tcp_settled;
    wire->ended = ended;
    return wire;
}

#endif
