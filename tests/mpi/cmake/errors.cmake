# Errors and their handlers.

# Error classes are those of the host alone.
foreach(ranks IN ITEMS 1 2 3 4)
    tug_mpi_script(errors.tug errors_compare.sh ${ranks} FIRST tug TIMEOUT 600)
endforeach()
tug_mpi_script(errors.native errors_compare.sh 2 FIRST native TIMEOUT 600)
tug_mpi_script(errors.packet errors_compare.sh 2 FIRST packet TIMEOUT 600)
tug_mpi_script(errors.off errors_compare.sh 2 FIRST off TIMEOUT 600)
tug_mpi_script(errors.nodes.tug errors_compare.sh 2 FIRST tug ENV MPIR_CVAR_NOLOCAL=1 TIMEOUT 600)
tug_mpi_script(errors.thread.tug errors_compare.sh 2 FIRST late ENV TUGBOAT_PROGRESS=thread TIMEOUT 600)
tug_mpi_script(errors.fatal process.sh 2 FIRST failure ARGS fatal)

# Error handlers of windows.
tug_mpi_test(handlers RANKS 2 WAYS host tug native packet off)
tug_mpi_test(handlers RANKS 1 3 WAYS tug)
tug_mpi_test(handlers RANKS 2 NODES emulated WAYS tug)
# Error handlers that throw (C++) or jump (C). With several threads MPICH alone ends in an assertion.
foreach(suffix IN ITEMS "" _cxx)
    if(suffix)
        tug_mpi_program(mpi_handlers_leave_cxx SOURCES handlers_leave.cpp)
    endif()
    tug_mpi_test(handlers_leave${suffix} RANKS 2 WAYS host tug off)
    tug_mpi_test(handlers_leave${suffix}.windows ARGS windows RANKS 2 WAYS tug native packet)
    tug_mpi_test(handlers_leave${suffix}.windows ARGS windows RANKS 2 NODES emulated WAYS tug)
    tug_mpi_test(handlers_leave${suffix}.persistent ARGS persistent RANKS 2 NODES one emulated WAYS tug)
endforeach()
# An error that ends the job without the library ends it under the library.
foreach(ending IN ITEMS allocated.null created.rank created.epoch lent.native.epoch
        dynamic.native.null shared.native.rank)
    string(REGEX MATCH "^(.*)[.]([a-z]+)$" unused ${ending})
    tug_mpi_script(handlers.fatal.${ending} process.sh 2 FIRST failure
        ARGS fatal ${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
endforeach()
