# Finds the MPI that the library is built for, and only that one, also on machines where another MPI
# owns the names mpicc and mpiexec. TUGBOAT_MPI says which: mpich or openmpi.
#
# The compiler wrappers say where things are: the wrapper with the MPI's own name comes first, a plain
# mpicc is taken only when what it shows is that MPI. A wrapper given as a cache variable is believed.
#
# Sets      HostMPI_FOUND HostMPI_VERSION HOSTMPI_NAME HOSTMPI_INCLUDE_DIRS HOSTMPI_EXECUTABLE
#           HOSTMPI_C_WRAPPER HOSTMPI_Fortran_WRAPPER
# Provides  HostMPI::headers  include directories alone (what the library itself may use)
#           HostMPI::C        headers and the MPI library, for programs
#           HostMPI::Fortran  modules, mpif.h and the libraries, when a Fortran compiler is enabled

include(FindPackageHandleStandardArgs)

function(_hostmpi_show wrapper out)
  execute_process(COMMAND "${wrapper}" -show OUTPUT_VARIABLE text ERROR_QUIET
                  RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    set(text "")
  endif()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

# _hostmpi_pick(VARIABLE ARGUMENT PATTERN NAME...): the first program of those names that, asked with
# the argument, prints the pattern.
function(_hostmpi_pick variable argument pattern)
  if(${variable})
    return()
  endif()
  foreach(name IN LISTS ARGN)
    find_program(_hostmpi_candidate NAMES ${name} NO_CACHE)
    if(_hostmpi_candidate)
      execute_process(COMMAND "${_hostmpi_candidate}" ${argument} OUTPUT_VARIABLE text ERROR_QUIET)
      if(text MATCHES "${pattern}")
        set(${variable} "${_hostmpi_candidate}" CACHE FILEPATH "${HOSTMPI_NAME}'s own ${name}")
        return()
      endif()
    endif()
    unset(_hostmpi_candidate)
  endforeach()
endfunction()

# Splits a wrapper's -show line into include directories, library directories, libraries and flags.
function(_hostmpi_parse wrapper prefix)
  _hostmpi_show("${wrapper}" text)
  separate_arguments(words UNIX_COMMAND "${text}")
  list(POP_FRONT words)
  foreach(word IN LISTS words)
    if(word MATCHES "^-I(.+)")
      list(APPEND includes "${CMAKE_MATCH_1}")
    elseif(word MATCHES "^-L(.+)")
      list(APPEND directories "${CMAKE_MATCH_1}")
    elseif(word MATCHES "^-l(.+)")
      list(APPEND names "${CMAKE_MATCH_1}")
    elseif(word MATCHES "^-fallow-")
      list(APPEND flags "${word}")
    endif()
  endforeach()
  foreach(name IN LISTS names)
    # the wrapper's directories first: the plain name may be another MPI's on the usual path
    find_library(_hostmpi_library NAMES ${name} PATHS ${directories} NO_DEFAULT_PATH NO_CACHE)
    find_library(_hostmpi_library NAMES ${name} NO_CACHE)
    if(_hostmpi_library)
      list(APPEND libraries "${_hostmpi_library}")
    endif()
    unset(_hostmpi_library)
  endforeach()
  foreach(directory IN LISTS directories)
    if(EXISTS "${directory}/mpi.mod")
      list(APPEND includes "${directory}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES includes)
  list(REMOVE_DUPLICATES libraries)
  set(${prefix}_includes "${includes}" PARENT_SCOPE)
  set(${prefix}_libraries "${libraries}" PARENT_SCOPE)
  set(${prefix}_flags "${flags}" PARENT_SCOPE)
endfunction()

if(TUGBOAT_MPI STREQUAL "openmpi")
  set(HOSTMPI_NAME "Open MPI")
  set(_hostmpi_packages "openmpi-bin libopenmpi-dev")
  _hostmpi_pick(HOSTMPI_C_WRAPPER -show "openmpi|open-mpi" mpicc.openmpi mpicc)
  _hostmpi_pick(HOSTMPI_EXECUTABLE --version "OpenRTE|Open MPI" mpiexec.openmpi mpirun.openmpi mpiexec)
  _hostmpi_pick(HOSTMPI_Fortran_WRAPPER -show "openmpi|open-mpi" mpifort.openmpi mpifort)
else()
  set(HOSTMPI_NAME "MPICH")
  set(_hostmpi_packages "mpich libmpich-dev")
  _hostmpi_pick(HOSTMPI_C_WRAPPER -show "mpich" mpicc.mpich mpicc)
  _hostmpi_pick(HOSTMPI_EXECUTABLE --version "HYDRA|mpich" mpiexec.mpich mpiexec.hydra mpiexec)
  _hostmpi_pick(HOSTMPI_Fortran_WRAPPER -show "mpich" mpif90.mpich mpifort.mpich mpifort mpif90)
endif()

# The version that mpi.h names; empty where it is another MPI's.
function(_hostmpi_version header out)
  if(TUGBOAT_MPI STREQUAL "openmpi")
    file(STRINGS "${header}" lines REGEX "#define OMPI_(MAJOR|MINOR|RELEASE)_VERSION ")
  else()
    file(STRINGS "${header}" lines REGEX "#define MPICH_VERSION ")
  endif()
  string(REGEX MATCHALL "[0-9]+" numbers "${lines}")
  list(JOIN numbers "." version)
  set(${out} "${version}" PARENT_SCOPE)
endfunction()

if(HOSTMPI_C_WRAPPER)
  _hostmpi_parse("${HOSTMPI_C_WRAPPER}" _hostmpi_c)
  find_path(_hostmpi_header mpi.h HINTS ${_hostmpi_c_includes} NO_CACHE)
  if(_hostmpi_header)
    _hostmpi_version("${_hostmpi_header}/mpi.h" HostMPI_VERSION)
    if(HostMPI_VERSION)
      set(HOSTMPI_INCLUDE_DIRS "${_hostmpi_header}")
    endif()
  endif()
  set(HOSTMPI_LIBRARIES "${_hostmpi_c_libraries}")
endif()

find_package_handle_standard_args(HostMPI
  REQUIRED_VARS HOSTMPI_C_WRAPPER HOSTMPI_INCLUDE_DIRS HOSTMPI_LIBRARIES HOSTMPI_EXECUTABLE
  VERSION_VAR HostMPI_VERSION
  REASON_FAILURE_MESSAGE "${HOSTMPI_NAME} is needed under its own name, whatever else is installed \
(TUGBOAT_MPI is ${TUGBOAT_MPI}). On Debian: apt-get install ${_hostmpi_packages}. Elsewhere give \
-DHOSTMPI_C_WRAPPER=... and -DHOSTMPI_EXECUTABLE=... .")

if(HostMPI_FOUND AND NOT TARGET HostMPI::headers)
  add_library(HostMPI::headers INTERFACE IMPORTED)
  target_include_directories(HostMPI::headers SYSTEM INTERFACE
    ${HOSTMPI_INCLUDE_DIRS} ${_hostmpi_c_includes})
  add_library(HostMPI::C INTERFACE IMPORTED)
  target_link_libraries(HostMPI::C INTERFACE HostMPI::headers ${HOSTMPI_LIBRARIES})
endif()

if(HostMPI_FOUND AND HOSTMPI_Fortran_WRAPPER AND CMAKE_Fortran_COMPILER)
  _hostmpi_parse("${HOSTMPI_Fortran_WRAPPER}" _hostmpi_f)
  if(_hostmpi_f_libraries AND NOT TARGET HostMPI::Fortran)
    add_library(HostMPI::Fortran INTERFACE IMPORTED)
    target_include_directories(HostMPI::Fortran INTERFACE ${_hostmpi_f_includes})
    target_compile_options(HostMPI::Fortran
      INTERFACE $<$<COMPILE_LANGUAGE:Fortran>:${_hostmpi_f_flags}>)
    target_link_libraries(HostMPI::Fortran INTERFACE ${_hostmpi_f_libraries})
  endif()
endif()

mark_as_advanced(HOSTMPI_C_WRAPPER HOSTMPI_Fortran_WRAPPER HOSTMPI_EXECUTABLE)
