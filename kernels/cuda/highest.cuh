// SPDX-License-Identifier: Apache-2.0
// Where the highest value of each row stands. Rows are few and long, the scores of a vocabulary: several CTAs go
// through one, and a second kernel takes the best of what they found. The same for any number of them.
#pragma once
#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/warp_sum.cuh"
#include "kernels/shared/rows.h"

namespace stof::cuda {

// A value and its column as one number: that of a higher value is greater, of equal values that of the first one. NaN
// is above all numbers, and its column is -1.
using Ranked = unsigned long long;
constexpr Ranked kRankedNan = 0xffffffffull << 32, kNothingRanked = 0;

__device__ __forceinline__ Ranked ranked(float value, int column) {
  const unsigned bits = __float_as_uint(value + 0.f);  // -0 becomes 0, which is equal
  const unsigned order = bits >> 31 ? ~bits : bits | 1u << 31;
  return static_cast<Ranked>(order) << 32 | ~static_cast<unsigned>(column);
}
__device__ __forceinline__ int column_of(Ranked found) { return static_cast<int>(~static_cast<unsigned>(found)); }

__device__ __forceinline__ Ranked higher(Ranked a, Ranked b) { return a < b ? b : a; }

// The same in every lane.
__device__ __forceinline__ Ranked warp_highest(Ranked x) {
#pragma unroll
  for (int step = 16; step; step >>= 1) x = higher(x, __shfl_xor_sync(~0u, x, step));
  return x;
}

// Of the columns that one thread sees, in ascending order, the first of which is known: it is what there is where all
// are -inf.
struct HighestSeen {
  int column;
  float best = __uint_as_float(0xff800000u);
  bool has_nan = false;

  __device__ __forceinline__ void see(float value, int at) {
    has_nan |= value != value;
    if (value > best) best = value, column = at;
  }
  __device__ __forceinline__ Ranked result() const { return has_nan ? kRankedNan : ranked(best, column); }
};

// A thread asks for kAhead pieces of its row together, past L1 where they are 16 bytes; those past the last are the
// last one, which may be seen twice. kVectors: columns are a multiple of Vector::kCount, x and the rows behind it
// aligned. Grid: {rows, parts}; of one part the columns are written, else what each has found.
template <class Storage, bool kVectors>
__global__ void __launch_bounds__(HighestGrid::kThreads) highest_kernel(const __grid_constant__ HighestParams p) {
  using P = Piece<Storage, kVectors>;
  constexpr int kThreads = HighestGrid::kThreads, kAhead = HighestGrid::kAhead;
  __shared__ Ranked of_warps[kThreads / 32];
  const auto* row = static_cast<const typename Storage::Stored*>(p.x) + static_cast<long long>(blockIdx.x) * p.columns;
  const unsigned pieces = static_cast<unsigned>(p.columns) / P::kCount, step = gridDim.y * kThreads;
  follow_previous_grid();
  const unsigned own = blockIdx.y * kThreads + threadIdx.x;
  HighestSeen seen{static_cast<int>(own * P::kCount)};
  for (unsigned first = own; first < pieces; first += step * kAhead) {
    typename P::Words words[kAhead];
    unsigned at[kAhead];
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      at[n] = min(first + static_cast<unsigned>(n) * step, pieces - 1) * P::kCount;
      words[n] = P::read(row + at[n]);
    }
#pragma unroll
    for (int n = 0; n < kAhead; ++n) {
      float x[P::kCount];
      P::unpack(words[n], x);
#pragma unroll
      for (int i = 0; i < P::kCount; ++i) seen.see(x[i], static_cast<int>(at[n]) + i);
    }
  }
  const Ranked of_warp = warp_highest(own < pieces ? seen.result() : kNothingRanked);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = of_warp;
  __syncthreads();
  if (threadIdx.x != 0) return;
  Ranked found = of_warps[0];
#pragma unroll
  for (int warp = 1; warp < kThreads / 32; ++warp) found = higher(found, of_warps[warp]);
  if (gridDim.y == 1) p.out[blockIdx.x] = column_of(found);
  else p.parts[static_cast<long long>(blockIdx.x) * gridDim.y + blockIdx.y] = found;
}

// A warp a row. Grid: {rows / kMergedRows, rounded up}.
extern "C" __global__ void __launch_bounds__(32 * HighestGrid::kMergedRows)
    merge_highest_kernel(const __grid_constant__ MergeHighestParams p) {
  const int row = static_cast<int>(blockIdx.x) * HighestGrid::kMergedRows + static_cast<int>(threadIdx.x) / 32;
  follow_previous_grid();
  if (row >= p.rows) return;
  const Ranked* const parts = p.parts + static_cast<long long>(row) * p.count;
  Ranked found = kNothingRanked;
#pragma unroll 4
  for (int part = static_cast<int>(threadIdx.x) % 32; part < p.count; part += 32) found = higher(found, parts[part]);
  found = warp_highest(found);
  if (threadIdx.x % 32 == 0) p.out[row] = column_of(found);
}

}  // namespace stof::cuda
