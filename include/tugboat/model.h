/*
 * Tugboat: predicted time of a persistent broadcast, from LogGP parameters.
 *
 * A few numbers describe a machine: LogGP parameters between nodes and inside a node (Alexandrov et
 * al., 1995), the number of transfers and copies that a node does at once, and the speed of memory
 * copies for messages that outgrow the caches. `tugboat calibrate` measures these numbers. A text
 * file keeps them, and the setting TUGBOAT_TUNING names that file. The model computes the time of
 * every algorithm from them. The library takes the fastest algorithm. `tugboat model` prints all.
 *
 * Times are in seconds, sizes in bytes. Any thread may call any function at any time. The functions
 * keep no state and do not use MPI. They return 0 or a negative TUG_ERR_*.
 */
#ifndef TUGBOAT_MODEL_H
#define TUGBOAT_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "tugboat/tugboat.h"

#ifdef __cplusplus
extern "C" {
#endif

/* LogGP parameters. A message of n bytes occupies a processor at each end for o, and an engine for
 * g + n G. Its last byte arrives L + n G after its first byte has left. */
struct tug_loggp {
    double latency_s;  /* L */
    double overhead_s; /* o */
    double gap_s;      /* g */
    double byte_s;     /* G */
};

/* The times of messages of one size between nodes. MPI libraries change their protocol as messages
 * grow, so no straight line fits all sizes. This is parameterised LogP (Kielmann et al., 2000). */
struct tug_transfer_speed {
    uint64_t bytes;
    double trip_s;     /* from one rank to the other */
    double interval_s; /* from one message of a stream to the next */
    double handle_s;   /* the part during which a processor is busy, at either end */
};

#define TUG_TRANSFER_SPEEDS 16

/* The speed of memory copies, in seconds a byte, as part of a message of `bytes` bytes. */
struct tug_copy_speed {
    uint64_t bytes;
    double byte_s;
};

#define TUG_COPY_SPEEDS 8

struct tug_model_parameters {
    struct tug_loggp between; /* between a rank and a rank on a neighbouring node */
    struct tug_loggp inside;  /* between ranks of a node, through shared memory: a message is copied
                                 into it and out of it; each copy takes o + n G, and L passes
                                 between the two */
    double start_s;           /* time of a run on every rank, before and after all communication */
    double hop_s;             /* added latency for each link of the path after the first */
    uint32_t engines;         /* number of transfers that can leave a node at once at full speed;
                                 the same number can arrive */
    uint32_t copiers;         /* number of copies inside a node that run at full speed at once */
    uint64_t segment_most;    /* longest piece of a message that passes well through the shared
                                 memory of a node, bytes */
    uint32_t ncopies;         /* entries of `copies`, by growing size, interpolated; 0:
                                 `inside.byte_s` holds for all sizes */
    struct tug_copy_speed copies[TUG_COPY_SPEEDS];
    uint32_t ntransfers; /* entries of `transfers`, by growing size, interpolated; 0: `between`
                            holds for all sizes */
    struct tug_transfer_speed transfers[TUG_TRANSFER_SPEEDS];
    double far_byte_s; /* least time of a byte between nodes if no cache holds the message; 0: no
                          such minimum */
    double crowd;  /* ranks that share a core, on one node or because several nodes are emulated on
                      one machine: what all have to do takes so many times as long; below 1: 1 */
    double turn_s; /* for which a rank with a message waits for the core that it shares */
    int between_is_guess; /* true if nothing has been measured between nodes */
};

/* The places of the ranks: `ppn` ranks on each of `nodes` nodes, and the network of the nodes. */
struct tug_model_shape {
    uint32_t nodes;
    uint32_t ppn;
    uint32_t torus[3]; /* nodes along x, y, z, x growing fastest; {0, 0, 0}: a flat network */
};

/* One way to broadcast, and its predicted time. The strings are constant. */
struct tug_model_prediction {
    const char *algorithm; /* between nodes: "chain", "binomial", "trinary" */
    const char *phases;    /* inside nodes: "relay", "two-phase" */
    uint64_t segment_bytes;
    double seconds;
};

#define TUG_MODEL_WAYS 6

/* Gives the parameters of a named machine: "fx100" (Morie et al.) or "default" (a guess for an
 * ordinary node and its network). TUG_ERR_INVALID: the name is unknown. */
TUG_API int tug_model_named(const char *name, struct tug_model_parameters *parameters);

/* Reads a file of parameters. Parameters that are not in the file have their values of "default".
 * TUG_ERR_SYSTEM, TUG_ERR_INVALID: `why` names the file, the line and the error. */
TUG_API int tug_model_read(const char *path, struct tug_model_parameters *parameters, char *why,
                           size_t why_bytes);

/* Writes a file that tug_model_read() can read. TUG_ERR_SYSTEM: errno gives the reason. */
TUG_API int tug_model_write(const char *path, const struct tug_model_parameters *parameters);

/* Predicts all ways to broadcast `bytes` bytes from the first rank, the fastest first. The library
 * would take the first. *count is the number of predictions, at least one. TUG_ERR_INVALID: no
 * ranks, more than 2^31 ranks, or a torus whose number of nodes differs from `nodes`.
 * TUG_ERR_NO_MEMORY. */
TUG_API int tug_model_bcast(const struct tug_model_shape *shape, uint64_t bytes,
                            const struct tug_model_parameters *parameters,
                            struct tug_model_prediction predictions[TUG_MODEL_WAYS],
                            uint32_t *count);

#ifdef __cplusplus
}
#endif

#endif
