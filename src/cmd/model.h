/*
 * What `tugboat model` has found out, and how it is shown.
 */
#ifndef TUG_CMD_MODEL_H
#define TUG_CMD_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "model/choose.h"
#include "model/network.h"

#define TUG_SIZES_MOST 64

/* One size of message. */
struct tug_model_row {
    uint64_t bytes;
    uint32_t ncandidates; /* the fastest first */
    struct tug_candidate
        candidates[TUG_BCAST_WAYS];     /* those that are only compared with at the end */
    double simulated_s[TUG_BCAST_WAYS]; /* 0: not simulated */
};

struct tug_model_report {
    const char *machine; /* where the parameters come from */
    struct tug_model_parameters parameters;
    struct tug_model_shape shape;
    struct tug_network network; /* kind, radix and taper */
    bool simulated;
    uint32_t nrows;
    struct tug_model_row rows[TUG_SIZES_MOST];
};

void tug_model_print_table(const struct tug_model_report *report, FILE *out);
void tug_model_print_json(const struct tug_model_report *report, FILE *out);

#endif
