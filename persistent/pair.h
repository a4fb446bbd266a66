/* Pairs: messages from one rank of a node to another through a ring of their own (channel.h): those
 * of collectives, and partitioned ones of few bytes.
 *
 * A message goes through as many slots as it needs: the reader copies the first while the writer
 * fills the next. A message of TUG_SLOT_INLINE bytes or less rides in a slot's head. Messages are
 * told apart by their order alone: both ends know the sizes.
 *
 * Nobody waits in here: the caller tries again until the message is through. The writer rings the
 * reader's bell for every slot; without one (NULL) that is the caller's to do, behind a fence. The
 * reader tells how far it is every few slots, and rings the writer's bell then.
 *
 * Each end by the holder of its baton only.
 */
#ifndef TUG_PERSISTENT_PAIR_H
#define TUG_PERSISTENT_PAIR_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/park.h"
#include "persistent/channel.h"

/* Bytes of a slot for messages of up to `most` bytes on nodes of so many ranks, such that all pairs
 * together stay small: a power of two, or what rides in the head. 0: no pairs. */
size_t tug_pair_slot_bytes(int node_most, size_t most);

/* Bytes of shared memory that a pair takes, and the view of a pair that lies there. slots: a power
 * of two. */
size_t tug_pair_memory(uint32_t slots, size_t slot_bytes);
struct tug_segment_ring tug_pair_at(unsigned char *memory, uint32_t slots);

/* For the writer: so many slots can be written. */
bool tug_pair_has_room(struct tug_segment_ring *ring, uint32_t slots);

/* For the reader: the next slot can be read. */
bool tug_pair_has_news(const struct tug_segment_ring *ring);

/* For the writer: the reader has told that it has read all. */
bool tug_pair_is_read(struct tug_segment_ring *ring);

/* Writes what there is room for of a message of `bytes`, of which *done are written already (0 at
 * first). True when all of it is. */
bool tug_pair_put(struct tug_segment_ring *ring, size_t slot_bytes, const void *message,
                  size_t bytes, size_t *done, struct tug_bell *readers);

/* Reads what has come of a message of `bytes`, of which *done are read already (0 at first). True
 * when all of it is. */
bool tug_pair_take(struct tug_segment_ring *ring, size_t slot_bytes, void *message, size_t bytes,
                   size_t *done, struct tug_bell *writers);

#endif
