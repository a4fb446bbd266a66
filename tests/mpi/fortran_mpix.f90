! fortran_mpix: MPIX_BCAST_INIT and MPIX_ALLREDUCE_INIT from Fortran, which only exist with the library
! loaded.
!
! An external procedure without an interface, as old programs would declare it; requests are
! started and completed with the MPI's own calls.
program fortran_mpix
    use mpi
    implicit none
    external :: MPIX_BCAST_INIT, MPIX_ALLREDUCE_INIT
    integer, parameter :: n = 50000
    integer :: rank, nranks, ierr, request, round, i
    real :: field(n)
    integer, asynchronous :: sums(3)

    call MPI_INIT(ierr)
    call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
    call MPI_COMM_SIZE(MPI_COMM_WORLD, nranks, ierr)
    call MPIX_BCAST_INIT(field, n, MPI_REAL, nranks - 1, MPI_COMM_WORLD, MPI_INFO_NULL, request, &
                         ierr)
    if (ierr /= MPI_SUCCESS) call wrong(1)
    do round = 1, 10
        field = -1
        if (rank == nranks - 1) field = [(real(round) + 0.25 * real(i), i = 1, n)]
        call MPI_START(request, ierr)
        call MPI_WAIT(request, MPI_STATUS_IGNORE, ierr)
        do i = 1, n
            if (field(i) /= real(round) + 0.25 * real(i)) call wrong(2)
        end do
    end do
    call MPI_REQUEST_FREE(request, ierr)
    if (request /= MPI_REQUEST_NULL) call wrong(3)

    call MPIX_ALLREDUCE_INIT(MPI_IN_PLACE, sums, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, &
                             MPI_INFO_NULL, request, ierr)
    if (ierr /= MPI_SUCCESS) call wrong(4)
    do round = 1, 10
        sums = [rank, round, 1]
        call MPI_START(request, ierr)
        call MPI_WAIT(request, MPI_STATUS_IGNORE, ierr)
        if (any(sums /= [nranks * (nranks - 1) / 2, nranks * round, nranks])) call wrong(5)
    end do
    call MPI_REQUEST_FREE(request, ierr)
    call MPI_FINALIZE(ierr)
    if (rank == 0) print '(a)', 'right'

contains

    subroutine wrong(what)
        integer, intent(in) :: what
        integer :: ignored
        print '(a,i0,a,i0)', 'WRONG rank ', rank, ', check ', what
        call MPI_ABORT(MPI_COMM_WORLD, 1, ignored)
    end subroutine wrong
end program fortran_mpix
