/* The command ring and the baton: one word decides which thread drives.
 *
 * A bounded ring of commands, many producers, one consumer at a time. The consumer is the thread
 * that holds the *baton*. Ring tail and baton share one 64-bit word, so that entering is a single
 * compare-exchange whose outcome is either the baton or a cell of the ring:
 *
 *        63                                    3       2       1       0
 *       +---------------------------------------+-------+-------+------+
 *       | tail: positions handed out so far     | SLEEP | OFFER | HELD |
 *       +---------------------------------------+-------+-------+------+
 *        HELD   a thread drives, or the baton is offered
 *        OFFER  the holder has put the baton down with work left; the first to clear the bit has it
 *        SLEEP  the holder sleeps at its bell; a thread that clears the bit owes it a ring
 *
 * Invariant: HELD clear implies that every position handed out has been executed. The holder may
 * clear HELD only while tail equals its head (one CAS checks and clears), so a command can never be
 * left with nobody to run it, and no thread needs to be woken to look.
 *
 * Cells carry a sequence number each (position when free, position + 1 when committed, position +
 * size when free again): producers reserve, fill and commit without waiting for one another; a
 * preempted producer delays the consumer at its cell only. Full is an answer (TUG_ENTRY_FULL),
 * never a wait.
 *
 * Pairings: ring_commit releases seq, ring_next acquires it (the command's bytes); ring_consume
 * releases seq, ring_enter acquires it (the cell may be written again); leaving releases state,
 * entering acquires it (whatever the last holder wrote); head is released after execution and
 * acquired by threads that wait for it.
 */
#ifndef TUG_ENGINE_RING_H
#define TUG_ENGINE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TUG_CACHE_LINE 64
#define TUG_COMMAND_PAYLOAD 112

#define TUG_BATON_HELD 1ull
#define TUG_BATON_OFFER 2ull
#define TUG_BATON_SLEEP 4ull
#define TUG_TAIL_SHIFT 3
#define TUG_TAIL_ONE (1ull << TUG_TAIL_SHIFT)

/* One cell: two cache lines, the parameters of a command ride inside. */
struct tug_command {
    _Atomic uint64_t seq;
    void (*execute)(struct tug_command *command); /* by the holder of the baton; may not block */
    union {
        unsigned char bytes[TUG_COMMAND_PAYLOAD];
        uint64_t words[TUG_COMMAND_PAYLOAD / 8];
        void *pointers[TUG_COMMAND_PAYLOAD / sizeof(void *)];
    } payload;
} __attribute__((aligned(2 * TUG_CACHE_LINE)));

_Static_assert(sizeof(struct tug_command) == 2 * TUG_CACHE_LINE, "a command is two cache lines");

struct tug_ring {
    _Atomic uint64_t state __attribute__((aligned(TUG_CACHE_LINE))); /* tail and baton, see above */
    _Atomic uint64_t head
        __attribute__((aligned(TUG_CACHE_LINE))); /* executed so far; holder writes */
    struct tug_command *cells __attribute__((aligned(TUG_CACHE_LINE)));
    uint64_t mask;
};

enum tug_entry {
    TUG_ENTRY_BATON,  /* the caller drives: it executes directly and leaves by tug_baton_leave() */
    TUG_ENTRY_TICKET, /* the caller has a cell: it fills and commits it */
    TUG_ENTRY_FULL,   /* no room now; nothing happened */
};

/* What tug_ring_enter() gave. */
struct tug_ticket {
    struct tug_command *cell; /* TICKET: the cell to fill */
    uint64_t position;        /* TICKET: its position; drained when head > position */
    bool owes_ring;           /* TICKET: the holder sleeps; ring its bell after the commit */
};

/* Allocates the cells (size a power of two). 0 or TUG_ERR_NO_MEMORY. */
int tug_ring_init(struct tug_ring *ring, uint64_t size);
void tug_ring_fini(struct tug_ring *ring);

/* Takes a cell unless the ring is full. With may_drive, takes the baton instead when it is free;
 * without, a free baton is put up as an offer, and *ticket asks the caller to ring for a taker
 * (owes_ring). Any thread; never blocks, never allocates. */
static inline enum tug_entry tug_ring_enter(struct tug_ring *ring, bool may_drive,
                                            struct tug_ticket *ticket) {
    uint64_t state = atomic_load_explicit(&ring->state, memory_order_relaxed);
    for (;;) {
        if (may_drive && !(state & TUG_BATON_HELD)) {
            if (atomic_compare_exchange_weak_explicit(&ring->state, &state, state | TUG_BATON_HELD,
                                                      memory_order_acquire, memory_order_relaxed))
                return TUG_ENTRY_BATON;
            continue;
        }
        uint64_t position = state >> TUG_TAIL_SHIFT;
        struct tug_command *cell = &ring->cells[position & ring->mask];
        /* acquire: pairs with the release in tug_ring_consume */
        uint64_t seq = atomic_load_explicit(&cell->seq, memory_order_acquire);
        if (seq != position) {
            if ((int64_t)(seq - position) < 0)
                return TUG_ENTRY_FULL;
            state = atomic_load_explicit(&ring->state, memory_order_relaxed);
            continue;
        }
        uint64_t next = (state + TUG_TAIL_ONE) & ~TUG_BATON_SLEEP;
        bool owes = state & TUG_BATON_SLEEP;
        if (!(state & TUG_BATON_HELD)) {
            next |= TUG_BATON_HELD | TUG_BATON_OFFER;
            owes = true;
        }
        /* acquire: a thread that clears SLEEP reads where the holder sleeps */
        if (atomic_compare_exchange_weak_explicit(&ring->state, &state, next, memory_order_acq_rel,
                                                  memory_order_relaxed)) {
            *ticket = (struct tug_ticket){cell, position, owes};
            return TUG_ENTRY_TICKET;
        }
    }
}

/* Makes a filled cell visible to the holder. */
static inline void tug_ring_commit(const struct tug_ticket *ticket) {
    /* release: pairs with the acquire in tug_ring_next */
    atomic_store_explicit(&ticket->cell->seq, ticket->position + 1, memory_order_release);
}

/* The next committed command, or NULL: nothing there, or its producer is still filling. Holder
 * only. */
static inline struct tug_command *tug_ring_next(struct tug_ring *ring) {
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    struct tug_command *cell = &ring->cells[head & ring->mask];
    if (atomic_load_explicit(&cell->seq, memory_order_acquire) != head + 1)
        return NULL;
    return cell;
}

/* Gives the cell of the command just executed back and counts it as done. Holder only. */
static inline void tug_ring_consume(struct tug_ring *ring, struct tug_command *cell) {
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    atomic_store_explicit(&cell->seq, head + ring->mask + 1, memory_order_release);
    atomic_store(&ring->head, head + 1); /* seq_cst: threads that wait look at it, see waiters.h */
}

static inline uint64_t tug_ring_tail(struct tug_ring *ring) {
    return atomic_load_explicit(&ring->state, memory_order_acquire) >> TUG_TAIL_SHIFT;
}

#endif
