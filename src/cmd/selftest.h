/*
 * What the two halves of `tugboat selftest` tell each other: the command starts itself under a
 * launcher, with the host MPI alone and with the library preloaded, and rank 0 prints one line of
 * findings, which the command reads. Persistent collectives and partitioned messages are tried by
 * jobs of their own, with a line for each kind as it is done: a host may end the job in one, and
 * then another job goes on with the next.
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
    int mixed;        /* of TUG_RING_CALLS, as bits: they mix up the sides of a ring */
    /* in MPI_Finalize, see host/farewell.h; TUG_HANGS is seen from outside */
    enum tug_farewell { TUG_ENDS_WELL, TUG_MAY_HANG, TUG_HANGS, TUG_IS_HEALED } farewell;
    double passive_us; /* a lock-put-unlock on a rank that computes; 0: there is only one rank */
    char lane[TUG_FINDINGS_LANE]; /* of a window of MPI_Win_allocate; "host": not taken */
};

/* The calls that are tried on rings. */
#define TUG_RING_CALLS(X)                                                                          \
    X(Neighbor_alltoall)                                                                           \
    X(Neighbor_alltoallv)                                                                          \
    X(Ineighbor_alltoall)                                                                          \
    X(Ineighbor_alltoallv)                                                                         \
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

/* The kinds of persistent requests that are tried, in this order. What the host lacks is right. */
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

void tug_kind_print(FILE *out, enum tug_kind kind, bool right);

/* False: the line tells of no kind. */
bool tug_kind_read(const char *line, enum tug_kind *kind, bool *right);

/* A rank of the job with the findings, or with the kinds from one on. The exit status. */
int tug_selftest_rank(void);
int tug_selftest_kinds(enum tug_kind first);

#endif
