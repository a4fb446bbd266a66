/* Pairs: messages from one rank of a node to another through a ring of their own (channel.h).
 *
 * A message goes through as many slots as it needs, each as soon as it is filled: the reader copies
 * the first while the writer fills the next. One of TUG_SLOT_INLINE bytes or less rides in a slot's
 * head. Messages are told apart by their order alone: both ends know the sizes.
 *
 * Nobody waits in here: what is not through yet is tried again. The writer rings the reader's bell
 * for every slot; the reader, who tells how far it is every few slots, the writer's.
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

/* What a pair takes of shared memory, and a view of one there. */
size_t tug_pair_memory(size_t slot_bytes);
struct tug_segment_ring tug_pair_at(unsigned char *memory);

/* True if the next slot can be written, or read; if the reader has told that it has read all. */
bool tug_pair_has_room(struct tug_segment_ring *ring);
bool tug_pair_has_news(const struct tug_segment_ring *ring);
bool tug_pair_is_read(struct tug_segment_ring *ring);

/* Puts in what fits of a message of so many bytes of which *done are through (0 at first). True if
 * all of it is. */
bool tug_pair_put(struct tug_segment_ring *ring, size_t slot_bytes, const void *message,
                  size_t bytes, size_t *done, struct tug_bell *readers);

/* Takes out what there is, likewise. */
bool tug_pair_take(struct tug_segment_ring *ring, size_t slot_bytes, void *message, size_t bytes,
                   size_t *done, struct tug_bell *writers);

#endif
