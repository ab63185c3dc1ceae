// SPDX-License-Identifier: Apache-2.0
// A matmul of few rows by kernels/cuda/gemv.cuh.
#pragma once
#include "kernels/shared/gemv.h"
#include "src/backend/cuda/matmul/gemm.h"

namespace stof::cuda {

// Entry points of the units "gemv_f16" and "gemv_bf16". slabs: of 8 rows of x, 1 or 2.
std::string gemv_unit(DType dtype);
std::string gemv_entry(const MatmulProblem& problem, int tiles, int slabs);

class GemvLaunch {
 public:
  // Loads the kernels.
  GemvLaunch(const GemmLinear& linear, const MatmulSetting& setting);
  // Throws unsupported for addresses that are no multiples of 16, and for more rows than the kernels take.
  void run(const GemmLinear& linear, const LinearCall& call) const;

 private:
  MatmulSetting setting_;
  std::array<const Kernel*, 2> kernels_;  // by slabs
};

// Whether addresses are as the kernels want them.
bool gemv_takes_addresses(const LinearCall& call);

}  // namespace stof::cuda
