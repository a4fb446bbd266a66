/* What the generated table of names (src/pick/make.sh) and pick.c share. */
#ifndef TUG_PICK_H
#define TUG_PICK_H

#include <stdatomic.h>
#include <stddef.h>

/* An exported name, and where each library has it: MPICH's, Open MPI's; NULL: not at all. */
struct tug_pick_row {
    const char *name;
    void *address[2];
};

extern const struct tug_pick_row tug_pick_rows[];
extern const size_t tug_pick_nrows;

/* Where calls go, by the same index. */
extern void *_Atomic tug_pick_table[];

/* Decides, and fills the table; called from the first call of any name. */
void tug_pick_fill(void);

#endif
