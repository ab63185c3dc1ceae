# SPDX-License-Identifier: Apache-2.0
# The instances of the attention kernels, by the names and numbers of src/backend/cuda/attention/instances.h; a test
# compares the two. kernel_facts is what the host reads out of the machine code before it launches.
set(facts "extern \"C\" __device__ int kernel_facts[2] = {sizeof(Instance::Shared), Instance::kThreads};\n")

# stof_stream(HEAD_DIM TEAMS PARTS TILES STAGES CTAS GROUPS [QUERIES [MORE_KEYS]] [STACKED]): see StreamShape. One more
# kernel for keys in pages, and one for items that are shorter than planned.
macro(stof_stream d teams parts tiles stages ctas groups)
  set(queries 2)
  set(more_keys 0)
  set(stacked false)
  set(suffix "")
  if("${ARGN}" MATCHES "^[12]")
    set(queries ${ARGV7})
  endif()
  if("${ARGN}" MATCHES "^[12];1")
    set(more_keys 1)
  endif()
  if(${queries} EQUAL 1)
    string(APPEND suffix _q1)
  endif()
  if(${more_keys} EQUAL 1)
    string(APPEND suffix _m1)
  endif()
  if("${ARGN}" MATCHES "STACKED")
    set(stacked true)
    string(APPEND suffix _stacked)
  endif()
  set(shape "StreamShape{${teams}, ${parts}, ${tiles}, ${stages}, ${ctas}, ${groups}")
  string(APPEND shape ", ${queries}, false, ${more_keys}, ${stacked}}")
  foreach(element Half Bfloat)
    string(REPLACE Half f16 dtype ${element})
    string(REPLACE Bfloat bf16 dtype ${dtype})
    stof_kernel(stream_${dtype}_d${d}_t${teams}_p${parts}_k${tiles}_s${stages}_c${ctas}_g${groups}${suffix}
"#include \"kernels/cuda/stream_attention.cuh\"
#include \"kernels/cuda/stream_sum.cuh\"
namespace stof::cuda {
struct Instance : StreamTraits<${element}, ${d}, ${shape}> {};
template __global__ void stream_attention_kernel<Instance>(const __grid_constant__ AttentionMaps,
                                                           const __grid_constant__ StreamParams);
struct PagedInstance : StreamTraits<${element}, ${d}, paged(${shape})> {};
template __global__ void stream_attention_kernel<PagedInstance>(const __grid_constant__ AttentionMaps,
                                                                const __grid_constant__ PagedStreamParams);
struct ListedInstance : StreamTraits<${element}, ${d}, listed(${shape})> {};
template __global__ void stream_attention_kernel<ListedInstance>(const __grid_constant__ AttentionMaps,
                                                                 const __grid_constant__ ListedStreamParams);
template __global__ void stream_sum_kernel<ListedInstance>(const __grid_constant__ ListedStreamParams);
${facts}}
" sm_90a)
  endforeach()
endmacro()

# stof_band(HEAD_DIM PARTS KEYS CTAS): see BandShape. One kernel for equal items, one for ragged ones, one for keys in
# pages.
macro(stof_band d parts keys ctas)
  set(shape "BandShape{${parts}, ${keys}, ${ctas}}")
  foreach(element Half Bfloat)
    string(REPLACE Half f16 dtype ${element})
    string(REPLACE Bfloat bf16 dtype ${dtype})
    stof_kernel(band_${dtype}_d${d}_p${parts}_k${keys}_c${ctas}
"#include \"kernels/cuda/band_attention.cuh\"
namespace stof::cuda {
struct Instance : BandTraits<${element}, ${d}, ${shape}> {};
template __global__ void band_attention_kernel<Instance>(const __grid_constant__ AttentionMaps,
                                                         const __grid_constant__ BandParams);
struct RaggedInstance : BandTraits<${element}, ${d}, ragged(${shape})> {};
template __global__ void band_attention_kernel<RaggedInstance>(const __grid_constant__ AttentionMaps,
                                                               const __grid_constant__ RaggedBandParams);
struct PagedInstance : BandTraits<${element}, ${d}, paged(${shape})> {};
template __global__ void band_attention_kernel<PagedInstance>(const __grid_constant__ AttentionMaps,
                                                              const __grid_constant__ PagedBandParams);
${facts}}
" sm_90a)
  endforeach()
endmacro()

# stof_mma(HEAD_DIM PARTS SLABS STAGES CTAS): see MmaShape. One more kernel for keys in pages, and two for packed masks,
# where PARTS is 1.
macro(stof_mma d parts slabs stages ctas)
  set(shape "${parts}, ${slabs}, ${stages}, ${ctas}")
  foreach(element Half Bfloat)
    string(REPLACE Half f16 dtype ${element})
    string(REPLACE Bfloat bf16 dtype ${dtype})
    set(packed "")
    if(${parts} EQUAL 1)
      set(packed
"struct PackedInstance : MmaTraits<${element}, ${d}, MmaShape{${shape}, true}> {};
struct PagedPackedInstance : MmaTraits<${element}, ${d}, MmaShape{${shape}, true, true}> {};
template __global__ void mma_attention_kernel<PackedInstance>(const __grid_constant__ MmaParams);
template __global__ void mma_attention_kernel<PagedPackedInstance>(const __grid_constant__ MmaParams);
")
    endif()
    stof_kernel(mma_${dtype}_d${d}_p${parts}_w${slabs}_s${stages}_c${ctas}
"#include \"kernels/cuda/mma_attention.cuh\"
namespace stof::cuda {
struct Instance : MmaTraits<${element}, ${d}, MmaShape{${shape}}> {};
struct PagedInstance : MmaTraits<${element}, ${d}, MmaShape{${shape}, false, true}> {};
template __global__ void mma_attention_kernel<Instance>(const __grid_constant__ MmaParams);
template __global__ void mma_attention_kernel<PagedInstance>(const __grid_constant__ MmaParams);
${packed}${facts}}
" sm_80 compute_80:sm_90)
  endforeach()
endmacro()

# stof_gather(HEAD_DIM PIECES CTAS): see GatherShape. One kernel for equal items, one for ragged ones.
macro(stof_gather d pieces ctas)
  foreach(element Half Bfloat)
    string(REPLACE Half f16 dtype ${element})
    string(REPLACE Bfloat bf16 dtype ${dtype})
    stof_kernel(gather_${dtype}_d${d}_n${pieces}_c${ctas}
"#include \"kernels/cuda/gather_attention.cuh\"
namespace stof::cuda {
struct Instance : GatherTraits<${element}, ${d}, GatherShape{${pieces}, ${ctas}}> {};
struct RaggedInstance : GatherTraits<${element}, ${d}, GatherShape{${pieces}, ${ctas}, true}> {};
template __global__ void gather_attention_kernel<Instance>(const __grid_constant__ AttentionMaps,
                                                           const __grid_constant__ GatherParams);
template __global__ void gather_attention_kernel<RaggedInstance>(const __grid_constant__ AttentionMaps,
                                                                 const __grid_constant__ GatherParams);
${facts}}
" sm_90a)
  endforeach()
endmacro()

# stof_decode(HEAD_DIM CTAS WARPGROUPS): one kernel each for tasks of up to 16, 32 and 64 rows, and two of up to 64 for
# warpgroups, one of them for calls with draft trees
macro(stof_decode d ctas warpgroups)
  foreach(element Half Bfloat)
    string(REPLACE Half f16 dtype ${element})
    string(REPLACE Bfloat bf16 dtype ${dtype})
    stof_kernel(decode_${dtype}_d${d}_c${ctas}
"#include \"kernels/cuda/decode_attention.cuh\"
#include \"kernels/cuda/decode_sum.cuh\"
namespace stof::cuda {
struct Instance : DecodeTraits<${element}, ${d}, DecodeShape{${ctas}, 1}> {};
struct TwoRowWarps : DecodeTraits<${element}, ${d}, DecodeShape{${ctas}, 2}> {};
struct FourRowWarps : DecodeTraits<${element}, ${d}, DecodeShape{${ctas}, 4}> {};
template __global__ void decode_attention_kernel<Instance>(const __grid_constant__ DecodeParams);
template __global__ void decode_attention_kernel<TwoRowWarps>(const __grid_constant__ DecodeParams);
template __global__ void decode_attention_kernel<FourRowWarps>(const __grid_constant__ DecodeParams);
template __global__ void decode_sum_kernel<Instance>(const __grid_constant__ DecodeParams);
template __global__ void decode_sum_kernel<TwoRowWarps>(const __grid_constant__ DecodeParams);
template __global__ void decode_sum_kernel<FourRowWarps>(const __grid_constant__ DecodeParams);
${facts}}
" sm_80 sm_90a)
    stof_kernel(decode_${dtype}_d${d}_g${warpgroups}
"#include \"kernels/cuda/decode_attention.cuh\"
#include \"kernels/cuda/decode_sum.cuh\"
namespace stof::cuda {
struct Instance : DecodeTraits<${element}, ${d}, DecodeShape{1, 4, ${warpgroups}, false}> {};
struct TreeInstance : DecodeTraits<${element}, ${d}, DecodeShape{1, 4, ${warpgroups}}> {};
template __global__ void decode_attention_kernel<Instance>(const __grid_constant__ DecodeParams);
template __global__ void decode_attention_kernel<TreeInstance>(const __grid_constant__ DecodeParams);
template __global__ void decode_sum_kernel<Instance>(const __grid_constant__ DecodeParams);
${facts}}
" sm_90a)
  endforeach()
endmacro()

stof_stream(32 4 1 1 2 1 1)
stof_stream(32 2 2 1 4 1 1)
stof_stream(32 2 1 1 4 1 2)
stof_stream(32 1 3 1 6 1 1)
stof_stream(64 4 1 1 2 1 1)
stof_stream(64 1 1 1 2 3 1)
stof_stream(64 1 1 1 3 3 1)
stof_stream(64 2 2 1 4 1 1)
stof_stream(64 1 4 1 6 1 1)
stof_stream(64 1 3 1 6 1 1)
stof_stream(64 2 1 1 4 1 2)
stof_stream(64 1 1 1 8 1 4)
stof_stream(96 1 2 1 4 1 1)
stof_stream(96 1 3 1 4 1 1 1)
stof_stream(96 2 1 1 2 1 1)
stof_stream(96 1 1 1 4 1 2)
stof_stream(128 1 2 2 2 1 1)
stof_stream(128 1 3 1 3 1 1)
stof_stream(128 1 3 1 4 1 1 1)
stof_stream(128 2 1 1 2 1 1)
stof_stream(128 1 1 1 4 1 2)
stof_stream(192 1 1 1 2 1 1)
stof_stream(192 1 2 1 3 1 1 1)
stof_stream(256 1 1 1 2 1 1 2 1)
stof_stream(256 1 2 1 2 1 1 1)
stof_stream(64 1 1 1 8 1 4 STACKED)
stof_stream(64 2 1 1 4 1 2 STACKED)
stof_stream(64 2 2 1 4 1 1 STACKED)
stof_stream(96 1 2 1 4 1 1 STACKED)
stof_stream(128 1 1 1 4 1 2 STACKED)
stof_stream(128 1 2 2 2 1 1 STACKED)
stof_stream(128 1 3 1 3 1 1 STACKED)
stof_stream(256 1 1 1 2 1 1 2 1 STACKED)
stof_stream(256 1 2 1 2 1 1 1 STACKED)
stof_band(64 1 96 5)
stof_band(64 1 128 4)
stof_band(64 1 192 3)
stof_band(64 1 256 2)
stof_band(64 2 96 2)
stof_band(64 2 128 2)
stof_band(96 1 96 2)
stof_band(96 1 128 2)
stof_band(96 1 192 1)
stof_band(96 1 256 1)
stof_band(128 1 96 2)
stof_band(128 1 128 2)
stof_band(128 1 192 1)
stof_band(128 1 256 1)
stof_band(256 1 96 1)
stof_band(256 1 128 1)
stof_gather(64 4 4)
stof_gather(64 5 3)
stof_mma(32 1 1 2 4)
stof_mma(64 1 1 2 4)
stof_mma(64 2 2 2 2)
stof_mma(96 1 1 2 2)
stof_mma(128 1 1 2 2)
stof_mma(128 2 2 1 2)
stof_mma(192 1 1 1 2)
stof_mma(256 1 1 1 2)
stof_decode(64 2 2)
stof_decode(128 2 2)
stof_decode(256 1 1)

stof_kernel(row_attention "#include \"kernels/cuda/row_attention.cuh\"
template __global__ void stof::cuda::row_attention_kernel<stof::cuda::Single>(
    const __grid_constant__ stof::cuda::RowAttentionParams);
template __global__ void stof::cuda::row_attention_kernel<stof::cuda::StoredHalf>(
    const __grid_constant__ stof::cuda::RowAttentionParams);
template __global__ void stof::cuda::row_attention_kernel<stof::cuda::StoredBfloat>(
    const __grid_constant__ stof::cuda::RowAttentionParams);
template __global__ void stof::cuda::listed_row_attention_kernel<stof::cuda::Single>(
    const __grid_constant__ stof::cuda::ListedRowParams);
template __global__ void stof::cuda::listed_row_attention_kernel<stof::cuda::StoredHalf>(
    const __grid_constant__ stof::cuda::ListedRowParams);
template __global__ void stof::cuda::listed_row_attention_kernel<stof::cuda::StoredBfloat>(
    const __grid_constant__ stof::cuda::ListedRowParams);
" sm_80 sm_90a)
stof_kernel(call_memory "#include \"kernels/cuda/call_memory.cuh\"
" sm_80 sm_90a)
stof_kernel(row_block_list "#include \"kernels/cuda/row_block_list.cuh\"
" sm_90a)

# Operations on rows, and on results of attention, for each storage.
set(sum_norm "#include \"kernels/cuda/sum_norm.cuh\"\nnamespace stof::cuda {\n")
set(row_norm "#include \"kernels/cuda/row_norm.cuh\"\nnamespace stof::cuda {\n")
set(rms_norm "#include \"kernels/cuda/rms_norm.cuh\"\nnamespace stof::cuda {\n")
set(add_rows "#include \"kernels/cuda/add_rows.cuh\"\nnamespace stof::cuda {\n")
set(turned_heads "#include \"kernels/cuda/turned_heads.cuh\"\nnamespace stof::cuda {\n")
set(halves "#include \"kernels/cuda/halves.cuh\"\nnamespace stof::cuda {\n")
set(normed_heads "#include \"kernels/cuda/normed_heads.cuh\"\nnamespace stof::cuda {\n")
set(pool_rows "#include \"kernels/cuda/pool_rows.cuh\"\nnamespace stof::cuda {\n")
set(highest "#include \"kernels/cuda/highest.cuh\"\nnamespace stof::cuda {\n")
set(add_results "#include \"kernels/cuda/add_results.cuh\"\nnamespace stof::cuda {\n")
foreach(storage Single StoredHalf StoredBfloat)
  foreach(sources 1 2 3)
    string(APPEND sum_norm
      "template __global__ void sum_norm_kernel<${storage}, ${sources}>(const __grid_constant__ SumNormParams);\n")
  endforeach()
  string(APPEND sum_norm "template __global__ void wide_sum_norm_kernel<${storage}>(const __grid_constant__ SumNormParams);\n")
  # RmsNormGrid::kCtas that hold no more than kMostColumns.
  set(ctas "128, 1" "256, 1" "256, 2" "256, 4" "512, 4")
  if(storage STREQUAL Single)
    list(APPEND ctas "512, 8")
  endif()
  foreach(cta IN LISTS ctas)
    foreach(form 1 2 3)
      string(APPEND rms_norm
        "template __global__ void rms_norm_kernel<${storage}, ${cta}, ${form}>(const __grid_constant__ SumNormParams);\n")
    endforeach()
  endforeach()
  string(APPEND rms_norm "template __global__ void wide_rms_norm_kernel<${storage}>(const __grid_constant__ SumNormParams);\n")
  foreach(kernel add_rows add_any_rows)
    string(APPEND add_rows "template __global__ void ${kernel}_kernel<${storage}>(const __grid_constant__ AddParams);\n")
  endforeach()
  foreach(vectors false true)
    string(APPEND halves "template __global__ void rotate_kernel<${storage}, ${vectors}>(const __grid_constant__ RotateParams);\n")
    string(APPEND normed_heads
      "template __global__ void rotate_normed_kernel<${storage}, ${vectors}>(const __grid_constant__ NormedHeadsParams);\n")
    string(APPEND halves "template __global__ void gate_kernel<${storage}, ${vectors}>(const __grid_constant__ GateParams);\n")
    string(APPEND add_results
      "template __global__ void add_results_kernel<${storage}, ${vectors}>(const __grid_constant__ AddResultsParams);\n")
    string(APPEND highest "template __global__ void highest_kernel<${storage}, ${vectors}>(const __grid_constant__ HighestParams);\n")
  endforeach()
  # TurnedHeadsGrid::kGroups.
  foreach(groups 2 6)
    string(APPEND turned_heads "template __global__ void turn_heads_kernel<${storage}, ${groups}>(const __grid_constant__ RotateParams);\n")
  endforeach()
  string(APPEND pool_rows "template __global__ void pool_rows_kernel<${storage}>(const __grid_constant__ PoolParams);\n")
endforeach()
foreach(storage StoredHalf StoredBfloat)
  # RowNormGrid::kMostVectors, kMostRmsVectors.
  foreach(form "1, false" "2, false" "3, false" "4, false" "1, true" "2, true" "3, true" "4, true" "5, true" "6, true")
    string(APPEND row_norm
      "template __global__ void row_norm_kernel<${storage}, ${form}>(const __grid_constant__ SumNormParams);\n")
  endforeach()
endforeach()
set(token_attention "#include \"kernels/cuda/token_attention.cuh\"\nnamespace stof::cuda {\n")
foreach(dtype f16 bf16)
  set(element Half)
  if(dtype STREQUAL bf16)
    set(element Bfloat)
  endif()
  set(few_keys_${dtype} "#include \"kernels/cuda/few_keys_attention.cuh\"\nnamespace stof::cuda {\n")
  foreach(shape "64, 1" "64, 2" "128, 1" "128, 2" "256, 1" "256, 2")
    string(APPEND few_keys_${dtype}
      "template __global__ void few_keys_attention_kernel<FewKeysTraits<${element}, ${shape}>>(const __grid_constant__ FewKeysParams);\n")
  endforeach()
  foreach(head_dim 64 128)
    string(APPEND token_attention
      "template __global__ void token_attention_kernel<FewKeysTraits<${element}, ${head_dim}, 1>>(const __grid_constant__ TokenAttentionParams);\n")
  endforeach()
  set(gemv_${dtype} "#include \"kernels/cuda/gemv.cuh\"\nnamespace stof::cuda {\n")
  foreach(shape "1, 1" "1, 2" "2, 1" "2, 2" "4, 1" "4, 2")
    foreach(parts 0 1 2 3)
      if(NOT (shape MATCHES "^1" AND parts GREATER 1))  # a tile of a gate comes with what it lets through
        string(APPEND gemv_${dtype}
          "template __global__ void gemv_kernel<GemvTraits<${element}, ${shape}, ${parts}>>(const __grid_constant__ GemvParams);\n")
      endif()
    endforeach()
  endforeach()
endforeach()
set(copy_rows "#include \"kernels/cuda/copy_rows.cuh\"\nnamespace stof::cuda {\n")
foreach(word uint4 "unsigned int" "unsigned short" "unsigned char")
  string(APPEND copy_rows "template __global__ void copy_rows_kernel<${word}>(const __grid_constant__ CopyRowsParams);\n")
endforeach()
foreach(unit gemv_f16 gemv_bf16 few_keys_f16 few_keys_bf16 sum_norm row_norm rms_norm add_rows turned_heads halves normed_heads pool_rows copy_rows highest add_results token_attention)
  stof_kernel(${unit} "${${unit}}}  // namespace stof::cuda\n" sm_80 sm_90a)
endforeach()
stof_kernel(table_plan "#include \"kernels/cuda/table_bits.cuh\"
#include \"kernels/cuda/table_blocks.cuh\"
#include \"kernels/cuda/table_order.cuh\"
template __global__ void stof::cuda::plan_blocks_kernel<stof::cuda::BlockLists>(
    const __grid_constant__ stof::cuda::DeviceTable);
template __global__ void stof::cuda::plan_blocks_kernel<stof::cuda::BlockBytes>(
    const __grid_constant__ stof::cuda::DeviceTable);
" sm_90a)
include(kernels/cuda/gemm_instances.cmake)
