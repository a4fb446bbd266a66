/* Local memory of operations, for example origin buffers of MPI windows, where the program has not
 * registered that memory.
 *
 * A device reads and writes registered memory only. An operation on other memory is lent registered
 * memory until it ends:
 *
 *   a write of up to TUG_OPERATION_INLINE bytes   none: its data are copied into the operation
 *   up to TUG_ORIGIN_SLOT bytes                   a slot, registered once; the processor copies
 *   more, or no slot is free                      its own pages, which are registered. The
 * registration is kept for later operations on these pages until the memory goes
 * (base/unmap_watch.h) or other registrations need the room
 *
 * Registrations lie apart from each other: a new one takes the place of those that it overlaps.
 * Where the kernel does not report memory that goes, a registration serves one operation. All
 * together have at most half the limit of locked memory, or an eighth of the machine's memory where
 * there is no limit. To make room, the least recently used one that is not in use ends first. An
 * operation that does not fit even then has a registration of its own.
 *
 * The program's pages are registered only where libibverbs says that a fork copies registered pages
 * for the child (fork.c). Elsewhere, and where the device refuses a registration, an operation that
 * gets no slot goes by the next transport.
 *
 * Each endpoint has a store of its own. Threading: only the holder of the baton calls these
 * functions.
 */
#ifndef TUG_TRANSPORT_VERBS_ORIGIN_H
#define TUG_TRANSPORT_VERBS_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/operation.h"

#define TUG_ORIGIN_SLOT 4096u

struct tug_verbs;
struct tug_origin;

/* May the store lend memory to operations with this local registration? A registration by the
 * program has an id other than 0. One without an id stands for all memory of this process, or for
 * pages that another rail's store has registered. */
static inline bool tug_origin_lends(const struct tug_registration *registration) {
    return registration->id == 0;
}

/* Makes the operation's local memory known to the endpoint's device. The operation is a read or
 * write of 1 byte or more, and the device does not know its memory. operation->registration
 * changes; operation->local changes, too, unless its pages are registered. False: the device
 * refuses, or there is no memory; the operation is unchanged. */
bool tug_origin_lend(struct tug_verbs *verbs, struct tug_operation *operation);

/* Ends the loan, if there is one, of an operation that is complete. Copies what a successful read
 * has brought from its slot to the program's memory. */
void tug_origin_end(struct tug_verbs *verbs, struct tug_operation *operation);

/* Ends the loan of an operation that goes another way. operation->local is the program's memory
 * again (NULL if its data are in the operation); operation->registration stays the lent one. */
void tug_origin_return(struct tug_verbs *verbs, struct tug_operation *operation);

/* Ends the store and its registrations. The endpoint calls it when it closes; no operation is under
 * way. */
void tug_origin_close(struct tug_verbs *verbs);

#endif
