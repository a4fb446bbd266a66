#include "base/rankset.h"

#include <stdlib.h>
#include <string.h>

#define LIST_FIRST 4 /* ranks that a list has room for at first */

static uint32_t words(uint64_t nranks) {
    return (uint32_t)((nranks + 63) / 64);
}

/* The longest list, which takes no more than the bits. */
static uint32_t list_most(uint64_t nranks) {
    return 2 * words(nranks) > LIST_FIRST ? 2 * words(nranks) : LIST_FIRST;
}

static bool is_bits(const struct tug_rankset *set) {
    return set->room == 0 && set->bits != NULL;
}

/* Where in the list the rank is, or would be. */
static uint32_t position(const struct tug_rankset *set, uint32_t rank) {
    uint32_t low = 0, high = set->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (set->list[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const struct tug_rankset *set, uint32_t at, uint32_t rank) {
    return at < set->count && set->list[at] == rank;
}

static bool become_bits(struct tug_rankset *set, uint32_t nranks) {
    uint64_t *bits = calloc(words(nranks), sizeof(*bits));
    if (bits == NULL)
        return false;
    for (uint32_t i = 0; i < set->count; i++)
        bits[set->list[i] / 64] |= (uint64_t)1 << set->list[i] % 64;
    free(set->list);
    set->bits = bits;
    set->room = 0;
    return true;
}

static bool lengthen(struct tug_rankset *set, uint32_t most) {
    uint32_t room = set->room == 0 ? LIST_FIRST : 2 * set->room;
    if (room > most)
        room = most;
    uint32_t *list = realloc(set->list, room * sizeof(*list));
    if (list == NULL)
        return false;
    set->list = list;
    set->room = room;
    return true;
}

static bool add_bit(struct tug_rankset *set, uint32_t rank) {
    const uint64_t bit = (uint64_t)1 << rank % 64;
    set->count += (set->bits[rank / 64] & bit) == 0;
    set->bits[rank / 64] |= bit;
    return true;
}

bool tug_rankset_add(struct tug_rankset *set, uint32_t nranks, uint32_t rank) {
    if (is_bits(set))
        return add_bit(set, rank);
    const uint32_t at = position(set, rank), most = list_most(nranks);
    if (is_at(set, at, rank))
        return true;
    if (set->count == most)
        return become_bits(set, nranks) && add_bit(set, rank);
    if (set->count == set->room && !lengthen(set, most))
        return false;
    memmove(set->list + at + 1, set->list + at, (set->count - at) * sizeof(*set->list));
    set->list[at] = rank;
    set->count++;
    return true;
}

void tug_rankset_remove(struct tug_rankset *set, uint32_t rank) {
    if (is_bits(set)) {
        const uint64_t bit = (uint64_t)1 << rank % 64;
        set->count -= (set->bits[rank / 64] & bit) != 0;
        set->bits[rank / 64] &= ~bit;
        return;
    }
    const uint32_t at = position(set, rank);
    if (!is_at(set, at, rank))
        return;
    set->count--;
    memmove(set->list + at, set->list + at + 1, (set->count - at) * sizeof(*set->list));
}

uint32_t tug_rankset_next(const struct tug_rankset *set, uint32_t nranks, uint32_t from) {
    if (!is_bits(set)) {
        const uint32_t at = position(set, from);
        return at < set->count ? set->list[at] : TUG_RANKSET_END;
    }
    if (from >= nranks)
        return TUG_RANKSET_END;
    uint32_t word = from / 64;
    uint64_t rest = set->bits[word] & ~(uint64_t)0 << from % 64;
    while (rest == 0 && ++word < words(nranks))
        rest = set->bits[word];
    return rest != 0 ? word * 64 + (uint32_t)__builtin_ctzll(rest) : TUG_RANKSET_END;
}

void tug_rankset_clear(struct tug_rankset *set) {
    free(set->list);
    *set = (struct tug_rankset){0};
}

size_t tug_rankset_bytes(uint64_t nranks, uint64_t count) {
    if (count > list_most(nranks))
        return words(nranks) * sizeof(uint64_t);
    uint64_t room = count == 0 ? 0 : LIST_FIRST;
    while (room < count)
        room *= 2;
    return (room < list_most(nranks) ? room : list_most(nranks)) * sizeof(uint32_t);
}
