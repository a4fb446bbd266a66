/* Views: where a neighbour's lent registrations are mapped in this process, found by who has
 * attached to them (live.h).
 *
 * A view is made at first use, at the index of the registration's entry, and stays there until
 * another registration that has the entry then is viewed, or the neighbour is forgotten. Who uses
 * a view is attached to its registration, which keeps the owner from ending it: so nobody uses the
 * view that is displaced.
 *
 * Any thread.
 */
#ifndef TUG_NODE_VIEW_H
#define TUG_NODE_VIEW_H

#include <stddef.h>
#include <stdint.h>

struct tug_live;
struct tug_neighbour;

/* Of the registration's first byte; NULL: it is not lent, or cannot be mapped. While attached. */
unsigned char *tug_view_address(struct tug_neighbour *neighbour, const struct tug_live *entry,
                                uint64_t id);

/* Unmaps all. Nobody is attached. */
void tug_views_drop(struct tug_neighbour *neighbour);

/* Bytes of the views of one neighbour. */
size_t tug_views_footprint(void);

#endif
