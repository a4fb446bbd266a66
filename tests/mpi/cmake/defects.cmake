# Tests that a version of MPICH fails by itself. They are skipped there, and say so.
#
# An entry is "VERSION TESTS = what it does", VERSION of one version or with a < of all before it, TESTS a regular
# expression. Every entry is held against every test, whatever the version here: a test with a new name would lose
# its skip without a word elsewhere.
set(tug_host_defects
    "<4.2 ^mpi\\.sessions\\.again(_types|_world)?\\. = crashes when MPI starts once more after its end"
    "4.2.1 ^mpi\\.bcast_repeat\\. = hangs, fails or has wrong data in broadcasts whose ranks describe the data by different types"
    "4.2.1 ^mpi\\.(lanes\\.[a-z]+|rma_types\\.(host|native|off))\\.n1$ = finds no memory for MPI_PROC_NULL in MPI_Win_shared_query"
    "4.2.1 ^mpi\\.handlers_leave(_cxx)?\\.(windows\\.(tug|packet)|persistent)\\. = holds its lock while MPI_Comm_call_errhandler calls a handler, too"
    "4.2.1 ^mpi\\.request_looks\\.(many\\.)?host\\. = finds persistent requests that were never started unfinished in MPI_Request_get_status_all"
    "4.2.1 ^mpi\\.sessions\\.again_types\\.(host|off)\\. = cannot commit the first derived types when MPI starts once more after its end"
    "4.2.1 ^mpi\\.sessions\\.again_world\\.(host|off)\\.n2\\.nodes$ = stops with an assertion in MPI_Win_allocate when MPI starts once more after its end"
    "4.2.1 ^mpi\\.tool_variables\\. = crashes in the tools' interface")

# tug_host_defect(VARIABLE VERSION CASE): what MPICH VERSION does wrong in the test CASE, or nothing.
function(tug_host_defect variable version case)
    set(${variable} "" PARENT_SCOPE)
    if(NOT TUGBOAT_MPI STREQUAL "mpich")
        return()
    endif()
    foreach(entry IN LISTS tug_host_defects)
        string(REGEX MATCH "^([^ ]+) (.*) = (.*)$" unused "${entry}")
        set(versions "${CMAKE_MATCH_1}")
        set(what "${CMAKE_MATCH_3}")
        if(case MATCHES "${CMAKE_MATCH_2}")
            set_property(GLOBAL APPEND PROPERTY tug_host_defects_met "${entry}")
            if(version VERSION_EQUAL versions OR (versions MATCHES "^<(.*)$" AND version VERSION_LESS CMAKE_MATCH_1))
                set(${variable} "${what}" PARENT_SCOPE)
            endif()
        endif()
    endforeach()
endfunction()

# tug_host_defects_unmet(VARIABLE): the entries that no test asked about so far has the name of.
function(tug_host_defects_unmet variable)
    get_property(met GLOBAL PROPERTY tug_host_defects_met)
    set(unmet ${tug_host_defects})
    list(REMOVE_ITEM unmet "" ${met})
    set(${variable} "${unmet}" PARENT_SCOPE)
endfunction()
