! fortran_f08: one-sided calls and persistent broadcasts through use mpi_f08.
!
! In this binding calls with choice buffers reach C by another way than the others do: a library
! that saw the put and not the flush would be silently wrong, so every kind of synchronisation
! follows a put here. Sections of arrays that are not contiguous are put, got and broadcast, calls
! are made without the optional error argument, and MPI_ALLOC_MEM's pointers come back as c_ptr.
! The same holds for calls that wait, which between nodes are done otherwise while a window is open.
!
! Open MPI's module has no interface for a broadcast of a section that is made beforehand (5.0), or
! none for any (4.1). -DTUG_INIT=1 makes that one with a vector type, -DTUG_INIT=0 makes none.
#ifndef TUG_INIT
#define TUG_INIT 2
#endif
program fortran_f08
    use mpi_f08
    use, intrinsic :: iso_c_binding
    implicit none
    integer, parameter :: n = 64
    integer :: rank, nranks, right, left, i, round, flavor
    type(MPI_Win) :: win
    type(MPI_Request) :: requests(3)
    type(MPI_Status) :: statuses(3)
    type(MPI_Info) :: info
    type(c_ptr) :: memory
    integer, pointer :: window(:)
    integer, asynchronous :: out(n), got(n), matrix(8, n)
    integer(kind=MPI_ADDRESS_KIND) :: bytes, zero, value
    logical :: flag

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, nranks)
    right = mod(rank + 1, nranks)
    left = mod(rank + nranks - 1, nranks)
    bytes = 4 * n
    zero = 0
    call MPI_Info_create(info)
    call MPI_Info_set(info, 'no_locks', 'false')
    call MPI_Win_allocate(bytes, 4, info, MPI_COMM_WORLD, memory, win)
    call MPI_Info_free(info)
    call c_f_pointer(memory, window, [n])
    call MPI_Win_get_attr(win, MPI_WIN_SIZE, value, flag)
    call check(flag .and. value == bytes, 1)
    call MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, value, flag)
    flavor = int(value)
    call check(flag .and. flavor == MPI_WIN_FLAVOR_ALLOCATE, 2)

    do round = 1, 8
        call synchronised_put(round)
    end do
    call sections()
    call atomics()
    call request_based()
    call waits()
    call MPI_Win_free(win)
    call waits()
#if TUG_INIT > 0
    call broadcasts()
#endif
    call MPI_Finalize()
    if (rank == 0) print '(a)', 'right'

contains

    subroutine check(good, what)
        logical, intent(in) :: good
        integer, intent(in) :: what
        if (good) return
        print '(a,i0,a,i0)', 'WRONG rank ', rank, ', check ', what
        call MPI_Abort(MPI_COMM_WORLD, 1)
    end subroutine check

    subroutine waits()
        integer :: total, bytes
        type(MPI_Comm) :: comm
        type(MPI_Message) :: message
        type(MPI_Request) :: request
        call MPI_Barrier(MPI_COMM_WORLD)
        call MPI_Comm_dup(MPI_COMM_WORLD, comm)
        total = rank + 1
        call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_SUM, comm)
        call check(total == nranks * (nranks + 1) / 2, 70)
        out = 1000 + rank
        got = -1
        call MPI_Sendrecv(out, n, MPI_INTEGER, right, 5, got, n, MPI_INTEGER, left, 5, comm, statuses(1))
        call check(all(got == 1000 + left) .and. statuses(1)%MPI_SOURCE == left, 71)
        call MPI_Isend(out, n, MPI_INTEGER, right, 6, comm, request)
        call MPI_Probe(left, 6, comm, statuses(1))
        call MPI_Get_count(statuses(1), MPI_BYTE, bytes)
        call check(bytes == 4 * n .and. statuses(1)%MPI_TAG == 6, 72)
        call MPI_Mprobe(MPI_ANY_SOURCE, 6, comm, message, statuses(1))
        got = -1
        call MPI_Mrecv(got, n, MPI_INTEGER, message, statuses(1))
        call check(all(got == 1000 + left) .and. statuses(1)%MPI_SOURCE == left, 73)
        call MPI_Wait(request, MPI_STATUS_IGNORE)
        got = -1
        if (mod(rank, 2) == 0 .and. nranks > 1) call MPI_Send(out, n, MPI_INTEGER, right, 7, comm)
        if (nranks > 1) call MPI_Recv(got, n, MPI_INTEGER, left, 7, comm, MPI_STATUS_IGNORE)
        if (mod(rank, 2) == 1) call MPI_Send(out, n, MPI_INTEGER, right, 7, comm)
        if (nranks > 1) call check(all(got == 1000 + left), 74)
        call MPI_Comm_free(comm)
    end subroutine waits

    ! A put, then each way to complete it; the origin's array changes at once afterwards.
    subroutine synchronised_put(round)
        integer, intent(in) :: round
        type(MPI_Group) :: everybody
        do i = 1, n
            out(i) = 10000 * round + 100 * rank + i
        end do
        select case (round)
        case (1)
            call MPI_Win_fence(0, win)
            call MPI_Put(out, n, MPI_INTEGER, right, zero, n, MPI_INTEGER, win)
            call MPI_Win_fence(MPI_MODE_NOSUCCEED, win)
        case (2)
            call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win)
            call MPI_Put(out, n, MPI_INTEGER, right, zero, n, MPI_INTEGER, win)
            call MPI_Win_unlock(right, win)
        case (3)
            call MPI_Win_lock_all(0, win)
            call MPI_Put(out, n, MPI_INTEGER, right, zero, n, MPI_INTEGER, win)
            call MPI_Win_flush(right, win)
            call MPI_Barrier(MPI_COMM_WORLD)
            call MPI_Win_sync(win)
            call check(window(n) == 10000 * round + 100 * left + n, 20 + round)
            call MPI_Barrier(MPI_COMM_WORLD)
            call MPI_Win_unlock_all(win)
        case (4)
            call MPI_Win_lock_all(0, win)
            call MPI_Put(out, n, MPI_INTEGER, right, zero, n, MPI_INTEGER, win)
            call MPI_Win_flush_all(win)
            out = -1
            call MPI_Win_unlock_all(win)
        case (5)
            call MPI_Win_lock_all(0, win)
            call MPI_Put(out, n, MPI_INTEGER, right, zero, n, MPI_INTEGER, win)
            call MPI_Win_flush_local(right, win)
            out = -1
            call MPI_Win_unlock_all(win)
        case (6)
            call MPI_Win_lock_all(0, win)
            call MPI_Put(out, n, MPI_INTEGER, right, zero, n, MPI_INTEGER, win)
            call MPI_Win_flush_local_all(win)
            out = -1
            call MPI_Win_unlock_all(win)
        case (7)
            call MPI_Comm_group(MPI_COMM_WORLD, everybody)
            call MPI_Win_post(everybody, 0, win)
            call MPI_Win_start(everybody, 0, win)
            call MPI_Put(out, n, MPI_INTEGER, right, zero, n, MPI_INTEGER, win)
            call MPI_Win_complete(win)
            call MPI_Win_wait(win)
            call MPI_Group_free(everybody)
        case default
            call MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win)
            call MPI_Accumulate(out, n, MPI_INTEGER, right, zero, n, MPI_INTEGER, MPI_REPLACE, win)
            call MPI_Win_unlock(right, win)
        end select
        call MPI_Barrier(MPI_COMM_WORLD)
        call MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win)
        do i = 1, n
            call check(window(i) == 10000 * round + 100 * left + i, 10 + round)
        end do
        call MPI_Win_unlock(rank, win)
        call MPI_Barrier(MPI_COMM_WORLD)
    end subroutine synchronised_put

    ! Every fourth element goes out, and comes back into a row of a matrix.
    subroutine sections()
        integer, parameter :: m = n / 4
        do i = 1, n
            out(i) = 7000 + 100 * rank + i
        end do
        matrix = -3
        call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win)
        call MPI_Put(out(2:n:4), m, MPI_INTEGER, right, zero, m, MPI_INTEGER, win)
        call MPI_Win_flush(right, win)
        call MPI_Get(matrix(5, 1:m), m, MPI_INTEGER, right, zero, m, MPI_INTEGER, win)
        call MPI_Win_unlock(right, win)
        call MPI_Barrier(MPI_COMM_WORLD)
        do i = 1, m
            call check(window(i) == 7000 + 100 * left + 4 * i - 2, 30)
            call check(matrix(5, i) == 7000 + 100 * rank + 4 * i - 2, 31)
        end do
        call check(count(matrix /= -3) == m, 32)
        call MPI_Barrier(MPI_COMM_WORLD)
    end subroutine sections

    subroutine atomics()
        integer, asynchronous :: one, was, compare
        call MPI_Barrier(MPI_COMM_WORLD)
        call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win)
        window = 0
        call MPI_Win_unlock(rank, win)
        call MPI_Barrier(MPI_COMM_WORLD)
        one = 1
        call MPI_Win_lock_all(0, win)
        do i = 1, 10
            call MPI_Fetch_and_op(one, was, MPI_INTEGER, right, zero, MPI_SUM, win)
            call MPI_Win_flush(right, win)
            call check(was == i - 1, 40)
        end do
        compare = 10
        one = 4711
        call MPI_Compare_and_swap(one, compare, was, MPI_INTEGER, right, zero, win)
        call MPI_Win_flush(right, win)
        call check(was == 10, 41)
        call MPI_Get_accumulate(out, 0, MPI_INTEGER, was, 1, MPI_INTEGER, right, zero, 1, &
                                MPI_INTEGER, MPI_NO_OP, win)
        call MPI_Win_flush(right, win)
        call check(was == 4711, 42)
        call MPI_Win_unlock_all(win)
        call MPI_Barrier(MPI_COMM_WORLD)
    end subroutine atomics

    subroutine request_based()
        do i = 1, n
            out(i) = 100 * rank + i
        end do
        call MPI_Win_lock_all(0, win)
        call MPI_Rput(out, n, MPI_INTEGER, right, zero, n, MPI_INTEGER, win, requests(1))
        call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
        call check(requests(1) == MPI_REQUEST_NULL, 50)
        call MPI_Win_flush(right, win)
        got = -1
        call MPI_Rget(got, n, MPI_INTEGER, right, zero, n, MPI_INTEGER, win, requests(1))
        flag = .false.
        do while (.not. flag)
            call MPI_Test(requests(1), flag, statuses(1))
        end do
        call MPI_Win_unlock_all(win)
        call check(all(got == out), 51)
        call MPI_Barrier(MPI_COMM_WORLD)
    end subroutine request_based

#if TUG_INIT > 0
    ! Two of ours and a message in one array; one of the broadcasts goes into a section.
    subroutine broadcasts()
        integer, asynchronous :: wide(3 * n), message
        type(MPI_Request) :: sent, active(3)
#if TUG_INIT == 1
        type(MPI_Datatype) :: section
#endif
        call MPI_Bcast_init(out, n, MPI_INTEGER, 0, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
#if TUG_INIT > 1
        call MPI_Bcast_init(wide(1:3 * n:3), n, MPI_INTEGER, nranks - 1, MPI_COMM_WORLD, &
                            MPI_INFO_NULL, requests(2))
#else
        call MPI_Type_vector(n, 1, 3, MPI_INTEGER, section)
        call MPI_Type_commit(section)
        call MPI_Bcast_init(wide, 1, section, nranks - 1, MPI_COMM_WORLD, MPI_INFO_NULL, &
                            requests(2))
#endif
        do round = 1, 8
            out = -1
            wide = -1
            message = -1
            if (rank == 0) out = [(100 * round + i, i = 1, n)]
            if (rank == nranks - 1) wide(1:3 * n:3) = [(200 * round + i, i = 1, n)]
            call MPI_Irecv(message, 1, MPI_INTEGER, left, 9, MPI_COMM_WORLD, requests(3))
            if (mod(round, 2) == 0) then
                call MPI_Startall(2, requests(1:2))
            else
                call MPI_Start(requests(1))
                call MPI_Start(requests(2))
            end if
            call MPI_Isend(round, 1, MPI_INTEGER, right, 9, MPI_COMM_WORLD, sent)
            active = requests
            select case (mod(round, 4))
            case (0)
                call MPI_Waitall(3, active, statuses)
            case (1)
                call MPI_Waitall(3, active, MPI_STATUSES_IGNORE)
            case (2)
                do i = 1, 3
                    call MPI_Wait(active(i), statuses(i))
                end do
            case default
                ! Not MPI_Waitany: MPICH 4.0.2 gives C's index here.
                do i = 3, 1, -1
                    flag = .false.
                    do while (.not. flag)
                        call MPI_Test(active(i), flag, statuses(i))
                    end do
                end do
            end select
            call MPI_Wait(sent, MPI_STATUS_IGNORE)
            call check(message == round, 61)
            do i = 1, n
                call check(out(i) == 100 * round + i, 62)
                call check(wide(3 * i - 2) == 200 * round + i, 63)
            end do
            call check(count(wide /= -1) == n, 64)
        end do
        call MPI_Request_free(requests(1))
        call MPI_Request_free(requests(2))
#if TUG_INIT == 1
        call MPI_Type_free(section)
#endif
        call check(requests(1) == MPI_REQUEST_NULL, 65)
    end subroutine broadcasts
#endif
end program fortran_f08
