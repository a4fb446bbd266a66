/* What a team knows of its machine: the parameters its broadcasts are chosen by. */
#ifndef TUG_PERSISTENT_TUNING_H
#define TUG_PERSISTENT_TUNING_H

#include "model/experience.h"
#include "node/team.h"
#include "tugboat/model.h"

/* The parameters: of the file that TUGBOAT_TUNING names, or measured in some ten milliseconds, once
 * a process. NULL if nothing could be found out, and without a file where there is nothing to
 * choose because the team's ranks share a node. The same on all ranks, if they have memory.
 * Collective over the team, the first time; then local. */
const struct tug_model_parameters *tug_team_parameters(struct tug_team *team);

/* What the team's first rank has learnt of predictions by now. Ranks learn at different times, and
 * must choose alike. Collective over the team, the same answer on all ranks: 0 or TUG_ERR_MPI. */
int tug_team_experience(struct tug_team *team, struct tug_experience *experience);

/* A broadcast by the candidate took so long. Local, any thread. */
void tug_team_learn(struct tug_team *team, const struct tug_candidate *candidate, uint64_t bytes,
                    double seconds);

#endif
