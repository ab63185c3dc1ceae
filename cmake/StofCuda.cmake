# SPDX-License-Identifier: Apache-2.0
# Compiles kernels/cuda/*.cu to cubins with nvcc and embeds them; without STOF_CUDA the library has none and compiles
# what it needs at run time. Host code never sees nvcc: the cubins reach the GPU through the driver.
include(cmake/StofEmbed.cmake)
option(STOF_CUDA "Compile the CUDA kernels into the library (needs nvcc)" OFF)

# Every header: one that is missing would be noticed at run time only.
file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
  ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cuh ${PROJECT_SOURCE_DIR}/kernels/shared/*.h)
list(TRANSFORM headers PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE header_files)
stof_embed(kernel_headers NAMES ${headers} FILES ${header_files})

set(STOF_CUBIN_NAMES "")
set(STOF_CUBIN_FILES "")
if(STOF_CUDA)
  find_program(STOF_NVCC nvcc REQUIRED
    PATHS /usr/local/cuda/bin ${PROJECT_SOURCE_DIR}/.toolchain/cuda/nvidia/cu13/bin
    DOC "The CUDA compiler; tools/install_cuda.sh fetches one")
  set(nvcc_flags -std=c++20 -O3 -I${PROJECT_SOURCE_DIR} -ccbin ${CMAKE_CXX_COMPILER} -Xptxas=--warn-on-spills)
  if(STOF_WERROR)
    list(APPEND nvcc_flags --Werror=all-warnings)
  endif()
endif()

# stof_cubin(NAME TARGET CODE): kernels/cuda/NAME.cu for the architecture TARGET, as machine code for CODE. They differ
# in tests only: what is written for sm_80 runs on sm_90 when it is compiled as compute_80 for sm_90.
function(stof_cubin name target code)
  set(source ${PROJECT_SOURCE_DIR}/kernels/cuda/${name}.cu)
  set(cubin ${PROJECT_BINARY_DIR}/cubin/${name}.${code}.cubin)
  string(REPLACE sm_ compute_ virtual ${target})
  add_custom_command(OUTPUT ${cubin}
    COMMAND ${STOF_NVCC} ${nvcc_flags} -gencode arch=${virtual},code=${code} -cubin -MD -MF ${cubin}.d -o ${cubin} ${source}
    DEPENDS ${source} DEPFILE ${cubin}.d
    COMMENT "nvcc ${name} for ${code}" VERBATIM)
  set(STOF_CUBIN_NAMES ${STOF_CUBIN_NAMES} ${name}.${code} PARENT_SCOPE)
  set(STOF_CUBIN_FILES ${STOF_CUBIN_FILES} ${cubin} PARENT_SCOPE)
endfunction()

if(STOF_CUDA)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/cubin)
  include(kernels/cuda/instances.cmake)
endif()
stof_embed(kernel_binaries NAMES ${STOF_CUBIN_NAMES} FILES ${STOF_CUBIN_FILES})
