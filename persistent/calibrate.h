/* Measuring what the model (src/model) wants to know of a machine.
 *
 * Inside a node the team's ranks on the largest node take part, the first of them where they
 * outnumber the cores (tug_team_takers()): what they see of a signal, what a segment costs in
 * passing through shared memory, and how fast messages of several sizes go through it in segments,
 * all copying at once. Between nodes the leaders of the first two
 * exchange messages of several sizes as an interpreter does: trips, streams, and streams both ways,
 * which tell what a processor has to do. LogGP parameters are read off them. Those who have
 * nothing to do meanwhile wait politely.
 *
 * What cannot be measured, for want of a second rank or node, is as in "default", and said to be a
 * guess where that is between nodes. Collective over the team; the same answer on all ranks.
 */
#ifndef TUG_PERSISTENT_CALIBRATE_H
#define TUG_PERSISTENT_CALIBRATE_H

#include "node/team.h"
#include "tugboat/model.h"

enum tug_effort {
    TUG_EFFORT_SHORT,    /* some ten milliseconds, messages to 4 MiB: for a program's first */
    TUG_EFFORT_THOROUGH, /* some seconds, messages to 64 MiB: for `tugboat calibrate` */
};

/* What the ranks that share a core take from one another, on nodes that are emulated, too: it is
 * known by their number and not measured, since those who measure have the cores for themselves.
 * Local, the same on all ranks. */
void tug_calibrate_crowd(const struct tug_team *team, struct tug_model_parameters *parameters);

/* 0, TUG_ERR_NO_MEMORY, TUG_ERR_MPI. */
int tug_calibrate(struct tug_team *team, enum tug_effort effort,
                  struct tug_model_parameters *parameters);

#endif
