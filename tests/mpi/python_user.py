"""A Python program as its author would write it: windows of each kind and synchronisation, on numpy arrays where numpy
is there, and the persistent collectives of mpi4py 4.

    python_user.py

Everything is checked by its data; the last line of rank 0 is `right`, with what this mpi4py or MPI does not have.
"""
from array import array

from mpi4py import MPI

try:
    import numpy
except ImportError:
    numpy = None

comm = MPI.COMM_WORLD
rank, nranks = comm.rank, comm.size
after, before = (rank + 1) % nranks, (rank - 1) % nranks
N = 1000
lacking = []


def numbers(value, n=N):
    return numpy.full(n, value, dtype="d") if numpy is not None else array("d", [value] * n)


def check(there, what):
    if not there:
        print(f"WRONG rank {rank}: {what}", flush=True)
        comm.Abort(1)


def is_all(values, value):
    return all(x == value for x in values)


def epochs(win, mine, what):
    """Mine is the memory of this rank's side of the window, N doubles."""
    out = numbers(float(rank))
    win.Fence()
    win.Put(out, after)
    win.Fence()
    check(is_all(mine, before), f"{what}, Put by fences: {mine[0]} {mine[N - 1]}")
    win.Fence()

    comm.Barrier()
    out = numbers(10.0 + rank)
    win.Lock(after, MPI.LOCK_SHARED)
    win.Put(out, after)
    win.Flush(after)
    got = numbers(-1.0)
    win.Get(got, after)
    win.Flush_local(after)
    check(is_all(got, 10 + rank), f"{what}, Get after Flush: {got[0]}")
    win.Unlock(after)
    comm.Barrier()

    win.Lock_all()
    win.Rput(numbers(20.0 + rank), after).Wait()
    win.Flush_all()
    comm.Barrier()
    got = numbers(-1.0)
    requests = [win.Rget(got, rank)]
    MPI.Request.Waitall(requests)
    check(is_all(got, 20 + before), f"{what}, Rput and Rget: {got[0]}")
    comm.Barrier()
    one = numbers(1.0)
    win.Accumulate(one, 0, op=MPI.SUM)
    win.Raccumulate(one, 0, op=MPI.SUM).Wait()
    win.Flush(0)
    comm.Barrier()
    win.Get(got, 0)
    win.Flush(0)
    check(is_all(got, 20 + (nranks - 1) + 2 * nranks), f"{what}, Accumulate: {got[0]}")
    win.Unlock_all()
    comm.Barrier()

    group = comm.group
    exposed, reached = group.Incl([before]), group.Incl([after])
    out = numbers(30.0 + rank)
    win.Post(exposed)
    win.Start(reached)
    win.Put(out, after)
    win.Complete()
    win.Wait()
    win.Lock(rank, MPI.LOCK_SHARED)
    check(is_all(mine, 30 + before), f"{what}, post, start, complete, wait: {mine[0]}")
    win.Unlock(rank)
    for each in (exposed, reached, group):
        each.Free()
    comm.Barrier()


def as_doubles(win):
    memory = win.tomemory()
    return numpy.frombuffer(memory, dtype="d") if numpy is not None else memoryview(memory).cast("B").cast("d")


def windows():
    win = MPI.Win.Allocate(8 * N, 8, comm=comm)
    epochs(win, as_doubles(win), "Allocate")
    win.Free()
    memory = numbers(0.0)
    win = MPI.Win.Create(memory, 8, comm=comm)
    epochs(win, memory, "Create")
    win.Free()
    check(win == MPI.WIN_NULL, "a freed window is not null")


def persistent(name, *arguments):
    """comm.NAME(...), or None where mpi4py or the MPI does not have it."""
    try:
        return getattr(comm, name)(*arguments)
    except (AttributeError, NotImplementedError):
        lacking.append(name)
        return None


def collectives():
    field, mine, sums, all_of = numbers(0.0), numbers(0.0), numbers(0.0), numbers(0.0, nranks * N)
    requests = {
        "Bcast_init": persistent("Bcast_init", field, nranks - 1),
        "Allreduce_init": persistent("Allreduce_init", mine, sums, MPI.SUM),
        "Allgather_init": persistent("Allgather_init", mine, all_of),
        "Barrier_init": persistent("Barrier_init"),
    }
    there = [r for r in requests.values() if r is not None]
    for turn in range(20):
        field[:] = numbers(float(turn if rank == nranks - 1 else -1))
        mine[:] = numbers(float(rank + turn))
        if turn % 2:
            MPI.Prequest.Startall(there)
            MPI.Request.Waitall(there)
        else:
            for request in there:
                request.Start()
            for request in there:
                request.Wait()
        if requests["Bcast_init"] is not None:
            check(is_all(field, turn), f"Bcast_init {turn}: {field[0]}")
        if requests["Allreduce_init"] is not None:
            check(is_all(sums, nranks * (nranks - 1) // 2 + nranks * turn), f"Allreduce_init {turn}: {sums[0]}")
        if requests["Allgather_init"] is not None:
            check(all(is_all(all_of[N * r:N * (r + 1)], r + turn) for r in range(nranks)), f"Allgather_init {turn}")
    for request in there:
        request.Free()


windows()
collectives()
comm.Barrier()
if rank == 0:
    print("right" + (f"; not there: {', '.join(lacking)}" if lacking else ""))
