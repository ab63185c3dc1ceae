// SPDX-License-Identifier: Apache-2.0
// What scores gain by distance: from a table of each head, which stays in the first-level cache, two numbers at a time.
#pragma once
#include "kernels/cuda/ptx.cuh"
#include "kernels/shared/score_bias.h"

namespace stof::cuda {

// The place of distance 0.
__device__ __forceinline__ int bias_of_head(const ScoreBias& bias, int head) {
  return head * bias.head_stride + bias.zero;
}

// An address that all threads share, and an offset of 32 bits: one register less of each thread.
__device__ __forceinline__ const char* address_of_bias(const ScoreBias& bias, int place) {
  return reinterpret_cast<const char*>(bias.values) + static_cast<u32>(place) * 4u;
}

// Of one key, `back` positions in front of its query.
__device__ __forceinline__ float bias_at(const ScoreBias& bias, int of_head, int back) {
  const int within = min(max(back, -bias.reach), bias.reach);
  return *reinterpret_cast<const float*>(address_of_bias(bias, of_head + within));
}

// Of a thread's 32 scores of a tile of 64 keys, in the order of wgmma.cuh. Its second row is 8 below the first, and so
// has at each eight keys what the first has at those before: nine pairs are all there is.
struct TileBias {
  static constexpr int kKeys = 64, kPairs = kKeys / 8 + 1;
  float2 pairs[kPairs];  // of two keys, the second one's first

  // back: from the tile's first key to the warp's first row. Stays where it stands among other volatile instructions:
  // in front of waiting for the scores.
  __device__ __forceinline__ void load(const ScoreBias& bias, int of_head, int back, int lane) {
    // The second row's at the thread's first key; from there 66 places are read, within the margins.
    const int first = min(max(back + 8 + lane / 4 - lane % 4 * 2, -bias.reach), bias.reach + kKeys + 1);
    static_assert(kKeys + 1 <= ScoreBias::kMargin);
    const int place = of_head + first;
    const char* const from = address_of_bias(bias, place + (place % 2 != 0 ? -1 : bias.shifted));
#pragma unroll
    for (int i = 0; i < kPairs; ++i)
      asm volatile("ld.global.nc.v2.f32 {%0, %1}, [%2];" : "=f"(pairs[i].x), "=f"(pairs[i].y) : "l"(from - 32 * i));
  }

  __device__ __forceinline__ void add_to(float* scores, float factor) const {
#pragma unroll
    for (int i = 0; i < kKeys / 8; ++i) {
      scores[4 * i] = __fmaf_rn(pairs[i + 1].y, factor, scores[4 * i]);
      scores[4 * i + 1] = __fmaf_rn(pairs[i + 1].x, factor, scores[4 * i + 1]);
      scores[4 * i + 2] = __fmaf_rn(pairs[i].y, factor, scores[4 * i + 2]);
      scores[4 * i + 3] = __fmaf_rn(pairs[i].x, factor, scores[4 * i + 3]);
    }
  }
};

}  // namespace stof::cuda
