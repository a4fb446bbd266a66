#include "persistent/bcast.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/stats.h"
#include "host/agreement.h"
#include "host/device.h"
#include "host/handles.h"
#include "host/host.h"
#include "model/choose.h"
#include "model/tuner.h"
#include "node/arena.h"
#include "node/lent.h"
#include "node/segment.h"
#include "persistent/agreement.h"
#include "persistent/collectives.h"
#include "persistent/copy.h"
#include "persistent/interpreter.h"
#include "persistent/tuning.h"
#include "schedule/bcast.h"
#include "tugboat/tugboat.h"

#define SEGMENT_SMALL 2048 /* of messages that live in the caches anyway */
#define SEGMENT_LEAST 8192
#define SEGMENT_MOST 65536
#define SEGMENT_CROWDED ((size_t)524288)

/* Below, passing it on through the ring is as fast. */
#define LENT_LEAST ((size_t)65536)
#define ATTACHED_LEAST ((size_t)32768)
#define LANDING_MOST ((size_t)128 << 20) /* of a node's shared memory, for a message to land in */

struct bcast {
    struct tug_request request; /* first: the engine's job is its first */
    struct tug_staging staging;
    MPI_Datatype
        plain_type; /* predefined, and the buffer lies as it is: MPI_DATATYPE_NULL if not */
    struct tug_area_memory areas[TUG_AREA_BLOCKS];
    struct tug_team *team;
    struct tug_channel *channel;
    size_t bytes;
    struct tug_tuner tuner;
    struct tug_interpreter interpreters[TUG_CANDIDATES_MOST]; /* of the tuner's candidates */
    struct tug_interpreter *running;
    struct tug_offer borrowed;      /* where the root's memory is, if this rank has opened it */
    struct tug_agreement agreement; /* while candidates are measured */
    bool agreeing;
    uint64_t started_ns;
};

size_t tug_segment_for(const struct tug_team *team, size_t bytes) {
    const size_t most = team->crowded ? SEGMENT_CROWDED : SEGMENT_MOST;
    const size_t pieces = team->crowded ? 1 : TUG_SEGMENT_SLOTS;
    if (tug_settings.segment_bytes != 0)
        return tug_settings.segment_bytes;
    if (bytes <= SEGMENT_LEAST)
        return team->crowded ? SEGMENT_LEAST : SEGMENT_SMALL;
    size_t segment = SEGMENT_LEAST;
    while (segment < most && segment * pieces < bytes)
        segment *= 2;
    return segment;
}

/* ---- what to run ---- */

/* What is known to choose by. The same on all ranks. */
struct knowledge {
    const struct tug_model_parameters *parameters; /* NULL: nothing */
    struct tug_experience experience;
};

static bool is_allowed(const struct bcast *bcast, const struct tug_bcast_plan *plan) {
    if (tug_settings.pipelines != TUG_PIPELINES_AUTO &&
        plan->algorithm != (enum tug_algorithm)(tug_settings.pipelines - 1))
        return false;
    if (tug_settings.phases != TUG_PHASES_AUTO)
        return plan->phases == (enum tug_phases)(tug_settings.phases - 1);
    return plan->phases == TUG_RELAY || bcast->bytes <= LANDING_MOST;
}

/* What the settings name, if they leave no choice or nothing is known to choose by. */
static struct tug_bcast_plan plan_by_settings(const struct bcast *bcast, uint32_t root) {
    struct tug_bcast_plan plan = {.algorithm = TUG_CHAIN,
                                  .phases = TUG_RELAY,
                                  .root = root,
                                  .elements = bcast->bytes,
                                  .segment = tug_segment_for(bcast->team, bcast->bytes)};
    if (tug_settings.pipelines != TUG_PIPELINES_AUTO)
        plan.algorithm = (enum tug_algorithm)(tug_settings.pipelines - 1);
    if (tug_settings.phases != TUG_PHASES_AUTO)
        plan.phases = (enum tug_phases)(tug_settings.phases - 1);
    return plan;
}

/* The candidates, the fastest first by the model. The same on all ranks. */
static void choose(struct bcast *bcast, uint32_t root, const struct knowledge *known) {
    const struct tug_model_parameters *parameters = known->parameters;
    const struct tug_places *places = &bcast->team->places;
    struct tug_tuner *tuner = &bcast->tuner;
    struct tug_candidate all[TUG_CANDIDATES_MOST];
    struct tug_broadcast message = {.elements = bcast->bytes,
                                    .element_bytes = 1,
                                    .root = root,
                                    .segment_bytes = tug_settings.segment_bytes};
    uint32_t n = 0;
    if (parameters != NULL && places->nnodes > 1 && bcast->bytes > 0)
        n = tug_model_choose(places, &message, parameters, all);
    tuner->ncandidates = 0;
    for (uint32_t i = 0; i < n; i++)
        if (is_allowed(bcast, &all[i].plan))
            tuner->candidates[tuner->ncandidates++] = all[i];
    tug_tuner_init(tuner);
    if (tuner->ncandidates == 0) {
        struct tug_candidate *only = &tuner->candidates[tuner->ncandidates++];
        only->plan = plan_by_settings(bcast, root);
        only->fitted_s =
            parameters != NULL ? tug_model_predict(places, &only->plan, 1, parameters) : 0;
        tuner->settled = parameters == NULL;
    }
    tug_experience_apply(&known->experience, bcast->bytes, tuner->candidates, tuner->ncandidates);
}

/* ---- running ---- */

/* What has been measured, for later requests and for people. */
static void settle(struct bcast *bcast) {
    const struct tug_tuner *tuner = &bcast->tuner;
    for (uint32_t i = 0; i < tuner->ncandidates; i++)
        if (tuner->measured_s[i] > 0)
            tug_team_learn(bcast->team, &tuner->candidates[i], bcast->bytes, tuner->measured_s[i]);
    if (bcast->team->rank != 0)
        return;
    for (uint32_t i = 0; i < tuner->ncandidates; i++) {
        const struct tug_candidate *candidate = &tuner->candidates[i];
        if (tuner->measured_s[i] == 0)
            continue;
        tug_log(TUG_VERBOSE_INFO,
                "broadcast of %zu bytes by %s, %s, segments of %zu: predicted %.1f us, with "
                "experience %.1f us, measured %.1f us%s",
                bcast->bytes, tug_algorithm_name(candidate->plan.algorithm),
                tug_phases_name(candidate->plan.phases), (size_t)candidate->plan.segment,
                candidate->fitted_s * 1e6, candidate->seconds * 1e6, tuner->measured_s[i] * 1e6,
                i == tuner->current ? ": taken" : "");
    }
    tug_stat_add(TUG_STAT_MODEL_PREDICTED,
                 (uint64_t)(tuner->candidates[tuner->current].seconds * 1e9));
    tug_stat_add(TUG_STAT_MODEL_MEASURED, (uint64_t)(tuner->measured_s[tuner->current] * 1e9));
}

static void run(struct bcast *bcast) {
    bcast->running = &bcast->interpreters[bcast->tuner.current];
    tug_interpreter_start(bcast->running);
    if (!bcast->tuner.settled)
        bcast->started_ns = tug_clock_ns();
}

/* True when the ranks agree what to run, and it is started. */
static bool agree(struct bcast *bcast, bool *moved) {
    struct tug_agreement *agreement = &bcast->agreement;
    bool done;
    *moved = tug_interpreter_advance(&agreement->interpreter, &done);
    if (!done)
        return false;
    bcast->agreeing = false;
    if (agreement->interpreter.error != MPI_SUCCESS)
        return true;
    tug_tuner_agreed(&bcast->tuner, agreement->largest);
    if (bcast->tuner.settled)
        settle(bcast);
    run(bcast);
    return true;
}

static void finish(struct bcast *bcast) {
    struct tug_tuner *tuner = &bcast->tuner;
    if (!tuner->settled)
        tug_tuner_note(tuner, (double)(tug_clock_ns() - bcast->started_ns) * 1e-9);
}

static bool advance(struct tug_job *job, bool *done) {
    struct bcast *bcast = (struct bcast *)job;
    bool agreed = false;
    bool moved;
    *done = false;
    if (bcast->agreeing && !agree(bcast, &agreed))
        return agreed;
    if (bcast->agreement.interpreter.error != MPI_SUCCESS) {
        bcast->request.error = bcast->agreement.interpreter.error;
        *done = true;
        return true;
    }
    moved = tug_interpreter_advance(bcast->running, done);
    if (*done) {
        bcast->request.error = bcast->running->error;
        finish(bcast);
    }
    return moved || agreed;
}

static void start(struct tug_request *request) {
    struct bcast *bcast = (struct bcast *)request;
    tug_stat_add(TUG_STAT_BYTES, bcast->bytes);
    bcast->agreeing = tug_tuner_must_agree(&bcast->tuner);
    if (bcast->agreeing) {
        tug_tuner_vote(&bcast->tuner, bcast->agreement.mine);
        tug_interpreter_start(&bcast->agreement.interpreter);
    } else {
        run(bcast);
    }
    bool polls = bcast->agreeing || bcast->running->polls;
    request->job.bell = polls ? NULL : tug_team_own_bell(bcast->team);
}

/* ---- making ---- */

static void destroy(struct tug_request *request) {
    struct bcast *bcast = (struct bcast *)request;
    if (bcast->channel != NULL)
        tug_channel_release(bcast->team, bcast->channel);
    for (uint32_t i = 0; i < bcast->tuner.ncandidates; i++)
        tug_interpreter_fini(&bcast->interpreters[i]);
    tug_agreement_fini(&bcast->agreement);
    if (bcast->borrowed.name != 0)
        tug_lent_close(&bcast->borrowed);
    tug_staging_fini(&bcast->staging);
    free(bcast);
}

static void set_area(struct bcast *bcast, enum tug_area area, unsigned char *base) {
    bcast->areas[area] = (struct tug_area_memory){
        .base = base, .type = MPI_BYTE, .count = 1, .extent = 1, .dense = true};
}

/* Runs work on what is staged now. */
static void use_staging(struct bcast *bcast) {
    bool staged = bcast->staging.type != MPI_DATATYPE_NULL;
    set_area(bcast, TUG_AREA_OUTPUT, bcast->staging.bytes);
    for (uint32_t i = 0; i < bcast->tuner.ncandidates; i++) {
        struct tug_interpreter *interpreter = &bcast->interpreters[i];
        interpreter->staging = staged ? &bcast->staging : NULL;
        /* what is staged is unpacked at once: it had better be in the cache */
        interpreter->streams =
            !staged && bcast->bytes >= tug_copy_cache_share(bcast->team->node_size);
    }
}

int tug_bcast_rebind(struct tug_request *request, void *buffer, MPI_Count count,
                     MPI_Datatype datatype) {
    struct bcast *bcast = (struct bcast *)request;
    struct tug_staging staging;
    if (bcast->plain_type == datatype) {
        bcast->staging.bytes = bcast->staging.buffer = buffer;
        set_area(bcast, TUG_AREA_OUTPUT, buffer);
        return MPI_SUCCESS;
    }
    int error = tug_staging_init(&staging, buffer, count, datatype);
    if (error)
        return error == TUG_ERR_NO_MEMORY ? MPI_ERR_NO_MEM : MPI_ERR_TYPE;
    staging.packs = bcast->staging.packs;
    tug_staging_fini(&bcast->staging);
    bcast->staging = staging;
    use_staging(bcast);
    bool plain = staging.type == MPI_DATATYPE_NULL && tug_type_is_predefined(datatype);
    bcast->plain_type = plain ? datatype : MPI_DATATYPE_NULL;
    return MPI_SUCCESS;
}

static int prepare_interpreter(struct bcast *bcast, uint32_t candidate,
                               struct tug_interpreter *interpreter) {
    int error =
        tug_compile_bcast(&interpreter->schedule, &bcast->team->places,
                          &bcast->tuner.candidates[candidate].plan, (uint32_t)bcast->team->rank);
    if (error)
        return error;
    interpreter->team = bcast->team;
    interpreter->areas = bcast->areas;
    interpreter->near_most = SIZE_MAX;
    return tug_interpreter_init(interpreter);
}

/* All that this rank can prepare alone. */
static int prepare(struct bcast *bcast, void *buffer, MPI_Count count, MPI_Datatype datatype,
                   int root, const struct knowledge *known) {
    int error = tug_staging_init(&bcast->staging, buffer, count, datatype);
    if (!error && tug_device_holds(buffer, count, datatype))
        error = TUG_ERR_UNSUPPORTED;
    if (error)
        return error;
    bcast->bytes = (size_t)(count * bcast->staging.size);
    bcast->staging.packs = bcast->team->rank == root;
    for (int a = 0; a < TUG_AREA_BLOCKS; a++)
        set_area(bcast, a, bcast->staging.bytes);
    choose(bcast, (uint32_t)root, known);
    for (uint32_t i = 0; i < bcast->tuner.ncandidates && !error; i++)
        error = prepare_interpreter(bcast, i, &bcast->interpreters[i]);
    use_staging(bcast);
    if (!error && !bcast->tuner.settled)
        error = tug_agreement_init(&bcast->agreement, bcast->team, TUG_CANDIDATES_MOST);
    if (error)
        return error;
    return tug_request_register(&bcast->request);
}

/* Room for any of the candidates. The same on all ranks. */
static struct tug_channel_needs needs_of(const struct bcast *bcast) {
    const struct tug_team *team = bcast->team;
    struct tug_channel_needs needs = {0};
    if (team->nnodes == team->nranks || bcast->bytes == 0)
        return needs;
    for (uint32_t i = 0; i < bcast->tuner.ncandidates; i++) {
        const struct tug_bcast_plan *plan = &bcast->tuner.candidates[i].plan;
        uint32_t pipelines = tug_pipelines(&team->places, plan->algorithm);
        if (bcast->bytes > TUG_SLOT_INLINE && plan->segment > needs.slot_bytes)
            needs.slot_bytes = plan->segment;
        if (plan->phases == TUG_TWO_PHASE && team->nnodes > 1)
            needs.landing_bytes = bcast->bytes;
        needs.rings = pipelines > needs.rings ? pipelines : needs.rings;
    }
    return needs;
}

/* Does without what lands, if something else is left. The same on all ranks. */
static bool drop_landing(struct bcast *bcast, struct tug_channel_needs *needs) {
    struct tug_tuner *tuner = &bcast->tuner;
    uint32_t kept = 0;
    if (needs->landing_bytes == 0)
        return false;
    for (uint32_t i = 0; i < tuner->ncandidates; i++) {
        if (tuner->candidates[i].plan.phases == TUG_TWO_PHASE) {
            tug_interpreter_fini(&bcast->interpreters[i]);
            continue;
        }
        bcast->interpreters[kept] = bcast->interpreters[i];
        tuner->candidates[kept++] = tuner->candidates[i];
    }
    tuner->ncandidates = kept;
    *needs = needs_of(bcast);
    return kept > 0;
}

/* ---- the root's memory, lent ---- */

/* An offer to all who can attach to the root: who can is known. */
static const struct tug_offer attach = {.name = UINT64_MAX};

static bool is_attach(const struct tug_offer *offer) {
    return offer->name == attach.name;
}

static struct tug_offer offer_of(const void *buffer, size_t bytes) {
    struct tug_offer piece = tug_lent_offer(buffer, bytes);
    return piece.name != 0 ? piece : tug_block_offer(buffer, bytes);
}

static unsigned char *open_offer(const struct tug_offer *offer, size_t bytes) {
    return offer->lender == 0 ? tug_block_open(offer) : tug_lent_open(offer, bytes);
}

static void offer(const struct bcast *bcast, bool rebinds, struct tug_ballot *ballot) {
    const struct tug_staging *staging = &bcast->staging;
    const struct tug_team *team = bcast->team;
    if (bcast->bytes < ATTACHED_LEAST || team->node_most < 2 || team->node_most > TUG_PAIR_RANKS)
        return;
    ballot->near_bytes = TUG_SLOT_INLINE;
    if (!staging->packs || staging->type != MPI_DATATYPE_NULL)
        return;
    if (!rebinds && bcast->bytes >= LENT_LEAST)
        ballot->offer = offer_of(staging->bytes, bcast->bytes);
    if (ballot->offer.name == 0 && tug_team_reaches(team))
        ballot->offer = attach;
}

/* Opens the root's memory, and compiles what runs on it instead. */
static bool borrow(struct bcast *bcast, const struct tug_offer *offer,
                   struct tug_interpreter interpreters[TUG_CANDIDATES_MOST]) {
    struct tug_tuner *tuner = &bcast->tuner;
    bool ready = true;
    set_area(bcast, TUG_AREA_LENT, NULL);
    if (!bcast->staging.packs && !is_attach(offer)) {
        unsigned char *lent = open_offer(offer, bcast->bytes);
        if (lent == NULL)
            return false;
        bcast->borrowed = *offer;
        set_area(bcast, TUG_AREA_LENT, lent);
    }
    for (uint32_t i = 0; i < tuner->ncandidates && ready; i++)
        ready = prepare_interpreter(bcast, i, &interpreters[i]) == 0;
    return ready;
}

static void set_lent(struct bcast *bcast, bool lent) {
    for (uint32_t i = 0; i < bcast->tuner.ncandidates; i++)
        bcast->tuner.candidates[i].plan.lent = lent;
}

/* If all ranks of the root's node can read its memory they will. What the others run is the same
 * either way. Collective. */
static void take_offer(struct bcast *bcast, const struct tug_offer *offer, int root) {
    const struct tug_team *team = bcast->team;
    struct tug_interpreter interpreters[TUG_CANDIDATES_MOST] = {0};
    const uint32_t *node_of = team->places.node_of;
    bool near = node_of[team->rank] == node_of[root];
    set_lent(bcast, true);
    bool agreed = tug_all_agree(team->comm, !near || borrow(bcast, offer, interpreters));
    set_lent(bcast, agreed);
    if (agreed && bcast->staging.packs)
        tug_log(TUG_VERBOSE_INFO, "broadcast of %zu bytes: lent to the node%s", bcast->bytes,
                is_attach(offer) ? ", which attaches" : "");
    for (uint32_t i = 0; near && i < bcast->tuner.ncandidates; i++) {
        struct tug_interpreter unused = agreed ? bcast->interpreters[i] : interpreters[i];
        if (agreed)
            bcast->interpreters[i] = interpreters[i];
        tug_interpreter_fini(&unused);
    }
    use_staging(bcast);
}

static void bind(struct bcast *bcast, struct tug_channel *channel) {
    bcast->channel = channel;
    tug_interpreter_bind(&bcast->agreement.interpreter, channel, true);
    set_area(bcast, TUG_AREA_LANDING, channel->landing);
    for (uint32_t i = 0; i < bcast->tuner.ncandidates; i++)
        tug_interpreter_bind(&bcast->interpreters[i], channel, true);
}

int tug_bcast_create(void *buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm,
                     bool rebinds, struct tug_request **request) {
    struct tug_team *team;
    int error = tug_collectives_team(comm, &team);
    if (!error)
        error = tug_team_share(team);
    if (error)
        return error;
    struct knowledge known = {.parameters = tug_team_parameters(team)};
    if (known.parameters != NULL && tug_team_experience(team, &known.experience) != 0)
        return TUG_ERR_MPI;
    struct bcast *bcast = calloc(1, sizeof(*bcast));
    struct tug_channel_needs needs = {0};
    struct tug_ballot ballot = {0};
    if (bcast != NULL) {
        bcast->team = team;
        bcast->staging.type = MPI_DATATYPE_NULL;
        bcast->plain_type = MPI_DATATYPE_NULL;
        bcast->request = (struct tug_request){
            .job.advance = advance, .comm = comm, .start = start, .destroy = destroy};
        ballot.willing = prepare(bcast, buffer, count, datatype, root, &known) == 0;
        ballot.bytes = bcast->bytes;
        needs = needs_of(bcast);
        offer(bcast, rebinds, &ballot);
    }
    struct tug_channel *channel;
    do
        error = tug_channel_take(team, &needs, &ballot, &channel);
    while (error == TUG_ERR_NO_MEMORY && ballot.willing && drop_landing(bcast, &needs));
    if (error) {
        if (bcast != NULL)
            tug_request_release(&bcast->request);
        return error;
    }
    if (ballot.offer.name != 0)
        take_offer(bcast, &ballot.offer, root);
    bind(bcast, channel);
    *request = &bcast->request;
    return 0;
}
