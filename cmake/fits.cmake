# Whether the library compiles for an MPI, as far as a look at one source that names all of its calls tells.

# tug_mpi_fits(OUT SOURCE_DIR MPI INCLUDE...): "" if it does, else the compiler's first complaint. MPI: mpich or
# openmpi; INCLUDE: its include directories.
function(tug_mpi_fits out source_dir mpi)
  foreach(directory IN ITEMS include src .)
    list(APPEND flags "-I${source_dir}/${directory}")
  endforeach()
  if(mpi STREQUAL "openmpi")
    list(APPEND flags "-I${source_dir}/src/host/openmpi")
  endif()
  foreach(directory IN LISTS ARGN)
    list(APPEND flags -isystem "${directory}")
  endforeach()
  execute_process(COMMAND "${CMAKE_C_COMPILER}" -std=gnu11 -D_GNU_SOURCE -w -fsyntax-only ${flags}
                          "${source_dir}/src/host/host.c"
                  RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE text)
  set(complaint "")
  if(NOT status EQUAL 0)
    string(REGEX MATCH "[^\n]*error[^\n]*" complaint "${text}")
    if(NOT complaint)
      set(complaint "the compiler fails (${status})")
    endif()
  endif()
  set(${out} "${complaint}" PARENT_SCOPE)
endfunction()
