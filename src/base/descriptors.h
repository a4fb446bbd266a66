/* Descriptors, of which a process of a large job needs one for each peer.
 *
 * The program's own limit stays what it was as far as the program can tell: the soft limit is
 * raised towards the hard one only when more are needed, by few at a time, and ours are moved to
 * numbers above the limit that the program began with once half of those below are taken. So who
 * uses select(), which knows no numbers above 1 023, finds low ones as before, and a child process
 * inherits a limit that is hardly larger. Any thread.
 */
#ifndef TUG_BASE_DESCRIPTORS_H
#define TUG_BASE_DESCRIPTORS_H

#include <stdbool.h>

/* Raises the soft limit by some. False: it is the hard one already. */
bool tug_descriptors_raise(void);

/* The descriptor, or the one that it has been moved to; -1 is -1. To be called before anybody else
 * knows its number. */
int tug_descriptor_lift(int descriptor);

#endif
