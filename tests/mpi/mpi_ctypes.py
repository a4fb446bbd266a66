"""As much of MPI as python_forks.py uses, by the same names as in mpi4py, for MPICH and without mpi4py.

Functions are looked up where the process finds them first, as a program that is linked with MPI does: a library that is
preloaded has its say.
"""
import ctypes

COMM_WORLD_HANDLE, BYTE, INFO_NULL, THREAD_MULTIPLE = 0x44000000, 0x4C00010D, 0x1C000000, 3
ctypes.CDLL("libmpich.so.12", mode=ctypes.RTLD_GLOBAL)
_all = ctypes.CDLL(None)
Aint = ctypes.c_ssize_t


def _call(name, *arguments):
    code = getattr(_all, name)(*arguments)
    if code != 0:
        raise RuntimeError(f"{name} gave error code {code}")


def Alloc_mem(size):
    base = ctypes.c_void_p()
    _call("MPI_Alloc_mem", Aint(size), INFO_NULL, ctypes.byref(base))
    return memoryview((ctypes.c_ubyte * size).from_address(base.value)).cast("B")


def _address(memory):
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_ubyte.from_buffer(memory)))


def Free_mem(memory):
    _call("MPI_Free_mem", _address(memory))


class Win:
    def __init__(self, handle):
        self.handle = handle

    @classmethod
    def Create(cls, memory, disp_unit, comm):
        handle = ctypes.c_int()
        _call("MPI_Win_create", _address(memory), Aint(len(memory)), disp_unit, INFO_NULL, comm.handle,
              ctypes.byref(handle))
        return cls(handle)

    def Fence(self):
        _call("MPI_Win_fence", 0, self.handle)

    def Put(self, what, rank, target):
        data = what[0]
        _call("MPI_Put", data, len(data), BYTE, rank, Aint(target), len(data), BYTE, self.handle)

    def Free(self):
        _call("MPI_Win_free", ctypes.byref(self.handle))


class _Comm:
    handle = COMM_WORLD_HANDLE

    def __init__(self):
        rank, size = ctypes.c_int(), ctypes.c_int()
        _call("MPI_Init_thread", None, None, THREAD_MULTIPLE, ctypes.byref(ctypes.c_int()))
        _call("MPI_Comm_rank", self.handle, ctypes.byref(rank))
        _call("MPI_Comm_size", self.handle, ctypes.byref(size))
        self.rank, self.size = rank.value, size.value

    def Barrier(self):
        _call("MPI_Barrier", self.handle)

    def Abort(self, code):
        _call("MPI_Abort", self.handle, code)


def start():
    """MPI_COMM_WORLD, after MPI_Init_thread."""
    return _Comm()


def end():
    _call("MPI_Finalize")
