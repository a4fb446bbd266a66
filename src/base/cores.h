/*
 * The cores this process may use, and who uses the same.
 *
 * Two things limit them: the affinity mask, which launchers and schedulers set, and the processor
 * quota of the control groups (version 2) that the process is in, which containers set: four ranks
 * in a container of two processors share two, however many the mask shows.
 *
 * Any thread.
 */
#ifndef TUG_BASE_CORES_H
#define TUG_BASE_CORES_H

#include <stdbool.h>
#include <stdint.h>

struct tug_cores {
    unsigned count; /* whole ones, at least 1 */
    uint64_t id;    /* equal in processes that share just these; of one machine alone */
};

/* What holds for this process now. */
struct tug_cores tug_cores_find(void);

/* A quota of processor time. */
struct tug_quota {
    double cores;   /* that it amounts to */
    uint64_t group; /* the directory's inode: which group's it is */
};

/* The least quota of the control group `path` and those above it, below the mount point `root`.
 * False: there is none. For tug_cores_find and tests. */
bool tug_quota_find(const char *root, const char *path, struct tug_quota *quota);

#endif
