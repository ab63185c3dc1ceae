# SPDX-License-Identifier: Apache-2.0
# The one place for language level, warnings and sanitizers; no consumer sees it.
add_library(stof_build INTERFACE)
target_compile_features(stof_build INTERFACE cxx_std_20)
# The baseline outside the kernels, which choose their instruction set at run time: every x86 processor since 2009.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(stof_build INTERFACE -march=x86-64-v2)
endif()
target_compile_options(stof_build INTERFACE -Wall -Wextra -Wshadow -Wconversion)
if(STOF_WERROR)
  target_compile_options(stof_build INTERFACE -Werror)
endif()
if(STOF_SANITIZE)
  add_compile_options(-fsanitize=${STOF_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${STOF_SANITIZE})
  if(CMAKE_C_COMPILER_ID STREQUAL Clang)  # for programs in C that load what is in C++
    set(STOF_SANITIZE_CXX_FROM_C -fsanitize-link-c++-runtime -lstdc++)
    target_sources(stof_build INTERFACE ${CMAKE_CURRENT_LIST_DIR}/sanitized_openmp.cpp)
  endif()
endif()
