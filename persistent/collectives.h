/* What a team (node/team.h) keeps for the persistent collectives of its communicator: channels, the
 * machine's parameters, blocking calls that repeat.
 *
 * Made with the first of them, gone with the team. Its parts say who may touch them.
 */
#ifndef TUG_PERSISTENT_COLLECTIVES_H
#define TUG_PERSISTENT_COLLECTIVES_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "node/team.h"
#include "persistent/repeat.h"
#include "tugboat/model.h"

struct tug_channel;
struct tug_far;

struct tug_collectives {
    struct tug_channel **channels;
    int nchannels, channel_capacity;
    uint64_t *votes;                        /* room for a vote over all channels */
    bool tuned;                             /* the parameters are known */
    struct tug_model_parameters parameters; /* see tuning.h */
    struct tug_repeats repeats;
    struct tug_far *far; /* to ranks of other nodes; NULL: by messages of the host's */
    bool far_sought;
};

/* The team of a communicator, with its part for collectives: tug_team_get(), and like that. */
int tug_collectives_team(MPI_Comm comm, struct tug_team **team);

static inline struct tug_collectives *tug_collectives_of(const struct tug_team *team) {
    return team->parts[TUG_PART_COLLECTIVES].state;
}

#endif
