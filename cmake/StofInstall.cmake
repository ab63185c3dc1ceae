# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where, and what find_package(stof) finds: stof::stof, the C++ library, static, and
# stof::c, the shared library with C functions. The program and the package for
# Python come along.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/stof)
set_target_properties(stof_dependencies PROPERTIES EXPORT_NAME dependencies)
foreach(target stof stof_c)
  target_include_directories(${target} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
install(TARGETS stof stof_dependencies EXPORT stof_cxx ARCHIVE COMPONENT cxx)
install(TARGETS stof_c EXPORT stof_c LIBRARY COMPONENT c NAMELINK_COMPONENT c)
install(TARGETS stof_cli RUNTIME COMPONENT program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/stof DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT c)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/stof DESTINATION ${CMAKE_INSTALL_LIBDIR}/python COMPONENT c
  FILES_MATCHING PATTERN *.py PATTERN py.typed)
install(EXPORT stof_cxx NAMESPACE stof:: DESTINATION ${package} FILE stof-cxx.cmake COMPONENT cxx)
install(EXPORT stof_c NAMESPACE stof:: DESTINATION ${package} FILE stof-c.cmake COMPONENT c)

write_basic_package_version_file(${PROJECT_BINARY_DIR}/stof-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/stof-config.cmake ${PROJECT_BINARY_DIR}/stof-config-version.cmake
  DESTINATION ${package} COMPONENT c)
