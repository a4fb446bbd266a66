/* What a team knows of its machine: the parameters its broadcasts are chosen by. */
#ifndef TUG_PERSISTENT_TUNING_H
#define TUG_PERSISTENT_TUNING_H

#include "node/team.h"
#include "tugboat/model.h"

/* The model's parameters of this machine: of the file that TUGBOAT_TUNING names, read by the first
 * rank, or measured shortly, or "default" where measuring tells nothing (tug_team_measures()). The
 * first rank says once if a file is no good. Collective over the team, the same answer on all
 * ranks: 0, TUG_ERR_NO_MEMORY, TUG_ERR_MPI. */
int tug_tuning_get(struct tug_team *team, struct tug_model_parameters *parameters);

/* The same, found once a process; NULL: nothing is known, or could be found out. None are looked
 * for without a file where there is nothing to choose because the team's ranks share a node.
 * Collective over the team, the same answer on all ranks. */
const struct tug_model_parameters *tug_team_parameters(struct tug_team *team);

#endif
