// SPDX-License-Identifier: Apache-2.0
// A matmul by the GEMM kernel of kernels/cuda/gemm.cuh: one instance with its map of the weight, launched per call.
#pragma once
#include "kernels/shared/gemm.h"
#include "src/backend/cuda/attention/kernel_store.h"
#include "src/backend/cuda/driver/types.h"
#include "src/backend/cuda/matmul/settings.h"
#include "src/backend/cuda/matmul/weights.h"

namespace stof::cuda {

// What stays the same for every call of a linear.
struct GemmLinear {
  const Gpu& gpu;
  const PackedWeights& weights;
  MatmulProblem problem;  // its rows are those of the call
  float x_epsilon = 0, residual_epsilon = 0;
};

// The high word of a product with it is the quotient of a number below 2^28 by `width`, of at most kGemmSection tiles.
// Of 1, which has none, 0.
unsigned inverse_of(std::int64_t width);

// What the kernels of both generations read besides matrices.
GemmParams params_of(const GemmLinear& linear, const LinearCall& call, const MatmulSetting& setting);
const InstanceKernel& kernel_of(const GemmLinear& linear, const MatmulSetting& setting, std::string_view entry);

class GemmLaunch {
 public:
  // Loads the kernel, or compiles it. Throws unsupported when it is not part of the build and cannot be compiled.
  GemmLaunch(const GemmLinear& linear, const MatmulSetting& setting);
  void run(const GemmLinear& linear, const LinearCall& call) const;

 private:
  GemmNarrowMaps maps_of(const GemmLinear& linear, const LinearCall& call) const;

  MatmulSetting setting_;
  const InstanceKernel& kernel_;
  TensorMapBytes weight_;
  std::int64_t clusters_;  // that the GPU holds at a time
};

}  // namespace stof::cuda
