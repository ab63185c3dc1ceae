// SPDX-License-Identifier: Apache-2.0
// Rows that are copied from, or to, places that are listed.
#pragma once
#include "kernels/cuda/warp_sum.cuh"
#include "kernels/shared/rows.h"

namespace stof::cuda {

// Rows are cut into pieces of one Word, at addresses that are multiples of it. A thread has up to kPieces of them,
// neighbours of its neighbours', which it asks for together: their places first, then all that lies there, past L1,
// since it is read once. Pieces past the last are the last one, and are not written: behind a branch, loads would wait
// for what is asked for in front of it.
// Grid: {c}, with c * kThreads * kPieces at least p.pieces.
template <class Word>
__global__ void __launch_bounds__(CopyRowsGrid::kThreads) copy_rows_kernel(const __grid_constant__ CopyRowsParams p) {
  constexpr int kPieces = CopyRowsGrid::kPieces;
  const unsigned step = gridDim.x * CopyRowsGrid::kThreads;
  const unsigned first = blockIdx.x * CopyRowsGrid::kThreads + threadIdx.x;
  long long from[kPieces], to[kPieces];
  unsigned within[kPieces];
#pragma unroll
  for (int n = 0; n < kPieces; ++n) {
    const unsigned piece = min(first + static_cast<unsigned>(n) * step, p.pieces - 1);
    from[n] = to[n] = piece / p.of_row;
    within[n] = piece % p.of_row;
  }
  follow_previous_grid();
#pragma unroll
  for (int n = 0; n < kPieces; ++n) {
    if (p.to != nullptr) to[n] = p.to[from[n]];
    if (p.from != nullptr) from[n] = p.from[from[n]];
  }
  Word words[kPieces];
#pragma unroll
  for (int n = 0; n < kPieces; ++n)
    words[n] = __ldcg(reinterpret_cast<const Word*>(p.x + from[n] * p.x_stride) + within[n]);
#pragma unroll
  for (int n = 0; n < kPieces; ++n)
    if (first + static_cast<unsigned>(n) * step < p.pieces)
      reinterpret_cast<Word*>(p.out + to[n] * p.out_stride)[within[n]] = words[n];
}

}  // namespace stof::cuda
