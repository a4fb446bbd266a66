#include "persistent/tuning.h"

#include <stddef.h>

const struct tug_model_parameters *tug_team_parameters(struct tug_team *team) {
    static struct tug_model_parameters guess;
    if (team->nnodes == 1)
        return NULL;
    tug_model_named("default", &guess);
    return &guess;
}
