# A Spack repository of one package:
#     spack repo add packaging/spack
#     spack dev-build tugboat@main        in a checkout
from spack.package import *


class Tugboat(CMakePackage):
    """MPI extension library: one-sided and persistent collective calls of an unchanged MPI
    program are handed to an engine, which progresses them while the program computes."""

    license("MIT")
    version("main")

    variant(
        "mpi", default="mpich", values=("mpich", "openmpi"), multi=False,
        description="The MPI of the programs that are to run under it",
    )
    variant("verbs", default=True, description="Build the InfiniBand and RoCE transport")
    variant("ofi", default=True, description="Build the transport by libfabric")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("gmake", type="build")
    # Its headers when built; the library is found at run time, and is the program's.
    depends_on("mpich@4:", when="mpi=mpich", type=("build", "run"))
    depends_on("openmpi@4.1", when="mpi=openmpi", type=("build", "run"))
    depends_on("rdma-core", when="+verbs", type="build")
    depends_on("libfabric@1.17:", when="+ofi", type="build")

    def cmake_args(self):
        mpi = self.spec.variants["mpi"].value
        return [
            self.define("TUGBOAT_MPI", mpi),
            self.define("TUGBOAT_BOTH", False),
            self.define("BUILD_TESTING", False),
            self.define_from_variant("TUGBOAT_VERBS", "verbs"),
            self.define_from_variant("TUGBOAT_OFI", "ofi"),
            self.define("HOSTMPI_C_WRAPPER", self.spec[mpi].prefix.bin.mpicc),
            self.define("HOSTMPI_EXECUTABLE", self.spec[mpi].prefix.bin.mpiexec),
        ]
