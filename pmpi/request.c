/* The request family: ours, the host's, and both in one array.
 *
 * A call whose requests are all the host's goes to the host at once; while no persistent collective
 * of ours exists, that is one comparison. In a mixed call the host is given a copy of the array in
 * which ours are MPI_REQUEST_NULL, or the host's that stand in their place: it sees to its own and
 * fills the empty statuses, indices stay true, and we add what is ours. A mixed wait lets the
 * engine and the host progress in turn.
 */
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "engine/engine.h"
#include "engine/host_progress.h"
#include "engine/service.h"
#include "host/host.h"
#include "host/report.h"
#include "pmpi/blocking.h"
#include "pmpi/shim.h"
#include "request/request.h"
#include "tugboat/mpix.h"

#define ON_STACK 64

int tug_shim_helped(int error) {
    if (TUG_UNLIKELY(tug_engine_wants_help() || tug_engine_serves()))
        tug_engine_poll();
    return error;
}

/* ---- one request ---- */

static void set_empty(MPI_Status *status) {
    if (status == MPI_STATUS_IGNORE)
        return;
    memset(status, 0, sizeof(*status));
    status->MPI_SOURCE = MPI_ANY_SOURCE;
    status->MPI_TAG = MPI_ANY_TAG;
}

/* What a request of ours tells when it is over. */
static void tell(const struct tug_request *request, bool was_active, MPI_Status *status) {
    set_empty(status);
    if (was_active && request->describe != NULL && status != MPI_STATUS_IGNORE)
        request->describe(request, status);
}

/* The request of ours behind *handle, or NULL: the host's, or stale, which the host reports. */
static struct tug_request *known(const MPI_Request *handle) {
    return handle != NULL && TUG_UNLIKELY(tug_request_is_ours(*handle)) ? tug_request_find(*handle)
                                                                        : NULL;
}

/* The same, NULL also if the host's request stands in its place: the call is the host's. */
static struct tug_request *ours(const MPI_Request *handle) {
    struct tug_request *request = known(handle);
    return request != NULL && !request->passes ? request : NULL;
}

/* The run that the host's request did in its place is over: the request is not active. */
static void end_passing(const MPI_Request *handle) {
    struct tug_request *request = known(handle);
    if (request != NULL)
        request->passes = false;
}

/* Ends an operation that is over: the request is inactive again, or gone. Returns the operation's
 * error. */
static int retire(MPI_Request *handle, struct tug_request *request, MPI_Status *status) {
    int error = request->active ? request->error : MPI_SUCCESS;
    tell(request, request->active, status);
    request->active = false;
    if (request->once) {
        tug_request_release(request);
        *handle = MPI_REQUEST_NULL;
    }
    return error;
}

/* Whose handler is called with an error: the communicator's, or a one-sided operation's window's.
 * It may throw or jump, so the call that reports does nothing after it. */
struct owner {
    bool is_window;
    MPI_Win win;
    MPI_Comm comm;
};

static struct owner owner_of(const struct tug_request *request) {
    return (struct owner){request->once, request->win, request->comm};
}

static __attribute__((noinline)) void report(const struct owner *owner, int error) {
    if (owner->is_window)
        (void)tug_shim_Win_call_errhandler(owner->win, error);
    else
        tug_report_comm(owner->comm, error);
}

/* retire() for the calls on a single request, whose owner's handler is called. */
static int retire_one(MPI_Request *handle, struct tug_request *request, MPI_Status *status) {
    const struct owner owner = owner_of(request);
    const int error = retire(handle, request, status);
    if (TUG_UNLIKELY(error != MPI_SUCCESS))
        report(&owner, error);
    return error;
}

/* What is done to a request of ours that cannot be done to it. As the hosts report it, except that
 * MPICH calls the handler with its lock held. */
static int refuse(void) {
    tug_report_comm(MPI_COMM_WORLD, MPI_ERR_REQUEST);
    return MPI_ERR_REQUEST;
}

int tug_shim_Start(MPI_Request *request) {
    struct tug_request *mine = known(request);
    if (mine == NULL || mine->active) {
        tug_stat_add(TUG_STAT_REQUEST_PASSED, 1);
        return mine == NULL ? tug_host.Start(request) : refuse();
    }
    tug_stat_add(TUG_STAT_REQUEST_TAKEN, 1);
    tug_request_start(mine);
    return mine->passes ? mine->error : MPI_SUCCESS;
}

static __attribute__((noinline)) int wait_for_hosts(MPI_Request *request, MPI_Status *status) {
    tug_stat_add(TUG_STAT_REQUEST_PASSED, 1);
    if (tug_waits_outside())
        return tug_blocking_wait(request, status);
    return TUG_INSIDE_HOST(tug_host.Wait(request, status));
}

int tug_shim_Wait(MPI_Request *request, MPI_Status *status) {
    struct tug_request *mine = known(request);
    if (mine == NULL)
        return wait_for_hosts(request, status);
    if (mine->passes) {
        mine->passes = false;
        return wait_for_hosts(&mine->host, status);
    }
    tug_stat_add(TUG_STAT_REQUEST_TAKEN, 1);
    tug_request_wait(mine);
    return retire_one(request, mine, status);
}

int tug_shim_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    struct tug_request *mine = known(request);
    if (mine == NULL || mine->passes || flag == NULL) {
        request = mine != NULL ? &mine->host : request;
        tug_stat_add(TUG_STAT_REQUEST_PASSED, 1);
        const int error = TUG_INSIDE_HOST(tug_host.Test(request, flag, status));
        if (mine != NULL && flag != NULL && *flag)
            mine->passes = false;
        return tug_shim_helped(error);
    }
    tug_stat_add(TUG_STAT_REQUEST_TAKEN, 1);
    if (tug_request_pending(mine))
        tug_request_poll(mine);
    *flag = !tug_request_pending(mine);
    if (*flag)
        return retire_one(request, mine, status);
    tug_request_look_in_vain();
    return MPI_SUCCESS;
}

int tug_shim_Request_get_status(MPI_Request request, int *flag, MPI_Status *status) {
    struct tug_request *mine = known(&request);
    if (mine == NULL || mine->passes || flag == NULL)
        return tug_shim_helped(
            tug_host.Request_get_status(mine != NULL ? mine->host : request, flag, status));
    if (tug_request_pending(mine))
        tug_request_poll(mine);
    *flag = !tug_request_pending(mine);
    if (*flag)
        tell(mine, mine->active, status);
    else
        tug_request_look_in_vain();
    return MPI_SUCCESS;
}

int tug_shim_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status) {
    return tug_shim_helped(tug_host.Iprobe(source, tag, comm, flag, status));
}

int tug_shim_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                     MPI_Status *status) {
    return tug_shim_helped(tug_host.Improbe(source, tag, comm, flag, message, status));
}

int tug_shim_Cancel(MPI_Request *request) {
    struct tug_request *mine = known(request);
    if (mine == NULL || mine->passes)
        return tug_host.Cancel(mine != NULL ? &mine->host : request);
    return refuse();
}

/* ---- arrays ---- */

static bool any_ours(int count, const MPI_Request requests[]) {
    if (atomic_load_explicit(&tug_request_limit, memory_order_relaxed) == 0 || count <= 0 ||
        requests == NULL)
        return false;
    for (int i = 0; i < count; i++)
        if (tug_request_is_ours(requests[i]) && tug_request_find(requests[i]) != NULL)
            return true;
    return false;
}

/* True if a wait for them is not simply the host's: some are ours, or it has to be polite. */
static bool wait_outside(int count, const MPI_Request requests[]) {
    return any_ours(count, requests) || (tug_waits_outside() && count > 0 && requests != NULL);
}

static int wait_for_theirs(int count, MPI_Request requests[], MPI_Status statuses[]) {
    if (tug_waits_outside())
        return tug_blocking_waitall(count, requests, statuses);
    return TUG_INSIDE_HOST(tug_host.Waitall(count, requests, statuses));
}

/* What the host is given for it: nothing if it is ours. */
static MPI_Request in_their_place(const MPI_Request *handle) {
    const struct tug_request *request = known(handle);
    return request == NULL ? *handle : request->passes ? request->host : MPI_REQUEST_NULL;
}

/* An array with requests of ours in it, or that is waited for from outside the host. */
struct mixed {
    int count;
    MPI_Request *requests; /* the program's */
    MPI_Request *theirs;   /* the host's, MPI_REQUEST_NULL in place of ours */
    MPI_Status *statuses;  /* the program's, or MPI_STATUSES_IGNORE */
    int *indices;
    bool has_theirs; /* some that are not MPI_REQUEST_NULL */
    int nover;       /* so many from the first on are theirs, or are over */
    int flag;        /* the host's answer */
    bool over; /* a look has taken something, or found nothing left to wait for: no second look */
    int outcome;
    int error;  /* the host's, or `untold` */
    int untold; /* an error of ours, for the handler of `owner` when the call is over */
    struct owner owner;
    MPI_Request on_stack[ON_STACK];
};

/* False: no memory. */
static bool split(struct mixed *mixed, int count, MPI_Request requests[], MPI_Status statuses[]) {
    mixed->count = count;
    mixed->requests = requests;
    mixed->statuses = statuses;
    mixed->flag = 0;
    mixed->error = mixed->untold = MPI_SUCCESS;
    mixed->over = false;
    mixed->has_theirs = false;
    mixed->nover = 0;
    mixed->theirs =
        count <= ON_STACK ? mixed->on_stack : malloc((size_t)count * sizeof(MPI_Request));
    if (mixed->theirs == NULL)
        return false;
    for (int i = 0; i < count; i++) {
        struct tug_request *request = ours(&requests[i]);
        if (request != NULL)
            tug_request_look_at(request);
        mixed->theirs[i] = in_their_place(&requests[i]);
        mixed->has_theirs |= mixed->theirs[i] != MPI_REQUEST_NULL;
    }
    tug_stat_add(TUG_STAT_REQUEST_TAKEN, 1);
    return true;
}

/* Gives the program the host's handles back as the host left them. Reports what is untold. */
static int join(struct mixed *mixed, int result) {
    for (int i = 0; i < mixed->count; i++)
        if (known(&mixed->requests[i]) == NULL)
            mixed->requests[i] = mixed->theirs[i];
    if (mixed->theirs != mixed->on_stack)
        free(mixed->theirs);
    if (TUG_UNLIKELY(mixed->untold != MPI_SUCCESS))
        report(&mixed->owner, mixed->untold);
    return result;
}

static MPI_Status *status_at(const struct mixed *mixed, int i) {
    return mixed->statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &mixed->statuses[i];
}

/* The first request of ours that is over (and was active) from index on, or -1. *active: there are
 * active ones. */
static int next_over(const struct mixed *mixed, int from, bool *active) {
    *active = false;
    for (int i = from; i < mixed->count; i++) {
        const struct tug_request *request = ours(&mixed->requests[i]);
        if (request == NULL || !request->active)
            continue;
        *active = true;
        if (!tug_request_pending(request))
            return i;
    }
    return -1;
}

/* Goes on from where the last look ended. */
static bool all_over(struct mixed *mixed) {
    for (; mixed->nover < mixed->count; mixed->nover++) {
        const struct tug_request *request = ours(&mixed->requests[mixed->nover]);
        if (request != NULL && tug_request_pending(request))
            return false;
    }
    return true;
}

/* The error of several, MPI_ERR_IN_STATUS. */
static int leave_untold(struct mixed *mixed) {
    mixed->owner = (struct owner){.comm = MPI_COMM_SELF};
    return mixed->untold = MPI_ERR_IN_STATUS;
}

static int no_memory(void) {
    tug_report_comm(MPI_COMM_SELF, MPI_ERR_NO_MEM);
    return MPI_ERR_NO_MEM;
}

/* Ours are all over: their errors join the host's answer, as MPI_Waitall reports it. */
static int retire_all(struct mixed *mixed) {
    bool failed = false;
    bool in_status = mixed->error == MPI_ERR_IN_STATUS;
    for (int i = 0; i < mixed->count; i++) {
        struct tug_request *request = ours(&mixed->requests[i]);
        if (request == NULL)
            continue;
        MPI_Status *status = status_at(mixed, i);
        int error = retire(&mixed->requests[i], request, status);
        failed |= error != MPI_SUCCESS;
        if (status != MPI_STATUS_IGNORE && (error != MPI_SUCCESS || in_status))
            status->MPI_ERROR = error;
    }
    if (!failed || (mixed->error != MPI_SUCCESS && !in_status))
        return mixed->error;
    for (int i = 0; i < mixed->count && !in_status; i++)
        if (ours(&mixed->requests[i]) == NULL && mixed->statuses != MPI_STATUSES_IGNORE)
            mixed->statuses[i].MPI_ERROR = MPI_SUCCESS;
    return in_status ? MPI_ERR_IN_STATUS : leave_untold(mixed); /* the host has told, or we do */
}

/* All of the host's are over, and all of ours. */
static int join_all(struct mixed *mixed) {
    const bool theirs_are_over = mixed->error == MPI_SUCCESS;
    const int result = retire_all(mixed);
    for (int i = 0; i < mixed->count && theirs_are_over; i++)
        end_passing(&mixed->requests[i]);
    return join(mixed, result);
}

/* Are our requests over? If not, the host makes progress, which completes none of its requests, and
 * reports no error: the wait that follows does. */
static bool ours_are_over(void *argument) {
    struct mixed *mixed = argument;
    if (all_over(mixed))
        return true;
    if (mixed->has_theirs)
        tug_engine_poll_host();
    return false;
}

/* Runs that are kept are the engine's, which this thread is going to wait for. */
static void hand_over(const struct mixed *mixed, bool patient) {
    for (int i = 0; i < mixed->count; i++) {
        struct tug_request *request = ours(&mixed->requests[i]);
        if (request != NULL)
            patient = tug_request_hand_over(request, patient) && patient;
    }
}

static void wait_until(bool (*done)(void *), struct mixed *mixed) {
    hand_over(mixed, done == ours_are_over && !mixed->has_theirs);
    if (mixed->has_theirs)
        tug_blocking_until(done, mixed);
    else
        tug_request_wait_until(done, mixed);
}

/* The host's share is completed by the host's own wait: MPICH 4.0.2's MPI_Testall fails over a
 * persistent collective that MPI_Waitall completes. It is given without gaps: beside a null, MPICH
 * ends the job over a generalized request that is pending. */
static int wait_without_gaps(struct mixed *mixed) {
    int n = 0;
    for (int i = 0; i < mixed->count; i++)
        if (mixed->theirs[i] != MPI_REQUEST_NULL)
            mixed->theirs[n++] = mixed->theirs[i];
    const int error = wait_for_theirs(n, mixed->theirs, mixed->statuses);
    for (int i = mixed->count - 1; i >= 0; i--) {
        const bool is_theirs = in_their_place(&mixed->requests[i]) != MPI_REQUEST_NULL;
        MPI_Status *status = status_at(mixed, i);
        mixed->theirs[i] = is_theirs ? mixed->theirs[--n] : MPI_REQUEST_NULL;
        if (is_theirs && status != MPI_STATUS_IGNORE)
            *status = mixed->statuses[n];
        else
            set_empty(status);
    }
    return error;
}

int tug_shim_Waitall(int count, MPI_Request array_of_requests[], MPI_Status array_of_statuses[]) {
    struct mixed mixed;
    if (!any_ours(count, array_of_requests))
        return wait_for_theirs(count, array_of_requests, array_of_statuses);
    if (!split(&mixed, count, array_of_requests, array_of_statuses))
        return no_memory();
    wait_until(ours_are_over, &mixed);
    mixed.error = wait_without_gaps(&mixed);
    return join_all(&mixed);
}

/* MPICH 4.0.2's MPI_Testall fails over its partitioned requests too. Ours are over. */
static int test_theirs(struct mixed *mixed, int *flag) {
    bool passes = false;
    for (int i = 0; i < mixed->count && !passes; i++)
        passes = known(&mixed->requests[i]) != NULL && known(&mixed->requests[i])->passes;
    if (!passes)
        return tug_host.Testall(mixed->count, mixed->theirs, flag, mixed->statuses);
    *flag = 1;
    for (int i = 0; i < mixed->count && *flag; i++)
        if (mixed->theirs[i] != MPI_REQUEST_NULL) {
            const int error =
                tug_host.Request_get_status(mixed->theirs[i], flag, MPI_STATUS_IGNORE);
            if (error != MPI_SUCCESS)
                return error;
        }
    return *flag ? tug_host.Waitall(mixed->count, mixed->theirs, mixed->statuses) : MPI_SUCCESS;
}

int tug_shim_Testall(int count, MPI_Request array_of_requests[], int *flag,
                     MPI_Status array_of_statuses[]) {
    struct mixed mixed;
    if (!any_ours(count, array_of_requests) || flag == NULL)
        return tug_shim_helped(
            TUG_INSIDE_HOST(tug_host.Testall(count, array_of_requests, flag, array_of_statuses)));
    if (!split(&mixed, count, array_of_requests, array_of_statuses))
        return no_memory();
    tug_engine_poll();
    if (!all_over(&mixed)) {
        *flag = 0;
        tug_request_look_in_vain();
        return join(&mixed, MPI_SUCCESS);
    }
    mixed.error = test_theirs(&mixed, flag);
    if (mixed.error == MPI_SUCCESS && !*flag)
        return join(&mixed, MPI_SUCCESS);
    return join_all(&mixed);
}

/* Looks once for something to return from a Waitany or Testany. True: outcome, indices[0], error
 * set. */
static bool find_any(struct mixed *mixed) {
    bool active;
    int i = next_over(mixed, 0, &active);
    if (i >= 0) {
        struct tug_request *request = ours(&mixed->requests[i]);
        mixed->outcome = i;
        mixed->owner = owner_of(request);
        mixed->error = mixed->untold = retire(&mixed->requests[i], request, mixed->statuses);
        return true;
    }
    mixed->error = tug_host.Testany(mixed->count, mixed->theirs, &mixed->outcome, &mixed->flag,
                                    mixed->statuses);
    if (mixed->error != MPI_SUCCESS)
        return true;
    if (mixed->flag && mixed->outcome != MPI_UNDEFINED)
        end_passing(&mixed->requests[mixed->outcome]);
    /* the host answers undefined when it has nothing active: that is ours to know */
    return mixed->flag && (mixed->outcome != MPI_UNDEFINED || !active);
}

/* What a look takes is taken: the engine may ask again after a yes. */
static bool look_for_any(void *argument) {
    struct mixed *mixed = argument;
    mixed->over = mixed->over || find_any(mixed);
    return mixed->over;
}

int tug_shim_Waitany(int count, MPI_Request array_of_requests[], int *indx, MPI_Status *status) {
    struct mixed mixed;
    if (!wait_outside(count, array_of_requests) || indx == NULL)
        return TUG_INSIDE_HOST(tug_host.Waitany(count, array_of_requests, indx, status));
    if (!split(&mixed, count, array_of_requests, status))
        return no_memory();
    wait_until(look_for_any, &mixed);
    *indx = mixed.outcome;
    return join(&mixed, mixed.error);
}

int tug_shim_Testany(int count, MPI_Request array_of_requests[], int *indx, int *flag,
                     MPI_Status *status) {
    struct mixed mixed;
    if (!any_ours(count, array_of_requests) || indx == NULL || flag == NULL)
        return tug_shim_helped(
            TUG_INSIDE_HOST(tug_host.Testany(count, array_of_requests, indx, flag, status)));
    if (!split(&mixed, count, array_of_requests, status))
        return no_memory();
    tug_engine_poll();
    *flag = look_for_any(&mixed);
    if (!*flag)
        tug_request_look_in_vain();
    *indx = *flag ? mixed.outcome : MPI_UNDEFINED;
    return join(&mixed, mixed.error);
}

/* Looks once for all that is over. True: outcome (a number, or MPI_UNDEFINED), indices, error set.
 */
static bool find_some(struct mixed *mixed) {
    bool active;
    int found = 0;
    bool failed = false;
    mixed->error = tug_host.Testsome(mixed->count, mixed->theirs, &mixed->outcome, mixed->indices,
                                     mixed->statuses);
    if (mixed->error != MPI_SUCCESS && mixed->error != MPI_ERR_IN_STATUS)
        return true;
    bool theirs_active = mixed->outcome != MPI_UNDEFINED;
    if (theirs_active)
        found = mixed->outcome;
    (void)next_over(mixed, 0, &active);
    active |= theirs_active;
    for (int i = 0; i < found; i++)
        end_passing(&mixed->requests[mixed->indices[i]]);
    for (int i = next_over(mixed, 0, &(bool){false}); i >= 0;
         i = next_over(mixed, i + 1, &(bool){false})) {
        MPI_Status *status = status_at(mixed, found);
        int error = retire(&mixed->requests[i], ours(&mixed->requests[i]), status);
        if (status != MPI_STATUS_IGNORE)
            status->MPI_ERROR = error;
        failed |= error != MPI_SUCCESS;
        mixed->indices[found++] = i;
    }
    if (failed && mixed->error == MPI_SUCCESS)
        mixed->error = leave_untold(mixed);
    if (found > 0 || active)
        mixed->outcome = found;
    return found > 0 || !active;
}

/* What a look takes is taken: the engine may ask again after a yes. */
static bool look_for_some(void *argument) {
    struct mixed *mixed = argument;
    mixed->over = mixed->over || find_some(mixed);
    return mixed->over;
}

static int some(struct mixed *mixed, int count, MPI_Request requests[], int *outcount,
                int indices[], MPI_Status statuses[], bool wait) {
    if (!split(mixed, count, requests, statuses))
        return no_memory();
    mixed->indices = indices;
    if (wait) {
        wait_until(look_for_some, mixed);
    } else {
        tug_engine_poll();
        if (!look_for_some(mixed))
            tug_request_look_in_vain();
    }
    *outcount = mixed->outcome;
    return join(mixed, mixed->error);
}

int tug_shim_Waitsome(int incount, MPI_Request array_of_requests[], int *outcount,
                      int array_of_indices[], MPI_Status array_of_statuses[]) {
    struct mixed mixed;
    if (!wait_outside(incount, array_of_requests) || outcount == NULL || array_of_indices == NULL)
        return TUG_INSIDE_HOST(tug_host.Waitsome(incount, array_of_requests, outcount,
                                                 array_of_indices, array_of_statuses));
    return some(&mixed, incount, array_of_requests, outcount, array_of_indices, array_of_statuses,
                true);
}

int tug_shim_Testsome(int incount, MPI_Request array_of_requests[], int *outcount,
                      int array_of_indices[], MPI_Status array_of_statuses[]) {
    struct mixed mixed;
    if (!any_ours(incount, array_of_requests) || outcount == NULL || array_of_indices == NULL)
        return tug_shim_helped(TUG_INSIDE_HOST(tug_host.Testsome(
            incount, array_of_requests, outcount, array_of_indices, array_of_statuses)));
    return some(&mixed, incount, array_of_requests, outcount, array_of_indices, array_of_statuses,
                false);
}

/* Those that are ours, or the others. */
static int start_those(int count, MPI_Request requests[], bool are_ours) {
    int error = MPI_SUCCESS;
    for (int i = 0; i < count && error == MPI_SUCCESS; i++)
        if ((known(&requests[i]) != NULL) == are_ours)
            error = tug_shim_Start(&requests[i]);
    return error;
}

int tug_shim_Startall(int count, MPI_Request array_of_requests[]) {
    if (!any_ours(count, array_of_requests))
        return tug_host.Startall(count, array_of_requests);
    for (int i = 0; i < count; i++) {
        const struct tug_request *mine = known(&array_of_requests[i]);
        if (mine != NULL ? mine->active : array_of_requests[i] == MPI_REQUEST_NULL)
            return refuse();
    }
    /* the host's first: where it refuses one, none of ours has been started */
    const int error = start_those(count, array_of_requests, false);
    return error != MPI_SUCCESS ? error : start_those(count, array_of_requests, true);
}

/* ---- looks that take nothing, MPI 4.1 ---- */

/* The host's answers for its own requests. One that lacks the call is asked one by one; it does not
 * tell a request that is over from one that was never started. */
static int their_all(const struct mixed *mixed, int *flag) {
    int error = MPI_SUCCESS;
    if (tug_host.Request_get_status_all != NULL)
        return tug_host.Request_get_status_all(mixed->count, mixed->theirs, flag, mixed->statuses);
    *flag = 1;
    for (int i = 0; i < mixed->count && *flag && error == MPI_SUCCESS; i++)
        error = tug_host.Request_get_status(mixed->theirs[i], flag, status_at(mixed, i));
    return error;
}

static int their_any(const struct mixed *mixed, int *indx, int *flag) {
    if (tug_host.Request_get_status_any != NULL)
        return tug_host.Request_get_status_any(mixed->count, mixed->theirs, indx, flag,
                                               mixed->statuses);
    int error = MPI_SUCCESS;
    *indx = MPI_UNDEFINED;
    *flag = !mixed->has_theirs;
    for (int i = 0; i < mixed->count && *indx == MPI_UNDEFINED && error == MPI_SUCCESS; i++) {
        if (mixed->theirs[i] == MPI_REQUEST_NULL)
            continue;
        error = tug_host.Request_get_status(mixed->theirs[i], flag, mixed->statuses);
        if (*flag)
            *indx = i;
    }
    return error;
}

static int their_some(const struct mixed *mixed, int *outcount) {
    if (tug_host.Request_get_status_some != NULL)
        return tug_host.Request_get_status_some(mixed->count, mixed->theirs, outcount,
                                                mixed->indices, mixed->statuses);
    int error = MPI_SUCCESS, found = 0;
    for (int i = 0; i < mixed->count && error == MPI_SUCCESS; i++) {
        int flag = 0;
        if (mixed->theirs[i] == MPI_REQUEST_NULL)
            continue;
        error = tug_host.Request_get_status(mixed->theirs[i], &flag, status_at(mixed, found));
        if (flag)
            mixed->indices[found++] = i;
    }
    *outcount = mixed->has_theirs ? found : MPI_UNDEFINED;
    return error;
}

static bool look_at_all(struct mixed *mixed, int count, const MPI_Request requests[],
                        MPI_Status *statuses) {
    if (!split(mixed, count, (MPI_Request *)requests, statuses)) /* which stay as they are */
        return false;
    tug_engine_poll();
    tug_request_look_in_vain();
    return true;
}

int tug_shim_Request_get_status_all(int count, const MPI_Request array_of_requests[], int *flag,
                                    MPI_Status *array_of_statuses) {
    struct mixed mixed;
    const struct tug_request *request;
    if (!any_ours(count, array_of_requests) && tug_host.Request_get_status_all != NULL)
        return tug_shim_helped(
            tug_host.Request_get_status_all(count, array_of_requests, flag, array_of_statuses));
    if (!look_at_all(&mixed, count, array_of_requests, array_of_statuses))
        return no_memory();
    mixed.error = their_all(&mixed, flag);
    *flag = *flag && all_over(&mixed);
    for (int i = 0; i < count && *flag; i++)
        if ((request = ours(&array_of_requests[i])) != NULL)
            tell(request, request->active, status_at(&mixed, i));
    return join(&mixed, tug_shim_helped(mixed.error));
}

int tug_shim_Request_get_status_any(int count, const MPI_Request array_of_requests[], int *indx,
                                    int *flag, MPI_Status *status) {
    struct mixed mixed;
    bool active;
    if (!any_ours(count, array_of_requests) && tug_host.Request_get_status_any != NULL)
        return tug_shim_helped(
            tug_host.Request_get_status_any(count, array_of_requests, indx, flag, status));
    if (!look_at_all(&mixed, count, array_of_requests, status))
        return no_memory();
    const int i = next_over(&mixed, 0, &active);
    if (i >= 0) {
        *indx = i;
        *flag = 1;
        tell(ours(&array_of_requests[i]), true, status);
        return join(&mixed, MPI_SUCCESS);
    }
    mixed.error = their_any(&mixed, indx, flag);
    if (*indx == MPI_UNDEFINED)
        *flag = !active && *flag;
    return join(&mixed, tug_shim_helped(mixed.error));
}

int tug_shim_Request_get_status_some(int incount, const MPI_Request array_of_requests[],
                                     int *outcount, int array_of_indices[],
                                     MPI_Status *array_of_statuses) {
    struct mixed mixed;
    bool active;
    if (!any_ours(incount, array_of_requests) && tug_host.Request_get_status_some != NULL)
        return tug_shim_helped(tug_host.Request_get_status_some(
            incount, array_of_requests, outcount, array_of_indices, array_of_statuses));
    if (!look_at_all(&mixed, incount, array_of_requests, array_of_statuses))
        return no_memory();
    mixed.indices = array_of_indices;
    mixed.error = their_some(&mixed, outcount);
    int found = *outcount == MPI_UNDEFINED ? 0 : *outcount;
    int i = next_over(&mixed, 0, &active);
    if (active && mixed.error == MPI_SUCCESS)
        *outcount = found;
    for (; i >= 0 && mixed.error == MPI_SUCCESS; i = next_over(&mixed, i + 1, &(bool){false})) {
        tell(ours(&array_of_requests[i]), true, status_at(&mixed, found));
        array_of_indices[found++] = i;
        *outcount = found;
    }
    return join(&mixed, tug_shim_helped(mixed.error));
}

int PMPIX_Request_is_complete(MPI_Request request) {
    static void *_Atomic host;
    int flag = 0;
    if (known(&request) == NULL) {
        int (*call)(MPI_Request);
        *(void **)&call = tug_host_find_once("PMPIX_Request_is_complete", &host);
        if (call != NULL) {
            flag = call(request);
            (void)tug_shim_helped(MPI_SUCCESS);
            return flag;
        }
    }
    (void)tug_shim_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
    return flag;
}

int MPIX_Request_is_complete(MPI_Request request) {
    return PMPIX_Request_is_complete(request);
}
