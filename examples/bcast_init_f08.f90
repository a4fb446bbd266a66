! MPIX_Bcast_init from Fortran 2008. Compile mpix_f08.f90, which is installed beside the C headers,
! with the compiler of the program.
program bcast_init_f08
    use mpi_f08
    use mpix_f08
    implicit none
    integer, parameter :: steps = 5, numbers = 1000
    real(kind(1d0)), asynchronous :: data(numbers)
    type(MPI_Request) :: request
    integer :: rank, step
    logical :: wrong = .false.

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPIX_Bcast_init(data, numbers, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, MPI_INFO_NULL, request)
    do step = 1, steps
        if (rank == 0) data = step
        call MPI_Start(request)
        call MPI_Wait(request, MPI_STATUS_IGNORE)
        if (any(data /= step)) wrong = .true.
    end do
    call MPI_Request_free(request)
    if (wrong) call MPI_Abort(MPI_COMM_WORLD, 1)
    if (rank == 0) print '(i0, a)', steps, ' broadcasts arrived'
    call MPI_Finalize()
end program
