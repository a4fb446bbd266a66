#include "persistent/collectives.h"

#include <stdlib.h>

#include "host/agreement.h"
#include "persistent/channel.h"
#include "persistent/far.h"
#include "tugboat/tugboat.h"

static void drop(void *state) {
    struct tug_collectives *collectives = state;
    tug_repeats_drop(&collectives->repeats);
}

static void end(void *state) {
    struct tug_collectives *collectives = state;
    tug_far_end(collectives);
    tug_channel_free_all(collectives);
    free(collectives);
}

int tug_collectives_team(MPI_Comm comm, struct tug_team **team) {
    int error = tug_team_get(comm, team);
    if (error || tug_collectives_of(*team) != NULL)
        return error;
    struct tug_collectives *collectives = calloc(1, sizeof(*collectives));
    if (!tug_all_agree((*team)->comm, collectives != NULL)) {
        free(collectives);
        return TUG_ERR_NO_MEMORY;
    }
    struct tug_team_part *part = &(*team)->parts[TUG_PART_COLLECTIVES];
    part->state = collectives;
    part->drop = drop;
    part->end = end;
    return 0;
}
