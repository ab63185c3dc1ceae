// SPDX-License-Identifier: Apache-2.0
// The instances of the GEMM kernel: one for each setting and epilogue, as a unit to compile. Some are built ahead
// (kernels/cuda/gemm_instances.cmake, under the same names); the others when they are first wanted.
#pragma once
#include <string>
#include <string_view>

#include "src/backend/cuda/matmul/settings.h"

namespace stof::cuda {

inline constexpr std::string_view kGemmEntry = "_ZN4stof4cuda11gemm_kernelINS0_8InstanceEEEvNT_4MapsENS0_10GemmParamsE";

inline constexpr std::string_view kMmaGemmEntry =
    "_ZN4stof4cuda15mma_gemm_kernelINS0_8InstanceEEEvNS0_13MmaGemmParamsE";

struct GemmInstance {
  MatmulSetting setting;  // of wgmma or mma
  DType dtype = DType::f16;
  Activation activation = Activation::none;
  bool bias = false, residual = false, x_norm = false, residual_norm = false, moments = false, gate = false,
       turned = false;
};

// What computes the problem. A norm of x brings a bias.
GemmInstance instance_of(const MatmulProblem& problem, const MatmulSetting& setting);

// "gemm_f16_128x192_s4_w2_t1_p1_gelu_b1_r0_x0_n0_m0", "mma_gemm_f16_..."
std::string name_of(const GemmInstance& instance);
// Its line of gemm_instances.cmake.
std::string line_of(const GemmInstance& instance);
std::string source_of(const GemmInstance& instance);

}  // namespace stof::cuda
