#include "persistent/bcast.h"

#include <stdlib.h>

#include "base/settings.h"
#include "base/stats.h"
#include "host/host.h"
#include "persistent/copy.h"
#include "persistent/session.h"
#include "schedule/bcast.h"
#include "tugboat/tugboat.h"

#define SEGMENT_SMALL 2048 /* of messages that live in the caches anyway */
#define SEGMENT_LEAST 8192
#define SEGMENT_MOST 65536
#define SEGMENT_CROWDED ((size_t)262144)

struct bcast {
    struct tug_request request; /* first: the engine's job is its first */
    struct tug_session session;
    struct tug_staging staging;
    struct tug_area_memory areas[TUG_AREA_BLOCKS];
    struct tug_bcast_plan plan; /* elements are bytes */
};

size_t tug_segment_for(const struct tug_team *team, size_t bytes) {
    const size_t most = team->crowded ? SEGMENT_CROWDED : SEGMENT_MOST;
    if (tug_settings.segment_bytes != 0)
        return tug_settings.segment_bytes;
    if (bytes <= SEGMENT_LEAST)
        return SEGMENT_SMALL;
    size_t segment = SEGMENT_LEAST;
    while (segment < most && segment * TUG_SEGMENT_SLOTS < bytes)
        segment *= 2;
    return segment;
}

static struct tug_bcast_plan plan_for(const struct tug_team *team, size_t bytes, int root) {
    struct tug_bcast_plan plan = {.algorithm = TUG_CHAIN,
                                  .phases = TUG_RELAY,
                                  .root = (uint32_t)root,
                                  .elements = bytes,
                                  .segment = tug_segment_for(team, bytes)};
    if (tug_settings.pipelines != TUG_PIPELINES_AUTO)
        plan.algorithm = (enum tug_algorithm)(tug_settings.pipelines - 1);
    if (tug_settings.phases != TUG_PHASES_AUTO)
        plan.phases = (enum tug_phases)(tug_settings.phases - 1);
    return plan;
}

static bool advance(struct tug_job *job, bool *done) {
    struct bcast *bcast = (struct bcast *)job;
    bool moved = tug_session_advance(&bcast->session, done);
    if (*done)
        bcast->request.error = bcast->session.error;
    return moved;
}

static void start(struct tug_request *request) {
    struct bcast *bcast = (struct bcast *)request;
    tug_stat_add(TUG_STAT_BYTES, bcast->plan.elements);
    tug_session_start(&bcast->session);
}

static void bcast_free(struct bcast *bcast) {
    tug_session_fini(&bcast->session);
    tug_staging_fini(&bcast->staging);
    free(bcast);
}

static void destroy(struct tug_request *request) {
    struct bcast *bcast = (struct bcast *)request;
    if (bcast->session.channel != NULL)
        tug_channel_release(bcast->session.team, bcast->session.channel);
    bcast_free(bcast);
}

static void set_area(struct bcast *bcast, enum tug_area area, unsigned char *base) {
    bcast->areas[area] = (struct tug_area_memory){
        .base = base, .type = MPI_BYTE, .count = 1, .extent = 1, .dense = true};
}

/* All that this rank can prepare alone. */
static int prepare(struct bcast *bcast, void *buffer, MPI_Count count, MPI_Datatype datatype,
                   int root) {
    struct tug_session *session = &bcast->session;
    struct tug_team *team = session->team;
    int error = tug_staging_init(&bcast->staging, buffer, count, datatype);
    if (error)
        return error;
    size_t bytes = (size_t)(count * bcast->staging.size);
    bcast->staging.packs = team->rank == root;
    bcast->plan = plan_for(team, bytes, root);
    error =
        tug_compile_bcast(&session->schedule, &team->places, &bcast->plan, (uint32_t)team->rank);
    if (error)
        return error;
    for (int a = 0; a < TUG_AREA_BLOCKS; a++)
        set_area(bcast, a, bcast->staging.bytes);
    session->areas = bcast->areas;
    bool staged = bcast->staging.type != MPI_DATATYPE_NULL;
    session->staging = staged ? &bcast->staging : NULL;
    /* what is staged is unpacked at once: it had better be in the cache */
    session->streams = !staged && bytes >= tug_copy_cache_share(team->node_size);
    error = tug_session_init(session);
    if (error)
        return error;
    bcast->request.job.advance = advance;
    bcast->request.start = start;
    bcast->request.destroy = destroy;
    return tug_request_register(&bcast->request);
}

/* The same on all ranks. */
static struct tug_channel_needs needs_of(const struct bcast *bcast) {
    const struct tug_team *team = bcast->session.team;
    const struct tug_bcast_plan *plan = &bcast->plan;
    bool shares = team->nnodes < team->nranks && plan->elements > 0;
    bool lands = shares && plan->phases == TUG_TWO_PHASE && team->nnodes > 1;
    uint32_t pipelines = tug_pipelines(&team->places, plan->algorithm);
    return (struct tug_channel_needs){
        .slot_bytes = shares && plan->elements > TUG_SLOT_INLINE ? plan->segment : 0,
        .landing_bytes = lands ? plan->elements : 0,
        .rings = shares ? pipelines : 0};
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
    struct tug_channel_needs needs = {0};
    bool willing = false;
    if (bcast != NULL) {
        bcast->session.team = team;
        bcast->staging.type = MPI_DATATYPE_NULL;
        bcast->request.comm = comm;
        willing = prepare(bcast, buffer, count, datatype, root) == 0;
        needs = needs_of(bcast);
    }
    struct tug_channel *channel;
    error =
        tug_channel_take(team, &needs, bcast != NULL ? bcast->plan.elements : 0, willing, &channel);
    if (error) {
        if (willing)
            tug_request_release(&bcast->request);
        else if (bcast != NULL)
            bcast_free(bcast);
        return error;
    }
    bcast->session.channel = channel;
    set_area(bcast, TUG_AREA_LANDING, channel->landing);
    if (team->bells != NULL && !bcast->session.polls)
        bcast->request.job.bell = tug_team_bell(team, team->node_rank);
    *request = &bcast->request;
    return 0;
}
