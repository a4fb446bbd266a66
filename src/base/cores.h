/*
 * The cores this process may use, and who uses the same.
 *
 * Two things limit them: the affinity mask, which launchers and schedulers set, and the processor
 * quota of the control groups (version 1 or 2) that the process is in, which containers set: four
 * ranks in a container of two processors share two, however many the mask shows.
 *
 * Whether ranks outnumber them is what waits and copies go by. The ranks of a communicator's node
 * tell each other (node/team.h); the world knows better (pmpi/world.h), since nodes that are
 * containers or are emulated may share a machine.
 *
 * Any thread.
 */
#ifndef TUG_BASE_CORES_H
#define TUG_BASE_CORES_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The processors that this process may use. The kernel refuses to fill a mask that is smaller than
 * its own, and glibc's cpu_set_t ends at 1 024: this one is as large as any kernel's. To be handed
 * on with CPU_COUNT_S and the like. */
struct tug_cpus {
    cpu_set_t sets[64];
};

/* False: the kernel does not say; then there are none in it. */
bool tug_cpus_find(struct tug_cpus *cpus);

/* The number of processors in it. */
static inline unsigned tug_cpus_count(const struct tug_cpus *cpus) {
    return (unsigned)CPU_COUNT_S(sizeof(*cpus), cpus->sets);
}

struct tug_cores {
    unsigned count; /* whole ones, at least 1 */
    uint64_t id;    /* equal in processes that share just these; of one machine alone */
};

/* What holds for this process now. */
struct tug_cores tug_cores_find(void);

/* A number of this machine, another each time that it starts. */
uint64_t tug_cores_machine(void);

/* How processes of a node share its cores. */
struct tug_sharing {
    unsigned processes; /* have the cores `id` */
    unsigned cores;     /* of all processes together */
};

/* all: what each of n >= 1 processes may use, which are sorted. A launcher that binds gives each of
 * them cores of its own, and none of them is crowded then. Sets that overlap and are not equal
 * count as apart. Pure. */
struct tug_sharing tug_cores_sharing(struct tug_cores all[], size_t n, uint64_t id);

/* So many ranks of the job are known to use the `cores` that this process may use now. The most
 * that anybody has said stays: ranks of other communicators are there, too. */
void tug_cores_shared_by(unsigned ranks, unsigned cores);

/* Ranks to a core, when that was said; 0: it has not been. */
double tug_cores_crowd(void);

/* More than one. */
bool tug_cores_crowded(void);

/* A quota of processor time. */
struct tug_quota {
    double cores;   /* so many cores, all of the time, are as much */
    uint64_t group; /* the group that has it: the inode of its directory */
};

/* The least quota of the control group `path` and those above it, below the mount point `root`.
 * False: there is none. For tug_cores_find and tests. */
bool tug_quota_find(const char *root, const char *path, struct tug_quota *quota);

/* Finds the control group in a line of /proc/self/cgroup, and modifies the line. Returns the path
 * of the group; *root: the mount point below which it lies. NULL: the group does not limit
 * processors. For tug_cores_find and tests. */
const char *tug_quota_group(char *line, const char **root);

#endif
