/* Memory in reach: what the calling thread can do itself, at once, without the engine of its owner.
 * The rows self, mapped and cma (reach.c).
 *
 *   self    registered memory of this process
 *   mapped  what tug_mem_allocate() gave is mapped by the whole node; what was registered where it
 *           lay can be viewed if it is lent (node/view.h: MPI_Alloc_mem)
 *   cma     anything else in the node, by a call of the kernel's
 *
 * Any thread, if nothing else is said.
 */
#ifndef TUG_TRANSPORT_REACH_H
#define TUG_TRANSPORT_REACH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "node/cma.h"
#include "node/segment.h"
#include "transport/transport.h"

struct tug_live;

/* Memory of tug_mem_allocate(). Each process's part begins with a page for its registration's key:
 * another key that names the part is the right one if it is the same. */
struct tug_mapped {
    struct tug_segment segment;
    uint32_t index;
};

struct tug_mapped_head {
    _Atomic uint64_t live; /* the key's first word, the registration's id; 0 when that has ended */
    uint64_t rest[sizeof(struct tug_key) / 8 - 1]; /* the key's other words */
};
#define TUG_MAPPED_HEAD 4096

/* Memory that stays where it is until tug_reach_end(). */
struct tug_reach {
    unsigned char *mapped;  /* its address here; NULL: reached by cross-memory attach only */
    uint64_t address;       /* its address in the owner */
    struct tug_live *entry; /* the registration that is kept from ending; NULL: none */
    pid_t pid;              /* of the owner, for cross-memory attach */
};

/* [offset, offset + bytes) of what the key names, another process's, if the key is right and a row
 * reaches it. False: another way. Not for long: who ends the registration waits. */
bool tug_fabric_reach(const struct tug_fabric *fabric, const struct tug_key *key, uint32_t owner,
                      uint64_t offset, uint64_t bytes, struct tug_reach *reach);
void tug_reach_end(const struct tug_reach *reach);

/* After an error of cross-memory attach on memory of a reach that has not ended: true if the owner
 * has the memory, but protects pages of it (mprotect). Nobody attaches to that registration any
 * more: operations go by packets, for which the owner's threads access the memory and fault as its
 * program expects. */
bool tug_reach_is_protected(const struct tug_reach *reach, int status, uint64_t bytes);

/* Copies between there and this process's memory: 0, or an error of cross-memory attach (cma.h). */
int tug_reach_read(const struct tug_reach *from, void *to, size_t bytes);
int tug_reach_write(const struct tug_reach *to, const void *from, size_t bytes);

/* The same in pieces, to or from memory that is not mapped: `there` has addresses in the owner,
 * within the registration that `reach` was begun with (cma.h). */
int tug_reach_read_pieces(const struct tug_reach *reach, struct tug_cma_pieces *here,
                          struct tug_cma_pieces *there);
int tug_reach_write_pieces(const struct tug_reach *reach, struct tug_cma_pieces *here,
                           struct tug_cma_pieces *there);

/* May cross-memory attach and views go to that process of the node, which the key names? */
bool tug_fabric_attachable(const struct tug_fabric *fabric, const struct tug_key *key,
                           uint32_t owner);

/* May cross-memory attach reach that memory, and loads and stores not? */
bool tug_fabric_only_attachable(const struct tug_fabric *fabric, const struct tug_key *key,
                                uint32_t owner);

/* What the rows self and mapped know of memory whose registration nobody ends meanwhile: inline, as
 * an operation of 8 bytes by them takes less than two calls through the table would add. */

/* This process's address of the part of a mapped segment that a key names, if the key is right and
 * [offset, offset + bytes) lies inside; NULL otherwise. */
static inline unsigned char *tug_mapped_address(const struct tug_fabric *fabric,
                                                const struct tug_key *key, uint32_t owner,
                                                uint64_t offset, uint64_t bytes) {
    uint32_t number = tug_key_segment(key), node_rank = tug_key_node_rank(key);
    if (number == 0 || number > TUG_SEGMENTS || node_rank >= fabric->node_size ||
        fabric->node_ranks[node_rank] != owner)
        return NULL;
    /* acquire: pairs with the release in tug_mem_allocate */
    struct tug_mapped *mapped =
        atomic_load_explicit(&fabric->mapped[number - 1], memory_order_acquire);
    if (mapped == NULL)
        return NULL;
    const struct tug_segment_part *part = &mapped->segment.parts[node_rank];
    const struct tug_mapped_head *head = (const struct tug_mapped_head *)part->base;
    /* relaxed: the rest was there before anybody had the key, and stays */
    if (atomic_load_explicit(&head->live, memory_order_relaxed) != key->word[0] ||
        memcmp(head->rest, key->word + 1, sizeof(head->rest)) != 0 || offset > key->word[3] ||
        bytes > key->word[3] - offset)
        return NULL;
    return part->base + TUG_MAPPED_HEAD + offset;
}

/* Where loads and stores find the memory in this process; NULL: nowhere, or the key is wrong. */
static inline unsigned char *tug_fabric_address(const struct tug_fabric *fabric,
                                                const struct tug_key *key, uint32_t owner,
                                                uint64_t offset, uint64_t bytes) {
    if (owner == fabric->rank && (fabric->ways & TUG_WAY_SELF)) {
        int status = tug_key_allows(key, fabric->id, owner, offset, bytes);
        struct tug_registration *registration =
            status ? NULL
                   : tug_memory_find((struct tug_memory_table *)&fabric->memory, key->word[0],
                                     offset, bytes, &status);
        return registration != NULL ? registration->base + offset : NULL;
    }
    if (!(fabric->ways & TUG_WAY_MAPPED))
        return NULL;
    return tug_mapped_address(fabric, key, owner, offset, bytes);
}

#endif
