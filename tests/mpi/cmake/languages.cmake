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
