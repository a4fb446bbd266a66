#include <stdatomic.h>
#include <stdlib.h>

#include "base/settings.h"
#include "engine/engine.h"
#include "engine/park.h"
#include "host/datatype.h"
#include "host/device.h"
#include "host/host.h"
#include "host/participants.h"
#include "node/team.h"
#include "persistent/partitioned_private.h"

#if MPI_VERSION >= 4

/* ---- the sender ---- */

/* Has the program made one of them ready before in this round? */
static bool is_marked(const struct tug_partitioned *send, size_t low, size_t n, uint32_t round) {
    bool is = false;
    for (size_t i = low; i < low + n; i++)
        is |= atomic_load_explicit(&send->ready[i], memory_order_relaxed) == round;
    return is;
}

bool tug_partitioned_is_ours(const struct tug_partitioned *one, bool sends) {
    /* acquire: pairs with tug_partitioned_use_host(), of an engine that has gone over to the host
     * in a round */
    return one->call.sends == sends && tug_request_pending(&one->request) &&
           atomic_load_explicit(&one->way, memory_order_acquire) != TUG_WAY_HOST;
}

int tug_partitioned_ready(struct tug_partitioned *send, int low, int high) {
    const uint32_t round = atomic_load_explicit(&send->round, memory_order_relaxed);
    const size_t first = (size_t)low, n = (size_t)(high - low) + 1;
    if (low > high || low < 0 || high >= send->call.partitions)
        return MPI_ERR_OTHER; /* as MPICH says */
    if (is_marked(send, first, n, round))
        return MPI_ERR_REQUEST;
    send->kind->ready(send, first, n, round);
    return MPI_SUCCESS;
}

int tug_partitioned_ready_list(struct tug_partitioned *send, int length, const int list[]) {
    int error = length < 0 || (length > 0 && list == NULL) ? MPI_ERR_ARG : MPI_SUCCESS;
    for (int i = 0; i < length && error == MPI_SUCCESS; i++) /* none if one is wrong */
        if (list[i] < 0 || list[i] >= send->call.partitions)
            error = MPI_ERR_OTHER;
    for (int i = 0; i < length && error == MPI_SUCCESS; i++)
        error = tug_partitioned_ready(send, list[i], list[i]);
    return error;
}

/* ---- the host's way ---- */

void tug_partitioned_use_host(struct tug_partitioned *one) {
    one->request.job.bell = NULL;
    (void)tug_partitioned_fail(one, tug_host.Start(&one->request.host));
    atomic_store(&one->way, TUG_WAY_HOST); /* release: the started request, for MPI_Parrived */
}

/* With the first start. */
static void greet(struct tug_partitioned *one) {
    one->greets = true;
    if (!tug_partitioned_fail(one, tug_host.Start(&one->host_greeting)) && one->call.sends)
        (void)tug_partitioned_fail(one, tug_host.Pready(0, one->host_greeting));
}

/* The first round is not over before the greeting is: MPICH 4.0.2 crashes over a partitioned
 * request that is freed while it is active. */
static bool is_settled(struct tug_partitioned *one) {
    int flag = 0;
    if (!one->greeted) {
        if (tug_partitioned_fail(one, tug_host.Test(&one->host_greeting, &flag, MPI_STATUS_IGNORE)))
            return true;
        one->greeted = flag;
    }
    if (one->greeted && !one->settled)
        one->settled = one->kind->greeted == NULL || one->kind->greeted(one);
    return one->settled;
}

/* The data may be here before the greeting is. In turn. */
static bool look_at_host(struct tug_partitioned *one) {
    const uint32_t round = atomic_load(&one->round);
    int flag = 0;
    if (atomic_load(&one->over) != round && one->request.error == MPI_SUCCESS &&
        (tug_partitioned_fail(one, tug_host.Test(&one->request.host, &flag, &one->status)) || flag))
        atomic_store(&one->over, round);
    const bool settled = one->settled || is_settled(one);
    return one->request.error != MPI_SUCCESS || (settled && atomic_load(&one->over) == round);
}

static bool host_is_over(struct tug_partitioned *one) {
    if (!tug_partitioned_take_turn(one))
        return false;
    const bool over = look_at_host(one);
    tug_partitioned_end_turn(one);
    return over;
}

/* ---- the receiver ---- */

/* By the host's way. MPICH 4.0.2 takes it for an error when the round is over, which the engine may
 * find at any time. */
static int ask_host(struct tug_partitioned *receive, int partition, int *flag) {
    int error = MPI_SUCCESS;
    if (!tug_partitioned_take_turn(receive))
        return MPI_SUCCESS;
    *flag = atomic_load(&receive->over) == atomic_load(&receive->round);
    if (!*flag)
        error = tug_host.Parrived(receive->request.host, partition, flag);
    tug_partitioned_end_turn(receive);
    return error;
}

/* Of the receiver's partitions, which the sender's may divide otherwise. */
static bool look_for_partition(struct tug_partitioned *receive, size_t partition, uint32_t round) {
    const size_t their_bytes = receive->their_bytes, end = (partition + 1) * receive->bytes;
    size_t i = partition * receive->bytes / their_bytes;
    for (int looks = 0; looks < 2 && i * their_bytes < end; looks++) {
        while (i * their_bytes < end && tug_partitioned_has_arrived(receive, i, round))
            i++;
        if (i * their_bytes < end && looks == 0)
            receive->kind->take(receive);
    }
    return i * their_bytes >= end;
}

int tug_partitioned_arrived(struct tug_partitioned *receive, int partition, int *flag) {
    const uint32_t way = atomic_load(&receive->way);
    const uint32_t round = atomic_load_explicit(&receive->round, memory_order_relaxed);
    *flag = !tug_request_pending(&receive->request);
    if (*flag)
        return MPI_SUCCESS;
    if (way == TUG_WAY_HOST || way == TUG_WAY_OPEN) {
        tug_engine_poll();
        return way == TUG_WAY_HOST ? ask_host(receive, partition, flag) : MPI_SUCCESS;
    }
    if (way == TUG_WAY_WHOLE)
        receive->kind->take(receive);
    *flag = way == TUG_WAY_PARTS && look_for_partition(receive, (size_t)partition, round);
    *flag |= atomic_load(&receive->over) == round; /* acquire: the data */
    return MPI_SUCCESS;
}

/* Have all partitions arrived that MPI_Parrived has reported, or could have reported? */
static bool is_here(struct tug_request *request) {
    struct tug_partitioned *receive = (struct tug_partitioned *)request;
    const uint32_t round = atomic_load_explicit(&receive->round, memory_order_relaxed);
    const uint32_t way = atomic_load(&receive->way);
    if (way == TUG_WAY_HOST) {
        struct tug_backoff backoff = {0}; /* the engine's thread has the turn, perhaps no core */
        while (!tug_partitioned_take_turn(receive))
            tug_backoff_relax(&backoff);
        (void)look_at_host(receive);
        tug_partitioned_end_turn(receive);
    } else if (way != TUG_WAY_OPEN) {
        receive->kind->take(receive);
    }
    const bool by_parts = way == TUG_WAY_PARTS;
    const size_t sum = by_parts ? tug_partitioned_sum(receive) : 0;
    size_t i = 0;
    while (i * receive->their_bytes < sum && tug_partitioned_has_arrived(receive, i, round))
        i++;
    return (by_parts && i * receive->their_bytes >= sum) || atomic_load(&receive->over) == round;
}

bool tug_partitioned_accept(struct tug_partitioned *receive, uint64_t partitions, uint64_t bytes) {
    const uint64_t sum = tug_partitioned_sum(receive);
    if (!receive->can || partitions == 0 || partitions > sum || bytes != sum / partitions ||
        sum % partitions != 0)
        return false;
    receive->their_bytes = bytes;
    receive->done = calloc(partitions, sizeof(*receive->done));
    return receive->done != NULL;
}

/* ---- rounds ---- */

static void start(struct tug_request *request) {
    struct tug_partitioned *one = (struct tug_partitioned *)request;
    const uint32_t round = atomic_load_explicit(&one->round, memory_order_relaxed) + 1;
    if (!one->greets)
        greet(one);
    /* release: for a thread that takes what has come, and may be none that has seen the start */
    atomic_store(&one->round, round);
    one->kind->start(one, round);
    request->passes =
        one->greeted && atomic_load_explicit(&one->way, memory_order_relaxed) == TUG_WAY_HOST;
}

static bool advance(struct tug_job *job, bool *done) {
    struct tug_partitioned *one = (struct tug_partitioned *)job;
    const uint32_t round = atomic_load_explicit(&one->round, memory_order_relaxed);
    bool moved = false;
    if (atomic_load_explicit(&one->way, memory_order_relaxed) != TUG_WAY_HOST)
        moved = one->kind->advance(one, round, done);
    if (atomic_load_explicit(&one->way, memory_order_relaxed) == TUG_WAY_HOST)
        *done = host_is_over(one);
    return moved || *done;
}

static void describe(const struct tug_request *request, MPI_Status *status) {
    const struct tug_partitioned *one = (const struct tug_partitioned *)request;
    const int error = status->MPI_ERROR;
    if (atomic_load_explicit(&one->way, memory_order_relaxed) == TUG_WAY_HOST) {
        *status = one->status;
    } else if (!one->call.sends) {
        status->MPI_SOURCE = one->call.peer;
        status->MPI_TAG = one->call.tag;
        (void)tug_host.Status_set_elements_x(status, MPI_BYTE,
                                             (MPI_Count)one->bytes * one->call.partitions);
    }
    status->MPI_ERROR = error;
}

/* ---- a request's life ---- */

static void let_go(struct tug_partitioned *one) {
    one->kind->let_go(one);
    free((void *)one->done);
    free(one);
}

static void destroy(struct tug_request *request) {
    struct tug_partitioned *one = (struct tug_partitioned *)request;
    (void)tug_team_request_free(&one->host_greeting);
    (void)tug_team_request_free(&one->request.host);
    let_go(one);
}

bool tug_partitioned_takes(const struct tug_partitioned_call *call) {
    int rank;
    return tug_settings.partitioned && call->peer >= 0 && tug_all_of_world_take_part(call->comm) &&
           tug_host.Comm_rank(call->comm, &rank) == MPI_SUCCESS && rank != call->peer;
}

static bool is_dense(const struct tug_partitioned_call *call) {
    const struct tug_flat *flat = tug_flat_get(call->type);
    tug_device_look();
    return flat != NULL && flat->contiguous && flat->size == (size_t)flat->extent &&
           flat->size > 0 && call->count > 0 && call->partitions > 0 &&
           !tug_is_device(call->buffer);
}

static struct tug_partitioned *make(const struct tug_partitioned_call *call, MPI_Request host) {
    const struct tug_partitioned_kind *kind =
        tug_partitioned_is_far(call) ? &tug_partitioned_far : &tug_partitioned_near;
    struct tug_partitioned *one = calloc(1, kind->bytes);
    if (one == NULL)
        return NULL;
    one->kind = kind;
    one->call = *call;
    one->request.host = host;
    one->request.comm = call->comm;
    one->request.job.advance = advance;
    one->request.start = start;
    one->request.may_keep = kind->may_keep;
    one->request.is_here = call->sends ? NULL : is_here;
    one->request.describe = describe;
    one->request.destroy = destroy;
    one->can = is_dense(call);
    if (one->can)
        one->bytes = (size_t)call->count * tug_flat_get(call->type)->size;
    kind->prepare(one);
    return one;
}

static int init_greeting(struct tug_partitioned *one) {
    const struct tug_partitioned_call *call = &one->call;
    const MPI_Count bytes = (MPI_Count)one->kind->greeting_bytes;
    return call->sends
               ? tug_host.Psend_init(one->greeting, 1, bytes, MPI_BYTE, call->peer, call->tag,
                                     call->comm, MPI_INFO_NULL, &one->host_greeting)
               : tug_host.Precv_init(one->greeting, 1, bytes, MPI_BYTE, call->peer, call->tag,
                                     call->comm, MPI_INFO_NULL, &one->host_greeting);
}

int tug_partitioned_create(const struct tug_partitioned_call *call, MPI_Request *host) {
    struct tug_partitioned *one = tug_engine_bring_up() ? make(call, *host) : NULL;
    int error = MPI_ERR_NO_MEM;
    if (one == NULL)
        goto fail;
    error = init_greeting(one);
    if (error != MPI_SUCCESS)
        goto fail;
    error = MPI_ERR_NO_MEM;
    if (tug_request_register(&one->request) != 0) {
        (void)tug_host.Request_free(&one->host_greeting);
        goto fail;
    }
    *host = one->request.handle;
    return MPI_SUCCESS;
fail:
    (void)tug_host.Request_free(host);
    if (one != NULL)
        let_go(one);
    return error;
}

struct tug_partitioned *tug_partitioned_of(struct tug_request *request) {
    return request != NULL && request->start == start ? (struct tug_partitioned *)request : NULL;
}

bool tug_partitioned_receives(const struct tug_partitioned *partitioned) {
    return !partitioned->call.sends;
}

bool tug_partitioned_has(const struct tug_partitioned *partitioned, int partition) {
    return partition >= 0 && partition < partitioned->call.partitions;
}

#endif
