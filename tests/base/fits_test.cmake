# tug_mpi_fits(): the MPI of this build fits; a header of the other, and none at all, are said not to.
# cmake -DCMAKE_C_COMPILER=... -DSOURCE_DIR=... -DMPI=... -DINCLUDES=... -P fits_test.cmake

include("${SOURCE_DIR}/cmake/fits.cmake")

tug_mpi_fits(complaint "${SOURCE_DIR}" ${MPI} ${INCLUDES})
if(complaint)
  message(FATAL_ERROR "the MPI of this build does not fit: ${complaint}")
endif()
tug_mpi_fits(complaint "${SOURCE_DIR}" ${MPI} "${SOURCE_DIR}/nowhere")
if(NOT complaint MATCHES "error.*mpi\\.h")
  message(FATAL_ERROR "without mpi.h: '${complaint}'")
endif()
if(MPI STREQUAL "mpich") # its mpi.h is nothing that src/host/openmpi can stand on
  tug_mpi_fits(complaint "${SOURCE_DIR}" openmpi ${INCLUDES})
  if(NOT complaint MATCHES "error.*conflicting")
    message(FATAL_ERROR "an mpi.h that declares what ours does: '${complaint}'")
  endif()
endif()
