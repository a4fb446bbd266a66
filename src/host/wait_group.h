/* Wait groups: communicators on which every rank knows that waiting ranks are wanted.
 *
 * A blocking collective call and its nonblocking twin do not meet: whoever puts one in place of the
 * other must do so on all ranks of the communicator alike, and what one rank sees of its own engine
 * does not tell what the others do. But a window between nodes is made by all ranks of its
 * communicator together. That communicator's group becomes a wait group, for as long as it or such
 * a window lives, and these communicators are inside:
 *
 * - the wait group's own, always: MPI orders the collective calls on one communicator;
 * - any other whose ranks are all in the wait group, if no rank has several threads in MPI: a
 * program that ordered two collective calls differently on two ranks might wait for ever, and is
 * wrong.
 *
 * An intercommunicator is inside none: the nonblocking collectives of MPICH 4.0.2 give wrong data
 * there (MPI_Ibcast from three ranks on; tests/mpi/blocking_forms.c), and the blocking ones do not.
 *
 * Where the job's ranks wait politely (world.h) the world is a wait group, from MPI_Init to
 * MPI_Finalize and with whatever threads.
 *
 * Any thread.
 */
#ifndef TUG_HOST_WAIT_GROUP_H
#define TUG_HOST_WAIT_GROUP_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>

struct tug_wait_group;

/* The wait group of a communicator, which is not in force yet if it is new; ordered: no rank of it
 * has several threads in MPI, the same on all. Local; NULL without memory, which the ranks have to
 * find out before they make a window. */
struct tug_wait_group *tug_wait_group_of(MPI_Comm comm, bool ordered);

/* All ranks of MPI_COMM_WORLD, which are in MPI_Init, make it a wait group. */
void tug_wait_group_world(void);

/* A window has been made / freed by all ranks of the wait group. */
void tug_wait_group_enter(struct tug_wait_group *wait_group);
void tug_wait_group_leave(struct tug_wait_group *wait_group);

extern _Atomic unsigned tug_wait_groups_in_force;
bool tug_wait_group_covers(MPI_Comm comm);

/* True on every rank of the communicator, or on none. Local; false for what is no communicator. */
static inline bool tug_wait_group_has(MPI_Comm comm) {
    return __builtin_expect(atomic_load_explicit(&tug_wait_groups_in_force, memory_order_relaxed) >
                                    0 &&
                                tug_wait_group_covers(comm),
                            0);
}

/* The world is about to end: its ranks wait as the host does. */
void tug_wait_group_end_world(void);

/* MPI is about to end: no collective call follows that would ask. */
void tug_wait_group_finalize(void);

/* Are all members of the group in the other one? */
bool tug_group_is_within(MPI_Group group, MPI_Group other);

#endif
