#include "persistent/bcast.h"

#include <stdlib.h>

#include "base/settings.h"
#include "base/stats.h"
#include "host/host.h"
#include "persistent/schedule.h"
#include "tugboat/tugboat.h"

#define SEGMENT_SMALL 2048 /* of messages that live in the caches anyway */
#define SEGMENT_LEAST 8192
#define SEGMENT_MOST 65536
#define SEGMENT_CROWDED ((size_t)262144)

struct bcast {
    struct tug_request request; /* first: the engine's job is its first */
    struct tug_schedule schedule;
};

/* Where ranks take turns on the cores, a longer ring saves more turns than the cache saves time.
 * Otherwise: segments long enough to hide the hand-over of one (a cache miss or two), short enough
 * that the ring stays in the second-level cache and a message has several. */
static size_t segment_for(const struct tug_team *team, size_t bytes) {
    const size_t most = team->crowded ? SEGMENT_CROWDED : SEGMENT_MOST;
    if (tug_settings.segment_bytes != 0)
        return tug_settings.segment_bytes;
    if (bytes <= SEGMENT_LEAST)
        return SEGMENT_SMALL;
    size_t segment = SEGMENT_LEAST;
    while (segment < most && segment * TUG_CHANNEL_SLOTS < bytes)
        segment *= 2;
    return segment;
}

static bool advance(struct tug_job *job, bool *done) {
    struct bcast *bcast = (struct bcast *)job;
    bool moved = tug_schedule_advance(&bcast->schedule, done);
    if (*done)
        bcast->request.error = bcast->schedule.error;
    return moved;
}

static void start(struct tug_request *request) {
    struct bcast *bcast = (struct bcast *)request;
    tug_stat_add(TUG_STAT_BYTES, bcast->schedule.bytes);
    tug_schedule_start(&bcast->schedule);
}

static void destroy(struct tug_request *request) {
    struct bcast *bcast = (struct bcast *)request;
    struct tug_team *team = bcast->schedule.team;
    struct tug_channel *channel = bcast->schedule.channel;
    tug_schedule_end(&bcast->schedule);
    free(bcast);
    if (channel != NULL)
        tug_team_release(team, channel);
}

/* All that this rank can prepare alone. */
static int prepare(struct bcast *bcast, void *buffer, MPI_Count count, MPI_Datatype datatype,
                   int root) {
    struct tug_schedule *schedule = &bcast->schedule;
    int error = tug_staging_init(&schedule->staging, buffer, count, datatype);
    if (error)
        return error;
    schedule->bytes = (size_t)(count * schedule->staging.size);
    schedule->segment_bytes = segment_for(schedule->team, schedule->bytes);
    schedule->nsegments =
        (uint32_t)((schedule->bytes + schedule->segment_bytes - 1) / schedule->segment_bytes);
    error = tug_schedule_bcast(schedule, root);
    if (error)
        goto fail;
    bcast->request.job.advance = advance;
    bcast->request.start = start;
    bcast->request.destroy = destroy;
    error = tug_request_register(&bcast->request);
    if (error)
        goto fail;
    return 0;

fail:
    tug_schedule_end(schedule);
    return error;
}

int tug_bcast_create(void *buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
                     struct tug_request **request) {
    int inter = 0;
    struct tug_team *team;
    if (tug_host.Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter)
        return TUG_ERR_UNSUPPORTED;
    int error = tug_team_get(comm, &team);
    if (error)
        return error;
    struct bcast *bcast = calloc(1, sizeof(*bcast));
    bool willing = false;
    size_t slot_bytes = 0;
    uint64_t bytes = 0;
    if (bcast != NULL) {
        bcast->schedule.team = team;
        bcast->request.comm = comm;
        willing = prepare(bcast, buffer, count, datatype, root) == 0;
        bytes = bcast->schedule.bytes;
        if (team->nnodes < team->nranks && bytes > TUG_SLOT_INLINE)
            slot_bytes = bcast->schedule.segment_bytes;
    }
    struct tug_channel *channel;
    error = tug_team_channel(team, slot_bytes, bytes, willing, &channel);
    if (error) {
        if (willing)
            tug_request_release(&bcast->request);
        else
            free(bcast);
        return error;
    }
    bcast->schedule.channel = channel;
    if (team->bells != NULL && !tug_schedule_polls(&bcast->schedule))
        bcast->request.job.bell = tug_team_bell(team, team->node_rank);
    *request = &bcast->request;
    return 0;
}
