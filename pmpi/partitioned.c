/* Partitioned communication: ours between two ranks that take part; else the host's. */
#include <pthread.h>

#include "base/cores.h"
#include "base/settings.h"
#include "base/stats.h"
#include "engine/park.h"
#include "host/host.h"
#include "host/report.h"
#include "persistent/partitioned.h"
#include "pmpi/blocking.h"
#include "pmpi/shim.h"
#include "request/request.h"

#if MPI_VERSION >= 4

static struct tug_partitioned *ours(MPI_Request request) {
    return TUG_UNLIKELY(tug_request_is_ours(request))
               ? tug_partitioned_of(tug_request_find(request))
               : NULL;
}

/* Ranks that have a core each wait for a message as those with windows do (node/team.c). */
static void settle_waits(void) {
    if (!tug_waits_polite && tug_settings.wait != TUG_WAIT_NATIVE)
        tug_park_configure(tug_settings.spin_us, tug_cores_crowded());
}

static int take(int error, const struct tug_partitioned_call *call, MPI_Request *request) {
    if (error != MPI_SUCCESS)
        return error;
    if (!tug_partitioned_takes(call)) {
        tug_stat_add(TUG_STAT_PERSISTENT_PASSED, 1);
        return MPI_SUCCESS;
    }
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, settle_waits);
    error = tug_partitioned_create(call, request);
    if (error != MPI_SUCCESS)
        tug_report_comm(call->comm, error);
    else
        tug_stat_add(TUG_STAT_PERSISTENT_TAKEN, 1);
    return error;
}

int tug_shim_Psend_init(const void *buf, int partitions, MPI_Count count, MPI_Datatype datatype,
                        int dest, int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request) {
    const struct tug_partitioned_call call = {true,     (void *)buf, partitions, count,
                                              datatype, dest,        tag,        comm};
    return take(
        tug_host.Psend_init(buf, partitions, count, datatype, dest, tag, comm, info, request),
        &call, request);
}

int tug_shim_Precv_init(void *buf, int partitions, MPI_Count count, MPI_Datatype datatype,
                        int source, int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request) {
    const struct tug_partitioned_call call = {false,    buf,    partitions, count,
                                              datatype, source, tag,        comm};
    return take(
        tug_host.Precv_init(buf, partitions, count, datatype, source, tag, comm, info, request),
        &call, request);
}

/* The send behind the handle if its round is ours; otherwise *request is the host's. What cannot be
 * done to an inactive one is the host's to say, of its own. */
static struct tug_partitioned *find(MPI_Request *request, bool sends) {
    struct tug_partitioned *mine = ours(*request);
    if (mine == NULL || tug_partitioned_is_ours(mine, sends))
        return mine;
    *request = ((const struct tug_request *)mine)->host;
    return NULL;
}

static int report(const struct tug_partitioned *mine, int error) {
    if (TUG_UNLIKELY(error != MPI_SUCCESS))
        tug_report_comm(((const struct tug_request *)mine)->comm, error);
    return error;
}

int tug_shim_Pready(int partition, MPI_Request request) {
    struct tug_partitioned *mine = find(&request, true);
    return mine == NULL ? tug_host.Pready(partition, request)
                        : report(mine, tug_partitioned_ready(mine, partition, partition));
}

int tug_shim_Pready_range(int partition_low, int partition_high, MPI_Request request) {
    struct tug_partitioned *mine = find(&request, true);
    return mine == NULL ? tug_host.Pready_range(partition_low, partition_high, request)
                        : report(mine, tug_partitioned_ready(mine, partition_low, partition_high));
}

int tug_shim_Pready_list(int length, TUG_PARTITIONS, MPI_Request request) {
    struct tug_partitioned *mine = find(&request, true);
    return mine == NULL
               ? tug_host.Pready_list(length, array_of_partitions, request)
               : report(mine, tug_partitioned_ready_list(mine, length, array_of_partitions));
}

int tug_shim_Parrived(MPI_Request request, int partition, int *flag) {
    struct tug_partitioned *mine = ours(request);
    if (mine != NULL && flag != NULL && tug_partitioned_receives(mine) &&
        !((struct tug_request *)mine)->passes) {
        if (!tug_partitioned_has(mine, partition))
            return report(mine, MPI_ERR_OTHER); /* as MPICH says */
        const int error = tug_partitioned_arrived(mine, partition, flag);
        if (!*flag)
            tug_request_look_in_vain();
        return error;
    }
    if (mine != NULL)
        request = ((struct tug_request *)mine)->host;
    return tug_shim_helped(tug_host.Parrived(request, partition, flag));
}

#endif
