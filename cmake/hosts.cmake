# The libraries for both hosts, side by side: lib/tugboat/libtugboat-mpich.so and libtugboat-openmpi.so.
# They have the SONAME of libtugboat.so: a program that is linked with that takes the preloaded one instead
# of a second one. So they have a folder of their own, where ldconfig makes no links to them.
#
# TUGBOAT_MPI is the host of this build, and lib/libtugboat.so of the build folder is its library. The
# other host's comes from a second configuration in hosts/, which compiles the library alone, and only
# where that MPI is found and fits: one that is too new, or lacks its headers, is left out with a line that
# says why. Sets TUGBOAT_OTHER_MPI to its name, or to nothing.
#
# So does bin/tugboat-<host>, the command for what starts ranks of its own (selftest, calibrate).
#
# Target tugboat_hosts: what is installed beside the command.

include(cmake/fits.cmake)

option(TUGBOAT_BOTH "Build the library for the other host MPI too, where that is installed" ON)

set(TUGBOAT_HOST_LIBRARY_DIR "${PROJECT_BINARY_DIR}/hosts" CACHE PATH "Folder of libtugboat-<host>.so")
mark_as_advanced(TUGBOAT_HOST_LIBRARY_DIR)

add_library(tugboat_own SHARED $<TARGET_OBJECTS:tugboat_objects>)
set_target_properties(tugboat_own PROPERTIES
  OUTPUT_NAME tugboat-${TUGBOAT_MPI} LINKER_LANGUAGE C NO_SONAME ON
  LIBRARY_OUTPUT_DIRECTORY "${TUGBOAT_HOST_LIBRARY_DIR}" LINK_DEPENDS "${export_map}")
target_link_options(tugboat_own PRIVATE $<TARGET_PROPERTY:tugboat,LINK_OPTIONS>
  "LINKER:-soname,libtugboat.so.${PROJECT_VERSION_MAJOR}")
target_link_libraries(tugboat_own PRIVATE tugboat_options Threads::Threads ${CMAKE_DL_LIBS})
add_custom_target(tugboat_hosts ALL DEPENDS tugboat_own)

set(TUGBOAT_OTHER_MPI "")
if(TUGBOAT_BOTH AND NOT TUGBOAT_SANITIZE)
  set(own_name "${HOSTMPI_NAME}")
  if(TUGBOAT_MPI STREQUAL "openmpi")
    set(HOSTMPI_NAME MPICH)
    set(other mpich)
    _hostmpi_pick(TUGBOAT_OTHER_C_WRAPPER -show "mpich" mpicc.mpich mpicc)
    _hostmpi_pick(TUGBOAT_OTHER_EXECUTABLE --version "HYDRA|mpich" mpiexec.mpich mpiexec.hydra mpiexec)
  else()
    set(HOSTMPI_NAME "Open MPI")
    set(other openmpi)
    _hostmpi_pick(TUGBOAT_OTHER_C_WRAPPER -show "openmpi|open-mpi" mpicc.openmpi mpicc)
    _hostmpi_pick(TUGBOAT_OTHER_EXECUTABLE --version "OpenRTE|Open MPI" mpiexec.openmpi mpirun.openmpi mpiexec)
  endif()
  set(HOSTMPI_NAME "${own_name}")
  mark_as_advanced(TUGBOAT_OTHER_C_WRAPPER TUGBOAT_OTHER_EXECUTABLE)
  if(TUGBOAT_OTHER_C_WRAPPER AND TUGBOAT_OTHER_EXECUTABLE)
    _hostmpi_parse("${TUGBOAT_OTHER_C_WRAPPER}" other)
    tug_mpi_fits(complaint "${PROJECT_SOURCE_DIR}" ${other} ${other_includes})
    if(complaint)
      message(STATUS "The library for ${other} beside this one is left out: ${complaint}")
    else()
      set(TUGBOAT_OTHER_MPI ${other})
    endif()
  endif()
endif()

if(TUGBOAT_OTHER_MPI)
  include(ExternalProject)
  set(other_dir "${PROJECT_BINARY_DIR}/hosts/${TUGBOAT_OTHER_MPI}")
  set(other_library "${PROJECT_BINARY_DIR}/lib/tugboat/libtugboat-${TUGBOAT_OTHER_MPI}.so")
  set(other_command "${PROJECT_BINARY_DIR}/bin/tugboat-${TUGBOAT_OTHER_MPI}")
  set(other_archive "${other_dir}/lib/libtugboat.a")
  set(other_arguments
    -DTUGBOAT_MPI=${TUGBOAT_OTHER_MPI} -DHOSTMPI_C_WRAPPER=${TUGBOAT_OTHER_C_WRAPPER}
    -DHOSTMPI_EXECUTABLE=${TUGBOAT_OTHER_EXECUTABLE} -DTUGBOAT_BOTH=OFF -DBUILD_TESTING=OFF
    -DTUGBOAT_HOST_LIBRARY_DIR=${PROJECT_BINARY_DIR}/lib/tugboat
    -DTUGBOAT_COMMAND=${other_command})
  foreach(name IN ITEMS CMAKE_BUILD_TYPE CMAKE_MAKE_PROGRAM CMAKE_C_COMPILER CMAKE_CXX_COMPILER CMAKE_C_FLAGS
          CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER TUGBOAT_WERROR TUGBOAT_VERBS TUGBOAT_OFI
          TUGBOAT_ACP_KEY_BITS TUGBOAT_ACP_OFFSET_BITS CMAKE_INSTALL_PREFIX CMAKE_INSTALL_LIBDIR)
    if(DEFINED ${name})
      list(APPEND other_arguments "-D${name}=${${name}}")
    endif()
  endforeach()
  ExternalProject_Add(tugboat_other
    SOURCE_DIR "${PROJECT_SOURCE_DIR}" BINARY_DIR "${other_dir}" PREFIX "${PROJECT_BINARY_DIR}/hosts/state"
    CMAKE_ARGS ${other_arguments}
    BUILD_COMMAND "${CMAKE_COMMAND}" --build <BINARY_DIR> --target tugboat_own tugboat_static tugboat_cmd
    INSTALL_COMMAND "" TEST_COMMAND "" BUILD_ALWAYS ON EXCLUDE_FROM_ALL ON
    BUILD_BYPRODUCTS "${other_library}" "${other_archive}" "${other_command}")
  add_dependencies(tugboat_hosts tugboat_other)
endif()

# libtugboat.so of the installation: with two hosts what picks one of them, see src/pick/pick.c; else
# this build's.
set(TUGBOAT_INSTALLED tugboat)
if(TUGBOAT_OTHER_MPI AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
  enable_language(ASM)
  set(pick_dir "${PROJECT_BINARY_DIR}/hosts/pick")
  add_custom_command(OUTPUT "${pick_dir}/names.S" "${pick_dir}/mpich.o" "${pick_dir}/openmpi.o"
    COMMAND "${PROJECT_SOURCE_DIR}/src/pick/make.sh" "${pick_dir}" "${CMAKE_LINKER}" "${CMAKE_OBJCOPY}" "${CMAKE_NM}"
            ${TUGBOAT_MPI} "$<TARGET_FILE:tugboat_own>" "$<TARGET_FILE:tugboat_static>"
            ${TUGBOAT_OTHER_MPI} "${other_library}" "${other_archive}"
    DEPENDS src/pick/make.sh tugboat_own tugboat_static "${other_library}" "${other_archive}" VERBATIM)
  add_library(tugboat_pick SHARED src/pick/pick.c
    "${pick_dir}/names.S" "${pick_dir}/mpich.o" "${pick_dir}/openmpi.o")
  set_source_files_properties("${pick_dir}/names.S" PROPERTIES OBJECT_DEPENDS "${PROJECT_SOURCE_DIR}/src/pick/entry.S")
  set_source_files_properties("${pick_dir}/mpich.o" "${pick_dir}/openmpi.o" PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  set_target_properties(tugboat_pick PROPERTIES
    OUTPUT_NAME tugboat EXPORT_NAME tugboat VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    LINKER_LANGUAGE C C_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY "${TUGBOAT_HOST_LIBRARY_DIR}"
    LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/tugboat.map")
  target_include_directories(tugboat_pick PRIVATE src)
  target_link_options(tugboat_pick PRIVATE
    "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/tugboat.map" LINKER:--no-undefined)
  target_link_libraries(tugboat_pick PRIVATE tugboat_options Threads::Threads ${CMAKE_DL_LIBS})
  add_dependencies(tugboat_pick tugboat_other)
  add_dependencies(tugboat_hosts tugboat_pick)
  set(TUGBOAT_INSTALLED tugboat_pick)
endif()
