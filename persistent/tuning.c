#include "persistent/tuning.h"

#include "base/log.h"
#include "base/settings.h"
#include "host/host.h"
#include "host/polite.h"
#include "persistent/calibrate.h"
#include "persistent/collectives.h"
#include "tugboat/tugboat.h"

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

/* Where nothing is measured: a rank that has news waits for those that share its core, a turn each,
 * so segments had better be few. */
#define SEGMENT_CROWDED 262144

static int guess(const struct tug_team *team, struct tug_model_parameters *parameters) {
    (void)tug_model_named("default", parameters);
    parameters->copiers = team->cores;
    parameters->segment_most = SEGMENT_CROWDED;
    tug_calibrate_crowd(team, parameters);
    parameters->inside.overhead_s += parameters->turn_s / parameters->crowd;
    return 0;
}

int tug_tuning_get(struct tug_team *team, struct tug_model_parameters *parameters) {
    static bool said;
    char why[512];
    int good = tug_settings.tuning != NULL;
    if (good && team->rank == 0) {
        good = tug_model_read(tug_settings.tuning, parameters, why, sizeof(why)) == 0;
        if (!good && !said)
            tug_log(TUG_VERBOSE_WARN,
                    "TUGBOAT_TUNING: %s; this job does without it: name a file that tugboat "
                    "calibrate has written and that all ranks can read, or none",
                    why);
        said = said || !good;
    }
    TUG_POLITE(Ibcast, &good, 1, MPI_INT, 0, team->comm);
    if (!good && !tug_team_measures(team))
        return guess(team, parameters);
    if (!good)
        return tug_calibrate(team, TUG_EFFORT_SHORT, parameters);
    return TUG_POLITE(Ibcast, parameters, sizeof(*parameters), MPI_BYTE, 0, team->comm) ==
                   MPI_SUCCESS
               ? 0
               : TUG_ERR_MPI;
}

const struct tug_model_parameters *tug_team_parameters(struct tug_team *team) {
    struct tug_collectives *own = tug_collectives_of(team);
    if (!own->tuned && (team->nnodes > 1 || tug_settings.tuning != NULL)) {
        if (!take_over(team, &own->parameters) && tug_tuning_get(team, &own->parameters) != 0)
            return NULL;
        machine.parameters = own->parameters;
        machine.known = true;
        own->tuned = true;
    }
    return own->tuned ? &own->parameters : NULL;
}
