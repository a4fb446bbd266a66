/* Spare windows: the host's, which lie behind windows in lanes of ours, kept for the next window on
 * the same communicator when the program frees one. The host meets four times to make a window and
 * twice to free it; with a spare one no more than the one meeting is left in which the ranks find
 * out about the new window's lane.
 *
 * Kept is only what is like new: over no memory of the program's, without name and attributes, and
 * not changed otherwise (tug_window_spoil()). It is for windows with an info that says the same.
 * All ranks keep it or none: they find that out in the fence at its end. Which one is taken again
 * they find out at the next creation, by its id, since threads that free windows may have kept them
 * in different orders.
 *
 * A team keeps a few: each holds one of the host's context ids, of which there are 2048. They end
 * with the team, or with MPI.
 */
#ifndef TUG_RMA_SPARE_H
#define TUG_RMA_SPARE_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/shelf.h"

struct tug_team;
struct tug_word;
struct tug_spares; /* a team's */

/* What windows have to have in common to take each other's place. */
#define TUG_KIND_BYTES 240
struct tug_kind {
    int flavor;      /* MPI_WIN_FLAVOR_* */
    uint32_t nbytes; /* of what its info says; 0: nothing */
    bool long_info;  /* it says more than there is room for: no window is of this kind again */
    char says[TUG_KIND_BYTES];
};

/* info: or MPI_INFO_NULL. */
void tug_kind_of(int flavor, MPI_Info info, struct tug_kind *kind);

/* A window of the host's that may be kept. */
struct tug_spare {
    struct tug_shelved shelved; /* by its id, alike on all ranks of the team */
    MPI_Win win;                /* its error handler is MPI_ERRORS_RETURN */
    struct tug_kind kind;
};

/* A team's, made if need be. Collective; the same answer on all ranks: NULL without memory. */
struct tug_spares *tug_spares_of(struct tug_team *team);

/* Room for a word of each rank, where they do not meet in shared memory; else NULL. */
struct tug_word *tug_spares_room(struct tug_spares *spares);

/* The id of the window that is being made: alike on all ranks, as all draw one at each creation. */
uint32_t tug_spares_draw(struct tug_spares *spares);

/* The host has made a window. NULL: it cannot be kept. */
struct tug_spare *tug_spare_make(MPI_Win win, const struct tug_kind *kind, uint32_t id);

/* The oldest one of the kind, or NULL: taken out, so that no other thread has it. With the same
 * id on all ranks it is theirs, and its place is waived; else it is put back. Local; any thread. */
struct tug_spare *tug_spare_borrow(struct tug_spares *spares, const struct tug_kind *kind);

/* Before a window's end: is there room for one more? After true the caller puts it there, or
 * waives the place. Local; any thread. */
bool tug_spares_reserve(struct tug_spares *spares);
void tug_spares_waive(struct tug_spares *spares);
void tug_spare_put(struct tug_spares *spares, struct tug_spare *spare);

/* The program's world ends, and with it what was kept on its communicators. Collective over it. */
void tug_spares_end(void);

#endif
