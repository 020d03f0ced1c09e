# `cmake --install` and the package that find_package(tape8) finds. The library's own dependencies are linked
# into a consumer by the exported target; none of them shows in a public header.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS tape8 EXPORT tape8-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tape8 DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.hpp")
if(TAPE8_BUILD_TOOLS)
  install(TARGETS tape8_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tape8)
install(EXPORT tape8-targets NAMESPACE tape8:: DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tape8-config.cmake.in
                              ${PROJECT_BINARY_DIR}/tape8-config.cmake
                              INSTALL_DESTINATION ${package_dir})
# Before 1.0 a new minor version may change the interface, so only the same one will do.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tape8-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tape8-config.cmake
              ${PROJECT_BINARY_DIR}/tape8-config-version.cmake
        DESTINATION ${package_dir})
