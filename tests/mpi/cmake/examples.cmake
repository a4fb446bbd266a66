# The programs of docs/ways-in.md, as small as they go: each checks its own result. Emulated nodes of
# Open MPI talk by TCP. Open MPI 4.1.4 ends in its own MPI_Compare_and_swap on one node (osc/rdma).

set(tug_examples ${PROJECT_SOURCE_DIR}/examples)
set(tug_by_tcp tcp)
set(tug_queue_ways host tug off)
if(TUGBOAT_MPI STREQUAL "openmpi")
    set(tug_by_tcp emulated)
    set(tug_queue_ways tug)
endif()
foreach(case IN ITEMS "halo 4 100 10 1" "bcast_loop 64 30")
    separate_arguments(case)
    list(POP_FRONT case program)
    tug_mpi_test(examples_${program} SOURCES ${tug_examples}/${program}.c ARGS ${case} RANKS 1 2 3)
endforeach()
tug_mpi_test(examples_queue SOURCES ${tug_examples}/queue.c ARGS 20 1 RANKS 1 2 3 WAYS ${tug_queue_ways})
tug_mpi_test(examples_halo ARGS 4 100 10 1 RANKS 2 NODES ${tug_by_tcp} WAYS tug)
tug_mpi_test(examples_queue ARGS 20 1 RANKS 2 NODES ${tug_by_tcp} WAYS tug)
tug_mpi_test(examples_bcast_loop.on PROGRAM mpi_examples_bcast_loop ARGS 64 30 RANKS 2 3 WAYS tug
    ENV TUGBOAT_COLLECTIVES=on)
# What is linked with the library has it without a preload; with TUGBOAT=off the host does the work.
if(TARGET tugboat)
    foreach(case IN ITEMS "bcast_init 64 30" "histogram 1000 8")
        separate_arguments(case)
        list(POP_FRONT case program)
        tug_mpi_test(examples_${program}.linked SOURCES ${tug_examples}/${program}.c LIBS tugboat ARGS ${case}
            RANKS 1 2 3 WAYS host)
        tug_mpi_test(examples_${program}.linked_off PROGRAM mpi_examples_${program} ARGS ${case} RANKS 1 2 3
            WAYS host ENV TUGBOAT=off)
    endforeach()
    tug_mpi_test(examples_fibres.linked SOURCES ${tug_examples}/fibres.c LIBS tugboat ARGS 16 20 RANKS 1 2
        WAYS host)
    tug_mpi_test(examples_histogram.linked PROGRAM mpi_examples_histogram ARGS 1000 8 RANKS 2 WAYS host
        NODES ${tug_by_tcp})
    foreach(way IN ITEMS host tug off)
        add_test(NAME mpi.examples_window.${way}.n2 COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/python.sh
            --mpiexec ${HOSTMPI_EXECUTABLE} --way ${way} --ranks 2 --lib $<TARGET_FILE:tugboat>
            -- ${tug_examples}/window.py 5 0.01)
        set_tests_properties(mpi.examples_window.${way}.n2 PROPERTIES
            TIMEOUT 300 SKIP_RETURN_CODE 77 PROCESSORS 2 LABELS "mpi;examples")
    endforeach()
endif()
