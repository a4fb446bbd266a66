/* What a test says of the stand-in's devices and ports, which have one and the same port otherwise,
 * and what it has them report. A program that is linked with the stand-in, or finds these by
 * dlsym(), calls them; one thread, but for events. */
#ifndef TUG_TEST_FAKE_PORTS_H
#define TUG_TEST_FAKE_PORTS_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#define FAKE_GIDS 8
#define FAKE_PKEYS 4

struct fake_port {
    bool described; /* the port is as the rest says */
    bool down;
    uint8_t link_layer, speed, width, lmc; /* as libibverbs has them */
    uint16_t lid;
    struct {
        union ibv_gid gid; /* zeros: none */
        bool v2;
    } gids[FAKE_GIDS];
    uint16_t pkeys[FAKE_PKEYS]; /* 0: none */
};

/* The port (from 1 on) of a device (from 0 on), to be changed. */
struct fake_port *fake_port(unsigned device, unsigned port);
/* No port is described any more. */
void fake_ports_forget(void);

/* The device reports an event of the port, or of a shared receive queue (port 0). */
void fake_report(struct ibv_context *context, enum ibv_event_type type, int port);
/* Devices do not report the last request of a queue pair, as some do not; or they do again, also
 * what they have not. */
void fake_be_silent(bool silent);

/* ---- for the stand-in ---- */

/* Puts what is described into what the port says of itself. */
void fake_describe(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attributes);
/* The queue pair is in error and takes no more receives. */
void fake_last_request(struct ibv_qp *qp);
/* The queue pair is about to go: returns when all events of it have been acknowledged. */
void fake_forget_events(struct ibv_qp *qp);

#endif
