# Sets export_map, the linker's list of what the library may show: cmake/tugboat.map, and for Open MPI
# without the entries of calls that none of its versions has. A program that looks whether MPI_Put_c can
# be linked must find what it would find without us.

set(export_map "${CMAKE_CURRENT_SOURCE_DIR}/cmake/tugboat.map")

if(TUGBOAT_MPI STREQUAL "openmpi")
  set(calls "${CMAKE_CURRENT_SOURCE_DIR}/src/host/sized_calls.def")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${calls}" "${export_map}")
  file(STRINGS "${calls}" rows REGEX "^TUG_ROW\\(")
  set(lacking "")
  foreach(row IN LISTS rows)
    if(row MATCHES "^TUG_ROW\\([^()]*TUG_SIZED\\(([A-Za-z_]+)\\)")
      string(APPEND lacking "        MPI_${CMAKE_MATCH_1}_c; PMPI_${CMAKE_MATCH_1}_c;\n")
    endif()
  endforeach()
  file(READ "${export_map}" map)
  string(REPLACE "    local:\n" "    local:\n${lacking}" map "${map}")
  string(REPLACE " MPII_Win_get_attr;" "" map "${map}")
  set(export_map "${PROJECT_BINARY_DIR}/tugboat.map")
  file(CONFIGURE OUTPUT "${export_map}" CONTENT "${map}" @ONLY)
endif()
