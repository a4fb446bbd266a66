# System calls that are refused: by a kernel before 4.14, and by a container that refuses as much as it may. Wakes
# come as fast, and data are right by the ways that are left.
set(refused --refuse $<TARGET_FILE:refuse> --refused)
set(old_kernel ENOSYS:membarrier,sched_setattr)
set(container EPERM:getrandom,membarrier,memfd_create,process_vm_readv,process_vm_writev,sched_setattr)
if(TARGET tugboat)
    tug_mpi_test(llcl_passive.refused RANKS 2 NODES tcp WAYS host OPTIONS ${refused} ${old_kernel}
        LABELS llcl)
    tug_mpi_test(acp_random.refused RANKS 2 NODES one two WAYS host ARGS 500
        ENV ${tug_acp_starter} CHECK_MEMORY=lent OPTIONS ${refused} ${container} LABELS acp)
    tug_mpi_test(endpoint.refused RANKS 4 NODES one two WAYS tug ARGS many 100
        OPTIONS ${refused} ${container})
    tug_mpi_test(rma_basic.refused RANKS 2 NODES one emulated WAYS tug OPTIONS ${refused} ${container})
    tug_mpi_test(rma_alone.refused RANKS 3 NODES one two WAYS tug OPTIONS ${refused} ${container})
    tug_mpi_test(pbcast.refused RANKS 2 WAYS tug OPTIONS ${refused} ${container})
    tug_mpi_test(pcoll_long.refused RANKS 2 WAYS tug OPTIONS ${refused} ${container})
endif()
