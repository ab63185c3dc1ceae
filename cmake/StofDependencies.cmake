# SPDX-License-Identifier: Apache-2.0
# Third-party libraries, all from the distribution.
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenMP REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(dnnl REQUIRED)
find_package(PNG REQUIRED)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)

add_library(stof_dependencies INTERFACE)
target_link_libraries(stof_dependencies INTERFACE
  fmt::fmt $<BUILD_INTERFACE:nlohmann_json::nlohmann_json> OpenMP::OpenMP_CXX DNNL::dnnl PNG::PNG PkgConfig::hwy PkgConfig::utf8proc)
