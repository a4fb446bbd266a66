/* <mpi.h> for the library's own sources, where the host is Open MPI 4.1 or 5.0.
 *
 * The sources are written for MPI 4 and link no MPI. Open MPI 4.1 is MPI 3.1, 5.0 has a part of
 * MPI 4, and their predefined handles are addresses of objects in their library: a reference to one
 * would keep a process without MPI, which inherits LD_PRELOAD, from loading ours. So here
 *
 * - predefined handles are read from a table that is filled when the host is found (host.c);
 * - what MPI 4 adds is declared, with the types of Open MPI 5.0, whose header has a part of it
 *   already: C lets the same be declared twice. Of its functions those that the library calls have
 *   a stand-in (stand_ins.c), for a host that lacks them. No program can call the large-count ones,
 *   which are not exported (cmake/exports.cmake).
 *
 * A library that was compiled with the header of one of the two runs on both: they have the same
 * binary interface, but for what 5.0 adds, and that is looked for at run time.
 *
 * Programs, tests and benchmarks include the host's own header.
 */
#ifndef TUG_HOST_OPENMPI_MPI_H
#define TUG_HOST_OPENMPI_MPI_H

#include_next <mpi.h>

/* ---- predefined handles ---- */

/* NULL before the host is found, and for what it lacks. */
struct tug_openmpi_objects {
#define TUG_OPENMPI_OBJECT(symbol) void *symbol;
#include "host/openmpi/objects.def"
};
extern struct tug_openmpi_objects tug_openmpi;

#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, symbol) ((type)tug_openmpi.symbol)

#undef MPI_COMM_NULL_COPY_FN
#undef MPI_COMM_NULL_DELETE_FN
#undef MPI_TYPE_NULL_COPY_FN
#define MPI_COMM_NULL_COPY_FN                                                                      \
    ((MPI_Comm_copy_attr_function *)tug_openmpi.OMPI_C_MPI_COMM_NULL_COPY_FN)
#define MPI_COMM_NULL_DELETE_FN                                                                    \
    ((MPI_Comm_delete_attr_function *)tug_openmpi.OMPI_C_MPI_COMM_NULL_DELETE_FN)
#define MPI_TYPE_NULL_COPY_FN                                                                      \
    ((MPI_Type_copy_attr_function *)tug_openmpi.OMPI_C_MPI_TYPE_NULL_COPY_FN)

/* ---- MPI 4 ---- */

typedef struct ompi_instance_t *MPI_Session;

#define TUG_CALL(Name, parameters, arguments)                                                      \
    int MPI_##Name parameters;                                                                     \
    int PMPI_##Name parameters;
#include "host/calls.def"

int PMPI_Get_count_c(const MPI_Status *status, MPI_Datatype datatype, MPI_Count *count);
int PMPI_Imrecv_c(void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Message *message,
                  MPI_Request *request);
int PMPI_Irecv_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                 MPI_Comm comm, MPI_Request *request);
int PMPI_Pack_c(const void *inbuf, MPI_Count incount, MPI_Datatype datatype, void *outbuf,
                MPI_Count outsize, MPI_Count *position, MPI_Comm comm);
int PMPI_Pack_size_c(MPI_Count incount, MPI_Datatype datatype, MPI_Comm comm, MPI_Count *size);
int PMPI_Recv_init_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                     MPI_Comm comm, MPI_Request *request);
int PMPI_Reduce_local_c(const void *inbuf, void *inoutbuf, MPI_Count count, MPI_Datatype datatype,
                        MPI_Op op);
int PMPI_Type_get_contents_c(MPI_Datatype datatype, MPI_Count max_integers, MPI_Count max_addresses,
                             MPI_Count max_large_counts, MPI_Count max_datatypes,
                             int array_of_integers[], MPI_Aint array_of_addresses[],
                             MPI_Count array_of_large_counts[], MPI_Datatype array_of_datatypes[]);
int PMPI_Type_get_envelope_c(MPI_Datatype datatype, MPI_Count *num_integers,
                             MPI_Count *num_addresses, MPI_Count *num_large_counts,
                             MPI_Count *num_datatypes, int *combiner);
int PMPI_Type_get_extent_c(MPI_Datatype datatype, MPI_Count *lb, MPI_Count *extent);
int PMPI_Type_get_true_extent_c(MPI_Datatype datatype, MPI_Count *true_lb, MPI_Count *true_extent);
int PMPI_Type_size_c(MPI_Datatype datatype, MPI_Count *size);
int PMPI_Unpack_c(const void *inbuf, MPI_Count insize, MPI_Count *position, void *outbuf,
                  MPI_Count outcount, MPI_Datatype datatype, MPI_Comm comm);

#endif
