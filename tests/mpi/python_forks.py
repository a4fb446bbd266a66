"""Python's multiprocessing and memory of MPI_Alloc_mem, in both start modes.

    python_forks.py [ctypes]

Workers that are forked have the memory as it was; what they store, allocate and free is theirs alone. Workers that are
spawned are programs of their own. A window over the memory works beside a pool of workers and after it.
With ctypes it works by mpi_ctypes.py, for MPICH; else by mpi4py.
"""
import multiprocessing
import sys


def double(x):
    return 2 * x


def work(memory):
    """In a forked worker: what it stores and frees is not its parent's."""
    right = all(x == 1 for x in bytes(memory))
    memory[:] = bytes([2]) * len(memory)
    right = right and all(x == 2 for x in bytes(memory))
    other = MPI.Alloc_mem(len(memory))
    other[:] = bytes([3]) * len(memory)
    MPI.Free_mem(memory)
    right = right and all(x == 3 for x in bytes(other))
    MPI.Free_mem(other)
    sys.exit(0 if right else 1)


def check(there, what):
    if not there:
        print(f"WRONG rank {comm.rank}: {what}", flush=True)
        comm.Abort(1)


def use_window(win, memory, value):
    win.Fence()
    win.Put([bytes([value]), MPI.BYTE], (comm.rank + 1) % comm.size, target=5)
    win.Fence()
    check(memory[5] == bytes([value])[0], f"the window has {memory[5]}, not {value}")
    memory[5] = 1


def main():
    for size in (100000, 5 << 20):
        memory = MPI.Alloc_mem(size)
        memory[:] = bytes([1]) * size
        win = MPI.Win.Create(memory, 1, comm=comm)
        for mode in ("fork", "spawn"):
            context = multiprocessing.get_context(mode)
            with context.Pool(2) as pool:
                check(pool.map(double, range(20)) == list(range(0, 40, 2)), f"a pool of {mode}")
                use_window(win, memory, 7)
        worker = multiprocessing.get_context("fork").Process(target=work, args=(memory,))
        worker.start()
        worker.join()
        check(worker.exitcode == 0, f"the worker ended with {worker.exitcode}")
        use_window(win, memory, 8)
        check(bytes(memory) == bytes([1]) * size, "a worker changed the memory")
        win.Free()
        MPI.Free_mem(memory)
    comm.Barrier()
    if comm.rank == 0:
        print("right")


if __name__ == "__main__":
    if sys.argv[1:] == ["ctypes"]:
        import mpi_ctypes as MPI

        comm = MPI.start()
    else:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
    main()
    if sys.argv[1:] == ["ctypes"]:
        MPI.end()
