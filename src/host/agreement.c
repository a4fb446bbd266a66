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
