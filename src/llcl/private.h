/* What the files of LLCL share: the context. What other floors may ask is in llcl.h.
 *
 *   context.c       creation, end, and the choice of transports
 *   registration.c  memory: registered, allocated, mapped; keys
 *   operation.c     the try_ calls: checks, the caller's own way where memory is mapped
 *   copies.c        long copies of memory in reach
 *   long.c          long active messages, gathered where they come
 *   submit.c        the way to a transport, through the ring or not
 *   small.c         small operations of other floors, see small.h
 *   vector.c        ... those that wait for a flush, next to a process that computes
 *   wait.c          helping and waiting
 */
#ifndef TUG_LLCL_PRIVATE_H
#define TUG_LLCL_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "engine/engine.h"
#include "engine/service.h"
#include "llcl/llcl.h"
#include "transport/reach.h"
#include "transport/transport.h"

struct tug_handler {
    tug_am_handler f; /* holder only */
    void *d;
    tug_am_run_handler run; /* NULL: messages are handled one by one */
};

struct tug_part_entry {
    tug_am_part_handler f; /* holder only */
    void *d;
};

struct tug_call_entry {
    tug_call_handler f; /* holder only */
    void *d;
};

/* Operations that wait to be copied, see copies.h: tags of a list. Holder only. */
struct tug_copies {
    uint32_t first, last;
    uint32_t count;
};

struct tug_context {
    struct tug_fabric fabric;
    uint64_t here_most; /* bytes of a copy that the caller of a try_ call makes itself */
    struct tug_copies copies;
    bool internal;                      /* see tug_context_set_internal() */
    bool holds_team;                    /* the team is nobody else's to keep */
    MPI_Request all_leave;              /* at the end: the barrier of those who leave */
    MPI_Comm node_comm;                 /* made by the first tug_mem_allocate(); null before */
    struct tug_registration everything; /* see tug_context_everything() */
    struct tug_service service;
    unsigned posts; /* operations posted since the last poll; holder only */
    struct tug_handler handlers[TUG_AM_HANDLERS];
    struct tug_call_entry callees[TUG_AM_HANDLERS];
    struct tug_part_entry parts[TUG_PART_HANDLERS];
    struct tug_long *longs;  /* messages that are being gathered, see long.h; holder only */
    void (*at_end)(void *d); /* another floor's, called when everything is complete; or NULL */
    void *at_end_d;
    struct tug_context *next; /* of all, for MPI_Finalize */
};

/* The end of a batch: what was posted goes. Holder only. */
void tug_context_flush(struct tug_context *context);

/* One poll of all transports. Holder only. True if anything moved. */
bool tug_context_poll(struct tug_context *context);

/* Somebody waits for the end of operations, late ones too: those that rest are asked for. Holder
 * only. */
void tug_context_ask(struct tug_context *context);

/* True while something of ours is out. Holder only. */
bool tug_context_busy(const struct tug_context *context);

/* tug_counter_add(counter, 0), n times. */
void tug_counter_add_many(void *counter, uint64_t n);

/* Ends a registration without asking. Holder only. */
void tug_registration_end(struct tug_registration *registration);

/* Frees the segments that are left. Collective. */
void tug_registration_close(struct tug_context *context);

#endif
