/* Rendezvous: a long message from one rank of a node to another, copied once, by both of them.
 *
 * The writer *offers* it: the next slot of its pair (pair.h) says where it lies. The reader says
 * where it wants it, and then both copy pieces, by cross-memory attach: the reader takes them from
 * the front, the writer from the back, until they meet. The slower of the two copies fewer pieces.
 * A writer that is busy elsewhere copies none; without the reader nothing begins. A reader that has
 * the message mapped needs no attach. Where cores are short the reader copies all: a writer that
 * lost its core in the middle of a piece would keep the reader waiting.
 *
 *     claims: | ticket: whose offer (32 bits) | taken from the front (16) | from the back (16) |
 *
 * If the kernel refuses either end in the middle, that end closes the rendezvous (all ones below
 * the ticket), and the whole message goes through the pair's slots after all.
 *
 * Nobody waits in here: what is not through yet is tried again. Each end by the holder of its baton
 * only.
 */
#ifndef TUG_PERSISTENT_RENDEZVOUS_H
#define TUG_PERSISTENT_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "engine/park.h"
#include "persistent/channel.h"

/* Where one end is with its message. All zeros at first. */
struct tug_rendezvous_state {
    uint64_t offer;  /* position + 1 of the slot with the offer; 0: not offered, or not seen yet */
    uint32_t copied; /* pieces that this end has copied */
    bool refused;    /* attach has failed: all of it goes through the slots (pair.h) */
};

/* The rank at the other end. */
struct tug_partner {
    pid_t pid; /* 0: attach does not reach it */
    struct tug_bell *bell;
    const unsigned char *view; /* the message, where the reader has it mapped; or NULL */
    bool view_streams;         /* the reader copies from the view past the caches (copy.h) */
    bool reader_alone;         /* the reader copies all pieces */
    bool wakes;                /* the reader wakes the writer, so that it helps */
};

/* Offers the message, if there is room, so that the reader may begin. Nothing else may be put into
 * the pair until the message is through. A message without an offer gets it in
 * tug_rendezvous_put(). */
void tug_rendezvous_offer(struct tug_segment_ring *ring, struct tug_rendezvous_state *state,
                          const void *message, struct tug_bell *readers);

/* Gets the message on by a piece at most. True when it is through. */
bool tug_rendezvous_put(struct tug_segment_ring *ring, struct tug_rendezvous_state *state,
                        const void *message, size_t bytes, const struct tug_partner *reader);
bool tug_rendezvous_take(struct tug_segment_ring *ring, struct tug_rendezvous_state *state,
                         void *message, size_t bytes, const struct tug_partner *writer);

#endif
