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
 * Any other accumulate of 8-byte integers gives the cards up, for ever: more elements, another
 * operation (a card could only retry compare-and-swap, without bound), scattered or unaligned
 * elements, a peer that the card does not reach. Processors do all of them from then on (but
 * locks stay with the cards: remote_card_lock.h). The first rank that needs that asks rank 0
 * (TUG_CALL_CARD) and waits. The ranks form a tree. Each rank that is asked
 *
 *     begins no more atomics -> asks the two ranks below -> answers when its own atomics have
 *                                                           ended and both ranks have answered
 *
 * so that rank 0's answer says that no card has an atomic under way. Each rank's engine does this
 * without the program, whatever number of ranks ask. If a rank is lost, the asking ranks get an
 * error.
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

/* Decides whether the window begins with the cards. The keys of all ranks are known. */
void tug_card_begin(struct tug_remote *remote);

/* May cards still do accumulates on this type (an 8-byte integer)? */
static inline bool tug_card_concerns(const struct tug_remote *remote, MPI_Datatype type) {
    /* acquire: pairs with the release in give_up(), behind which packets may be sent */
    return __builtin_expect(atomic_load_explicit(&remote->card.state, memory_order_acquire) !=
                                TUG_CARD_GONE,
                            0) &&
           tug_type_basic_size(type) == 8 && tug_reduction_find(MPI_BAND, type) != NULL;
}

/* Starts the operation by card, for types of tug_card_concerns(). c->update.n is 0 if elements are
 * scattered on any side. True: it is started, or *error is set. False: nothing was done, the cards
 * are given up. */
bool tug_card_take(const struct tug_rma *o, struct tug_ways *ways,
                   const struct tug_remote_combination *c, int *error);

/* tug_card_take(), if the type concerns the cards; else false. */
static inline bool tug_card_combine(const struct tug_rma *o, MPI_Datatype type,
                                    struct tug_ways *ways, const struct tug_remote_combination *c,
                                    int *error) {
    return tug_card_concerns(ways->remote, type) && tug_card_take(o, ways, c, error);
}

/* TUG_CALL_CARD */
void tug_card_asked(struct tug_remote *remote, struct tug_remote_state *sender, uint32_t tag);

#endif
