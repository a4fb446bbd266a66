# Hosts that the library does not know: it steps aside.

# tug_stand_in(KIND DEFINITION...): a library that answers as another MPI does.
function(tug_stand_in kind)
    add_library(stand_in_${kind} MODULE stand_in.c)
    target_compile_definitions(stand_in_${kind} PRIVATE _GNU_SOURCE ${ARGN})
    target_link_libraries(stand_in_${kind} PRIVATE ${CMAKE_DL_LIBS})
    set(soname libmpi.so.12)
    if(kind MATCHES "abi")
        set(soname libmpi_abi.so.0)
    endif()
    target_link_options(stand_in_${kind} PRIVATE -Wl,-soname,${soname})
    set_target_properties(stand_in_${kind} PROPERTIES
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/mpi/stand_in)
endfunction()
if(TARGET tugboat)
    tug_stand_in(mpi)
    tug_stand_in(abi ABI)
    tug_stand_in(over OVER)
    tug_stand_in(abi_over OVER ABI)
    add_executable(stand_in_program stand_in_program.c)
    target_link_libraries(stand_in_program PRIVATE ${CMAKE_DL_LIBS})
    set_target_properties(stand_in_program PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/mpi/stand_in)
    add_test(NAME mpi.stand_in COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/stand_in.sh $<TARGET_FILE:tugboat>
        ${HOSTMPI_EXECUTABLE} ${CMAKE_BINARY_DIR}/tests/mpi/stand_in $<TARGET_FILE:mpi_farewell>)
    set_tests_properties(mpi.stand_in PROPERTIES TIMEOUT 120 PROCESSORS 2 LABELS mpi)
endif()
