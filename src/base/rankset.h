/* A set of ranks of a large job, which takes memory for the ranks that are in it.
 *
 * A sorted list as long as that is shorter than a bit for each rank of the job, then the bits:
 *
 *   list   +-------+-------+-------+--- ... ---+     room of them, count in use, ascending
 *          | rank  | rank  | rank  |           |
 *          +-------+-------+-------+--- ... ---+
 *   bits   +--- 64 ranks ---+--- 64 ranks ---+ ...   room is 0
 *
 * So it never has more than twice the bytes of its list, and never more than the bits. Changing it
 * moves as many bytes as the bits have, at most.
 *
 * Threading: one thread at a time.
 */
#ifndef TUG_BASE_RANKSET_H
#define TUG_BASE_RANKSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TUG_RANKSET_END UINT32_MAX

/* All zero: empty, and without memory. */
struct tug_rankset {
    union {
        uint32_t *list;
        uint64_t *bits;
    };
    uint32_t count, room;
};

/* Adds a rank, of nranks, which are the same in all calls. False: no memory, and nothing has
 * changed. */
bool tug_rankset_add(struct tug_rankset *set, uint32_t nranks, uint32_t rank);

/* Takes a rank out, if it is in. */
void tug_rankset_remove(struct tug_rankset *set, uint32_t rank);

/* The lowest rank in the set from that one on, or TUG_RANKSET_END. */
uint32_t tug_rankset_next(const struct tug_rankset *set, uint32_t nranks, uint32_t from);

/* Empties it, and gives its memory back. */
void tug_rankset_clear(struct tug_rankset *set);

/* Bytes of memory, at most, with so many ranks in it. */
size_t tug_rankset_bytes(uint64_t nranks, uint64_t count);

#endif
