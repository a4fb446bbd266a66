# Languages other than C.

# C++.
tug_mpi_program(mpi_cxx SOURCES cxx.cpp)
target_include_directories(mpi_cxx PRIVATE ${PROJECT_SOURCE_DIR}/include)
tug_mpi_test(cxx RANKS 1 2 3)
tug_mpi_test(cxx RANKS 2 NODES emulated WAYS tug)

# Fortran: the three bindings of MPI, and the two of our extensions.
if(TARGET HostMPI::Fortran)
    foreach(binding IN ITEMS mpif usempi f08)
        tug_mpi_test(fortran_${binding} SOURCES fortran_${binding}.f90 LANGUAGE Fortran WAYS host tug)
        tug_mpi_test(fortran_${binding} RANKS 2 WAYS off)
        tug_mpi_test(fortran_${binding} RANKS 2 3 NODES emulated WAYS tug)
        # One argument of the oldest bindings takes any type; newer compilers refuse that by default.
        target_compile_options(mpi_fortran_${binding} PRIVATE -cpp -fallow-argument-mismatch)
    endforeach()
    if(TARGET tugboat)
        tug_mpi_test(fortran_mpix SOURCES fortran_mpix.f90 LANGUAGE Fortran LIBS tugboat RANKS 1 2 4
            WAYS host)
        target_compile_options(mpi_fortran_mpix PRIVATE -fallow-argument-mismatch)
        tug_mpi_test(fortran_mpix_f08
            SOURCES ${PROJECT_SOURCE_DIR}/include/tugboat/mpix_f08.f90 fortran_mpix_f08.f90 LANGUAGE Fortran
            LIBS tugboat RANKS 1 2 4 WAYS host)
    endif()
endif()

# Python's processes beside windows; mpi4py is Debian's for Open MPI only.
find_program(tug_python python3)
foreach(way IN ITEMS host tug off)
    if(NOT tug_python OR NOT TARGET tugboat)
        continue()
    endif()
    set(name mpi.python_forks.${way}.n2)
    add_test(NAME ${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/run_mpi.sh
        --mpiexec ${HOSTMPI_EXECUTABLE} --way ${way} --ranks 2 --env TUGBOAT_STATS=1
        --lib $<TARGET_FILE:tugboat> -- ${tug_python} ${CMAKE_CURRENT_SOURCE_DIR}/python_forks.py ctypes)
    set_tests_properties(${name} PROPERTIES
        TIMEOUT 300 SKIP_RETURN_CODE 77 PROCESSORS 2 LABELS mpi
        FAIL_REGULAR_EXPRESSION " put +0 ") # calls of ours that were not taken
endforeach()
