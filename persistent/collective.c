#include "persistent/collective.h"

#include <stdlib.h>

#include "base/stats.h"
#include "base/trace.h"
#include "engine/engine.h"
#include "engine/host_progress.h"
#include "host/device.h"
#include "host/host.h"
#include "persistent/candidates.h"
#include "persistent/collective_private.h"
#include "persistent/collectives.h"
#include "persistent/copy.h"
#include "persistent/far.h"
#include "persistent/rival.h"
#include "tugboat/tugboat.h"

/* ---- a run ---- */

static void begin(struct collective *c) {
    c->traced_ns = tug_trace_begin(TUG_TRACE_COLLECTIVE);
    if (c->running != NULL) {
        tug_interpreter_start(c->running);
        return;
    }
    c->request.error = tug_host.Start(&c->host); /* failed: Test says at once it is over */
}

/* So often a thread that waits looks in a row, as it does in the host's own wait: long messages are
 * brought by the looks of both sides. */
#define LOOKS 32

/* Out of line, as what ends a run is: a run in a row is short, and saves no registers for them. */
static __attribute__((noinline)) bool advance_host(struct collective *c, bool *done) {
    int flag = 0;
    if (!tug_engine_enter_host())
        return false;
    if (tug_engine_attended())
        tug_engine_host_called();
    const int looks = tug_engine_is_own_thread() ? 1 : LOOKS;
    int error = MPI_SUCCESS;
    for (int i = 0; i < looks && flag == 0 && error == MPI_SUCCESS; i++)
        error = tug_host.Test(&c->host, &flag, MPI_STATUS_IGNORE);
    tug_engine_leave_host();
    if (error != MPI_SUCCESS)
        c->request.error = error;
    *done = flag != 0 || error != MPI_SUCCESS;
    return *done;
}

/* The host's request stays: its way is tried again. */
static void look_if_settled(struct collective *c) {
    c->tunes = tug_candidates_tune(c->candidates);
    c->rest = tug_candidates_rest(c->candidates) - 1; /* the run that begins now is the first */
}

/* What tells of all news of the run; NULL: nothing does, it is to be polled. */
static struct tug_bell *bell_of(const struct collective *c) {
    if (c->running == NULL || c->running->polls)
        return NULL;
    struct tug_bell *near = tug_team_own_bell(c->team);
    return near == NULL && c->running->has_far ? tug_far_bell(c->team) : near;
}

/* A run of the host's may not, which the ranks may have agreed upon meanwhile: others wait for it.
 */
static bool may_keep(const struct tug_request *request) {
    const struct collective *c = (const struct collective *)request;
    return c->running != NULL && tug_interpreter_has_given(c->running);
}

/* How the request gets on follows from what is running. */
static void look_to(struct collective *c) {
    c->request.job.bell = bell_of(c);
    c->request.may_keep = c->running != NULL && c->running->is_brief ? may_keep : NULL;
}

/* A run is over, and there is something to be told of it, or another to follow. */
static __attribute__((noinline)) bool end_run(struct collective *c, bool *done) {
    tug_trace_end(TUG_TRACE_COLLECTIVE,
                  c->request.error == MPI_SUCCESS ? TUG_TRACE_BY_UNSAID : TUG_TRACE_BY_FAILED,
                  c->traced_ns);
    if (!c->tunes || !tug_candidates_next(c->candidates, c->ways, &c->running))
        return false;
    look_if_settled(c);
    look_to(c);
    begin(c);
    *done = false;
    return true;
}

static bool advance(struct tug_job *job, bool *done) {
    struct collective *c = (struct collective *)job;
    struct tug_interpreter *running = c->running;
    const bool moved =
        running == NULL ? advance_host(c, done) : tug_interpreter_advance(running, done);
    if (!*done)
        return moved;
    if (running != NULL)
        c->request.error = running->error;
    return (__builtin_expect(c->tunes || c->traced_ns != 0, 0) && end_run(c, done)) || moved;
}

/* All ranks have counted to the same. */
static bool is_round_due(struct collective *c) {
    if (__builtin_expect(c->rest-- != 0, 1))
        return false;
    tug_tuner_resume(&c->candidates->tuner);
    c->tunes = true;
    return true;
}

static void start(struct tug_request *request) {
    struct collective *c = (struct collective *)request;
    tug_stat_add(TUG_STAT_BYTES, c->bytes);
    if (c->tunes || is_round_due(c)) {
        c->running = tug_candidates_first(c->candidates, c->ways);
        look_to(c);
    }
    begin(c);
}

/* ---- runs on other buffers ---- */

/* Of an alltoall: block after block, what is received from a rank and what is sent to it. */
static void rebind_blocks(struct collective *c, const unsigned char *input, unsigned char *output) {
    struct tug_area_memory *block = &c->areas[TUG_AREA_BLOCKS];
    for (int r = 0; r < c->team->nranks; r++, block += 2) {
        block[0].base = output + (size_t)r * block[0].extent;
        block[1].base = (unsigned char *)input + (size_t)r * block[1].extent;
    }
}

void tug_collective_rebind(struct tug_request *request, const void *input, void *output) {
    struct collective *c = (struct collective *)request;
    if (c->kind == TUG_COLLECTIVE_ALLTOALL)
        rebind_blocks(c, input, output);
    if (c->kind == TUG_COLLECTIVE_BCAST)
        c->staging.bytes = c->staging.buffer = output;
    c->areas[TUG_AREA_INPUT].base = (unsigned char *)input;
    c->areas[TUG_AREA_OUTPUT].base = output;
}

bool tug_collective_is_settled(const struct tug_request *request) {
    const struct collective *c = (const struct collective *)request;
    return !c->tunes && c->rest > 0;
}

const char *tug_collective_name(enum tug_collective_kind kind) {
    static const char *const names[] = {
        [TUG_COLLECTIVE_BARRIER] = "barrier",     [TUG_COLLECTIVE_BCAST] = "broadcast",
        [TUG_COLLECTIVE_REDUCE] = "reduce",       [TUG_COLLECTIVE_ALLREDUCE] = "allreduce",
        [TUG_COLLECTIVE_ALLGATHER] = "allgather", [TUG_COLLECTIVE_ALLTOALL] = "alltoall"};
    return kind < sizeof(names) / sizeof(names[0]) && names[kind] != NULL ? names[kind]
                                                                          : "collective";
}

/* ---- making ---- */

static void destroy(struct tug_request *request) {
    struct collective *c = (struct collective *)request;
    tug_collective_leave_far(c);
    if (c->channel != NULL)
        tug_channel_release(c->team, c->channel);
    for (uint32_t i = 0; i < c->nways; i++)
        tug_interpreter_fini(&c->ways[i]);
    tug_candidates_free(c->candidates);
    if (c->borrowed.name != 0)
        tug_lent_close(&c->borrowed);
    tug_staging_fini(&c->staging);
    for (uint32_t i = 0; i < c->nheld; i++)
        tug_host.Type_free(&c->held[i]);
    if (c->host != MPI_REQUEST_NULL)
        tug_team_request_free(&c->host);
    free(c->held);
    free(c->messages);
    free(c->areas);
    free(c->memory);
    free(c);
}

static struct collective *allocate(const struct tug_collective *call, struct tug_team *team) {
    const uint32_t nways = call->kind == TUG_COLLECTIVE_BCAST ? TUG_CANDIDATES_MOST : 2;
    struct collective *c = calloc(1, sizeof(*c) + nways * sizeof(c->ways[0]));
    if (c == NULL)
        return NULL;
    c->request = (struct tug_request){
        .job.advance = advance, .comm = call->comm, .start = start, .destroy = destroy};
    c->kind = call->kind;
    c->team = team;
    c->host = MPI_REQUEST_NULL;
    c->staging.type = MPI_DATATYPE_NULL;
    c->nways = 1;
    c->running = c->ways;
    return c;
}

static int prepare_schedule(struct collective *c, const struct tug_collective *call) {
    switch (call->kind) {
    case TUG_COLLECTIVE_BARRIER:
        return tug_collective_barrier(c);
    case TUG_COLLECTIVE_REDUCE:
    case TUG_COLLECTIVE_ALLREDUCE:
    case TUG_COLLECTIVE_SCAN:
    case TUG_COLLECTIVE_EXSCAN:
    case TUG_COLLECTIVE_REDUCE_SCATTER:
    case TUG_COLLECTIVE_REDUCE_SCATTER_BLOCK:
        return tug_collective_reduction(c, call);
    case TUG_COLLECTIVE_ALLGATHER:
        return tug_collective_allgather(c, call);
    case TUG_COLLECTIVE_GATHER:
    case TUG_COLLECTIVE_SCATTER:
        return tug_collective_tree(c, call);
    default:
        return tug_collective_blocks(c, call);
    }
}

/* Is some of what it reads or writes in memory of a device? */
static bool is_in_device(const struct collective *c) {
    for (uint32_t a = 0; a < c->nareas && tug_has_devices(); a++)
        if (tug_device_holds(c->areas[a].base, c->areas[a].count, c->areas[a].type))
            return true;
    return false;
}

/* All but the schedules is the same for both ways of a collective. */
static int init_ways(struct collective *c) {
    int error = 0;
    c->ways->streams = c->bytes >= tug_copy_cache_share(c->team->node_size);
    for (uint32_t i = c->nways; i-- > 0 && !error;) {
        const struct tug_schedule schedule = c->ways[i].schedule;
        c->ways[i] = c->ways[0];
        c->ways[i].schedule = schedule;
        error = tug_interpreter_init(&c->ways[i]);
    }
    return error;
}

/* A collective of which nothing is predicted. */
static int prepare_other(struct collective *c, const struct tug_collective *call, bool compares) {
    c->ways->team = c->team;
    int error = prepare_schedule(c, call); /* in which ranks meet */
    if (!error && is_in_device(c))
        error = TUG_ERR_UNSUPPORTED;
    if (error)
        return error;
    if (compares || c->nways > 1)
        c->candidates = tug_candidates_one(c->team, c->bytes);
    if ((compares || c->nways > 1) && c->candidates == NULL)
        return TUG_ERR_NO_MEMORY;
    return init_ways(c);
}

/* All that travels lies as plain bytes. */
static bool is_plain(const struct collective *c) {
    for (uint32_t a = TUG_AREA_INPUT; a < c->nareas; a++)
        if (c->areas[a].count > 0 && !c->areas[a].dense)
            return false;
    return true;
}

/* All that this rank can prepare alone, and what it says of it. */
static struct tug_ballot prepare(struct collective *c, const struct tug_collective *call,
                                 const struct tug_model_parameters *parameters, bool compares) {
    struct tug_ballot ballot = {.compares = compares};
    int error = call->kind == TUG_COLLECTIVE_BCAST
                    ? tug_collective_bcast(c, call, parameters, compares)
                    : prepare_other(c, call, compares);
    if (!error)
        error = tug_request_register(&c->request);
    ballot.willing = !error;
    ballot.plain = is_plain(c);
    ballot.bytes = c->token << 5 | call->kind;
    if (call->kind == TUG_COLLECTIVE_BCAST)
        tug_bcast_vote(c, call->rebinds, &ballot);
    else
        tug_blocks_vote(c, &ballot);
    return ballot;
}

/* Shared memory is short: there may be another way, with less. The same on all ranks. */
static bool lessen(struct collective *c, struct tug_ballot *ballot) {
    if (c->candidates != NULL && c->candidates->broadcasts)
        return tug_bcast_lessen(c, ballot);
    bool less = ballot->near_bytes > 0 || c->nways > 1;
    ballot->near_bytes = 0; /* all goes by the host's messages then */
    if (c->nways > 1) {     /* and past the ring */
        tug_interpreter_fini(&c->ways[0]);
        c->ways[0] = c->ways[--c->nways];
        c->needs.slot_bytes = 0;
    }
    return less;
}

/* A channel for all ranks' collective, which this rank may have no memory for. */
static int take_channel(struct tug_team *team, struct collective *c, struct tug_ballot *ballot,
                        struct tug_channel **channel) {
    static const struct tug_channel_needs none;
    int error;
    do
        error = tug_channel_take(team, c != NULL ? &c->needs : &none, ballot, channel);
    while (error == TUG_ERR_NO_MEMORY && lessen(c, ballot));
    return error;
}

/* What is the same on all ranks now. */
static void settle_ways(struct collective *c, struct tug_channel *channel,
                        const struct tug_ballot *ballot) {
    c->channel = channel;
    c->areas[TUG_AREA_LANDING].base = channel->landing;
    for (uint32_t i = 0; i < c->nways; i++)
        tug_interpreter_bind(&c->ways[i], channel, ballot->plain);
    c->rest = TUG_TUNER_NEVER;
    if (c->candidates == NULL)
        return;
    tug_candidates_compare(c->candidates, c->nways - c->candidates->tuner.ncandidates,
                           ballot->compares);
    c->tunes = tug_candidates_tune(c->candidates);
    if (c->tunes)
        tug_interpreter_bind(&c->candidates->agreement.interpreter, channel, true);
}

/* The host's request is kept in two cases: it is one more candidate, or it must keep the program's
 * operation alive. */
static void settle_host(struct collective *c, bool compares, MPI_Request *host) {
    const bool holds_op = c->ways->op != 0 && c->ways->reduction == NULL;
    if (compares || holds_op)
        c->host = *host;
    else
        tug_host.Request_free(host);
}

int tug_collective_create(const struct tug_collective *call, MPI_Request *host,
                          struct tug_request **request) {
    struct tug_team *team;
    const struct tug_model_parameters *parameters = NULL;
    int error = tug_collectives_team(call->comm, &team);
    if (!error)
        error = tug_team_share(team);
    if (error)
        return error;
    if (call->kind == TUG_COLLECTIVE_BCAST)
        parameters = tug_team_parameters(team);
    struct collective *c = allocate(call, team);
    struct tug_ballot ballot = {0};
    if (c != NULL)
        ballot = prepare(c, call, parameters, host != NULL && tug_rival_may_run(call, team));
    struct tug_channel *channel;
    error = take_channel(team, c, &ballot, &channel);
    if (error) {
        if (c != NULL)
            tug_request_release(&c->request);
        return error;
    }
    if (ballot.offer.name != 0)
        tug_bcast_take_offer(c, &ballot.offer, call->root);
    tug_blocks_lend(c, &ballot);
    settle_ways(c, channel, &ballot);
    error = tug_collective_go_far(c, call->rebinds);
    if (error) {
        tug_request_release(&c->request);
        return error;
    }
    look_to(c);
    if (host != NULL)
        settle_host(c, ballot.compares, host);
    *request = &c->request;
    return 0;
}
