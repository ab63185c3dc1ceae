// SPDX-License-Identifier: Apache-2.0
// Adds to scores what their bias is by distance: a table of each head, which stays in the first-level cache.
#pragma once
#include "kernels/cuda/ptx.cuh"
#include "kernels/shared/score_bias.h"

namespace stof::cuda {

// The place of distance 0.
__device__ __forceinline__ int bias_of_head(const ScoreBias& bias, int head) {
  return head * bias.head_stride + bias.zero;
}

// An address that is the table's, which all threads share, and an offset of 32 bits: one register less of each thread.
__device__ __forceinline__ const float* place_of(const ScoreBias& bias, int place) {
  return reinterpret_cast<const float*>(reinterpret_cast<const char*>(bias.values) + static_cast<u32>(place) * 4u);
}

// To a thread's 32 scores of a tile of 64 keys, in the order of wgmma.cuh: those of two rows, 8 apart. back: from the
// tile's first key to the warp's first row.
__device__ __forceinline__ void add_bias(float* scores, const ScoreBias& bias, int of_head, int back, int lane) {
  constexpr int kKeys = 64, kRows = 16;
  const int reach = bias.reach;
  if (back - (kKeys - 1) >= reach || back + (kRows - 1) <= -reach) {  // all of the warp's pairs are as far as that
    const float far = __ldg(place_of(bias, of_head + (back > 0 ? reach : -reach))) * bias.factor;
#pragma unroll
    for (int i = 0; i < 32; ++i) scores[i] += far;
    return;
  }
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    // From where the thread's last column is read to its first: within the margins.
    const int first = min(max(back + lane / 4 + 8 * row - lane % 4 * 2, -reach), reach + kKeys);
    static_assert(kKeys <= ScoreBias::kMargin);
    const float* const from = place_of(bias, of_head + first);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      float& score = scores[i / 2 * 4 + 2 * row + i % 2];
      score = __fmaf_rn(__ldg(from - (i / 2 * 8 + i % 2)), bias.factor, score);
    }
  }
}

}  // namespace stof::cuda
