// SPDX-License-Identifier: Apache-2.0
// Scores by one warp alone, on the tiles that a warpgroup multiplies: wgmma takes all four warps of it at once.
#pragma once
#include "kernels/cuda/mma.cuh"

namespace stof::cuda {

// scores = q k^T of the warp's 16 rows by kKeys keys, each thread's as issue_scores leaves them. q: the first of the
// rows in its first box; k: the first key. Both were written by bulk copies, in boxes of 64 and kKeys rows.
template <class Element, int kHeadDim, int kKeys>
__device__ __forceinline__ void multiply_scores(float (&scores)[kKeys / 2], u32 q, u32 k, u32 lane) {
  using Rows = SwizzledRows<kBoxColumns>;  // the 128-byte swizzle
  const u32 row = q + Rows::offset(static_cast<int>(lane % 16), static_cast<int>(lane / 16));
  const u32 key = k + Rows::offset(static_cast<int>(lane % 8 + lane / 16 * 8), static_cast<int>(lane / 8 % 2));
#pragma unroll
  for (int i = 0; i < kKeys / 2; ++i) scores[i] = 0.f;
#pragma unroll 1
  for (int column = 0; column < kHeadDim; column += 16) {
    const u32 box = static_cast<u32>(column / kBoxColumns) * kRowBytes;  // times its rows: how far the box is
    const int piece = column % kBoxColumns / 8;
    u32 a[4], b[4];
    load_fragments(a, Rows::along(row, piece) + 64 * box);
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i) {
      load_fragments(b, Rows::along(key, piece) + kKeys * box + i * (16 * kRowBytes));
      multiply_add<Element>(&scores[8 * i], a, b[0], b[1]);
      multiply_add<Element>(&scores[8 * i + 4], a, b[2], b[3]);
    }
  }
}

}  // namespace stof::cuda
