/*
 * What the two halves of `tugboat selftest` tell each other: the command starts itself under a
 * launcher, with the host MPI alone and with the library preloaded, and rank 0 prints one line of
 * findings, which the command reads. Persistent collectives and partitioned messages are tried
 * under the library only: a host alone may end the job in one.
 */
#ifndef TUG_CMD_SELFTEST_H
#define TUG_CMD_SELFTEST_H

#include <stdbool.h>
#include <stdio.h>

#define TUG_FINDINGS_LANE 16

struct tug_findings {
    int ranks, nodes;  /* of the job */
    int node_ranks;    /* most ranks on a node */
    int node_cpus;     /* CPUs that the ranks of the first rank's node may use */
    int preloaded;     /* the library is in the processes */
    int multiple;      /* MPI_THREAD_MULTIPLE is granted */
    int unaligned;     /* puts into a window over memory aligned to nothing arrive */
    int unsigned_max;  /* MPI_MAX of unsigned integers is right */
    int mixed;         /* of TUG_RING_CALLS, as bits: they mix up the sides of a ring */
    int wrong;         /* of TUG_KINDS, as bits: they bring wrong data */
    double passive_us; /* a lock-put-unlock on a rank that computes; 0: there is only one rank */
    char lane[TUG_FINDINGS_LANE]; /* of a window of MPI_Win_allocate; "host": not taken */
};

/* The calls that are tried on rings. */
#define TUG_RING_CALLS(X)                                                                          \
    X(Neighbor_alltoall)                                                                           \
    X(Neighbor_alltoallv)                                                                          \
    X(Neighbor_alltoall_init)                                                                      \
    X(Neighbor_alltoallv_init)

enum tug_ring_call {
#define TUG_RING(Name) TUG_RING_##Name,
    TUG_RING_CALLS(TUG_RING)
#undef TUG_RING
        TUG_NRING_CALLS
};

void tug_findings_print(FILE *out, const struct tug_findings *findings);

/* False: the line has no findings. */
bool tug_findings_read(const char *line, struct tug_findings *findings);

/* The kinds of persistent requests that are tried. Kinds that the host does not implement count as
 * right. */
#define TUG_KINDS(X)                                                                               \
    X(Bcast)                                                                                       \
    X(Gather)                                                                                      \
    X(Scatter)                                                                                     \
    X(Allgather)                                                                                   \
    X(Alltoall)                                                                                    \
    X(Reduce)                                                                                      \
    X(Allreduce)                                                                                   \
    X(Psend)

enum tug_kind {
#define TUG_KIND(Name) TUG_KIND_##Name,
    TUG_KINDS(TUG_KIND)
#undef TUG_KIND
        TUG_NKINDS
};

/* A rank of the job. The exit status. */
int tug_selftest_rank(void);

#endif
