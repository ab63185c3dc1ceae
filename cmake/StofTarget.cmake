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
  target_compile_options(stof_build INTERFACE -fsanitize=${STOF_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(stof_build INTERFACE -fsanitize=${STOF_SANITIZE})
endif()
