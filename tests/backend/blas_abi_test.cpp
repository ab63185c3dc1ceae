// SPDX-License-Identifier: Apache-2.0
// The types, numbers and signatures of cuBLASLt as STOF declares them, compared with cublasLt.h where there is one. All
// of it happens while this compiles.
#include <cublasLt.h>
#include <gtest/gtest.h>

#include "src/backend/cuda/driver/blas.h"
#include "tests/backend/passes_alike.h"

namespace stof::cuda {
namespace {

template <class OurEntry, class TheirFunction>
struct Same;
template <class... Ours, class... Theirs>
struct Same<BlasEntry<Ours...>, cublasStatus_t(Theirs...)> {
  static constexpr bool kValue = [] {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs)) return (passes_alike<Ours, Theirs>() && ...);
    else return false;
  }();
};

template <auto kMember, class TheirFunction>
constexpr bool same = false;
template <class OurEntry, OurEntry Blas::*kMember, class TheirFunction>
constexpr bool same<kMember, TheirFunction> = Same<OurEntry, TheirFunction>::kValue;

static_assert(same<&Blas::create, decltype(cublasLtCreate)>);
static_assert(same<&Blas::create_product, decltype(cublasLtMatmulDescCreate)>);
static_assert(same<&Blas::destroy_product, decltype(cublasLtMatmulDescDestroy)>);
static_assert(same<&Blas::set_product, decltype(cublasLtMatmulDescSetAttribute)>);
static_assert(same<&Blas::create_matrix, decltype(cublasLtMatrixLayoutCreate)>);
static_assert(same<&Blas::destroy_matrix, decltype(cublasLtMatrixLayoutDestroy)>);
static_assert(same<&Blas::create_preference, decltype(cublasLtMatmulPreferenceCreate)>);
static_assert(same<&Blas::destroy_preference, decltype(cublasLtMatmulPreferenceDestroy)>);
static_assert(same<&Blas::set_preference, decltype(cublasLtMatmulPreferenceSetAttribute)>);
static_assert(same<&Blas::choose, decltype(cublasLtMatmulAlgoGetHeuristic)>);
static_assert(same<&Blas::multiply, decltype(cublasLtMatmul)>);

template <class Ours, class Theirs>
constexpr bool is(Ours ours, Theirs theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}

static_assert(is(kBlasSuccess, CUBLAS_STATUS_SUCCESS) && is(kBlasNotSupported, CUBLAS_STATUS_NOT_SUPPORTED));
static_assert(is(BlasType::f32, CUDA_R_32F) && is(BlasType::f16, CUDA_R_16F) && is(BlasType::bf16, CUDA_R_16BF));
static_assert(is(kBlasComputeF32, CUBLAS_COMPUTE_32F) && is(kBlasTransposed, CUBLAS_OP_T));
static_assert(sizeof kBlasTransposed == sizeof(cublasOperation_t) &&
              sizeof(BlasEpilogue) == sizeof(cublasLtEpilogue_t));
static_assert(is(BlasProductAttribute::transpose_a, CUBLASLT_MATMUL_DESC_TRANSA));
static_assert(is(BlasProductAttribute::epilogue, CUBLASLT_MATMUL_DESC_EPILOGUE));
static_assert(is(BlasProductAttribute::bias_pointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER));
static_assert(is(BlasPreference::most_workspace_bytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES));
static_assert(is(BlasPreference::alignment_a, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES));
static_assert(is(BlasPreference::alignment_b, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES));
static_assert(is(BlasPreference::alignment_c, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES));
static_assert(is(BlasPreference::alignment_d, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES));
static_assert(is(BlasEpilogue::none, CUBLASLT_EPILOGUE_DEFAULT) && is(BlasEpilogue::relu, CUBLASLT_EPILOGUE_RELU));
static_assert(is(BlasEpilogue::bias, CUBLASLT_EPILOGUE_BIAS));
static_assert(is(BlasEpilogue::relu_bias, CUBLASLT_EPILOGUE_RELU_BIAS));
static_assert(is(BlasEpilogue::gelu, CUBLASLT_EPILOGUE_GELU));
static_assert(is(BlasEpilogue::gelu_bias, CUBLASLT_EPILOGUE_GELU_BIAS));

static_assert(sizeof(BlasAlgorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(BlasChoice) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(BlasChoice, workspace_bytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(BlasChoice, status) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(BlasChoice, waves) == offsetof(cublasLtMatmulHeuristicResult_t, wavesCount));

TEST(BlasAbi, IsThatOfTheHeader) { EXPECT_GE(CUBLAS_VER_MAJOR, 12); }

}  // namespace
}  // namespace stof::cuda
