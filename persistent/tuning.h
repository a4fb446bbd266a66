/* What a team knows of its machine: the parameters its broadcasts are chosen by. */
#ifndef TUG_PERSISTENT_TUNING_H
#define TUG_PERSISTENT_TUNING_H

#include "model/experience.h"
#include "node/team.h"
#include "tugboat/model.h"

/* The model's parameters of this machine: of the file that TUGBOAT_TUNING names, read by the first
 * rank, or measured shortly, or "default" where measuring tells nothing (tug_team_measures()). The
 * first rank says once if a file is no good. Collective over the team, the same answer on all
 * ranks: 0, TUG_ERR_NO_MEMORY, TUG_ERR_MPI. */
int tug_tuning_get(struct tug_team *team, struct tug_model_parameters *parameters);

/* What a broadcast is chosen by: the same on all ranks. */
struct tug_knowledge {
    const struct tug_model_parameters *parameters; /* NULL: nothing is known */
    struct tug_experience experience;              /* of the team's first rank by now */
};

/* The parameters are found once a process. None are looked for without a file where there is
 * nothing to choose because the team's ranks share a node. The experience is the first rank's:
 * ranks learn at different times, and must choose alike. Collective over the team, the same answer
 * on all ranks: 0 or TUG_ERR_MPI. */
int tug_team_know(struct tug_team *team, struct tug_knowledge *known);

/* A broadcast by the candidate took so long. Local, any thread. */
void tug_team_learn(struct tug_team *team, const struct tug_candidate *candidate, uint64_t bytes,
                    double seconds);

#endif
