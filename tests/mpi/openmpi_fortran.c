/*
 * openmpi_fortran: MPI_BCAST_INIT for Fortran test programs, where the host (Open MPI 4.1) has it
 * by another name.
 */
#include <mpi.h>
#include <stddef.h>

typedef void bcast_init(void *buffer, MPI_Fint *count, MPI_Fint *type, MPI_Fint *root,
                        MPI_Fint *comm, MPI_Fint *info, MPI_Fint *request, MPI_Fint *error);
bcast_init mpi_bcast_init_, mpix_bcast_init_;

#if OMPI_MAJOR_VERSION < 5

/* mpi_f08 may leave the error out: a null pointer, which the extension's entry does not expect. */
void mpi_bcast_init_(void *buffer, MPI_Fint *count, MPI_Fint *type, MPI_Fint *root, MPI_Fint *comm,
                     MPI_Fint *info, MPI_Fint *request, MPI_Fint *error) {
    MPI_Fint ignored;
    mpix_bcast_init_(buffer, count, type, root, comm, info, request,
                     error != NULL ? error : &ignored);
}

#endif
