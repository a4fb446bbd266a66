# The MPI tests on Open MPI 4.1: the same programs, the same ways. Nodes are host names of our own, what
# goes between them goes over TCP (run_mpi.sh). What is not in the short list for every run has the
# label more: ctest -L more.
#
# Not here: large counts, sessions (the host has neither), and what is MPICH's own matter.

function(tug_openmpi_more name)
    tug_mpi_test(${name} ${ARGN} LABELS more)
endfunction()

# One-sided programs. The oracle is the host, where it is right; see host_wrong below.
foreach(program IN ITEMS rma_basic rma_accumulate rma_atomic rma_derived rma_dynamic rma_errors
        rma_fence rma_flush_threads rma_large rma_linear rma_lock_fair rma_locks rma_overlap rma_pscw
        rma_request rma_threads rma_types rma_waits win_unaligned window_free blocking)
    tug_mpi_program(mpi_${program} SOURCES ${program}.c)
    tug_mpi_test(${program} PROGRAM mpi_${program} RANKS 2 WAYS tug)
    tug_mpi_test(${program} PROGRAM mpi_${program} RANKS 3 NODES emulated WAYS tug)
    tug_openmpi_more(${program} PROGRAM mpi_${program} RANKS 1 3 4 WAYS tug)
    tug_openmpi_more(${program} PROGRAM mpi_${program} RANKS 2 4 NODES emulated two WAYS tug)
    tug_openmpi_more(${program} PROGRAM mpi_${program} RANKS 2 4 WAYS host native packet off)
endforeach()

# Persistent collectives, which the host has as an extension.
foreach(program IN ITEMS pbcast pbcast_memory pbcast_mixed pbcast_threads pcoll_other bcast_repeat)
    tug_mpi_program(mpi_${program} SOURCES ${program}.c)
    tug_mpi_test(${program} PROGRAM mpi_${program} RANKS 3 NODES one two WAYS tug)
    tug_openmpi_more(${program} PROGRAM mpi_${program} RANKS 1 2 4 NODES one emulated WAYS tug)
    tug_openmpi_more(${program} PROGRAM mpi_${program} RANKS 2 4 WAYS host off)
endforeach()
tug_mpi_program(mpi_pcoll SOURCES pcoll.c)
tug_mpi_test(pcoll PROGRAM mpi_pcoll ARGS ours RANKS 3 WAYS tug)
tug_openmpi_more(pcoll PROGRAM mpi_pcoll ARGS ours RANKS 1 2 4 NODES one emulated WAYS tug)
tug_openmpi_more(pcoll.threads PROGRAM mpi_pcoll ARGS ours threads RANKS 2 3 WAYS tug)
tug_openmpi_more(pcoll PROGRAM mpi_pcoll RANKS 2 3 WAYS host)

# Start and end.
tug_mpi_program(mpi_init SOURCES init.c)
foreach(how IN ITEMS init single funneled serialized multiple plain)
    tug_mpi_test(init.${how} PROGRAM mpi_init ARGS ${how} RANKS 2 WAYS tug)
    tug_openmpi_more(init.${how} PROGRAM mpi_init ARGS ${how} RANKS 1 2 WAYS host off)
endforeach()
tug_mpi_program(mpi_process SOURCES process.c)
tug_mpi_script(process.fork process.sh 2 FIRST 0 PROGRAM mpi_process ARGS fork)
tug_mpi_script(process.abort process.sh 2 FIRST 5 PROGRAM mpi_process ARGS abort)
tug_mpi_script(process.exit process.sh 2 FIRST failure PROGRAM mpi_process ARGS exit)
tug_mpi_script(process.crash process.sh 2 FIRST failure PROGRAM mpi_process ARGS crash LABELS more)
tug_mpi_script(settings.bad settings.sh 2 PROGRAM mpi_init TIMEOUT 120 LABELS more)
tug_mpi_script(stats stats.sh 2 FIRST ${CMAKE_COMMAND} --way tug PROGRAM mpi_process ARGS work)
tug_mpi_test(lanes SOURCES lanes.c ARGS direct RANKS 2 WAYS tug)
tug_mpi_test(lanes PROGRAM mpi_lanes ARGS packet RANKS 2 NODES emulated WAYS tug)
tug_mpi_test(lanes PROGRAM mpi_lanes ARGS none RANKS 2 WAYS host off LABELS more)
tug_mpi_test(idle SOURCES idle.c RANKS 2 WAYS tug)
tug_mpi_test(tool_variables SOURCES tool_variables.c ARGS host RANKS 1 2 WAYS host off
    ENV TUGBOAT_SPIN_US=7 LABELS more)
tug_mpi_test(tool_variables PROGRAM mpi_tool_variables ARGS tug RANKS 2 WAYS tug ENV TUGBOAT_SPIN_US=7)

# The error classes of the host alone, and under the tug.
tug_mpi_program(mpi_errors SOURCES errors.c)
tug_mpi_script(errors.tug errors_compare.sh 2 FIRST tug PROGRAM mpi_errors)
tug_mpi_script(errors.native errors_compare.sh 2 FIRST native PROGRAM mpi_errors LABELS more)
tug_mpi_script(errors.off errors_compare.sh 2 FIRST off PROGRAM mpi_errors LABELS more)

tug_mpi_program(mpi_counted SOURCES counted.c)
tug_mpi_script(tools tools.sh 2 FIRST $<TARGET_FILE:counting_tool> PROGRAM mpi_counted)

add_executable(mpi_dlopened dlopened.c)
target_link_libraries(mpi_dlopened PRIVATE HostMPI::headers ${CMAKE_DL_LIBS})
set_target_properties(mpi_dlopened PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/mpi/bin)
add_library(mpi_plugin MODULE init.c)
target_compile_definitions(mpi_plugin PRIVATE main=plugin_main)
target_compile_options(mpi_plugin PRIVATE -Wno-missing-prototypes)
target_link_libraries(mpi_plugin PRIVATE HostMPI::C Threads::Threads)
set_target_properties(mpi_plugin PROPERTIES
    PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/mpi/lib)
tug_mpi_test(dlopen.plugin PROGRAM mpi_dlopened RANKS 2 WAYS tug
    ARGS plugin $<TARGET_FILE:mpi_plugin>)

tug_mpi_linked(linked tugboat)

# Fortran: all bindings call C's PMPI_*, and ask the host for integers in place of handles.
if(TARGET HostMPI::Fortran)
    foreach(binding IN ITEMS mpif usempi f08)
        tug_mpi_test(fortran_${binding} SOURCES fortran_${binding}.f90 openmpi_fortran.c
            LANGUAGE Fortran RANKS 2
            WAYS tug)
        tug_openmpi_more(fortran_${binding} PROGRAM mpi_fortran_${binding} RANKS 1 3 4
            WAYS host tug off)
        target_compile_options(mpi_fortran_${binding} PRIVATE
            $<$<COMPILE_LANGUAGE:Fortran>:-fallow-argument-mismatch>)
    endforeach()
    tug_mpi_test(fortran_mpix SOURCES fortran_mpix.f90 LANGUAGE Fortran LIBS tugboat RANKS 2
        WAYS host)
    target_compile_options(mpi_fortran_mpix PRIVATE -fallow-argument-mismatch)
    tug_mpi_test(fortran_mpix_f08
        SOURCES ${PROJECT_SOURCE_DIR}/include/tugboat/mpix_f08.f90 fortran_mpix_f08.f90
        LANGUAGE Fortran LIBS tugboat RANKS 2 WAYS host)
endif()

# What stands on LLCL.
foreach(program IN ITEMS basic atomic am errors allocated contexts threads)
    tug_llcl_test(${program} WAYS all packets mpi RANKS 2)
    tug_llcl_test(${program} WAYS all RANKS 1 4 LABELS more)
    tug_llcl_test(${program} WAYS all RANKS 2 NODES emulated)
endforeach()
tug_llcl_test(passive WAYS all mpi RANKS 2)
tug_llcl_test(large WAYS all RANKS 2 ARGS allocated TIMEOUT 150 LABELS more)
tug_llcl_test(large WAYS mpi RANKS 2 ARGS registered TIMEOUT 150 LABELS more)
tug_layer_test(gas basic WAYS all RANKS 3 NODES one emulated)
tug_layer_test(gas stress WAYS packets mpi RANKS 2 ARGS 4 3000)
tug_layer_test(acp random WAYS all mpi RANKS 2 ENV TUGBOAT_ACP_STARTER=4M)
