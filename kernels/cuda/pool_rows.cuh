// SPDX-License-Identifier: Apache-2.0
// One vector a text from the rows of its tokens, and vectors divided by their length.
#pragma once
#include "kernels/cuda/storage.cuh"
#include "kernels/cuda/warp_sum.cuh"
#include "kernels/shared/rows.h"

namespace stof::cuda {

constexpr int kPoolThreads = PoolGrid::kThreads, kPoolColumns = PoolGrid::kColumns;
constexpr int kPoolLanes = kPoolThreads / kPoolColumns;

__device__ __forceinline__ float pooled(int kind, float x, float y) {
  return kind == PoolParams::kMax ? (y != y || x < y ? y : x) : x + y;  // NaN stays NaN
}

// Rows l, l + kPoolLanes, ... are taken together by lane l, then the lanes in order: the same bits each time.
// Grid: {texts, columns / kPoolColumns}.
template <class Storage>
__global__ void __launch_bounds__(kPoolThreads) pool_rows_kernel(const __grid_constant__ PoolParams p) {
  __shared__ float partial[kPoolLanes][kPoolColumns];
  const int within = static_cast<int>(threadIdx.x) % kPoolColumns, lane = static_cast<int>(threadIdx.x) / kPoolColumns;
  const int column = static_cast<int>(blockIdx.y) * kPoolColumns + within;
  follow_previous_grid();
  const bool one = p.kind == PoolParams::kFirst || p.kind == PoolParams::kLast;
  const int length = p.lengths[blockIdx.x], used = one ? min(length, 1) : length;
  const int first = p.starts[blockIdx.x] + (p.kind == PoolParams::kLast && length > 0 ? length - 1 : 0);
  const auto* from =
      static_cast<const typename Storage::Stored*>(p.rows) + static_cast<long long>(first) * p.columns + column;
  float x = 0.f;
  if (column < p.columns && lane < used) {
    x = Storage::load(from[static_cast<long long>(lane) * p.columns]);
#pragma unroll 4
    for (int row = lane + kPoolLanes; row < used; row += kPoolLanes)
      x = pooled(p.kind, x, Storage::load(from[static_cast<long long>(row) * p.columns]));
  }
  partial[lane][within] = x;
  __syncthreads();
  if (lane != 0 || column >= p.columns) return;
  for (int other = 1; other < kPoolLanes && other < used; ++other) x = pooled(p.kind, x, partial[other][within]);
  if (p.kind == PoolParams::kMean && used > 0) x /= static_cast<float>(used);
  p.out[static_cast<long long>(blockIdx.x) * p.columns + column] = x;
}

// Grid: {rows}. In double: squares of what fp32 holds are no numbers of fp32.
extern "C" __global__ void __launch_bounds__(kPoolThreads)
    normalize_rows_kernel(const __grid_constant__ NormalizeParams p) {
  __shared__ double partial[kPoolThreads / 32];
  float* row = p.rows + static_cast<long long>(blockIdx.x) * p.columns;
  follow_previous_grid();
  double squares = 0;
  for (int c = static_cast<int>(threadIdx.x); c < p.columns; c += kPoolThreads)
    squares = __fma_rn(static_cast<double>(row[c]), static_cast<double>(row[c]), squares);
  const double total = block_sum<kPoolThreads>(squares, partial);
  const double inverse = total > 0 ? 1 / sqrt(total) : 0;
  for (int c = static_cast<int>(threadIdx.x); c < p.columns; c += kPoolThreads)
    row[c] = static_cast<float>(row[c] * inverse);
}

}  // namespace stof::cuda
