/* Partitioned communication: ours between two ranks that take part; else the host's. */
#include "base/stats.h"
#include "host/host.h"
#include "persistent/partitioned.h"
#include "pmpi/shim.h"
#include "request/request.h"

#if MPI_VERSION >= 4

static struct tug_partitioned *ours(MPI_Request request) {
    return TUG_UNLIKELY(tug_request_is_ours(request))
               ? tug_partitioned_of(tug_request_find(request))
               : NULL;
}

static int take(int error, const struct tug_partitioned_call *call, MPI_Request *request) {
    if (error != MPI_SUCCESS)
        return error;
    if (!tug_partitioned_takes(call)) {
        tug_stat_add(TUG_STAT_PERSISTENT_PASSED, 1);
        return MPI_SUCCESS;
    }
    error = tug_partitioned_create(call, request);
    if (error != MPI_SUCCESS)
        tug_host.Comm_call_errhandler(call->comm, error);
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

/* What cannot be done is the host's to say, of its own request, which is inactive or is asked for a
 * partition that it does not have. */
int tug_shim_Pready(int partition, MPI_Request request) {
    struct tug_partitioned *mine = ours(request);
    if (mine == NULL)
        return tug_host.Pready(partition, request);
    if (!tug_request_pending((struct tug_request *)mine) ||
        !tug_partitioned_has(mine, true, partition))
        return tug_host.Pready(partition, tug_partitioned_host(mine));
    return tug_partitioned_ready(mine, partition);
}

int tug_shim_Pready_range(int partition_low, int partition_high, MPI_Request request) {
    int error = MPI_SUCCESS;
    struct tug_partitioned *mine = ours(request);
    if (mine == NULL)
        return tug_host.Pready_range(partition_low, partition_high, request);
    if (partition_low > partition_high || !tug_partitioned_has(mine, true, partition_low) ||
        !tug_partitioned_has(mine, true, partition_high))
        return tug_host.Pready_range(partition_low, partition_high, tug_partitioned_host(mine));
    for (int i = partition_low; i <= partition_high && error == MPI_SUCCESS; i++)
        error = tug_shim_Pready(i, request);
    return error;
}

int tug_shim_Pready_list(int length, TUG_PARTITIONS, MPI_Request request) {
    int error = MPI_SUCCESS;
    struct tug_partitioned *mine = ours(request);
    if (mine == NULL)
        return tug_host.Pready_list(length, array_of_partitions, request);
    bool has_all = length >= 0 && (length == 0 || array_of_partitions != NULL);
    for (int i = 0; i < length && has_all; i++)
        has_all = tug_partitioned_has(mine, true, array_of_partitions[i]);
    if (!has_all)
        return tug_host.Pready_list(length, array_of_partitions, tug_partitioned_host(mine));
    for (int i = 0; i < length && error == MPI_SUCCESS; i++)
        error = tug_shim_Pready(array_of_partitions[i], request);
    return error;
}

int tug_shim_Parrived(MPI_Request request, int partition, int *flag) {
    struct tug_partitioned *mine = ours(request);
    if (mine != NULL && flag != NULL && tug_partitioned_has(mine, false, partition))
        return tug_partitioned_arrived(mine, partition, flag);
    return tug_shim_helped(
        tug_host.Parrived(mine == NULL ? request : tug_partitioned_host(mine), partition, flag),
        flag);
}

#endif
