#include "persistent/tuning.h"

#include <stddef.h>

#include "base/settings.h"
#include "host/host.h"
#include "host/polite.h"
#include "persistent/calibrate.h"

/* What this process has learnt from the first team that wanted to know: others take it over. */
static struct {
    struct tug_model_parameters parameters;
    int known;
} machine;

/* The first rank's knowledge is everybody's. */
static bool take_over(const struct tug_team *team, struct tug_model_parameters *parameters) {
    int known = machine.known;
    *parameters = machine.parameters;
    TUG_POLITE(Ibcast, &known, 1, MPI_INT, 0, team->comm);
    if (known)
        TUG_POLITE(Ibcast, parameters, (int)sizeof(*parameters), MPI_BYTE, 0, team->comm);
    return known;
}

const struct tug_model_parameters *tug_team_parameters(struct tug_team *team) {
    if (!team->tuned && (team->nnodes > 1 || tug_settings.tuning != NULL)) {
        if (!take_over(team, &team->parameters) && tug_tuning_get(team, &team->parameters) != 0)
            return NULL;
        machine.parameters = team->parameters;
        machine.known = true;
        team->tuned = true;
    }
    return team->tuned ? &team->parameters : NULL;
}
