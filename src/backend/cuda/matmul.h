// SPDX-License-Identifier: Apache-2.0
// Matmul with packed weights on a GPU: by the kernels of kernels/cuda/gemm.cuh and mma_gemm.cuh, or by cuBLASLt, with
// its epilogues where they are what was asked for, and a row kernel after it where they are not.
#pragma once
#include "src/backend/operations.h"

namespace stof::cuda {

extern const MatmulOperations matmul_operations;

}  // namespace stof::cuda
