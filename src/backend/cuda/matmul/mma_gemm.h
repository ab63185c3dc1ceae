// SPDX-License-Identifier: Apache-2.0
// A matmul by the kernel of kernels/cuda/mma_gemm.cuh, for compute capability 8.0 and later.
#pragma once
#include "src/backend/cuda/matmul/gemm.h"

namespace stof::cuda {

class MmaGemmLaunch {
 public:
  // As GemmLaunch.
  MmaGemmLaunch(const GemmLinear& linear, const MatmulSetting& setting);
  void run(const GemmLinear& linear, const LinearCall& call) const;

 private:
  MatmulSetting setting_;
  const InstanceKernel& kernel_;
};

}  // namespace stof::cuda
