! MPI extensions of Tugboat for programs that use mpi_f08. Compile this file with the program's own
! compiler and `use mpix_f08` beside `use mpi_f08`; link -ltugboat ahead of MPI. Programs with mpif.h or
! `use mpi` need no module: `external MPIX_Bcast_init`.
!
! Buffers must be contiguous (simply contiguous in the sense of the standard): the operation outlives the
! call, and a compiler would hand over a temporary copy of anything else.
module mpix_f08
    implicit none
    interface
        subroutine MPIX_Bcast_init(buffer, count, datatype, root, comm, info, request, ierror) &
                bind(C, name="mpix_bcast_init_")
            use mpi_f08, only: MPI_Datatype, MPI_Comm, MPI_Info, MPI_Request
            !GCC$ ATTRIBUTES NO_ARG_CHECK :: buffer
            type(*), dimension(*), asynchronous :: buffer
            integer, intent(in) :: count, root
            type(MPI_Datatype), intent(in) :: datatype
            type(MPI_Comm), intent(in) :: comm
            type(MPI_Info), intent(in) :: info
            type(MPI_Request), intent(out) :: request
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine MPIX_Barrier_init(comm, info, request, ierror) bind(C, &
                name="mpix_barrier_init_")
            use mpi_f08, only: MPI_Comm, MPI_Info, MPI_Request
            type(MPI_Comm), intent(in) :: comm
            type(MPI_Info), intent(in) :: info
            type(MPI_Request), intent(out) :: request
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine MPIX_Allreduce_init(sendbuf, recvbuf, count, datatype, op, comm, info, request, &
                ierror) bind(C, name="mpix_allreduce_init_")
            use mpi_f08, only: MPI_Datatype, MPI_Op, MPI_Comm, MPI_Info, MPI_Request
            !GCC$ ATTRIBUTES NO_ARG_CHECK :: sendbuf, recvbuf
            type(*), dimension(*), asynchronous :: sendbuf, recvbuf
            integer, intent(in) :: count
            type(MPI_Datatype), intent(in) :: datatype
            type(MPI_Op), intent(in) :: op
            type(MPI_Comm), intent(in) :: comm
            type(MPI_Info), intent(in) :: info
            type(MPI_Request), intent(out) :: request
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine MPIX_Reduce_init(sendbuf, recvbuf, count, datatype, op, root, comm, info, &
                request, ierror) bind(C, name="mpix_reduce_init_")
            use mpi_f08, only: MPI_Datatype, MPI_Op, MPI_Comm, MPI_Info, MPI_Request
            !GCC$ ATTRIBUTES NO_ARG_CHECK :: sendbuf, recvbuf
            type(*), dimension(*), asynchronous :: sendbuf, recvbuf
            integer, intent(in) :: count, root
            type(MPI_Datatype), intent(in) :: datatype
            type(MPI_Op), intent(in) :: op
            type(MPI_Comm), intent(in) :: comm
            type(MPI_Info), intent(in) :: info
            type(MPI_Request), intent(out) :: request
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine MPIX_Reduce_scatter_block_init(sendbuf, recvbuf, recvcount, datatype, op, comm, &
                info, request, ierror) bind(C, name="mpix_reduce_scatter_block_init_")
            use mpi_f08, only: MPI_Datatype, MPI_Op, MPI_Comm, MPI_Info, MPI_Request
            !GCC$ ATTRIBUTES NO_ARG_CHECK :: sendbuf, recvbuf
            type(*), dimension(*), asynchronous :: sendbuf, recvbuf
            integer, intent(in) :: recvcount
            type(MPI_Datatype), intent(in) :: datatype
            type(MPI_Op), intent(in) :: op
            type(MPI_Comm), intent(in) :: comm
            type(MPI_Info), intent(in) :: info
            type(MPI_Request), intent(out) :: request
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine MPIX_Reduce_scatter_init(sendbuf, recvbuf, recvcounts, datatype, op, comm, &
                info, request, ierror) bind(C, name="mpix_reduce_scatter_init_")
            use mpi_f08, only: MPI_Datatype, MPI_Op, MPI_Comm, MPI_Info, MPI_Request
            !GCC$ ATTRIBUTES NO_ARG_CHECK :: sendbuf, recvbuf
            type(*), dimension(*), asynchronous :: sendbuf, recvbuf
            integer, intent(in) :: recvcounts(*)
            type(MPI_Datatype), intent(in) :: datatype
            type(MPI_Op), intent(in) :: op
            type(MPI_Comm), intent(in) :: comm
            type(MPI_Info), intent(in) :: info
            type(MPI_Request), intent(out) :: request
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine MPIX_Allgather_init(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, &
                comm, info, request, ierror) bind(C, name="mpix_allgather_init_")
            use mpi_f08, only: MPI_Datatype, MPI_Comm, MPI_Info, MPI_Request
            !GCC$ ATTRIBUTES NO_ARG_CHECK :: sendbuf, recvbuf
            type(*), dimension(*), asynchronous :: sendbuf, recvbuf
            integer, intent(in) :: sendcount, recvcount
            type(MPI_Datatype), intent(in) :: sendtype, recvtype
            type(MPI_Comm), intent(in) :: comm
            type(MPI_Info), intent(in) :: info
            type(MPI_Request), intent(out) :: request
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine MPIX_Allgatherv_init(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, &
                recvtype, comm, info, request, ierror) bind(C, name="mpix_allgatherv_init_")
            use mpi_f08, only: MPI_Datatype, MPI_Comm, MPI_Info, MPI_Request
            !GCC$ ATTRIBUTES NO_ARG_CHECK :: sendbuf, recvbuf
            type(*), dimension(*), asynchronous :: sendbuf, recvbuf
            integer, intent(in) :: sendcount
            integer, intent(in) :: recvcounts(*), displs(*)
            type(MPI_Datatype), intent(in) :: sendtype, recvtype
            type(MPI_Comm), intent(in) :: comm
            type(MPI_Info), intent(in) :: info
            type(MPI_Request), intent(out) :: request
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine MPIX_Gather_init(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, &
                root, comm, info, request, ierror) bind(C, name="mpix_gather_init_")
            use mpi_f08, only: MPI_Datatype, MPI_Comm, MPI_Info, MPI_Request
            !GCC$ ATTRIBUTES NO_ARG_CHECK :: sendbuf, recvbuf
            type(*), dimension(*), asynchronous :: sendbuf, recvbuf
            integer, intent(in) :: sendcount, recvcount, root
            type(MPI_Datatype), intent(in) :: sendtype, recvtype
            type(MPI_Comm), intent(in) :: comm
            type(MPI_Info), intent(in) :: info
            type(MPI_Request), intent(out) :: request
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine MPIX_Gatherv_init(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, &
                recvtype, root, comm, info, request, ierror) bind(C, name="mpix_gatherv_init_")
            use mpi_f08, only: MPI_Datatype, MPI_Comm, MPI_Info, MPI_Request
            !GCC$ ATTRIBUTES NO_ARG_CHECK :: sendbuf, recvbuf
            type(*), dimension(*), asynchronous :: sendbuf, recvbuf
            integer, intent(in) :: sendcount, root
            integer, intent(in) :: recvcounts(*), displs(*)
            type(MPI_Datatype), intent(in) :: sendtype, recvtype
            type(MPI_Comm), intent(in) :: comm
            type(MPI_Info), intent(in) :: info
            type(MPI_Request), intent(out) :: request
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine MPIX_Scatterv_init(sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, &
                recvtype, root, comm, info, request, ierror) bind(C, name="mpix_scatterv_init_")
            use mpi_f08, only: MPI_Datatype, MPI_Comm, MPI_Info, MPI_Request
            !GCC$ ATTRIBUTES NO_ARG_CHECK :: sendbuf, recvbuf
            type(*), dimension(*), asynchronous :: sendbuf, recvbuf
            integer, intent(in) :: recvcount, root
            integer, intent(in) :: sendcounts(*), displs(*)
            type(MPI_Datatype), intent(in) :: sendtype, recvtype
            type(MPI_Comm), intent(in) :: comm
            type(MPI_Info), intent(in) :: info
            type(MPI_Request), intent(out) :: request
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine MPIX_Alltoallv_init(sendbuf, sendcounts, sdispls, sendtype, recvbuf, &
                recvcounts, rdispls, recvtype, comm, info, request, ierror) bind(C, &
                name="mpix_alltoallv_init_")
            use mpi_f08, only: MPI_Datatype, MPI_Comm, MPI_Info, MPI_Request
            !GCC$ ATTRIBUTES NO_ARG_CHECK :: sendbuf, recvbuf
            type(*), dimension(*), asynchronous :: sendbuf, recvbuf
            integer, intent(in) :: sendcounts(*), sdispls(*), recvcounts(*), rdispls(*)
            type(MPI_Datatype), intent(in) :: sendtype, recvtype
            type(MPI_Comm), intent(in) :: comm
            type(MPI_Info), intent(in) :: info
            type(MPI_Request), intent(out) :: request
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine MPIX_Alltoallw_init(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, &
                recvcounts, rdispls, recvtypes, comm, info, request, ierror) bind(C, &
                name="mpix_alltoallw_init_")
            use mpi_f08, only: MPI_Datatype, MPI_Comm, MPI_Info, MPI_Request
            !GCC$ ATTRIBUTES NO_ARG_CHECK :: sendbuf, recvbuf
            type(*), dimension(*), asynchronous :: sendbuf, recvbuf
            integer, intent(in) :: sendcounts(*), sdispls(*), recvcounts(*), rdispls(*)
            type(MPI_Datatype), intent(in) :: sendtypes(*), recvtypes(*)
            type(MPI_Comm), intent(in) :: comm
            type(MPI_Info), intent(in) :: info
            type(MPI_Request), intent(out) :: request
            integer, optional, intent(out) :: ierror
        end subroutine
        subroutine MPIX_Neighbor_alltoallw_init(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, &
                recvcounts, rdispls, recvtypes, comm, info, request, ierror) bind(C, &
                name="mpix_neighbor_alltoallw_init_")
            use mpi_f08, only: MPI_ADDRESS_KIND, MPI_Datatype, MPI_Comm, MPI_Info, MPI_Request
            !GCC$ ATTRIBUTES NO_ARG_CHECK :: sendbuf, recvbuf
            type(*), dimension(*), asynchronous :: sendbuf, recvbuf
            integer, intent(in) :: sendcounts(*), recvcounts(*)
            integer(MPI_ADDRESS_KIND), intent(in) :: sdispls(*), rdispls(*)
            type(MPI_Datatype), intent(in) :: sendtypes(*), recvtypes(*)
            type(MPI_Comm), intent(in) :: comm
            type(MPI_Info), intent(in) :: info
            type(MPI_Request), intent(out) :: request
            integer, optional, intent(out) :: ierror
        end subroutine
    end interface

    ! with the same arguments as others
    procedure(MPIX_Allreduce_init), bind(C, name="mpix_scan_init_") :: MPIX_Scan_init
    procedure(MPIX_Allreduce_init), bind(C, name="mpix_exscan_init_") :: MPIX_Exscan_init
    procedure(MPIX_Gather_init), bind(C, name="mpix_scatter_init_") :: MPIX_Scatter_init
    procedure(MPIX_Allgather_init), bind(C, name="mpix_alltoall_init_") :: MPIX_Alltoall_init
    procedure(MPIX_Allgather_init), bind(C, name="mpix_neighbor_allgather_init_") :: &
            MPIX_Neighbor_allgather_init
    procedure(MPIX_Allgatherv_init), bind(C, name="mpix_neighbor_allgatherv_init_") :: &
            MPIX_Neighbor_allgatherv_init
    procedure(MPIX_Allgather_init), bind(C, name="mpix_neighbor_alltoall_init_") :: &
            MPIX_Neighbor_alltoall_init
    procedure(MPIX_Alltoallv_init), bind(C, name="mpix_neighbor_alltoallv_init_") :: &
            MPIX_Neighbor_alltoallv_init
end module mpix_f08
