/*
 * Version and error sentences.
 *
 * Constant tables only: no state, no allocation, safe on every thread and in a signal handler.
 */
#include <stddef.h>

#include "tugboat/tugboat.h"

#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x)

static const char *const sentences[] = {
    [-TUG_OK] = "success",
    [-TUG_ERR_INVALID] = "an argument is out of its range",
    [-TUG_ERR_SETTING] = "a TUGBOAT_* setting has a value that is not allowed",
    [-TUG_ERR_NO_MEMORY] = "out of memory",
    [-TUG_ERR_NO_MPI] = "no usable MPI library in this process",
    [-TUG_ERR_MPI] = "the MPI library returned an error",
    [-TUG_ERR_SYSTEM] = "a system call failed",
    [-TUG_ERR_STATE] = "not allowed in the present state",
    [-TUG_ERR_FULL] = "no room now, try again after progress",
    [-TUG_ERR_UNSUPPORTED] = "not supported by this build or machine",
    [-TUG_ERR_TIMEOUT] = "timed out",
    [-TUG_ERR_RANGE] = "an address outside of its registration",
    [-TUG_ERR_KEY] = "a key of no registration, or of one that has ended",
    [-TUG_ERR_PEER] = "another process, or the way to it, is lost",
    [-TUG_ERR_DEVICE] = "a network device failed",
};

const char *tug_version(void) {
    return STRING(TUG_VERSION_MAJOR) "." STRING(TUG_VERSION_MINOR) "." STRING(TUG_VERSION_PATCH);
}

const char *tug_strerror(int error) {
    const int count = (int)(sizeof sentences / sizeof sentences[0]);
    if (error > 0 || error <= -count || sentences[-error] == NULL)
        return "unknown Tugboat error";
    return sentences[-error];
}
