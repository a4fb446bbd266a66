/*
 * What the two halves of `tugboat selftest` tell each other: the command starts itself under a
 * launcher, once with the host MPI alone and once with the library preloaded, and rank 0 prints one
 * line of findings, which the command reads.
 */
#ifndef TUG_CMD_SELFTEST_H
#define TUG_CMD_SELFTEST_H

#include <stdbool.h>
#include <stdio.h>

#define TUG_FINDINGS_LANE 16

struct tug_findings {
    int ranks, nodes; /* of the job */
    int node_ranks;   /* most ranks on a node */
    int node_cpus;    /* CPUs that the ranks of the first rank's node may use */
    int preloaded;    /* the library is in the processes */
    int multiple;     /* MPI_THREAD_MULTIPLE is granted */
    int unaligned;    /* puts into a window over memory aligned to nothing arrive */
    int unsigned_max; /* MPI_MAX of unsigned integers is right */
    int persistent;   /* MPI_Bcast_init brings the data */
    int neighbours;   /* MPI_Neighbor_alltoallv keeps the sides of a ring of one rank apart */
    /* in MPI_Finalize, see host/farewell.h; TUG_HANGS is seen from outside */
    enum tug_farewell { TUG_ENDS_WELL, TUG_MAY_HANG, TUG_HANGS, TUG_IS_HEALED } farewell;
    double passive_us; /* a lock-put-unlock on a rank that computes; 0: there is only one rank */
    char lane[TUG_FINDINGS_LANE]; /* of a window of MPI_Win_allocate; "host": not taken */
};

void tug_findings_print(FILE *out, const struct tug_findings *findings);

/* False: the line has no findings. */
bool tug_findings_read(const char *line, struct tug_findings *findings);

/* A rank. The exit status. */
int tug_selftest_rank(void);

#endif
