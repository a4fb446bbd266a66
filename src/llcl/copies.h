/* Long copies of memory in reach (transport/reach.h), in the engine.
 *
 * A copy of TUG_COPY_HERE_MOST bytes takes about as long as it takes to hand one over and to be
 * told of its end. Shorter ones the caller of a try_ call makes itself. Longer ones wait in a list
 * of their context, and the holder of the baton copies a piece of the first at each poll.
 *
 * What is reached stands in the operation:
 *     address   where it is: in this process, or in the owner where `compare` is not 0
 *     operand   the entry that keeps the owner's registration from ending (node/live.h); 0: none
 *     compare   the owner's pid: the kernel copies; 0: loads and stores do
 *
 * Contexts of other floors have no such list: those copy by themselves where they want to.
 *
 * Threading: the holder of the baton.
 */
#ifndef TUG_LLCL_COPIES_H
#define TUG_LLCL_COPIES_H

#include "llcl/private.h"

#define TUG_COPY_HERE_MOST (64u << 10)

static inline struct tug_reach tug_copies_reach(const struct tug_operation *operation) {
    const bool mapped = operation->compare == 0;
    return (struct tug_reach){.mapped =
                                  mapped ? (unsigned char *)(uintptr_t)operation->address : NULL,
                              .address = operation->address,
                              .entry = (struct tug_live *)(uintptr_t)operation->operand,
                              .pid = (pid_t)operation->compare};
}

/* The operation is out, and has local memory. */
void tug_copies_add(struct tug_context *context, struct tug_operation *operation);

/* Does a copy read or write that memory, or perhaps memory of the node that goes with it? */
bool tug_copies_use(const struct tug_registration *registration);

/* Copies a piece. True if anything moved. */
bool tug_copies_poll(struct tug_context *context);

#endif
