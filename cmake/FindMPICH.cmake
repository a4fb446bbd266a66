# Finds MPICH, and only MPICH, also on machines where another MPI owns the names mpicc and mpiexec.
#
# The compiler wrappers say where things are: the wrapper with MPICH's own name comes first, a plain
# mpicc is taken only when what it shows is MPICH. A wrapper given as a cache variable is believed
# but checked too.
#
# Sets      MPICH_FOUND MPICH_VERSION MPICH_INCLUDE_DIRS MPICH_LIBRARIES MPICH_EXECUTABLE
#           MPICH_C_WRAPPER MPICH_Fortran_WRAPPER MPICH_Fortran_FOUND
# Provides  MPICH::headers  include directories alone (what the library itself may use)
#           MPICH::C        headers and libmpich, for programs
#           MPICH::Fortran  modules, mpif.h and libmpichfort, when a Fortran compiler is enabled

include(FindPackageHandleStandardArgs)

function(_mpich_show wrapper out)
  execute_process(COMMAND "${wrapper}" -show OUTPUT_VARIABLE text ERROR_QUIET
                  RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    set(text "")
  endif()
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

function(_mpich_pick variable kind)
  if(${variable})
    return()
  endif()
  foreach(name IN LISTS ARGN)
    find_program(_mpich_candidate NAMES ${name} NO_CACHE)
    if(_mpich_candidate)
      if(kind STREQUAL "launcher")
        execute_process(COMMAND "${_mpich_candidate}" --version OUTPUT_VARIABLE text ERROR_QUIET)
        set(wanted "HYDRA|mpich")
      else()
        _mpich_show("${_mpich_candidate}" text)
        set(wanted "-lmpich|mpich")
      endif()
      if(text MATCHES "${wanted}")
        set(${variable} "${_mpich_candidate}" CACHE FILEPATH "MPICH's own ${name}")
        return()
      endif()
    endif()
    unset(_mpich_candidate)
  endforeach()
endfunction()

# Splits a wrapper's -show line into include directories, library directories, libraries and flags.
function(_mpich_parse wrapper prefix)
  _mpich_show("${wrapper}" text)
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
    find_library(_mpich_library NAMES ${name} HINTS ${directories} NO_CACHE)
    if(_mpich_library)
      list(APPEND libraries "${_mpich_library}")
    endif()
    unset(_mpich_library)
  endforeach()
  list(REMOVE_DUPLICATES includes)
  list(REMOVE_DUPLICATES libraries)
  set(${prefix}_includes "${includes}" PARENT_SCOPE)
  set(${prefix}_libraries "${libraries}" PARENT_SCOPE)
  set(${prefix}_flags "${flags}" PARENT_SCOPE)
endfunction()

_mpich_pick(MPICH_C_WRAPPER wrapper mpicc.mpich mpicc)
_mpich_pick(MPICH_EXECUTABLE launcher mpiexec.mpich mpiexec.hydra mpiexec)
_mpich_pick(MPICH_Fortran_WRAPPER wrapper mpif90.mpich mpifort.mpich mpifort mpif90)

if(MPICH_C_WRAPPER)
  _mpich_parse("${MPICH_C_WRAPPER}" _mpich_c)
  find_path(_mpich_header mpi.h HINTS ${_mpich_c_includes} NO_CACHE)
  if(_mpich_header)
    file(STRINGS "${_mpich_header}/mpi.h" _mpich_line REGEX "#define MPICH_VERSION ")
    if(_mpich_line MATCHES "\"([^\"]+)\"")
      set(MPICH_VERSION "${CMAKE_MATCH_1}")
      set(MPICH_INCLUDE_DIRS "${_mpich_header}")
    endif()
  endif()
  set(MPICH_LIBRARIES "${_mpich_c_libraries}")
endif()

find_package_handle_standard_args(MPICH
  REQUIRED_VARS MPICH_C_WRAPPER MPICH_INCLUDE_DIRS MPICH_LIBRARIES MPICH_EXECUTABLE
  VERSION_VAR MPICH_VERSION
  REASON_FAILURE_MESSAGE "MPICH is needed under its own name, whatever else is installed. \
On Debian: apt-get install mpich libmpich-dev. Elsewhere give -DMPICH_C_WRAPPER=... and \
-DMPICH_EXECUTABLE=... .")

if(MPICH_FOUND AND NOT TARGET MPICH::headers)
  add_library(MPICH::headers INTERFACE IMPORTED)
  target_include_directories(MPICH::headers SYSTEM INTERFACE ${MPICH_INCLUDE_DIRS})
  add_library(MPICH::C INTERFACE IMPORTED)
  target_link_libraries(MPICH::C INTERFACE MPICH::headers ${MPICH_LIBRARIES})
endif()

set(MPICH_Fortran_FOUND FALSE)
if(MPICH_FOUND AND MPICH_Fortran_WRAPPER AND CMAKE_Fortran_COMPILER)
  _mpich_parse("${MPICH_Fortran_WRAPPER}" _mpich_f)
  if(_mpich_f_libraries)
    set(MPICH_Fortran_FOUND TRUE)
    if(NOT TARGET MPICH::Fortran)
      add_library(MPICH::Fortran INTERFACE IMPORTED)
      target_include_directories(MPICH::Fortran INTERFACE ${_mpich_f_includes})
      target_compile_options(MPICH::Fortran
        INTERFACE $<$<COMPILE_LANGUAGE:Fortran>:${_mpich_f_flags}>)
      target_link_libraries(MPICH::Fortran INTERFACE ${_mpich_f_libraries})
    endif()
  endif()
endif()

mark_as_advanced(MPICH_C_WRAPPER MPICH_Fortran_WRAPPER MPICH_EXECUTABLE)
