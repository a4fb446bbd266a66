/* The level at which MPI runs in this process, and what that allows us to do.
 *
 * Set while MPI starts and ends, by the thread that makes those calls; read by any thread.
 */
#ifndef TUG_HOST_LEVEL_H
#define TUG_HOST_LEVEL_H

#include <stdbool.h>

struct tug_level {
    bool active;     /* MPI runs at MPI_THREAD_MULTIPLE and the settings allow us: windows and
                        persistent collectives are taken */
    bool concurrent; /* several threads may be in MPI at once, or TUGBOAT_PROGRESS=thread: commands
                        go through the engine. Without, the one thread calls the host directly. */
    bool own_level;  /* MPI runs at the thread level that the program asked for, lower than that,
                        since nothing in it called for more: all calls pass through */
    int requested;   /* the thread level that the program asked for and is told */
};
extern struct tug_level tug_level;

/* Says once that a call comes that would have been taken, but for own_level. */
void tug_level_note_passed(void);

#endif
