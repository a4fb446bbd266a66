/* What a team knows of its machine: the parameters its broadcasts are chosen by. */
#ifndef TUG_PERSISTENT_TUNING_H
#define TUG_PERSISTENT_TUNING_H

#include "persistent/team.h"
#include "tugboat/model.h"

/* The parameters, or NULL where there is nothing to choose: the team's ranks share a node. The same
 * on all ranks. Collective over the team, the first time; then local. */
const struct tug_model_parameters *tug_team_parameters(struct tug_team *team);

#endif
