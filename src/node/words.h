/* Words that the ranks of a node tell one another, one for each pair of them, in the team's arena:
 * acknowledgements of a context. Whoever tells a word replaces the one before. Beside them there is
 * a byte for each pair: one waits for room in the other's inbox (inbox.h).
 *
 * They stay when their context goes, for the next one of the team.
 */
#ifndef TUG_NODE_WORDS_H
#define TUG_NODE_WORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "node/team.h"

struct tug_words {
    struct tug_words *next;
    uint32_t row;          /* words of a rank: whole cache lines */
    uint32_t mine;         /* this rank */
    _Atomic uint64_t *all; /* [ranks][row] by who is told, then by who tells */
    _Atomic uint8_t *wait; /* [ranks][row] by whose room it is for, then by who waits */
};

/* Words of which those for this rank are 0. The others' are when all ranks have returned. NULL: no
 * memory. Collective over the team, as giving is: in one order on all ranks. */
struct tug_words *tug_words_take(struct tug_team *team);
void tug_words_give(struct tug_team *team, struct tug_words *words);
void tug_words_fini(struct tug_team *team);

/* seq_cst: who tells looks then whether the other sleeps, who is about to sleep looks last at what
 * it is told (park.h). */
static inline void tug_words_tell(struct tug_words *words, uint32_t node_rank, uint64_t word) {
    atomic_store(&words->all[node_rank * words->row + words->mine], word);
}

static inline uint64_t tug_words_told(const struct tug_words *words, uint32_t node_rank) {
    return atomic_load(&words->all[words->mine * words->row + node_rank]);
}

/* This rank waits for room in that one's inbox. It has prepared the bell on which it sleeps, and
 * says so at the inbox then (tug_inbox_await()). release: pairs with the acquire in
 * tug_words_waits(). Who takes the word rings the bell once for it, and must find that prepared.
 * What the inbox tells does not order the two: perhaps the owner looks because another rank has
 * said something there. */
static inline void tug_words_wait(struct tug_words *words, uint32_t node_rank) {
    atomic_store_explicit(&words->wait[node_rank * words->row + words->mine], 1,
                          memory_order_release);
}

/* Has that rank waited for room in this one's inbox since the last call? After tug_inbox_owes(),
 * which acquires. True: its bell is to be rung. */
static inline bool tug_words_waits(struct tug_words *words, uint32_t node_rank) {
    _Atomic uint8_t *wait = &words->wait[words->mine * words->row + node_rank];
    /* acquire: pairs with the release in tug_words_wait() */
    return atomic_load_explicit(wait, memory_order_relaxed) != 0 &&
           atomic_exchange_explicit(wait, 0, memory_order_acquire) != 0;
}

#endif
