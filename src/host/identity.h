/* Which MPI a library is.
 *
 * Handles have the sizes and values of the binary interface that this library was built for; those
 * of another MPI would be taken for what they are not. So a host must say by its version string
 * that it is one of that interface, have the objects by which that is known, and not be its build
 * for the interface of the MPI standard. Whether it has the calls that are needed is for its user
 * to find out. Asks the library before MPI is initialised, which MPI allows; any thread.
 */
#ifndef TUG_HOST_IDENTITY_H
#define TUG_HOST_IDENTITY_H

#include <stdbool.h>

struct tug_identity {
    bool ours;      /* of the binary interface that this library is built for */
    char name[160]; /* what it calls itself, and the file it comes from */
};

/* library: where dlsym looks, a handle or RTLD_NEXT. */
void tug_identify(void *library, struct tug_identity *identity);

#endif
