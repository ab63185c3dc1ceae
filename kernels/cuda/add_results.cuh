// SPDX-License-Identifier: Apache-2.0
// Adds up two results of attention that saw different keys: each counts by its share of the sum of exponentials.
#pragma once
#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/softmax.cuh"
#include "kernels/cuda/warp_sum.cuh"
#include "kernels/shared/two_results.h"

namespace stof::cuda {

// A thread has a piece of a row: a vector, or an element. kVectors: head_dim and distances are multiples of
// Vector::kCount, addresses of 16. Grid: {rows * pieces of a row / kThreads, heads, items}.
template <class Storage, bool kVectors>
__global__ void __launch_bounds__(AddResultsGrid::kThreads)
    add_results_kernel(const __grid_constant__ AddResultsParams p) {
  using V = Piece<Storage, kVectors>;
  using Stored = typename Storage::Stored;
  const int pieces = p.head_dim / V::kCount;
  const int index = static_cast<int>(blockIdx.x) * AddResultsGrid::kThreads + static_cast<int>(threadIdx.x);
  const int row = index / pieces, piece = index - row * pieces;
  const auto at = [&](const ResultPlaces& places) {
    return blockIdx.z * places.item + blockIdx.y * places.head + row * places.row;
  };
  follow_previous_grid();
  if (row >= p.rows) return;
  Stored* const out = static_cast<Stored*>(p.out) + at(p.out_at) + piece * V::kCount;
  float x[V::kCount], y[V::kCount];  // asked for together with what weighs them
  V::load(out, x);
  V::load(static_cast<const Stored*>(p.other_out) + at(p.other_out_at) + piece * V::kCount, y);
  const float mine = p.lse[at(p.lse_at)], other = p.other_lse[at(p.other_lse_at)];
  const float most = mine != mine ? mine : other != other ? other : fmaxf(mine, other);  // fmaxf drops a NaN
  const bool any = most != kMinusInfinity;  // a row without a key in either keeps its zeros
  const float a = any ? expf(mine - most) : 1.f, b = any ? expf(other - most) : 0.f, inverse = 1.f / (a + b);
#pragma unroll
  for (int i = 0; i < V::kCount; ++i) x[i] = (x[i] * a + y[i] * b) * inverse;
  V::store(out, x);
  if (p.both_lse != nullptr && piece == 0) p.both_lse[at(p.both_lse_at)] = most + logf(a + b);
}

}  // namespace stof::cuda
