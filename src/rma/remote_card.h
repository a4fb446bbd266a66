/* Accumulates of 8-byte integers by the network cards.
 *
 * MPI makes accumulates on one location atomic to each other, however many elements each of them
 * has. A card's atomics are atomic to each other, but not to a processor's. So in one window either
 * cards do all accumulates of 8-byte integers, or none.
 *
 * A window begins with the cards if every rank has a node of its own (ranks that share a node are
 * faster by their processors), the cards of all have atomics, and each knows its rank's memory.
 * Then they do MPI_SUM, MPI_NO_OP and MPI_Compare_and_swap on TUG_CARD_MOST elements that lie
 * together and are aligned. A rank's own memory is no exception: its card does it.
 *
 * All else gives the cards up, for ever: more elements, other operations (of which the cards have
 * only tries with MPI_Compare_and_swap, which take two round trips and have no bound), scattered or
 * unaligned elements, a card that does not reach its peer, and an accumulate that goes in one
 * message with its MPI_Win_lock (remote_owed.h), which takes half as long as a lock and a card's
 * atomic. Then processors do all of it. The rank that needs that first asks rank 0 (TUG_CALL_CARD)
 * and waits for the answer. The ranks form a tree; each rank that is asked
 *
 *     begins no more atomics -> asks the two ranks below -> answers when its own atomics have
 *                                                           ended and both ranks have answered
 *
 * so that rank 0's answer says that no card has any to do. Engines do this, and wait for nothing:
 * it does not matter where the program is, or how many ranks ask. Where a rank is lost, those who
 * ask have an error.
 *
 * Order: the cards' atomics of a thread to a target happen in their order, since they have one
 * queue pair, and have all ended when the cards are given up.
 *
 * Threads: operations on any; what is asked and answered by the holder of the baton.
 */
#ifndef TUG_RMA_REMOTE_CARD_H
#define TUG_RMA_REMOTE_CARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "host/handles.h"
#include "host/reduction.h"
#include "rma/remote_ways.h"

/* Reads and atomics that common cards keep under way for a queue pair: so many take little more
 * than one round trip. Of more elements the target's processor is faster. */
#define TUG_CARD_MOST 16

/* The window is known here, and that of other ranks. */
void tug_card_begin(struct tug_remote *remote);

/* Is an operation on elements of the type for the cards, or to give them up? */
static inline bool tug_card_concerns(const struct tug_remote *remote, MPI_Datatype type) {
    /* acquire: pairs with the release in tug_card_give_up(), behind which packets may be sent */
    return __builtin_expect(atomic_load_explicit(&remote->card.state, memory_order_acquire) !=
                                TUG_CARD_GONE,
                            0) &&
           tug_type_basic_size(type) == 8 && tug_reduction_find(MPI_BAND, type) != NULL;
}

/* One that is: begins it. c->n: 0, if the elements do not lie together on all sides. True: it is
 * begun, or has failed (an error class). False: the cards are given up, nothing has happened. */
bool tug_card_take(const struct tug_rma *o, struct tug_ways *ways,
                   const struct tug_remote_combination *c, int *error);

/* Returns when no card has any to do, nor begins any, for ever. An error class. */
int tug_card_give_up(struct tug_remote *remote);

/* The same as tug_card_take(), of any. */
static inline bool tug_card_combine(const struct tug_rma *o, MPI_Datatype type,
                                    struct tug_ways *ways, const struct tug_remote_combination *c,
                                    int *error) {
    return tug_card_concerns(ways->remote, type) && tug_card_take(o, ways, c, error);
}

/* TUG_CALL_CARD */
void tug_card_asked(struct tug_remote *remote, struct tug_remote_state *sender, uint32_t tag);

#endif
