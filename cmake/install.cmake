# Installed layout: bin/tugboat, LIBDIR/libtugboat.{so,a}, include/tugboat/, pkg-config, documents.
# Packages: `cpack -G DEB` and `cpack -G TGZ` in a build directory.

# The file finds its prefix from where it lies: a package may have another prefix than this build.
file(RELATIVE_PATH pkgconfig_to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file(packaging/tugboat.pc.in "${PROJECT_BINARY_DIR}/tugboat.pc" @ONLY)

install(TARGETS tugboat tugboat_static tugboat_cmd
        RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}"
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY include/ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h" PATTERN "*.f90")
install(FILES "${PROJECT_BINARY_DIR}/tugboat.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
install(FILES docs/tugboat.1 DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
install(FILES README.md CHANGELOG.md LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" OPTIONAL)

set(CPACK_PACKAGE_NAME tugboat)
set(CPACK_PACKAGE_VENDOR "The Tugboat authors")
set(CPACK_PACKAGE_CONTACT "The Tugboat authors <tugboat@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE "${CMAKE_CURRENT_SOURCE_DIR}/LICENSE")
set(CPACK_GENERATOR "DEB;TGZ")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.34)")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "mpich")
include(CPack)
