/* Local memory of operations that the program has not registered: origin buffers of MPI windows,
 * say.
 *
 * A device reads and writes registered memory only. Where the memory of an operation is not, it is
 * lent some:
 *
 *   up to TUG_ORIGIN_SLOT bytes   a slot of memory that is registered once; the processor copies
 *   more, or no slot is free      a registration of the operation's own pages, which is kept for
 * the next operation on them until the memory goes (base/unmap_watch.h) or others need the room
 *
 * Registrations that are kept lie apart from each other: one that overlaps others takes their
 * place. Where the kernel does not report what goes, a registration ends with its operations. Their
 * bytes are bounded by half the limit of locked memory; the least recently used go first. No page
 * of the program's is registered where a fork would take it from the child (fork.c): there, and
 * where the device refuses, an operation takes the next row.
 *
 * Each endpoint has a store of its own. Threading: the holder.
 */
#ifndef TUG_TRANSPORT_VERBS_ORIGIN_H
#define TUG_TRANSPORT_VERBS_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/operation.h"

#define TUG_ORIGIN_SLOT 4096u

struct tug_verbs;
struct tug_origin;

/* May operations with that local registration be lent memory? It is not one of the program's, which
 * have ids, but stands for all memory of this process, or for pages that another rail was lent. */
static inline bool tug_origin_lends(const struct tug_registration *registration) {
    return registration->id == 0;
}

/* Lends the operation, a read or write of 1 byte or more whose local memory the endpoint's device
 * does not know, memory that it knows: operation->local and ->registration change. False: it
 * cannot, nothing happened. */
bool tug_origin_lend(struct tug_verbs *verbs, struct tug_operation *operation);

/* The operation, which may have been lent memory, is over: a read's data are where they belong. Or
 * (return) it goes another way, and is as it was. */
void tug_origin_end(struct tug_verbs *verbs, struct tug_operation *operation);
void tug_origin_return(struct tug_verbs *verbs, struct tug_operation *operation);

/* Ends the store, with the endpoint. */
void tug_origin_close(struct tug_verbs *verbs);

#endif
