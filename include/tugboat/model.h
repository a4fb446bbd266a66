/*
 * Tugboat: what a persistent broadcast will cost, by LogGP.
 *
 * A machine is described by a handful of numbers: LogGP parameters between nodes and inside of one
 * (Alexandrov et al., 1995), how many transfers and copies a node does at once, and how fast memory
 * is copied as messages outgrow the caches. `tugboat calibrate` measures them, a text file keeps
 * them, and the setting TUGBOAT_TUNING names that file. From them the time of every algorithm
 * follows; the library takes the one with the least, `tugboat model` prints them all.
 *
 * Times are in seconds, sizes in bytes. All functions may be called from any thread at any time,
 * keep no state, and know no MPI. They return 0 or a negative TUG_ERR_*.
 */
#ifndef TUGBOAT_MODEL_H
#define TUGBOAT_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "tugboat/tugboat.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A message of n bytes keeps a processor busy for o at either end and an engine for g + n G; its
 * last byte arrives L + n G after the first has left. */
struct tug_loggp {
    double latency_s;  /* L */
    double overhead_s; /* o */
    double gap_s;      /* g */
    double byte_s;     /* G */
};

/* What messages of so many bytes take between nodes. MPIs change their protocols as messages grow,
 * and no straight line goes through what comes of it: parameterised LogP (Kielmann et al., 2000).
 */
struct tug_transfer_speed {
    uint64_t bytes;
    double trip_s;     /* from one rank to the other */
    double interval_s; /* from one message of a stream to the next */
    double handle_s;   /* of which a processor is busy, at either end */
};

#define TUG_TRANSFER_SPEEDS 16

/* Memory is copied at so many seconds a byte in the course of a message of so many bytes. */
struct tug_copy_speed {
    uint64_t bytes;
    double byte_s;
};

#define TUG_COPY_SPEEDS 8

struct tug_model_parameters {
    struct tug_loggp between; /* a rank and one on a neighbouring node */
    struct tug_loggp inside;  /* ranks of a node, through shared memory: a message is copied into it
                                 and out of it, each time at o + n G; L passes between */
    double start_s;           /* of a run, on every rank, before and after all communication */
    double hop_s;             /* more latency for every link of the way after the first */
    uint32_t engines;         /* transfers that leave a node at once at full speed, and that reach
                                 it */
    uint32_t copiers;         /* copies inside a node that go at full speed at once */
    uint64_t segment_most;    /* longest piece of a message that passes well through a node's shared
                                 memory, bytes */
    uint32_t ncopies;         /* 0: `inside.byte_s` holds for all sizes; else these do, by growing
                                 size, interpolated */
    struct tug_copy_speed copies[TUG_COPY_SPEEDS];
    uint32_t ntransfers; /* 0: `between` holds for all sizes; else these do, by growing size,
                            interpolated */
    struct tug_transfer_speed transfers[TUG_TRANSFER_SPEEDS];
    double far_byte_s; /* least that a byte takes between nodes when no cache holds the message; 0:
                          no more than others */
    int between_is_guess; /* nothing has been measured between nodes */
};

/* Where the ranks are: `ppn` on each of `nodes`, and how the nodes are connected. */
struct tug_model_shape {
    uint32_t nodes;
    uint32_t ppn;
    uint32_t torus[3]; /* nodes along x, y, z, x growing fastest; {0, 0, 0}: a flat network */
};

/* One way to broadcast, and what it takes. The strings are constant. */
struct tug_model_prediction {
    const char *algorithm; /* between nodes: "chain", "binomial", "trinary" */
    const char *phases;    /* inside of them: "relay", "two-phase" */
    uint64_t segment_bytes;
    double seconds;
};

#define TUG_MODEL_WAYS 6

/* The parameters of a machine known by name: "fx100" (Morie et al.), "default" (a guess at an
 * ordinary node and its network). TUG_ERR_INVALID: unknown. */
TUG_API int tug_model_named(const char *name, struct tug_model_parameters *parameters);

/* Reads a file of parameters. What it leaves out is as in "default". TUG_ERR_SYSTEM,
 * TUG_ERR_INVALID: `why` says which file, which line, and what is wrong. */
TUG_API int tug_model_read(const char *path, struct tug_model_parameters *parameters, char *why,
                           size_t why_bytes);

/* Writes one that tug_model_read() understands. TUG_ERR_SYSTEM: errno tells. */
TUG_API int tug_model_write(const char *path, const struct tug_model_parameters *parameters);

/* All ways to broadcast `bytes` from the first rank, the fastest first: the one that the library
 * would take. At least one; *count says how many. TUG_ERR_INVALID: no ranks, more than 2^31, or a
 * torus of another number of nodes. TUG_ERR_NO_MEMORY. */
TUG_API int tug_model_bcast(const struct tug_model_shape *shape, uint64_t bytes,
                            const struct tug_model_parameters *parameters,
                            struct tug_model_prediction predictions[TUG_MODEL_WAYS],
                            uint32_t *count);

#ifdef __cplusplus
}
#endif

#endif
