"""One-sided operations, persistent collectives and requests of a Python program (mpi4py 3 or 4).

    python_calls.py host|tug

tug: windows have to be in a lane of the library's, and a target that makes no MPI call is served. mpi4py below
4.0 knows no persistent collectives: they are called by their C names then, with requests that mpi4py completes.
Everything is checked by its data; the last line is `right`.
"""
import array
import ctypes
import sys
import threading
import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, nranks = comm.rank, comm.size
under_tug = sys.argv[1] == "tug"
after, before = (rank + 1) % nranks, (rank - 1) % nranks


def check(there, what):
    if not there:
        print(f"WRONG rank {rank}: {what}", flush=True)
        comm.Abort(1)


def lane_of(win):
    info = win.Get_info()
    lane = info.Get("tugboat_lane")
    info.Free()
    return lane


kept = []  # what an operation may still read: mpi4py holds no origin buffer until the next synchronisation


def longs(*values):
    kept.append(array.array("q", values))
    return kept[-1]


# ---- one-sided operations ----

def check_window(win, what):
    """Eight 64-bit words of each rank; its own memory is set and read by the window's calls only."""
    if under_tug:
        check(lane_of(win) in ("direct", "packet"), f"{what}: lane {lane_of(win)}")
    zero = longs(*[0] * 8)
    win.Lock_all()
    win.Put(zero, rank)
    win.Flush(rank)
    comm.Barrier()

    win.Put(longs(100 + rank), after, target=(0, 1, MPI.LONG_LONG))
    request = win.Rput(longs(200 + rank, 300 + rank), after, target=(8, 2, MPI.LONG_LONG))
    request.Wait()
    win.Accumulate(longs(rank + 1), 0, target=(24, 1, MPI.LONG_LONG), op=MPI.SUM)
    old = longs(-1)
    win.Fetch_and_op(longs(1), old, 0, target_disp=32, op=MPI.SUM)
    win.Flush_all()
    check(0 <= old[0] < nranks, f"{what}: Fetch_and_op brought {old[0]}")
    if under_tug: # Open MPI 4.1.4 alone crashes
        found = longs(-1)
        win.Compare_and_swap(longs(rank + 1), longs(0), found, 0, target_disp=40)
        win.Flush(0)
        check(0 <= found[0] <= nranks, f"{what}: Compare_and_swap found {found[0]}")
    comm.Barrier()

    got = longs(*[-1] * 8)
    requests = [win.Rget(memoryview(got)[i:i + 1], rank,
                         target=(8 * i, 1, MPI.LONG_LONG)) for i in range(3)]
    MPI.Request.Waitall(requests)
    check(list(got[:3]) == [100 + before, 200 + before, 300 + before], f"{what}: got {list(got[:3])}")
    win.Get(got, 0)
    win.Flush(0)
    check(got[3] == nranks * (nranks + 1) // 2, f"{what}: the sum is {got[3]}")
    check(got[4] == nranks, f"{what}: the counter is {got[4]}")
    check(not under_tug or 1 <= got[5] <= nranks, f"{what}: who was first is {got[5]}")
    win.Unlock_all()
    comm.Barrier()

    # a pattern that changes, by fences
    for turn in range(5):
        win.Fence()
        win.Put(longs(*[1000 * turn + 10 * rank + i for i in range(8)]), after)
        win.Fence()
        win.Lock(rank, MPI.LOCK_SHARED)
        win.Get(got, rank)
        win.Unlock(rank)
        check(list(got) == [1000 * turn + 10 * before + i for i in range(8)], f"{what}: fence {turn}: {list(got)}")
        comm.Barrier()


def check_busy_target(win, memory):
    """Rank 1 makes no MPI call until the others' word is there."""
    word = memoryview(memory).cast("B").cast("q")
    win.Lock_all()
    if rank == 1:
        while word[7] != 4711:
            time.sleep(0.001)
    elif rank == 0:
        win.Put(longs(4711), 1, target=(56, 1, MPI.LONG_LONG))
        win.Flush(1)
    win.Unlock_all()
    comm.Barrier()


def check_threads(win):
    """Several Python threads at one window; the interpreter's lock lets one in at a time, in any order."""
    def work(thread):
        for i in range(200):
            win.Accumulate(longs(1), i % nranks, target=(8 * thread, 1, MPI.LONG_LONG))
            if i % 16 == 0:
                win.Flush_all()
        win.Flush_all()

    win.Lock_all()
    win.Put(longs(*[0] * 8), rank)
    win.Flush(rank)
    comm.Barrier()
    threads = [threading.Thread(target=work, args=(t,)) for t in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    comm.Barrier()
    got = longs(*[-1] * 8)
    win.Get(got, rank)
    win.Flush(rank)
    want = nranks * len([i for i in range(200) if i % nranks == rank])
    check(list(got[:3]) == [want] * 3, f"threads: {list(got[:3])}, not {want}")
    win.Unlock_all()
    comm.Barrier()


def windows():
    win = MPI.Win.Allocate(64, 1, comm=comm)
    check_window(win, "Allocate")
    if MPI.Query_thread() == MPI.THREAD_MULTIPLE:
        check_threads(win)
    if under_tug and nranks > 1:
        check_busy_target(win, win)
    win.Free()
    # created windows of Open MPI 4.1 alone crash on one node, and are not there for one rank or between nodes
    if under_tug:
        memory = bytearray(64)
        win = MPI.Win.Create(memory, 1, comm=comm)
        check_window(win, "Create")
        if nranks > 1:
            check_busy_target(win, memory)
        win.Free()


# ---- persistent collectives ----

def persistent(name, *arguments):
    """A request of the C function of that name; arguments end before the communicator."""
    # the second is for an mpi4py that keeps MPI to itself
    function = next(f for where in (None, MPI.__file__) for prefix in ("MPI_", "MPIX_")
                    if (f := getattr(ctypes.CDLL(where), prefix + name, None)) is not None)
    handle = ctypes.c_void_p if MPI._sizeof(MPI.Comm) == ctypes.sizeof(ctypes.c_void_p) else ctypes.c_int

    def given(value):
        if isinstance(value, (array.array, memoryview)):
            return ctypes.c_void_p(memoryview(value).obj.buffer_info()[0])
        if isinstance(value, int):
            return ctypes.c_int(value)
        return handle(MPI._handleof(value))

    request = MPI.Prequest()
    status = function(*[given(a) for a in arguments], handle(MPI._handleof(comm)),
                      handle(MPI._handleof(MPI.INFO_NULL)), ctypes.c_void_p(MPI._addressof(request)))
    check(status == 0, f"{name}: status {status}")
    return request


def collectives():
    n = 5000
    field, mine, sums = longs(*[0] * n), longs(0, 0), longs(0, 0)
    bcast = persistent("Bcast_init", field, n, MPI.LONG_LONG, nranks - 1)
    reduce = persistent("Allreduce_init", mine, sums, 2, MPI.LONG_LONG, MPI.SUM)
    for turn in range(20):
        if rank == nranks - 1:
            field[:] = longs(*range(turn, turn + n))
        mine[:] = longs(rank, turn)
        # among a request of the host's
        message, told = longs(-1), longs(1000 * turn + rank)
        others = [comm.Irecv(message, before, 7), comm.Isend(told, after, 7)]
        if turn % 2:
            bcast.Start()
            reduce.Start()
        else:
            MPI.Prequest.Startall([bcast, reduce])
        if turn % 3:
            MPI.Request.Waitall([bcast, *others, reduce])
        else:
            while not reduce.Test():
                pass
            bcast.Wait()
            MPI.Request.Waitall(others)
        check(field == longs(*range(turn, turn + n)), f"broadcast {turn}: {list(field[:3])} ...")
        check(list(sums) == [nranks * (nranks - 1) // 2, nranks * turn], f"sum {turn}: {list(sums)}")
        check(message[0] == 1000 * turn + before, f"message {turn}: {message[0]}")
    for request in (bcast, reduce):
        request.Free()
        check(request == MPI.REQUEST_NULL, "a freed request is not null")


# ---- requests of the host ----

def requests():
    out, inward = longs(0), longs(-1)
    pair = [comm.Send_init(out, after, 3), comm.Recv_init(inward, before, 3)]
    for turn in range(10):
        out[0] = 10 * turn + rank
        MPI.Prequest.Startall(pair)
        if turn % 2:
            MPI.Request.Waitall(pair)
        else:
            left = set(range(2))
            while left:
                left.discard(MPI.Request.Waitany(pair))
        check(inward[0] == 10 * turn + before, f"persistent message {turn}: {inward[0]}")
    for request in pair:
        request.Free()
    reply = comm.sendrecv({"from": rank}, dest=after, source=before)
    check(reply == {"from": before}, f"object {reply}")
    check(comm.allreduce(rank) == nranks * (nranks - 1) // 2, "allreduce of objects")
    gathered = comm.allgather([rank] * 3)
    check(gathered == [[r] * 3 for r in range(nranks)], "allgather of objects")


windows()
collectives()
requests()
comm.Barrier()
if rank == 0:
    print("right")
