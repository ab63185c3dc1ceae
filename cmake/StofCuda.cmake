# SPDX-License-Identifier: Apache-2.0
# Embeds the CUDA kernels: as source, and with STOF_CUDA compiled by nvcc. Without it the library compiles what it needs
# at run time. Host code never sees nvcc: the cubins reach the GPU through the driver.
include(cmake/StofEmbed.cmake)
option(STOF_CUDA "Compile the CUDA kernels into the library (needs nvcc)" OFF)

# Every header: one that is missing would be noticed at run time only.
file(GLOB STOF_HEADER_NAMES CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
  ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cuh ${PROJECT_SOURCE_DIR}/kernels/shared/*.h)
list(TRANSFORM STOF_HEADER_NAMES PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE STOF_HEADER_FILES)
stof_embed(kernel_headers NAMES ${STOF_HEADER_NAMES} FILES ${STOF_HEADER_FILES})

if(STOF_CUDA)
  find_program(STOF_NVCC nvcc REQUIRED
    PATHS /usr/local/cuda/bin ${PROJECT_SOURCE_DIR}/.toolchain/cuda/nvidia/cu13/bin
    DOC "The CUDA compiler; tools/install_cuda.sh fetches one")
  set(nvcc ${STOF_NVCC} -std=c++20 -O3 -I${PROJECT_SOURCE_DIR} -ccbin ${CMAKE_CXX_COMPILER})
  if(STOF_WERROR)
    list(PREPEND nvcc ${PROJECT_SOURCE_DIR}/cmake/strict_nvcc.sh)
    list(APPEND nvcc --Werror=all-warnings)
  endif()
endif()
set(STOF_SOURCE_NAMES "")
set(STOF_SOURCE_FILES "")
set(STOF_CUBIN_NAMES "")
set(STOF_CUBIN_FILES "")

# stof_kernel(NAME CODE architectures...): a unit of a few lines that instantiates templates of kernels/cuda. It travels
# in the library as source, for the run-time compiler, and with STOF_CUDA as machine code of each architecture too;
# compute_80:sm_90 is machine code for the second from what the first has.
function(stof_kernel name code)
  set(source ${PROJECT_BINARY_DIR}/cubin/${name}.cu)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT "${code}")
  set(STOF_SOURCE_NAMES ${STOF_SOURCE_NAMES} ${name} PARENT_SCOPE)
  set(STOF_SOURCE_FILES ${STOF_SOURCE_FILES} ${source} PARENT_SCOPE)
  if(NOT STOF_CUDA)
    return()
  endif()
  foreach(architecture ${ARGN})
    string(REGEX REPLACE ".*:" "" machine ${architecture})
    string(REGEX REPLACE ":.*" "" virtual ${architecture})
    string(REPLACE sm_ compute_ virtual ${virtual})
    set(cubin ${PROJECT_BINARY_DIR}/cubin/${name}.${machine}.cubin)
    add_custom_command(OUTPUT ${cubin}
      COMMAND ${nvcc} -gencode arch=${virtual},code=${machine} -cubin
              -MD -MF ${cubin}.d -o ${cubin} ${source}
      DEPENDS ${source} DEPFILE ${cubin}.d
      COMMENT "nvcc ${name} for ${machine}" VERBATIM)
    list(APPEND STOF_CUBIN_NAMES ${name}.${machine})
    list(APPEND STOF_CUBIN_FILES ${cubin})
  endforeach()
  set(STOF_CUBIN_NAMES ${STOF_CUBIN_NAMES} PARENT_SCOPE)
  set(STOF_CUBIN_FILES ${STOF_CUBIN_FILES} PARENT_SCOPE)
endfunction()

include(kernels/cuda/instances.cmake)
stof_embed(kernel_sources NAMES ${STOF_SOURCE_NAMES} FILES ${STOF_SOURCE_FILES})
stof_embed(kernel_binaries NAMES ${STOF_CUBIN_NAMES} FILES ${STOF_CUBIN_FILES})
