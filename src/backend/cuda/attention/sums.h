// SPDX-License-Identifier: Apache-2.0
// Two results of attention for the same rows, added up on the GPU (kernels/cuda/add_results.cuh).
#pragma once
#include <string>

#include "src/backend/contract.h"

namespace stof::cuda {

extern const SumOperations sum_operations;

// Of the unit "add_results".
std::string add_results_entry(DType dtype, bool vectors);

}  // namespace stof::cuda
