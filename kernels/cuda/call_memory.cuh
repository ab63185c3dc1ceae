// SPDX-License-Identifier: Apache-2.0
// Around a call: its numbers to the device, or from lists there, before; logarithms to where the caller wants them
// after.
#pragma once
#include "kernels/cuda/item_lists.cuh"
#include "kernels/shared/row_layout.h"

namespace stof::cuda {

// One CTA.
extern "C" __global__ void write_numbers_kernel(const __grid_constant__ NumbersParams p) {
  for (int i = static_cast<int>(threadIdx.x); i < p.count; i += static_cast<int>(blockDim.x)) p.to[i] = p.values[i];
}

// One CTA of whole warps. Wrong items become empty ones, and are counted.
extern "C" __global__ void place_items_kernel(const __grid_constant__ ItemPlacement p) {
  __shared__ int wrong, first_wrong;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  if (thread == 0) wrong = 0, first_wrong = p.items;
  __syncthreads();
  for (int item = thread; item < p.items; item += threads) {
    const ItemNumbers found = numbers_of(p.lists, item);
    if (found.wrong) atomicAdd(&wrong, 1), atomicMin(&first_wrong, item);
    if (p.numbers == nullptr) continue;
    p.numbers[item] = found.queries;
    p.numbers[p.items + item] = found.keys;
    p.numbers[2 * p.items + item] = found.query_start;
    p.numbers[3 * p.items + item] = found.key_start;
  }
  __syncthreads();
  if (p.status == nullptr || thread > 0) return;
  p.status[0] = wrong;
  p.status[1] = wrong > 0 ? first_wrong : -1;
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
