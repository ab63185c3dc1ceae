// SPDX-License-Identifier: Apache-2.0
// Before a call: its numbers to the device, or from lists there.
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
    if (p.list != nullptr) p.list[item] = row_item(p.steps, found, item);
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

}  // namespace stof::cuda
