# The MPI tests on Open MPI 4.1: the same programs, run the same ways. Nodes are host names that we make up;
# what goes between them goes over TCP (run_mpi.sh). Tests outside the short list for every run have the
# label more: ctest -L more.
#
# Not here: large counts and sessions (the host has neither), programs in which the host alone is wrong or
# hangs, and what concerns MPICH only.

add_test(NAME unit.base.exports
    COMMAND ${PROJECT_SOURCE_DIR}/tests/base/exports.sh check $<TARGET_FILE:tugboat>
            ${PROJECT_SOURCE_DIR}/tests/base/exports-openmpi.txt)
set_tests_properties(unit.base.exports PROPERTIES LABELS unit TIMEOUT 600)

# tug_openmpi_more(...): tug_mpi_test with the label more.
function(tug_openmpi_more name)
    tug_mpi_test(${name} ${ARGN} LABELS more)
endfunction()

# One-sided programs. Over TCP the host alone makes no window, so between nodes there is no oracle but
# the programs themselves. On one node Open MPI 4.1.4 alone is wrong in several of them or crashes
# (docs/limitations.md). Those of the first list are wrong under the tug too, in what is left to the host.
set(tug_wrong_on_a_node rma_derived rma_pscw rma_types)
set(tug_wrong_alone ${tug_wrong_on_a_node} rma_accumulate rma_atomic rma_dynamic rma_linear)
foreach(program IN ITEMS rma_fence rma_flush_threads rma_large rma_lock_fair rma_locks rma_request
        rma_threads win_unaligned blocking ${tug_wrong_alone})
    set(ranks 1 2 3 4)
    if(program STREQUAL "blocking")
        set(ranks 2 3)
    endif()
    set(among_nodes ${ranks})
    list(REMOVE_ITEM ranks 2)
    list(REMOVE_ITEM among_nodes 1 3)
    tug_mpi_test(${program} RANKS 3 NODES emulated WAYS tug)
    tug_openmpi_more(${program} RANKS ${among_nodes} NODES emulated two WAYS tug)
    if(NOT program IN_LIST tug_wrong_on_a_node)
        tug_mpi_test(${program} RANKS 2 WAYS tug)
        tug_openmpi_more(${program} RANKS ${ranks} WAYS tug)
    endif()
    if(NOT program IN_LIST tug_wrong_alone)
        tug_openmpi_more(${program} RANKS 2 3 WAYS host off)
    endif()
endforeach()

# The host alone crashes in an exchange in place from MPI_BOTTOM.
tug_mpi_test(rma_room RANKS 2 WAYS tug)
tug_openmpi_more(rma_room RANKS 2 NODES emulated WAYS tug)
tug_mpi_test(bottom.polite RANKS 2 WAYS tug ENV TUGBOAT_WAIT=polite)

# Memory of a device. The host alone crashes in this program, and makes no window of such memory between nodes.
tug_mpi_device_tests()
tug_mpi_test(device ${tug_device} RANKS 3 WAYS tug)

# Persistent collectives, which the host has as an extension. It alone crashes in pbcast, and hangs in pcoll
# of two ranks.
foreach(program IN ITEMS pbcast pbcast_memory pbcast_mixed pbcast_threads pcoll_other)
    tug_mpi_test(${program} RANKS 3 WAYS tug)
    tug_openmpi_more(${program} RANKS 1 2 4 NODES one emulated WAYS tug)
    tug_openmpi_more(${program} RANKS 4 NODES two WAYS tug)
    if(NOT program STREQUAL "pbcast")
        tug_openmpi_more(${program} RANKS 2 4 WAYS host off)
    endif()
endforeach()
tug_mpi_test(pcoll_other RANKS 3 NODES emulated WAYS tug)
tug_mpi_test(pcoll ARGS ours RANKS 3 WAYS tug)
tug_openmpi_more(pcoll ARGS ours RANKS 1 2 4 NODES one emulated WAYS tug)
tug_openmpi_more(pcoll.threads ARGS ours threads RANKS 2 3 WAYS tug)
tug_openmpi_more(pcoll RANKS 3 WAYS host off)

# Pages that are protected: the host's own attach fails there. Starts that are wrong, which 4.1 alone does not report.
set(tug_no_attach OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_smsc=^cma)
tug_mpi_test(pcoll_protected.mine ARGS mine RANKS 2 WAYS tug ENV ${tug_no_attach})
tug_openmpi_more(pcoll_protected.mine ARGS mine RANKS 2 WAYS host off ENV ${tug_no_attach})
tug_mpi_test(handlers_leave.persistent ARGS persistent RANKS 2 WAYS tug)

# Neighbours on grids with periods of one and two: the host alone is right in the blocking form only.
tug_mpi_test(neighbours ARGS blocking persistent RANKS 2 4 WAYS tug)
tug_mpi_test(neighbours.polite ARGS blocking persistent RANKS 2 4 WAYS tug ENV TUGBOAT_WAIT=polite)
tug_openmpi_more(neighbours ARGS blocking RANKS 1 2 3 4 WAYS host off)

# Start and end.
if(HostMPI_VERSION VERSION_GREATER_EQUAL 5) # older ones have no sessions
    tug_mpi_test(sessions.outlive ARGS ikacYuZrfZyzA RANKS 2)
    tug_mpi_test(sessions.surround ARGS acYtkuZrwfZzA RANKS 2)
    tug_mpi_test(sessions.within ARGS iacYZzAwf RANKS 2 WAYS tug)
    tug_mpi_test(sessions.two ARGS abpcdYZzAB RANKS 2 WAYS tug)
    tug_openmpi_more(sessions.threads ARGS apcpA RANKS 2)
    tug_openmpi_more(sessions.within ARGS iacYZzAwf RANKS 3 WAYS host tug off)
    tug_openmpi_more(sessions.two ARGS abpcdYZzAB RANKS 2 WAYS host off)
    tug_openmpi_more(sessions.outlive ARGS ikacYuZrfZyzA RANKS 3 NODES one emulated WAYS tug packet)
endif()
foreach(how IN ITEMS init single funneled serialized multiple plain)
    tug_mpi_test(init.${how} ARGS ${how} RANKS 2 WAYS tug)
    tug_openmpi_more(init.${how} ARGS ${how} RANKS 1 2 WAYS host off)
endforeach()
tug_mpi_script(process.fork process.sh 2 FIRST 0 ARGS fork)
tug_mpi_script(process.abort process.sh 2 FIRST 5 ARGS abort)
tug_mpi_script(process.exit process.sh 2 FIRST failure ARGS exit)
tug_mpi_script(process.crash process.sh 2 FIRST failure ARGS crash LABELS more)
tug_mpi_script(settings.bad settings.sh 2 PROGRAM mpi_init TIMEOUT 600 LABELS more)
tug_mpi_script(stats stats.sh 2 FIRST ${CMAKE_COMMAND} --way tug PROGRAM mpi_process ARGS work)
tug_mpi_fatal_told()
tug_mpi_test(idle RANKS 2 WAYS tug)
tug_mpi_dlopened()
tug_mpi_test(dlopen.plugin PROGRAM mpi_dlopened RANKS 2 WAYS tug ARGS plugin $<TARGET_FILE:mpi_plugin>)

# Jobs of two programs; delete callbacks of MPI_COMM_SELF; requests without an offload thread.
tug_mpi_plugin(mpi_levels_plugin levels_plugin.c)
set(plugin $<TARGET_FILE:mpi_levels_plugin>)
tug_mpi_program(mpi_mpmd SOURCES mpmd.c LIBS ${CMAKE_DL_LIBS})
tug_mpi_plain_program(mpmd LIBS ${CMAKE_DL_LIBS})
set(plain $<TARGET_FILE:mpi_mpmd_plain>)
tug_mpi_test(mpmd RANKS 2 WAYS host tug ARGS ${plugin} : -n 1 ${plain} ${plugin})
tug_openmpi_more(mpmd.off RANKS 2 WAYS tug ARGS ${plugin} : -n 1 env TUGBOAT=off ${plain} ${plugin})
tug_mpi_test(at_finalize RANKS 2 WAYS host tug)
tug_openmpi_more(at_finalize RANKS 3 WAYS tug off)
tug_mpi_test(outside RANKS 2 WAYS tug ENV TUGBOAT_PROGRESS=caller)

# The tools' interface.
tug_mpi_test(tool_variables ARGS tug RANKS 2 WAYS tug ENV TUGBOAT_SPIN_US=7)
tug_openmpi_more(tool_variables ARGS host RANKS 1 2 WAYS host off ENV TUGBOAT_SPIN_US=7)
tug_openmpi_more(tool_variables ARGS tug RANKS 1 WAYS tug packet ENV TUGBOAT_SPIN_US=7)

# Polite waits, which need no thread level.
tug_mpi_plain_program(polite)
tug_mpi_test(polite.plain PROGRAM mpi_polite_plain RANKS 2 WAYS tug ENV TUGBOAT_WAIT=polite)

# Tools that are preloaded as well.
tug_mpi_test(counted RANKS 2 WAYS host tug LABELS more)
tug_mpi_script(tools tools.sh 2 FIRST $<TARGET_FILE:counting_tool> PROGRAM mpi_counted)

tug_mpi_program(mpi_rma_threads_linked SOURCES rma_threads.c LIBS tugboat)
tug_mpi_test(linked.rma_threads PROGRAM mpi_rma_threads_linked RANKS 2 WAYS host)
tug_mpi_program(mpi_process_linked SOURCES process.c LIBS tugboat)
tug_mpi_script(linked.stats stats.sh 2 FIRST ${CMAKE_COMMAND} --way host PROGRAM mpi_process_linked
    ARGS work)

# Fortran: all bindings call C's PMPI_*, and ask the host for integers in place of handles.
if(TARGET HostMPI::Fortran)
    set(init 0) # what mpi_f08 has of persistent broadcasts
    if(HostMPI_VERSION VERSION_GREATER_EQUAL 5)
        set(init 1)
    endif()
    foreach(binding IN ITEMS mpif usempi f08)
        set(name fortran_${binding})
        tug_mpi_test(${name} SOURCES ${name}.f90 openmpi_fortran.c LANGUAGE Fortran RANKS 2 WAYS host tug off)
        tug_openmpi_more(${name} RANKS 1 3 4 WAYS tug)
        tug_openmpi_more(${name} RANKS 3 4 WAYS host off)
        target_compile_options(mpi_${name} PRIVATE
            $<$<COMPILE_LANGUAGE:Fortran>:-cpp -DTUG_INIT=${init} -fallow-argument-mismatch>)
    endforeach()
    tug_mpi_test(fortran_mpix SOURCES fortran_mpix.f90 LANGUAGE Fortran LIBS tugboat RANKS 2 WAYS host)
    target_compile_options(mpi_fortran_mpix PRIVATE -fallow-argument-mismatch)
    tug_mpi_test(fortran_mpix_f08
        SOURCES ${PROJECT_SOURCE_DIR}/include/tugboat/mpix_f08.f90 fortran_mpix_f08.f90 LANGUAGE Fortran
        LIBS tugboat RANKS 2 WAYS host)
    tug_openmpi_more(fortran_mpix_f08 RANKS 1 4 WAYS host)
endif()

# Python, where mpi4py is for this host. tug: the library's own lanes, and served while nobody calls MPI.
foreach(case IN ITEMS "host 2" "tug 1" "tug 2" "tug 3" "off 2" "tug 3 emulated")
    separate_arguments(case)
    list(POP_FRONT case way ranks)
    set(expected host)
    if(way STREQUAL "tug")
        set(expected tug)
    endif()
    set(name mpi.python.${way}.n${ranks})
    if(case)
        string(APPEND name .nodes)
        set(case --nodes ${case})
    endif()
    add_test(NAME ${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/python.sh
        --mpiexec ${HOSTMPI_EXECUTABLE} --way ${way} --ranks ${ranks} ${case} --env TUGBOAT_STATS=1
        --lib $<TARGET_FILE:tugboat> -- ${CMAKE_CURRENT_SOURCE_DIR}/python_calls.py ${expected})
    set_tests_properties(${name} PROPERTIES
        TIMEOUT 300 SKIP_RETURN_CODE 77 PROCESSORS 2 LABELS mpi
        FAIL_REGULAR_EXPRESSION " (put|persistent) +0 ") # calls of ours that were not taken
endforeach()

foreach(program IN ITEMS user forks)
    foreach(way IN ITEMS host tug off)
        set(name mpi.python_${program}.${way}.n2)
        add_test(NAME ${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/python.sh
            --mpiexec ${HOSTMPI_EXECUTABLE} --way ${way} --ranks 2 --env TUGBOAT_STATS=1
            --lib $<TARGET_FILE:tugboat> -- ${CMAKE_CURRENT_SOURCE_DIR}/python_${program}.py)
        set_tests_properties(${name} PROPERTIES
            TIMEOUT 300 SKIP_RETURN_CODE 77 PROCESSORS 2 LABELS mpi FAIL_REGULAR_EXPRESSION " put +0 ")
    endforeach()
endforeach()

# What stands on LLCL.
foreach(program IN ITEMS basic atomic am threads)
    tug_llcl_test(${program} WAYS all mpi RANKS 2)
    tug_llcl_test(${program} WAYS all RANKS 2 NODES emulated)
    tug_llcl_test(${program} WAYS packets RANKS 2 LABELS more)
    tug_llcl_test(${program} WAYS all RANKS 1 4 LABELS more)
endforeach()
foreach(program IN ITEMS errors allocated contexts)
    tug_llcl_test(${program} WAYS all RANKS 2)
    tug_llcl_test(${program} WAYS packets mpi RANKS 2 LABELS more)
    tug_llcl_test(${program} WAYS all RANKS 2 NODES emulated LABELS more)
endforeach()
tug_llcl_test(passive WAYS all mpi RANKS 2)
tug_llcl_test(large WAYS all RANKS 2 ARGS allocated TIMEOUT 600 LABELS more)
tug_llcl_test(large WAYS mpi RANKS 2 ARGS registered TIMEOUT 600 LABELS more)
tug_layer_test(gas basic WAYS all RANKS 3 NODES one emulated)
tug_layer_test(gas stress WAYS packets mpi RANKS 2 ARGS 4 3000)
tug_layer_test(acp random WAYS all mpi RANKS 2 ENV TUGBOAT_ACP_STARTER=4M)
