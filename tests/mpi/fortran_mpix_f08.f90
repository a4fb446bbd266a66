! fortran_mpix_f08: MPIX_Bcast_init through the module that is installed beside the C headers, and the
! attributes of a window as Fortran reads them (the bindings do not come by C's MPI_Win_get_attr).
program fortran_mpix_f08
    use, intrinsic :: iso_c_binding, only: c_ptr
    use mpi_f08
    use mpix_f08
    implicit none
    integer, parameter :: n = 30000
    integer, asynchronous :: field(n), all(2)
    integer, allocatable :: counts(:), displs(:), from(:), to(:)
    integer :: rank, nranks, round, i
    integer(MPI_ADDRESS_KIND) :: value
    logical :: there
    type(MPI_Request) :: request
    type(MPI_Win) :: window
    type(c_ptr) :: memory

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, nranks)
    call MPIX_Bcast_init(field, n, MPI_INTEGER, nranks - 1, MPI_COMM_WORLD, MPI_INFO_NULL, request)
    do round = 1, 10
        field = -1
        if (rank == nranks - 1) field = [(round * n + i, i = 1, n)]
        call MPI_Start(request)
        call MPI_Wait(request, MPI_STATUS_IGNORE)
        do i = 1, n
            if (field(i) /= round * n + i) call wrong(1)
        end do
    end do
    call MPI_Request_free(request)
    if (request /= MPI_REQUEST_NULL) call wrong(2)

    call MPIX_Allreduce_init(MPI_IN_PLACE, all, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, &
                             MPI_INFO_NULL, request)
    all = [rank, 1]
    call MPI_Start(request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    if (any(all /= [nranks * (nranks - 1) / 2, nranks])) call wrong(5)
    call MPI_Request_free(request)

    allocate (from(nranks), to(nranks))
    counts = [(1, i = 1, nranks)]
    displs = [(i - 1, i = 1, nranks)]
    call MPIX_Alltoallv_init(from, counts, displs, MPI_INTEGER, to, counts, displs, MPI_INTEGER, &
                             MPI_COMM_WORLD, MPI_INFO_NULL, request)
    from = [(100 * rank + i, i = 1, nranks)]
    call MPI_Start(request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    if (any(to /= [(100 * (i - 1) + rank + 1, i = 1, nranks)])) call wrong(6)
    call MPI_Request_free(request)

    call MPIX_Scan_init(MPI_IN_PLACE, all, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, &
                        MPI_INFO_NULL, request)
    all = [rank, 1]
    call MPI_Start(request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    if (any(all /= [rank * (rank + 1) / 2, rank + 1])) call wrong(10)
    call MPI_Request_free(request)

    call MPI_Win_allocate(13_MPI_ADDRESS_KIND, 1, MPI_INFO_NULL, MPI_COMM_WORLD, memory, window)
    call MPI_Win_get_attr(window, MPI_WIN_SIZE, value, there)
    if (.not. there .or. value /= 13) call wrong(3)
    call MPI_Win_get_attr(window, MPI_WIN_DISP_UNIT, value, there)
    if (.not. there .or. value /= 1) call wrong(4)
    call MPI_Win_get_attr(window, MPI_WIN_BASE, value, there)
    if (.not. there .or. value /= transfer(memory, value)) call wrong(7)
    call MPI_Win_get_attr(window, MPI_WIN_CREATE_FLAVOR, value, there)
    if (.not. there .or. value /= MPI_WIN_FLAVOR_ALLOCATE) call wrong(8)
    call MPI_Win_get_attr(window, MPI_WIN_MODEL, value, there)
    if (.not. there .or. (value /= MPI_WIN_UNIFIED .and. value /= MPI_WIN_SEPARATE)) call wrong(9)
    call MPI_Win_free(window)
    call MPI_Finalize()
    if (rank == 0) print '(a)', 'right'

contains

    subroutine wrong(what)
        integer, intent(in) :: what
        print '(a,i0,a,i0)', 'WRONG rank ', rank, ', check ', what
        call MPI_Abort(MPI_COMM_WORLD, 1)
    end subroutine wrong
end program fortran_mpix_f08
