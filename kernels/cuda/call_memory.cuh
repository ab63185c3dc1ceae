// SPDX-License-Identifier: Apache-2.0
// Around a call: its numbers to the device before, logarithms to where the caller wants them after.
#pragma once
#include "kernels/shared/row_layout.h"

namespace stof::cuda {

// One CTA.
extern "C" __global__ void write_numbers_kernel(const __grid_constant__ NumbersParams p) {
  for (int i = static_cast<int>(threadIdx.x); i < p.count; i += static_cast<int>(blockDim.x)) p.to[i] = p.values[i];
}

// Grid: {rows / threads, heads, items}.
extern "C" __global__ void place_lse_kernel(const __grid_constant__ LsePlacement p) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int head = static_cast<int>(blockIdx.y), item = static_cast<int>(blockIdx.z);
  if (row >= (p.lengths ? p.lengths[item] : p.rows)) return;
  const int start = p.starts ? p.starts[item] : 0;
  p.to[item * p.to_item + head * p.to_head + (start + row) * p.to_row] =
      p.from[item * p.from_item + head * p.from_head + start + row];
}

}  // namespace stof::cuda
