/* Whether the machine has InfiniBand or RoCE, and whether the library uses it. No MPI, no device is
 * opened. */
#ifndef TUG_CMD_INFINIBAND_H
#define TUG_CMD_INFINIBAND_H

#include <stdbool.h>
#include <stddef.h>

/* The result of one check of `tugboat selftest`. A NOTE is worth knowing and is no fault. */
enum tug_grade { GOOD, NOTE, BAD };

struct tug_infiniband {
    const char *devices; /* folder in which the kernel lists the devices; it may be missing */
    bool built;          /* the library has the verbs row */
    bool allowed;        /* by TUGBOAT_TRANSPORTS */
    const char *missing; /* why the row cannot be used; NULL: it can */
};

/* Grades what was found, and writes one sentence for people: BAD where the machine has a device
 * that the library cannot use, with what to do; NOTE where the build lacks the row, or the user
 * does not allow it. */
enum tug_grade tug_infiniband_judge(const struct tug_infiniband *found, char *text,
                                    size_t text_bytes);

#endif
