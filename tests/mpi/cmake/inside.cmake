# Parts of the library that need a host MPI to be tested, linked with their sources or with the library's inside.

# Reductions of our own against those of the host.
tug_mpi_test(reduction SOURCES reduction.c ${PROJECT_SOURCE_DIR}/src/host/reduction.c RANKS 1 WAYS host)
target_include_directories(mpi_reduction PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)

# Datatypes made by the calls with large counts.
tug_mpi_test(types_c RANKS 1 2 WAYS host tug native off)

# Our datatypes on the host as it is. Allocations are counted and made to fail.
set(tug_datatype_sources src/host/datatype.c src/host/datatype_tree.c src/host/datatype_walk.c
    src/host/host.c src/host/identity.c src/host/pairs.c
    src/base/error.c src/base/log.c src/base/object.c src/base/settings.c)
list(TRANSFORM tug_datatype_sources PREPEND ${PROJECT_SOURCE_DIR}/)
tug_mpi_test(datatype SOURCES datatype.c ${tug_datatype_sources} RANKS 1 WAYS host
    LIBS tugboat_options ${CMAKE_DL_LIBS})
target_include_directories(mpi_datatype PRIVATE
    ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_link_options(mpi_datatype PRIVATE
    LINKER:--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free)

# Tuning, the simulator, and `tugboat calibrate`.
if(TARGET tugboat)
    tug_mpi_test(tuning LIBS tugboat_internal RANKS 1 2 4 WAYS host)
    tug_mpi_test(tuning RANKS 2 NODES emulated WAYS host)
    tug_mpi_test(served LIBS tugboat_internal RANKS 2 WAYS host)
    tug_mpi_test(simulated LIBS tugboat_internal RANKS 2 3 NODES emulated WAYS host)
    tug_mpi_program(mpi_ways SOURCES ways.c) # by ./dev cluster --model
    target_link_libraries(mpi_ways PRIVATE tugboat_internal)
    foreach(case IN ITEMS "1 one" "2 one" "2 emulated" "4 cliques" "2 tcp")
        separate_arguments(case)
        list(GET case 0 ranks)
        list(GET case 1 nodes)
        add_test(NAME mpi.calibrate.${nodes}.n${ranks}
            COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/calibrate.sh $<TARGET_FILE:tugboat_cmd>
                    ${HOSTMPI_EXECUTABLE} ${ranks} ${nodes})
        set_tests_properties(mpi.calibrate.${nodes}.n${ranks} PROPERTIES
            TIMEOUT 300 PROCESSORS 2 LABELS mpi)
    endforeach()

    # Programs for `tugboat compare`.
    tug_mpi_program(mpi_compared SOURCES compared.c)
    add_test(NAME mpi.compare
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/compare.sh $<TARGET_FILE:tugboat_cmd>
                ${HOSTMPI_EXECUTABLE} $<TARGET_FILE:mpi_compared>)
    set_tests_properties(mpi.compare PROPERTIES TIMEOUT 300 PROCESSORS 2 LABELS mpi)
endif()
