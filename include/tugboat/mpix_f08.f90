! MPI extensions of Tugboat for programs that use mpi_f08. Compile this file with the program's own
! compiler and `use mpix_f08` beside `use mpi_f08`; link -ltugboat ahead of MPI. Programs with mpif.h or
! `use mpi` need no module: `external MPIX_Bcast_init`.
!
! buffer must be contiguous (simply contiguous in the sense of the standard): the operation outlives the
! call, and a compiler would hand over a temporary copy of anything else.
module mpix_f08
    implicit none
    interface
        subroutine MPIX_Bcast_init(buffer, count, datatype, root, comm, info, request, ierror) &
                bind(C, name="mpix_bcast_init_")
            use mpi_f08, only: MPI_Datatype, MPI_Comm, MPI_Info, MPI_Request
            !GCC$ ATTRIBUTES NO_ARG_CHECK :: buffer
            type(*), dimension(*), asynchronous :: buffer
            integer, intent(in) :: count
            type(MPI_Datatype), intent(in) :: datatype
            integer, intent(in) :: root
            type(MPI_Comm), intent(in) :: comm
            type(MPI_Info), intent(in) :: info
            type(MPI_Request), intent(out) :: request
            integer, optional, intent(out) :: ierror
        end subroutine
    end interface
end module mpix_f08
