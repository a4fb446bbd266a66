/* What has been found out about communicators, a yes or a no each, by their handles.
 *
 * Every collective call asks, and to ask the host (MPI_Comm_get_attr) takes its lock. An answer
 * stands in the slot of a small table that the handle's hash says, until another handle's takes the
 * slot. It goes with its communicator, since the handle may be given out again: whoever notes an
 * answer has an attribute on the communicator, whose deletion forgets it. Any thread; a
 * communicator is not freed while another thread calls with it.
 */
#ifndef TUG_HOST_ANSWERS_H
#define TUG_HOST_ANSWERS_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "host/handles.h"

#define TUG_ANSWERS 64

struct tug_answers {
    _Atomic uint64_t slots[TUG_ANSWERS]; /* handle << 1 | answer; 0: none */
};

static inline uint64_t tug_answer_no(MPI_Comm comm) {
    return tug_handle_bits(comm) << 1;
}

static inline _Atomic uint64_t *tug_answer_slot(struct tug_answers *answers, MPI_Comm comm) {
    return &answers->slots[(tug_handle_bits(comm) * 0x9e3779b97f4a7c15u >> 32) % TUG_ANSWERS];
}

/* True if there is an answer. */
static inline bool tug_answer_find(struct tug_answers *answers, MPI_Comm comm, bool *yes) {
    /* acquire: pairs with the release below: what the answer rests on is seen */
    uint64_t answer = atomic_load_explicit(tug_answer_slot(answers, comm), memory_order_acquire);
    *yes = answer & 1;
    return (answer & ~(uint64_t)1) == tug_answer_no(comm);
}

static inline void tug_answer_note(struct tug_answers *answers, MPI_Comm comm, bool yes) {
    atomic_store_explicit(tug_answer_slot(answers, comm), tug_answer_no(comm) | yes,
                          memory_order_release);
}

static inline void tug_answer_forget(struct tug_answers *answers, MPI_Comm comm) {
    _Atomic uint64_t *slot = tug_answer_slot(answers, comm);
    uint64_t no = tug_answer_no(comm), yes = no | 1;
    if (!atomic_compare_exchange_strong(slot, &no, 0))
        atomic_compare_exchange_strong(slot, &yes, 0);
}

static inline void tug_answers_forget_all(struct tug_answers *answers) {
    for (unsigned i = 0; i < TUG_ANSWERS; i++)
        atomic_store(&answers->slots[i], 0);
}

#endif
