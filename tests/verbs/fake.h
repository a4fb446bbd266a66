/* Fabrics of two processes or three in one, without MPI: what the verbs transport needs of a
 * fabric, and no more.
 *
 * Control messages go through a queue that fake_round() empties, so that a test can hold them back.
 * Ranks 0 and 1 are fakes[0] and fakes[1], on the same device; fake_add() makes a third, and more
 * contexts of each. One thread. */
#ifndef TUG_TEST_FAKE_H
#define TUG_TEST_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/verbs/verbs.h"
#include "transport/verbs/private.h"

#define FAKE_OPERATIONS 1024

struct fake {
    struct tug_fabric fabric;
    struct tug_bell bell;
    struct tug_verbs *verbs;
    struct tug_verbs_view *view;
    bool deaf;       /* nobody looks at control messages that come for it: they are lost */
    unsigned passed; /* operations that were handed on to the next row, where they end well */
};

#ifndef FAKE_PROCESSES
#define FAKE_PROCESSES 3
#endif
#define FAKE_CONTEXTS 3
extern struct fake fakes[FAKE_PROCESSES * FAKE_CONTEXTS];
extern bool fake_hold;      /* control messages stay in the queue */
extern bool fake_mute;      /* none can be sent */
extern bool fake_carries;   /* when it is opened: packets go by it */
extern unsigned fake_rails; /* when it is opened: another process has so many; 0: nobody is asked */
extern unsigned fake_queued;     /* control messages in the queue */
extern unsigned fake_counted;    /* control messages so far */
extern struct fake *fake_acting; /* whose transport is being called; NULL: none is */

/* Opens both; the test fails if that is not possible. */
void fake_open(void);
void fake_close(void);
/* Opens that rank of a further context, or rank 2 of context 0; fake_remove() closes it. */
struct fake *fake_add(unsigned context, uint32_t rank);
void fake_remove(struct fake *fake);
/* Empties the queue of control messages without delivering them. */
void fake_drop_messages(void);
/* Those in the queue come the other way round. */
void fake_reverse_messages(void);

/* Delivers messages and polls both. True if anything moved. */
bool fake_round(void);

/* Registered memory of a fake. */
struct tug_registration *fake_register(struct fake *fake, void *base, size_t bytes);
void fake_deregister(struct fake *fake, struct tug_registration *registration);

/* How an operation ended. */
struct fake_end {
    int local, complete; /* calls so far */
    int status;
};

/* Fills in a new operation from a fake to the other's (or its own) registration; it is posted by
 * fake_post(). */
struct tug_operation *fake_operation(struct fake *fake, uint32_t peer, enum tug_operation_kind kind,
                                     struct tug_registration *remote, uint64_t offset,
                                     struct tug_registration *local, uint64_t local_offset,
                                     uint64_t bytes, struct fake_end *end);
void fake_post(struct fake *fake, struct tug_operation *operation);
void fake_flush(struct fake *fake);

/* Is an operation of the view out, or a packet under way? The view is of the first rail. */
static inline bool fake_busy(const struct tug_verbs_view *view) {
    uint32_t out = view->verbs->base.under_way;
    for (uint32_t rail = 0; rail < view->nrails; rail++)
        out += view->rails[rail]->out;
    return out > 0;
}

/* Flushes both and rounds until nothing is out. False after a time limit. */
bool fake_finish(unsigned seconds);

#endif
