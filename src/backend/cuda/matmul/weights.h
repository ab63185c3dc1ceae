// SPDX-License-Identifier: Apache-2.0
// The weights of a linear on a GPU, packed once for every setting: the matrix as it is multiplied, which linears with
// other epilogues share, and vectors.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "src/backend/cuda/driver/device_memory.h"
#include "src/backend/operations.h"

namespace stof::cuda {

// As the GPU will have them, without padding.
struct LaidOutMatrix {
  Tensor values;
  // Where there is a norm of x: the sum of each row, and what the norm's shift adds to the bias.
  std::vector<float> column_sum;
  std::vector<double> shifted;
};
LaidOutMatrix lay_out_matrix(const LinearSpec& spec);
// Whether the parts' rows are what the checkpoint has, in whatever order. Then nothing is laid out on the host: `take`
// gets them part by part, in the spec's dtype, from where the checkpoint is mapped if it has them so.
bool has_stored_rows(const LinearSpec& spec);
void for_each_part(const LinearSpec& spec, const std::function<void(std::span<const std::byte>)>& take);
std::vector<float> lay_out_bias(const LinearSpec& spec, const std::vector<double>& shifted);

struct DeviceMatrix {
  DeviceMatrix(const Gpu& gpu, const LinearSpec& spec);

  // [columns, inner] in the product's dtype, scaled by the norm of x where there is one; with a gate, or where one
  // follows, kPairedColumns rows of each half in turns, with heads that are turned, pairs beside each other, and the
  // vectors as the rows.
  DeviceMemory values;
  DeviceMemory column_sum;  // as the vectors of PackedWeights
  std::vector<double> shifted;
};

struct PackedWeights {
  PackedWeights(const Gpu& gpu, const LinearSpec& spec);

  std::int64_t inner = 0, columns = 0;
  std::shared_ptr<const DeviceMatrix> matrix;
  DeviceMemory bias;  // [columns] in the product's dtype, or empty
  // fp32, [columns] and kGemmPadding zeros; see GemmParams.
  DeviceMemory exact_bias, scale, shift;
  DeviceMemory own_scale, own_shift;  // [inner], fp32, of the norm that the matmul computes
};

}  // namespace stof::cuda
