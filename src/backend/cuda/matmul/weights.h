// SPDX-License-Identifier: Apache-2.0
// The weights of a linear on a GPU, packed once for every setting: the matrix as it is multiplied, and vectors.
#pragma once
#include <vector>

#include "src/backend/cuda/driver/device_memory.h"
#include "src/backend/operations.h"

namespace stof::cuda {

// As the GPU will have them, without padding.
struct LaidOutWeights {
  Tensor matrix;
  std::vector<float> bias, column_sum;
};
LaidOutWeights lay_out(const LinearSpec& spec);

struct PackedWeights {
  PackedWeights(const Gpu& gpu, const LinearSpec& spec);

  std::int64_t inner = 0, columns = 0;
  // [columns, inner] in the product's dtype, scaled by the norm of x where there is one; with a gate, 8 rows of each
  // half in turns, with heads that are turned, pairs beside each other, and the vectors as the rows.
  DeviceMemory matrix;
  DeviceMemory bias;  // [columns] in the product's dtype, or empty
  // fp32, [columns] and kGemmPadding zeros; see GemmParams.
  DeviceMemory exact_bias, column_sum, scale, shift;
};

}  // namespace stof::cuda
