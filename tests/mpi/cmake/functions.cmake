# Functions that the lists of tests are made of.

# tug_mpi_program(TARGET SOURCES FILE... [LANGUAGE C|Fortran] [LIBS LIB...]): a program linked with the host MPI.
function(tug_mpi_program program)
    cmake_parse_arguments(T "" "LANGUAGE" "SOURCES;LIBS" ${ARGN})
    if(NOT T_LANGUAGE)
        set(T_LANGUAGE C)
    endif()
    add_executable(${program} ${T_SOURCES})
    set_target_properties(${program} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/mpi/bin
        Fortran_MODULE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/modules/${program})
    target_link_libraries(${program} PRIVATE ${T_LIBS} HostMPI::${T_LANGUAGE} Threads::Threads)
endfunction()

# tug_mpi_find_program(VARIABLE NAME GIVEN ...): the program of a test, GIVEN if that is not empty. By default the
# test NAME or NAME.CASE runs mpi_NAME; the first test that does builds it, from SOURCES or from NAME.c.
function(tug_mpi_find_program variable name program)
    cmake_parse_arguments(T "" "LANGUAGE" "SOURCES;LIBS" ${ARGN})
    string(REGEX MATCH "^[^.]+" base ${name})
    if(NOT program)
        set(program mpi_${base})
    endif()
    if(NOT T_SOURCES)
        set(T_SOURCES ${base}.c)
    endif()
    if(program STREQUAL "mpi_${base}" AND NOT TARGET ${program})
        tug_mpi_program(${program} LANGUAGE ${T_LANGUAGE} SOURCES ${T_SOURCES} LIBS ${T_LIBS})
    endif()
    set(${variable} ${program} PARENT_SCOPE)
endfunction()

# tug_mpi_case(NAME WAY RANKS NODES ...): one case of tug_mpi_test, with everything given.
function(tug_mpi_case name way ranks nodes)
    cmake_parse_arguments(T "" "PROGRAM;TIMEOUT" "ARGS;ENV;LABELS;OPTIONS" ${ARGN})
    set(case mpi.${name}.${way}.n${ranks})
    if(nodes STREQUAL "emulated")
        string(APPEND case .nodes)
    elseif(NOT nodes STREQUAL "one")
        string(APPEND case .${nodes})
    endif()
    set(options --mpiexec ${HOSTMPI_EXECUTABLE} --way ${way} --ranks ${ranks} --nodes ${nodes})
    if(way MATCHES "^(tug|native|packet|off)$")
        list(APPEND options --lib $<TARGET_FILE:tugboat>)
    endif()
    if(NOT TUGBOAT_SANITIZE AND NOT TUGBOAT_MPI STREQUAL "openmpi")
        list(APPEND options --yielding $<TARGET_FILE:yielding>)
    endif()
    tug_host_defect(defect "${HostMPI_VERSION}" ${case})
    if(defect)
        list(APPEND options --defect "MPICH ${HostMPI_VERSION} ${defect}")
    endif()
    foreach(setting IN LISTS T_ENV)
        list(APPEND options --env ${setting})
    endforeach()
    add_test(NAME ${case} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/run_mpi.sh ${options} ${T_OPTIONS}
                                  -- $<TARGET_FILE:${T_PROGRAM}> ${T_ARGS})
    set(processors 2)
    if(ranks EQUAL 1)
        set(processors 1)
    endif()
    set_tests_properties(${case} PROPERTIES
        TIMEOUT ${T_TIMEOUT} SKIP_RETURN_CODE 77 PROCESSORS ${processors} LABELS "mpi;${T_LABELS}")
endfunction()

#   tug_mpi_test(NAME [SOURCES FILE...] [PROGRAM TARGET] [LANGUAGE C|Fortran] [ARGS ARG...]
#                [RANKS N...] [NODES one|two|emulated|tcp|hosts...]
#                [WAYS host|tug|native|packet|off|either...] [ENV NAME=VALUE...]
#                [TIMEOUT SECONDS] [LIBS LIB...] [LABELS LABEL...] [OPTIONS OPTION... of run_mpi.sh])
#
# registers a CTest case mpi.NAME.WAY.nN[.NODES] for every way, rank count and kind of node. Without RANKS these
# are 1 to 4, without NODES one, without WAYS host, tug and off. Every case has a timeout. A case of several ranks
# counts as using both of a small machine's cores, for ranks of the host MPI spin; a case of one rank uses one.
function(tug_mpi_test name)
    cmake_parse_arguments(T "" "PROGRAM;LANGUAGE;TIMEOUT"
        "SOURCES;RANKS;NODES;WAYS;ARGS;ENV;LIBS;LABELS;OPTIONS" ${ARGN})
    tug_mpi_find_program(T_PROGRAM ${name} "${T_PROGRAM}" LANGUAGE ${T_LANGUAGE} SOURCES ${T_SOURCES}
        LIBS ${T_LIBS})
    foreach(default IN ITEMS "RANKS=1;2;3;4" "NODES=one" "WAYS=host;tug;off" "TIMEOUT=300")
        string(REGEX MATCH "^([A-Z]+)=(.*)$" unused "${default}")
        if("${T_${CMAKE_MATCH_1}}" STREQUAL "") # "off" is a value, not false
            set(T_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
        endif()
    endforeach()
    foreach(way IN LISTS T_WAYS)
        if(way MATCHES "^(tug|native|packet|off)$" AND NOT TARGET tugboat)
            continue()
        endif()
        foreach(nodes IN LISTS T_NODES)
            foreach(ranks IN LISTS T_RANKS)
                if(ranks EQUAL 1 AND NOT nodes STREQUAL "one")
                    continue()
                endif()
                tug_mpi_case(${name} ${way} ${ranks} ${nodes} PROGRAM ${T_PROGRAM}
                    TIMEOUT ${T_TIMEOUT} ARGS ${T_ARGS} ENV ${T_ENV} LABELS ${T_LABELS}
                    OPTIONS ${T_OPTIONS})
            endforeach()
        endforeach()
    endforeach()
endfunction()

#   tug_mpi_script(NAME SCRIPT RANKS [FIRST ARG...] [PROGRAM TARGET] [ARGS ARG...] [ENV NAME=VALUE...]
#                  [TIMEOUT SECONDS] [LABELS LABEL...])
#
# registers the case mpi.NAME.nRANKS: SCRIPT FIRST... options of run_mpi.sh -- program ARGS...
function(tug_mpi_script name script ranks)
    cmake_parse_arguments(T "" "TIMEOUT;PROGRAM" "FIRST;ENV;ARGS;LABELS" ${ARGN})
    if(NOT TARGET tugboat)
        return()
    endif()
    tug_mpi_find_program(T_PROGRAM ${name} "${T_PROGRAM}")
    if(NOT T_TIMEOUT)
        set(T_TIMEOUT 300)
    endif()
    set(options --mpiexec ${HOSTMPI_EXECUTABLE} --ranks ${ranks} --lib $<TARGET_FILE:tugboat>)
    foreach(setting IN LISTS T_ENV)
        list(APPEND options --env ${setting})
    endforeach()
    add_test(NAME mpi.${name}.n${ranks}
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${T_FIRST} ${options}
                -- $<TARGET_FILE:${T_PROGRAM}> ${T_ARGS})
    set_tests_properties(mpi.${name}.n${ranks} PROPERTIES
        TIMEOUT ${T_TIMEOUT} SKIP_RETURN_CODE 77 PROCESSORS 2 LABELS "mpi;${T_LABELS}")
endfunction()

#   tug_layer_test(llcl|gas|acp NAME WAYS way... [RANKS N...] [NODES ...] [ARGS ...] [ENV ...] [TIMEOUT S]
#                  [CASE C] [LABELS ...])
#
# registers tests of LLCL and of what stands on it, the arrays (gas) and ACP: mpi.LAYER_NAME.way[.C].host.nN. The
# programs are linked with the library ahead of MPI. A way between two processes is all (whatever works here), or
# a name for a value of TUGBOAT_TRANSPORTS:
set(tug_llcl_packets self,shm,mpi)
set(tug_llcl_cma self,shm,cma,mpi)
set(tug_llcl_mpi mpi)
set(tug_llcl_ofi ofi)
function(tug_layer_test layer name)
    cmake_parse_arguments(T "" "TIMEOUT;CASE" "WAYS;RANKS;NODES;ARGS;ENV;LABELS" ${ARGN})
    if(NOT TARGET tugboat)
        return()
    endif()
    if(NOT TARGET mpi_${layer}_${name})
        tug_mpi_program(mpi_${layer}_${name} SOURCES ${layer}_${name}.c LIBS tugboat)
    endif()
    foreach(way IN LISTS T_WAYS)
        set(case ${layer}_${name}.${way})
        if(T_CASE)
            string(APPEND case .${T_CASE})
        endif()
        set(settings ${T_ENV})
        set(options)
        if(way STREQUAL "ofi")
            set(options --needs $<TARGET_FILE:tugboat_cmd>:ofi)
        endif()
        if(DEFINED tug_llcl_${way})
            list(APPEND settings TUGBOAT_TRANSPORTS=${tug_llcl_${way}})
        endif()
        tug_mpi_test(${case} PROGRAM mpi_${layer}_${name} WAYS host RANKS ${T_RANKS} NODES ${T_NODES}
            ARGS ${T_ARGS} ENV ${settings} TIMEOUT ${T_TIMEOUT} LABELS ${layer} ${T_LABELS}
            OPTIONS ${options})
    endforeach()
endfunction()

# tug_llcl_test(NAME ...): tug_layer_test(llcl NAME ...).
function(tug_llcl_test name)
    tug_layer_test(llcl ${name} ${ARGN})
endfunction()
