#include "pmpi/blocking.h"

#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "base/stats.h"
#include "engine/engine.h"
#include "engine/host_progress.h"
#include "host/wait_group.h"
#include "host/handles.h"
#include "host/host.h"
#include "host/layout.h"
#include "host/level.h"
#include "host/participants.h"
#include "host/polite.h"
#include "host/report.h"
#include "host/spin.h"
#include "node/team.h"
#include "persistent/repeat.h"
#include "pmpi/describe.h"
#include "pmpi/shim.h"

_Atomic bool tug_waits_polite;

struct look {
    bool (*done)(void *);
    void *argument;
};

/* The waiter gives its core away when the look is over. */
static bool look_from_outside(void *argument) {
    struct look *look = argument;
    tug_spin_vain = 0;
    return look->done(look->argument);
}

void tug_blocking_until(bool (*done)(void *), void *argument) {
    struct look look = {done, argument};
    tug_stat_add(TUG_STAT_OUTSIDE_WAITS, 1);
    if (tug_engine_running())
        tug_engine_wait(look_from_outside, &look, TUG_HOST_NAP_NS, 0);
    else
        tug_polite_until(done, argument);
}

/* ---- requests ---- */

int tug_blocking_wait(MPI_Request *request, MPI_Status *status) {
    struct tug_pending pending = {.request = request, .status = status};
    tug_blocking_until(tug_pending_is_over, &pending);
    return pending.error;
}

/* An array of requests that is being waited for, all of it. */
struct array {
    int n;
    MPI_Request *requests; /* the program's */
    MPI_Status *statuses;
    MPI_Request *left; /* those not taken yet, MPI_REQUEST_NULL in place of others */
    int *indices;      /* what a look has taken, from `first` on */
    MPI_Status *got;   /* the statuses of what it has taken */
    int first, count;  /* the requests that are looked at; those before are taken */
    int error;
    bool over;
};

#define LOOKED_AT 16 /* requests of an array, from the second look on */

static void hand_out_statuses(struct array *array, int ndone, bool failed) {
    if (array->statuses == MPI_STATUSES_IGNORE)
        return;
    for (int i = 0; failed && array->error == MPI_SUCCESS && i < array->n; i++)
        array->statuses[i].MPI_ERROR = MPI_SUCCESS;
    for (int i = 0; i < ndone; i++) {
        MPI_Status *status = &array->statuses[array->first + array->indices[i]];
        int error = failed ? array->got[i].MPI_ERROR : status->MPI_ERROR;
        *status = array->got[i];
        status->MPI_ERROR = error;
    }
}

/* Each request is taken once: MPICH 4.0.2 waits for ever for a persistent collective that is over
 * and not started again. */
static void hand_out(struct array *array, int ndone, bool failed) {
    hand_out_statuses(array, ndone, failed);
    for (int i = 0; i < ndone; i++) {
        const int at = array->first + array->indices[i];
        array->requests[at] = array->left[at];
        array->left[at] = MPI_REQUEST_NULL;
    }
}

/* Looks will be at the first request that is left, and some behind it. */
static void look_from(struct array *array, int first) {
    while (first < array->n && array->left[first] == MPI_REQUEST_NULL)
        first++;
    int rest = array->n - first;
    array->first = first;
    array->count = rest < LOOKED_AT ? rest : LOOKED_AT;
    array->over = rest == 0;
}

/* MPI_Testsome, for its error is what that of MPI_Waitall is, and reported the same way. MPICH
 * 4.0.2's MPI_Testall fails over a persistent collective; a look that takes nothing
 * (MPI_Request_get_status) reports an error that the wait would report again. The first look is at
 * all requests: the host finds handles that are wrong. The later ones are at the first few that are
 * left: none is passed over, and all together cost no more than a few looks at the whole array. */
static bool are_over(void *argument) {
    struct array *array = argument;
    int ndone = 1;
    while (!array->over && ndone != 0) {
        const bool whole = array->count == array->n;
        int error = tug_host.Testsome(array->count, array->left + array->first, &ndone,
                                      array->indices, array->got);
        bool failed = error == MPI_ERR_IN_STATUS;
        array->over = error != MPI_SUCCESS && !failed;
        if (!array->over && ndone != MPI_UNDEFINED)
            hand_out(array, ndone, failed);
        if (error != MPI_SUCCESS)
            array->error = error;
        if (!array->over && (whole || ndone == MPI_UNDEFINED))
            look_from(array, array->first + (ndone == MPI_UNDEFINED ? array->count : 0));
    }
    return array->over;
}

#define ON_STACK 64

static void wait_for_array(struct array *array) {
    memcpy(array->left, array->requests, (size_t)array->n * sizeof(*array->left));
    MPI_Request none = MPI_REQUEST_NULL; /* the status of requests with nothing to wait for */
    if (array->statuses != MPI_STATUSES_IGNORE)
        tug_host.Wait(&none, &array->statuses[0]);
    for (int i = 1; array->statuses != MPI_STATUSES_IGNORE && i < array->n; i++)
        array->statuses[i] = array->statuses[0];
    tug_blocking_until(are_over, array);
}

int tug_blocking_waitall(int n, MPI_Request requests[], MPI_Status statuses[]) {
    struct {
        MPI_Request left[ON_STACK];
        int indices[ON_STACK];
        MPI_Status got[ON_STACK];
    } few;
    if (n <= 0 || requests == NULL)
        return tug_host.Waitall(n, requests, statuses);
    struct array array = {.n = n,
                          .requests = requests,
                          .statuses = statuses,
                          .left = few.left,
                          .indices = few.indices,
                          .got = few.got,
                          .count = n};
    if (n > ON_STACK) {
        array.left = malloc((size_t)n * sizeof(*array.left));
        array.indices = malloc((size_t)n * sizeof(*array.indices));
        array.got = malloc((size_t)n * sizeof(*array.got));
    }
    if (array.left != NULL && array.indices != NULL && array.got != NULL)
        wait_for_array(&array);
    else
        array.error = tug_host.Waitall(n, requests, statuses);
    if (n > ON_STACK) {
        free(array.left);
        free(array.indices);
        free(array.got);
    }
    return array.error;
}

/* ---- collectives ---- */

void tug_blocking_meet(MPI_Comm comm) {
    MPI_Request request;
    if (tug_wait_group_has(comm) && tug_host.Ibarrier(comm, &request) == MPI_SUCCESS)
        (void)tug_blocking_wait(&request, MPI_STATUS_IGNORE);
}

/* The host's, whichever way it is waited for; `comm` and, of reductions, `op` are the call's. */
#define BY_HOST(Name, Twin, arguments)                                                             \
    (tug_wait_group_has(comm) ? TUG_TWIN(Twin, arguments)                                          \
                              : TUG_INSIDE_HOST(tug_host.Name arguments))
#define REDUCED_BY_HOST(Name, Twin, arguments)                                                     \
    (tug_wait_group_has(comm) && !tug_op_is_programs(op)                                           \
         ? TUG_TWIN(Twin, arguments)                                                               \
         : (tug_blocking_meet(comm), TUG_INSIDE_HOST(tug_host.Name arguments)))

#define TUG_CALL_COLLECTIVE(Name, Twin, parameters, arguments)                                     \
    int tug_shim_##Name parameters {                                                               \
        return BY_HOST(Name, Twin, arguments);                                                     \
    }

/* MPICH 4.0.2's Ialltoallw in place copies wrong lengths of what it sends, and brings wrong data or
 * "Message truncated"; the blocking call is right (pcoll_random). In place is alike on all ranks.
 */
#define TUG_CALL_COLLECTIVE_APART(Name, Twin, parameters, arguments)                               \
    int tug_shim_##Name parameters {                                                               \
        if (sendbuf != MPI_IN_PLACE)                                                               \
            return BY_HOST(Name, Twin, arguments);                                                 \
        tug_blocking_meet(comm);                                                                   \
        return TUG_INSIDE_HOST(tug_host.Name arguments);                                           \
    }

#define TUG_CALL_REDUCTION(Name, Twin, parameters, arguments)                                      \
    int tug_shim_##Name parameters {                                                               \
        return REDUCED_BY_HOST(Name, Twin, arguments);                                             \
    }

/* May be done by a schedule that is kept for it, see repeat.h. */
#define REPEATED(KIND, Name, parameters, by_host)                                                  \
    int tug_shim_##Name parameters {                                                               \
        struct tug_repeat_turn turn;                                                               \
        const bool repeats = tug_level.active && tug_settings.collectives != TUG_COLLECTIVES_OFF;  \
        if (repeats) {                                                                             \
            const struct tug_repeat_call call = {                                                  \
                .kind = TUG_COLLECTIVE_##KIND, DESCRIBE_##KIND, .comm = comm};                     \
            if (tug_repeat_begin(&call, &turn)) {                                                  \
                if (TUG_UNLIKELY(turn.error != MPI_SUCCESS))                                       \
                    tug_report_comm(comm, turn.error);                                             \
                return turn.error;                                                                 \
            }                                                                                      \
        }                                                                                          \
        const int error = by_host;                                                                 \
        if (repeats && turn.timed != NULL)                                                         \
            tug_repeat_end(&turn);                                                                 \
        return error;                                                                              \
    }

#define TUG_CALL_REPEATED(KIND, Name, Twin, parameters, arguments)                                 \
    REPEATED(KIND, Name, parameters, BY_HOST(Name, Twin, arguments))
#define TUG_CALL_REPEATED_REDUCTION(KIND, Name, Twin, parameters, arguments)                       \
    REPEATED(KIND, Name, parameters, REDUCED_BY_HOST(Name, Twin, arguments))

/* The host calls the program's function whenever it is got on. */
#define TUG_CALL_REDUCTION_BEGIN(Name, parameters, arguments)                                      \
    int tug_shim_##Name parameters {                                                               \
        if (tug_op_is_programs(op))                                                                \
            tug_engine_keep_functions();                                                           \
        return tug_host.Name arguments;                                                            \
    }

#define TUG_CALL_MEETING(Name, on, parameters, arguments)                                          \
    int tug_shim_##Name parameters {                                                               \
        tug_blocking_meet(on);                                                                     \
        return TUG_INSIDE_HOST(tug_host.Name arguments);                                           \
    }

int tug_shim_Comm_free(MPI_Comm *comm) {
    if (comm != NULL && tug_wait_group_has(*comm) && !tug_team_goes_alone(*comm))
        tug_blocking_meet(*comm);
    return TUG_INSIDE_HOST(tug_host.Comm_free(comm));
}

/* ---- point to point ---- */

#define TUG_CALL_SENDING(Name, Twin, parameters, arguments)                                        \
    int tug_shim_##Name parameters {                                                               \
        if (tug_waits_outside())                                                                   \
            return TUG_TWIN(Twin, arguments);                                                      \
        return TUG_INSIDE_HOST(tug_host.Name arguments);                                           \
    }

#include "host/calls.def"

/* A message that is being waited for. */
struct arrival {
    int source, tag;
    MPI_Comm comm;
    MPI_Message *message; /* NULL: it is only looked for */
    MPI_Status *status;
    int error;
    bool over;
};

static bool has_arrived(void *argument) {
    struct arrival *a = argument;
    int flag = 0;
    if (!a->over) {
        a->error = a->message == NULL
                       ? tug_host.Iprobe(a->source, a->tag, a->comm, &flag, a->status)
                       : tug_host.Improbe(a->source, a->tag, a->comm, &flag, a->message, a->status);
        a->over = flag || a->error != MPI_SUCCESS;
    }
    return a->over;
}

static int probe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
    struct arrival arrival = {source, tag, comm, message, status, MPI_SUCCESS, false};
    tug_blocking_until(has_arrived, &arrival);
    return arrival.error;
}

int tug_shim_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status) {
    if (tug_waits_outside())
        return probe(source, tag, comm, NULL, status);
    return TUG_INSIDE_HOST(tug_host.Probe(source, tag, comm, status));
}

int tug_shim_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
    if (tug_waits_outside() && message != NULL)
        return probe(source, tag, comm, message, status);
    return TUG_INSIDE_HOST(tug_host.Mprobe(source, tag, comm, message, status));
}

/* What MPI calls a buffer: where a message is, or is to go. */
struct buffer {
    void *address;
    MPI_Count count;
    MPI_Datatype type;
};

static bool fits(const struct buffer *into, const MPI_Status *envelope) {
    MPI_Count size, bytes;
    return tug_type_is_one(into->type) && tug_host.Type_size_c(into->type, &size) == MPI_SUCCESS &&
           tug_host.Get_count_c(envelope, MPI_BYTE, &bytes) == MPI_SUCCESS &&
           bytes <= size * into->count;
}

/* The message is there. A request reports what goes wrong through the handler of MPI_COMM_WORLD, a
 * blocking call through the communicator's: what does not fit is the host's own call to receive. */
static int take(const struct buffer *into, const struct arrival *arrival, MPI_Status *status) {
    MPI_Request request;
    if (!fits(into, arrival->status))
        return tug_host.Recv_c(into->address, into->count, into->type, arrival->source,
                               arrival->tag, arrival->comm, status);
    int error = tug_host.Irecv_c(into->address, into->count, into->type, arrival->source,
                                 arrival->tag, arrival->comm, &request);
    return error == MPI_SUCCESS ? tug_blocking_wait(&request, status) : error;
}

/* Reports arguments with which nothing can be received. */
static int check(const struct buffer *into, int source, int tag, MPI_Comm comm) {
    MPI_Request request;
    int error =
        tug_host.Recv_init_c(into->address, into->count, into->type, source, tag, comm, &request);
    return error == MPI_SUCCESS ? tug_host.Request_free(&request) : error;
}

static int receive(const struct buffer *into, int source, int tag, MPI_Comm comm,
                   MPI_Status *status) {
    if (source == MPI_PROC_NULL)
        return tug_host.Recv_c(into->address, into->count, into->type, source, tag, comm, status);
    MPI_Status envelope;
    struct arrival arrival = {source, tag, comm, NULL, &envelope, MPI_SUCCESS, false};
    if (!has_arrived(&arrival)) {
        int error = check(into, source, tag, comm);
        if (error != MPI_SUCCESS)
            return error;
        tug_blocking_until(has_arrived, &arrival);
    }
    return arrival.error == MPI_SUCCESS ? take(into, &arrival, status) : arrival.error;
}

#define RECV(Name, count_t)                                                                        \
    int tug_shim_##Name(void *buf, count_t count, MPI_Datatype datatype, int source, int tag,      \
                        MPI_Comm comm, MPI_Status *status) {                                       \
        if (tug_waits_outside())                                                                   \
            return receive(&(struct buffer){buf, count, datatype}, source, tag, comm, status);     \
        return TUG_INSIDE_HOST(tug_host.Name(buf, count, datatype, source, tag, comm, status));    \
    }
RECV(Recv, int)
RECV(Recv_c, MPI_Count)

#define MRECV(Name, Twin, count_t)                                                                 \
    int tug_shim_##Name(void *buf, count_t count, MPI_Datatype datatype, MPI_Message *message,     \
                        MPI_Status *status) {                                                      \
        MPI_Request request;                                                                       \
        if (!tug_waits_outside())                                                                  \
            return TUG_INSIDE_HOST(tug_host.Name(buf, count, datatype, message, status));          \
        int error = tug_host.Twin(buf, count, datatype, message, &request);                        \
        return error == MPI_SUCCESS ? tug_blocking_wait(&request, status) : error;                 \
    }
MRECV(Mrecv, Imrecv, int)
MRECV(Mrecv_c, Imrecv_c, MPI_Count)

/* The arguments of the receive are right. The send is under way while the message is waited for. */
static int exchange(const struct buffer *from, int dest, int sendtag, const struct buffer *to,
                    int source, int recvtag, MPI_Comm comm, MPI_Status *status) {
    MPI_Request request;
    int error =
        tug_host.Isend_c(from->address, from->count, from->type, dest, sendtag, comm, &request);
    if (error != MPI_SUCCESS)
        return error;
    error = receive(to, source, recvtag, comm, status);
    int sent = tug_blocking_wait(&request, MPI_STATUS_IGNORE);
    return error == MPI_SUCCESS ? sent : error;
}

#define SENDRECV(Name, count_t)                                                                    \
    int tug_shim_##Name(const void *sendbuf, count_t sendcount, MPI_Datatype sendtype, int dest,   \
                        int sendtag, void *recvbuf, count_t recvcount, MPI_Datatype recvtype,      \
                        int source, int recvtag, MPI_Comm comm, MPI_Status *status) {              \
        const struct buffer from = {(void *)sendbuf, sendcount, sendtype};                         \
        const struct buffer to = {recvbuf, recvcount, recvtype};                                   \
        if (tug_waits_outside()) {                                                                 \
            int error = check(&to, source, recvtag, comm);                                         \
            return error != MPI_SUCCESS                                                            \
                       ? error                                                                     \
                       : exchange(&from, dest, sendtag, &to, source, recvtag, comm, status);       \
        }                                                                                          \
        return TUG_INSIDE_HOST(tug_host.Name(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, \
                                             recvcount, recvtype, source, recvtag, comm, status)); \
    }
SENDRECV(Sendrecv, int)
SENDRECV(Sendrecv_c, MPI_Count)

/* What is in the buffer of right arguments, as bytes; its memory is to be freed. NULL without, and
 * for memory of a device. */
static void *pack(const struct buffer *from, MPI_Comm comm, MPI_Count *bytes) {
    struct tug_data data = {.address = from->address, .count = from->count, .type = from->type};
    tug_device_look();
    if (!tug_data_describe(&data, comm) || tug_data_is_device(&data))
        return NULL;
    *bytes = (MPI_Count)data.bytes;
    void *packed = malloc(data.bytes > 0 ? data.bytes : 1);
    struct tug_data to = {.address = packed, .count = *bytes, .type = MPI_BYTE};
    if (packed != NULL && tug_data_describe(&to, comm) &&
        tug_data_move(&to, &data, comm) == MPI_SUCCESS)
        return packed;
    free(packed);
    return NULL;
}

#define REPLACE(Name, count_t)                                                                     \
    int tug_shim_##Name(void *buf, count_t count, MPI_Datatype datatype, int dest, int sendtag,    \
                        int source, int recvtag, MPI_Comm comm, MPI_Status *status) {              \
        const struct buffer to = {buf, count, datatype};                                           \
        struct buffer from = {.type = MPI_PACKED};                                                 \
        if (tug_waits_outside()) {                                                                 \
            int error = check(&to, source, recvtag, comm);                                         \
            if (error != MPI_SUCCESS)                                                              \
                return error;                                                                      \
            from.address = pack(&to, comm, &from.count);                                           \
        }                                                                                          \
        if (from.address == NULL)                                                                  \
            return TUG_INSIDE_HOST(tug_host.Name(buf, count, datatype, dest, sendtag, source,      \
                                                 recvtag, comm, status));                          \
        int error = exchange(&from, dest, sendtag, &to, source, recvtag, comm, status);            \
        free(from.address);                                                                        \
        return error;                                                                              \
    }
REPLACE(Sendrecv_replace, int)
REPLACE(Sendrecv_replace_c, MPI_Count)
