#include "host/agreement.h"

#include "host/host.h"
#include "host/polite.h"

int tug_agree(MPI_Comm comm, MPI_Op how, int64_t words[], int n) {
    return TUG_POLITE(Iallreduce, MPI_IN_PLACE, words, n, MPI_INT64_T, how, comm);
}

bool tug_all_agree(MPI_Comm comm, bool mine) {
    int64_t refused = !mine;
    return tug_agree(comm, MPI_MAX, &refused, 1) == MPI_SUCCESS && !refused;
}

bool tug_host_has_comms(MPI_Comm comm, int n) {
    MPI_Comm probe;
    if (n == 0)
        return true;
    if (tug_host.Comm_dup(comm, &probe) != MPI_SUCCESS)
        return false;
    const bool has = tug_host_has_comms(comm, n - 1);
    tug_host.Comm_free(&probe);
    return has;
}
