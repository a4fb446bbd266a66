/* What a team knows of its machine: the parameters its broadcasts are chosen by. */
#ifndef TUG_PERSISTENT_TUNING_H
#define TUG_PERSISTENT_TUNING_H

#include "persistent/team.h"
#include "tugboat/model.h"

/* The parameters: of the file that TUGBOAT_TUNING names, or measured in some ten milliseconds, once
 * a process. NULL if nothing could be found out, and without a file where there is nothing to
 * choose because the team's ranks share a node. The same on all ranks, if they have memory.
 * Collective over the team, the first time; then local. */
const struct tug_model_parameters *tug_team_parameters(struct tug_team *team);

#endif
