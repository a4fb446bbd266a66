# Installed layout: bin/tugboat, LIBDIR/libtugboat.{so,a}, LIBDIR/tugboat/libtugboat-{mpich,openmpi}.so, include/tugboat/, what finds them (pkg-config,
# a CMake package, a modulefile), documents. Everything finds its prefix from where it lies: a package
# or `cmake --install --prefix` may put it elsewhere than this build expects.
# Packages: `cpack -G DEB` and `cpack -G TGZ` in a build directory.
include(CMakePackageConfigHelpers)

set(cmakedir "${CMAKE_INSTALL_LIBDIR}/cmake/Tugboat")
set(moduledir "${CMAKE_INSTALL_DATADIR}/tugboat/modulefiles/tugboat")

file(RELATIVE_PATH pkgconfig_to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
file(RELATIVE_PATH module_to_prefix "/${moduledir}" "/")
configure_file(packaging/tugboat.pc.in "${PROJECT_BINARY_DIR}/tugboat.pc" @ONLY)
configure_file(packaging/modulefile.in "${PROJECT_BINARY_DIR}/modulefile" @ONLY)
configure_package_config_file(packaging/TugboatConfig.cmake.in
  "${PROJECT_BINARY_DIR}/TugboatConfig.cmake" INSTALL_DESTINATION "${cmakedir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/TugboatConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)

set_target_properties(tugboat_static PROPERTIES EXPORT_NAME static)
install(TARGETS ${TUGBOAT_INSTALLED} tugboat_static EXPORT Tugboat
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(TARGETS tugboat_own LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/tugboat")
if(TUGBOAT_OTHER_MPI)
  install(PROGRAMS "${other_library}" DESTINATION "${CMAKE_INSTALL_LIBDIR}/tugboat")
  install(PROGRAMS "${other_command}" DESTINATION "${CMAKE_INSTALL_BINDIR}")
  install(CODE "if(CMAKE_INSTALL_DO_STRIP)
    execute_process(COMMAND \"${CMAKE_STRIP}\"
      \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/tugboat-${TUGBOAT_OTHER_MPI}\"
      \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/tugboat/libtugboat-${TUGBOAT_OTHER_MPI}.so\")
  endif()")
endif()
install(TARGETS tugboat_cmd RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(DIRECTORY include/ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h" PATTERN "*.f90")
install(EXPORT Tugboat NAMESPACE Tugboat:: FILE TugboatTargets.cmake DESTINATION "${cmakedir}")
install(FILES "${PROJECT_BINARY_DIR}/TugboatConfig.cmake"
              "${PROJECT_BINARY_DIR}/TugboatConfigVersion.cmake" DESTINATION "${cmakedir}")
install(FILES "${PROJECT_BINARY_DIR}/tugboat.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
install(FILES "${PROJECT_BINARY_DIR}/modulefile" DESTINATION "${moduledir}" RENAME "${PROJECT_VERSION}")
install(FILES README.md CHANGELOG.md LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" OPTIONAL)
install(DIRECTORY docs/ DESTINATION "${CMAKE_INSTALL_DOCDIR}" FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.html" PATTERN man EXCLUDE)
install(DIRECTORY examples DESTINATION "${CMAKE_INSTALL_DOCDIR}")

# The manual is made when the library is built.
file(GLOB manual_sources CONFIGURE_DEPENDS docs/*.md docs/*.1 docs/man/* include/*.h include/*/*.h)
add_custom_command(OUTPUT "${PROJECT_BINARY_DIR}/man/made"
  COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/docs/man/make.sh" "${CMAKE_CURRENT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/man"
  COMMAND "${CMAKE_COMMAND}" -E touch "${PROJECT_BINARY_DIR}/man/made"
  DEPENDS ${manual_sources} VERBATIM)
add_custom_target(tugboat_manual ALL DEPENDS "${PROJECT_BINARY_DIR}/man/made")
install(DIRECTORY "${PROJECT_BINARY_DIR}/man/" DESTINATION "${CMAKE_INSTALL_MANDIR}" PATTERN made EXCLUDE)

# One package for both hosts. An earlier one for Open MPI alone had a name of its own.
set(CPACK_PACKAGE_NAME tugboat)
set(CPACK_DEBIAN_PACKAGE_REPLACES tugboat-openmpi)
set(CPACK_DEBIAN_PACKAGE_CONFLICTS tugboat-openmpi)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "mpich | openmpi-bin")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "ibverbs-providers, libfabric1") # opened at run time where they are there
set(CPACK_PACKAGE_VENDOR "The Tugboat authors")
set(CPACK_PACKAGE_CONTACT "The Tugboat authors <tugboat@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE "${CMAKE_CURRENT_SOURCE_DIR}/LICENSE")
set(CPACK_GENERATOR "DEB;TGZ")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.34)")
include(CPack)
