"""My Python program: a window of mpi4py, on a rank that computes.

    mpiexec -n 2 python3 window.py [puts [seconds of computing]]
    tugboat run mpiexec -n 2 python3 window.py

Rank 0 puts numbers into the memory of rank 1, one epoch each. Rank 1 computes meanwhile and calls no MPI. What is
loaded has to be Tugboat for the MPI that mpi4py was built for: on Debian that is Open MPI. The window is made over
memory of the program's own (MPI.Win.Create), as one over a numpy array is.
"""

import sys
import time
from array import array

import mpi4py

# Open MPI 4.1 alone makes windows over TCP by OMPI_MCA_osc=pt2pt only, and not at mpi4py's own choice, "multiple".
mpi4py.rc.thread_level = "funneled"

from mpi4py import MPI  # noqa: E402 (it starts MPI)

puts = int(sys.argv[1]) if len(sys.argv) > 1 else 10
seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 0.1
if puts < 1 or seconds < 0:
    sys.exit("usage: window.py [puts [seconds of computing]]")

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
memory = array("d", [0.0] * puts)
window = MPI.Win.Create(memory, memory.itemsize, comm=comm)
comm.Barrier()

if rank == 0 and size > 1:
    begin = time.perf_counter()
    for i in range(puts):
        number = array("d", [1.5 * i])
        window.Lock(1, MPI.LOCK_SHARED)
        window.Put([number, MPI.DOUBLE], 1, i)
        window.Unlock(1)
    print(f"window: {(time.perf_counter() - begin) / puts * 1e6:.1f} us a put", flush=True)
else:
    end = time.perf_counter() + seconds
    total = 0
    while time.perf_counter() < end:
        total += 1  # computes
comm.Barrier()

wrong = 0
if rank == 1:
    window.Lock(1, MPI.LOCK_SHARED)
    wrong = sum(memory[i] != 1.5 * i for i in range(puts))
    window.Unlock(1)
window.Free()
if wrong:
    sys.exit(f"{wrong} numbers are wrong")
