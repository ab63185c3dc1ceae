// SPDX-License-Identifier: Apache-2.0
// The types and numbers of cuBLASLt that STOF uses, declared here so that building needs no CUDA header.
// tests/backend/blas_abi_test.cpp compares every one of them with cublasLt.h where there is a toolkit.
#pragma once
#include <cstddef>
#include <cstdint>

namespace stof::cuda {

using BlasStatus = int;  // cublasStatus_t
inline constexpr BlasStatus kBlasSuccess = 0;
inline constexpr BlasStatus kBlasNotSupported = 15;

using BlasHandle = struct OpaqueBlas*;                      // cublasLtHandle_t
using BlasProductHandle = struct OpaqueBlasProduct*;        // cublasLtMatmulDesc_t
using BlasMatrixHandle = struct OpaqueBlasMatrix*;          // cublasLtMatrixLayout_t
using BlasPreferenceHandle = struct OpaqueBlasPreference*;  // cublasLtMatmulPreference_t

enum class BlasType : int { f32 = 0, f16 = 2, bf16 = 14 };  // cudaDataType
inline constexpr int kBlasComputeF32 = 68;                  // CUBLAS_COMPUTE_32F
inline constexpr std::int32_t kBlasTransposed = 1;          // CUBLAS_OP_T

// cublasLtMatmulDescAttributes_t
enum class BlasProductAttribute : int { transpose_a = 3, epilogue = 7, bias_pointer = 8 };
// cublasLtMatmulPreferenceAttributes_t
enum class BlasPreference : int {
  most_workspace_bytes = 1,
  alignment_a = 5,
  alignment_b = 6,
  alignment_c = 7,
  alignment_d = 8,
};

// cublasLtEpilogue_t; gelu is the one by tanh
enum class BlasEpilogue : int { none = 1, relu = 2, bias = 4, relu_bias = 6, gelu = 32, gelu_bias = 36 };

// cublasLtMatmulAlgo_t
struct BlasAlgorithm {
  std::uint64_t opaque[8];
};

// cublasLtMatmulHeuristicResult_t
struct BlasChoice {
  BlasAlgorithm algorithm;
  std::size_t workspace_bytes;
  BlasStatus status;
  float waves;
  int reserved[4];
};

}  // namespace stof::cuda
