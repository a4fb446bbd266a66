# Programs that the lists for MPICH and for Open MPI share.

# tug_mpi_plain_program(NAME [LIBS LIB...]): mpi_NAME_plain, the program NAME.c as one that makes no window.
function(tug_mpi_plain_program name)
    tug_mpi_program(mpi_${name}_plain SOURCES ${name}.c ${ARGN})
    target_compile_definitions(mpi_${name}_plain PRIVATE PLAIN)
endfunction()

# tug_mpi_plugin(TARGET SOURCE): a module that is linked with MPI, for programs to open.
function(tug_mpi_plugin target source)
    add_library(${target} MODULE ${source})
    target_link_libraries(${target} PRIVATE HostMPI::C Threads::Threads)
    set_target_properties(${target} PROPERTIES
        PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/mpi/lib)
endfunction()

# tug_mpi_bare_program(TARGET SOURCE LIB...): a program that is linked with LIBs only.
function(tug_mpi_bare_program target source)
    add_executable(${target} ${source})
    target_link_libraries(${target} PRIVATE ${ARGN})
    set_target_properties(${target} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/mpi/bin)
endfunction()

# tug_mpi_dlopened(): a program that is not linked with MPI, and mpi_plugin, which it opens.
function(tug_mpi_dlopened)
    tug_mpi_bare_program(mpi_dlopened dlopened.c HostMPI::headers ${CMAKE_DL_LIBS})
    tug_mpi_plugin(mpi_plugin init.c)
    target_compile_definitions(mpi_plugin PRIVATE main=plugin_main)
    target_compile_options(mpi_plugin PRIVATE -Wno-missing-prototypes)
endfunction()

# tug_mpi_fatal_told(): the messages of errors that end jobs arrive.
function(tug_mpi_fatal_told)
    tug_mpi_program(mpi_fatal SOURCES fatal.c)
    add_test(NAME mpi.fatal_told
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/fatal_told.sh --mpiexec ${HOSTMPI_EXECUTABLE}
                --lib $<TARGET_FILE:tugboat> -- $<TARGET_FILE:mpi_fatal>)
    set_tests_properties(mpi.fatal_told PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77 PROCESSORS 2 LABELS mpi)
endfunction()

# tug_mpi_device_tests(): the program on memory of a device, which is told by a stand-in for the runtime of each
# vendor. The stand-ins are libraries stand_in_*, the tests mpi.device.RUNTIME.*.
set(tug_device ARGS $<TARGET_FILE:stand_in_cuda> ENV TUGBOAT_COLLECTIVES=on TUGBOAT_WAIT=polite)
function(tug_mpi_device_tests)
    tug_mpi_program(mpi_device SOURCES device.c LIBS ${CMAKE_DL_LIBS})
    foreach(runtime IN ITEMS CUDA HIP=5 HIP=6 ZE)
        string(TOLOWER ${runtime} name)
        string(REPLACE "=" "" name ${name})
        add_library(stand_in_${name} MODULE device_stand_in.c)
        target_compile_definitions(stand_in_${name} PRIVATE _GNU_SOURCE STAND_IN_${runtime})
        set_target_properties(stand_in_${name} PROPERTIES
            LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/mpi/lib)
        add_dependencies(mpi_device stand_in_${name})
        tug_mpi_test(device.${name} PROGRAM mpi_device ARGS $<TARGET_FILE:stand_in_${name}> RANKS 2
            WAYS tug)
    endforeach()
endfunction()
