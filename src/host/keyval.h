/* Keyvals of the library's own, for what it hangs on communicators.
 *
 * A keyval ends with MPI. A process whose last session is closed may open another one, and MPI
 * begins once more, with other keyvals.
 */
#ifndef TUG_HOST_KEYVAL_H
#define TUG_HOST_KEYVAL_H

#include <mpi.h>

struct tug_keyval {
    MPI_Comm_delete_attr_function *forget; /* NULL: there is nothing to do */
    int number;
    unsigned life; /* of MPI, in which the number is one; 0: none yet */
};

/* Its number, MPI_KEYVAL_INVALID where the host makes none. Communicators' copies have no such
 * attribute. Any thread. */
int tug_keyval_number(struct tug_keyval *keyval);

/* MPI ends, or has ended; it may begin once more. */
void tug_keyvals_finalize(void);

#endif
