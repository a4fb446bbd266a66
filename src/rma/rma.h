/* One one-sided operation: what a command carries, and what the lanes of ours are handed. */
#ifndef TUG_RMA_RMA_H
#define TUG_RMA_RMA_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

struct tug_window;

/* The parameters of any one-sided operation; each family uses its own. */
struct tug_rma {
    struct tug_window *window;
    const void *origin;
    void *result;
    const void *compare;
    MPI_Count origin_count;
    MPI_Count result_count;
    MPI_Count target_count;
    MPI_Aint disp;
    MPI_Request *request;
    MPI_Datatype origin_type;
    MPI_Datatype result_type;
    MPI_Datatype target_type;
    MPI_Op op;
    int target;
    int error;
};

/* Bytes of a window of nranks in the packet lane, of which `active` are used; all else apart. */
size_t tug_remote_footprint(uint64_t nranks, uint64_t active);

/* Makes the request of an operation that is complete, a complete one. */
int tug_rma_complete_request(const struct tug_rma *o);

/* What an operation returns that was not done because an argument is not as MPI wants it: the
 * host, asked to do the same, says what is wrong. Not an MPI error class. */
#define TUG_RMA_REFUSED (-1)

#endif
