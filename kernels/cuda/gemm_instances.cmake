# SPDX-License-Identifier: Apache-2.0
# The instances of the matmul kernel that are built ahead, by the names of src/backend/cuda/matmul/instances.cpp; the others are
# compiled when they are first wanted. A test compares the two.
# stof_gemm(DTYPES ROWS COLUMNS STAGES WARPGROUPS TEAMS SPLIT ACTIVATION BIAS RESIDUAL X_NORM RESIDUAL_NORM
# MOMENTS GATE TURNED SHARE): see GemmShape and GemmEpilogue; the text is that of src/backend/cuda/matmul/instances.cpp.
macro(stof_gemm dtypes rows columns stages warpgroups teams split activation b r x n m gate turned share)
  set(activations none gelu gelu_tanh silu relu)
  list(FIND activations ${activation} number)
  set(flags ${b} ${r} ${x} ${n} ${m} ${gate} ${turned})
  list(TRANSFORM flags REPLACE 0 false)
  list(TRANSFORM flags REPLACE 1 true)
  list(JOIN flags ", " flags)
  set(shape "${rows}, ${columns}, ${stages}, ${warpgroups}, ${teams}, ${split}")
  set(suffix "")
  if(${gate})
    string(APPEND suffix _g1)
  endif()
  if(${turned})
    string(APPEND suffix _h1)
  endif()
  if(${share} GREATER 1)
    string(APPEND shape ", ${share}")
    string(APPEND suffix _c${share})
  endif()
  foreach(dtype ${dtypes})
    string(REPLACE bf16 Bfloat element ${dtype})
    string(REPLACE f16 Half element ${element})
    set(tile ${rows}x${columns}_s${stages}_w${warpgroups}_t${teams}_p${split})
    stof_kernel(gemm_${dtype}_${tile}_${activation}_b${b}_r${r}_x${x}_n${n}_m${m}${suffix}
"#include \"kernels/cuda/gemm.cuh\"
namespace stof::cuda {
struct Instance : GemmTraits<${element}, GemmShape{${shape}}, GemmEpilogue{${number}, ${flags}}> {};
template __global__ void gemm_kernel<Instance>(const __grid_constant__ Instance::Maps,
                                               const __grid_constant__ GemmParams);
${facts}}
" sm_90a)
  endforeach()
endmacro()

# stof_gemms(DTYPES TILES ACTIVATION BIAS RESIDUAL X_NORM RESIDUAL_NORM MOMENTS GATE), a tile being
# "ROWS COLUMNS STAGES WARPGROUPS TEAMS SPLIT SHARE"
macro(stof_gemms dtypes tiles)
  foreach(tile ${tiles})
    string(REPLACE " " ";" sizes ${tile})
    list(POP_BACK sizes share)
    stof_gemm("${dtypes}" ${sizes} ${ARGN} 0 ${share})
  endforeach()
endmacro()
set(both_dtypes "f16;bf16")

# The matmuls of encoders, and of GPT-2's prompts: with biases, gates without, each tile the one that brings most by predicted
# times of layers of seven models and of 16 to 32,768 rows, chosen one after the other; what all others would bring together is
# 4 % by these times.
stof_gemms("${both_dtypes}" "64 48 7 1 1 1 1;64 96 8 1 1 4 1;128 72 7 2 1 1 1;128 144 5 2 1 1 2;128 192 4 1 2 1 2" none 1 0 0 0 0 0)
stof_gemms("${both_dtypes}" "128 72 7 2 1 1 1;128 96 6 2 1 1 2;128 144 5 2 1 1 2;128 192 4 1 2 1 2" gelu 1 0 0 0 0 0)
stof_gemms("${both_dtypes}" "128 192 4 1 2 1 2" gelu_tanh 1 0 0 0 0 0)
stof_gemms("${both_dtypes}" "64 96 8 1 1 1 2;128 96 6 2 1 1 2;128 128 5 1 2 1 2" none 1 1 0 0 0 0)
stof_gemms("${both_dtypes}" "64 48 7 1 1 1 1;128 128 5 1 2 1 1;128 192 4 1 2 1 2" gelu 0 0 0 0 0 1)
# Norms left to the matmuls, of few rows (the norm's shift is a bias); in f16 alone, for the time that they take to build.
stof_gemms(f16 "64 96 8 1 1 1 2" none 1 0 1 0 0 0)
stof_gemms(f16 "64 64 6 1 1 1 1;64 128 3 1 1 4 1" gelu 1 0 1 0 0 0)
stof_gemms(f16 "64 96 8 1 1 1 1" gelu_tanh 1 0 1 0 0 0)
stof_gemms(f16 "64 96 8 1 1 1 2;128 96 6 2 1 1 2" gelu 1 0 1 0 0 1)
stof_gemms(f16 "64 64 4 1 1 4 1;64 64 6 1 1 1 1" none 0 1 0 0 1 0)
stof_gemms(f16 "64 64 4 1 1 4 1;64 64 8 1 1 4 1" none 1 1 0 0 1 0)
stof_gemms(f16 "64 64 4 1 1 4 1;64 64 8 1 1 4 1" none 1 1 0 1 1 0)
stof_gemms(f16 "64 64 8 1 1 4 1" none 1 1 0 1 0 0)

# The matmuls of a decoder's prompts, without biases: of q, k and v, those that add what they are given, and gates. Chosen
# in the same way, by layers of 0.6 to 8 billion weights and of 16 to 8,192 rows; all other tiles would bring 2 %. Gemma's gates, by
# the same tiles as others'.
stof_gemms("${both_dtypes}" "64 48 7 1 1 1 1;64 96 8 1 1 1 1;128 96 6 2 1 1 2;128 128 5 1 2 1 2;128 192 4 1 2 1 2" none 0 0 0 0 0 0)
stof_gemms("${both_dtypes}" "64 48 7 1 1 1 1;64 64 4 1 1 4 1;64 64 8 1 1 4 1;64 96 8 1 1 1 1;64 96 8 1 1 1 2;128 64 8 2 1 1 2;128 96 6 2 1 1 2;128 128 5 1 2 1 2;128 192 4 2 1 1 2;64 96 8 1 1 4 1"
           none 0 1 0 0 0 0)
stof_gemms("${both_dtypes}" "64 48 7 1 1 1 1;64 96 8 1 1 1 1;64 192 6 1 1 1 1;128 96 6 2 1 1 2;128 128 5 1 2 1 1;128 128 5 1 2 1 2;128 192 4 1 2 1 1;128 192 4 1 2 1 2"
           silu 0 0 0 0 0 1)
stof_gemms("${both_dtypes}" "64 48 7 1 1 1 1;64 96 8 1 1 1 1;128 192 4 1 2 1 2" gelu_tanh 0 0 0 0 0 1)

# Of encoders without biases: heads that their matmul turns (Nomic Embed, EuroBERT, ModernBERT), and T5's relu.
foreach(tile "64 48 7 1 1 1" "128 72 7 2 1 1")
  string(REPLACE " " ";" sizes ${tile})
  stof_gemm("${both_dtypes}" ${sizes} none 0 0 0 0 0 0 1 1)
endforeach()
stof_gemm("${both_dtypes}" 128 192 4 2 1 1 none 0 0 0 0 0 0 1 2)
stof_gemms("${both_dtypes}" "64 48 7 1 1 1 1;128 192 4 1 2 1 2" relu 0 0 0 0 0 0)

# Further units for who wants to do without the run-time compiler: a file of such lines.
set(STOF_MORE_KERNELS "" CACHE FILEPATH "A file of stof_gemm(...) lines: kernels to compile ahead")
if(STOF_MORE_KERNELS)
  include(${STOF_MORE_KERNELS})
endif()
