// SPDX-License-Identifier: Apache-2.0
// Online softmax on the accumulators of a 64-row tile of scores; each thread owns two rows' shares, see wgmma.cuh.
#pragma once
#include "kernels/cuda/wgmma.cuh"

namespace stof::cuda {

constexpr float kMinusInfinity = __builtin_bit_cast(float, 0xff800000u);  // NVRTC has no huge_valf

// Of the thread's rows r and r + 8. The sums are of this thread's columns only until sum_over_columns.
struct RowStats {
  float maximum[2];  // reference maximum of the scores, before scaling
  float sum[2];

  __device__ __forceinline__ void reset() {
    maximum[0] = maximum[1] = kMinusInfinity;
    sum[0] = sum[1] = 0.f;
  }
  __device__ __forceinline__ void sum_over_columns() {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      sum[i] += __shfl_xor_sync(~0u, sum[i], 1);
      sum[i] += __shfl_xor_sync(~0u, sum[i], 2);
    }
  }
  // What full sums divide by; rows without a key stay 0.
  __device__ __forceinline__ void invert(float (&inverse)[2]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) inverse[i] = sum[i] > 0.f ? reciprocal_approx(sum[i]) : sum[i];
  }
};

// Soft capping: scores to tanh(scale score / softcap), which the factor of all scores then brings to units of log2. By
// its exponential: an error of 2^-22 of the cap, where the instruction for tanh has 2^-11.
template <int kScores>
__device__ __forceinline__ void to_tanh(float (&scores)[kScores], float cap_log2) {
#pragma unroll
  for (int i = 0; i < kScores; ++i)
    scores[i] = __fmaf_rn(-2.f, reciprocal_approx(1.f + exp2_approx(scores[i] * cap_log2)), 1.f);
}
// The same in kernels for calls of both kinds.
template <int kScores>
__device__ __forceinline__ void cap_scores(float (&scores)[kScores], float cap_log2) {
  if (cap_log2 != 0.f) to_tanh(scores, cap_log2);
}

// One bit a score of the thread, in 64-key tiles of 32 scores.
template <int kScores>
__device__ __forceinline__ void forbid(float (&scores)[kScores], const u32* words) {
#pragma unroll
  for (int i = 0; i < kScores; ++i) scores[i] = words[i / 32] & 1u << i % 32 ? scores[i] : kMinusInfinity;
}

// A word has four bits of each eight keys of a tile, two of a row each: the thread's columns. Of one of its two rows,
// how many bits come before those of keys from `keys` on; of keys that the tile has not, fewer than 0 or more than 32.
__device__ __forceinline__ int bits_below(int keys, int row, int lane) {
  const int own = keys - lane % 4 * 2;
  return (own >> 3) * 4 + min(own & 7, 2) + 2 * row;
}
__device__ __forceinline__ u32 mask_of_rows(int bits_of_a, int bits_of_b) {
  return (first_bits(bits_of_a) & 0x33333333) | (first_bits(bits_of_b) & 0xcccccccc);
}
// Of both rows, those of a tile's keys below `keys`.
__device__ __forceinline__ u32 keys_below(int keys, int lane) {
  return mask_of_rows(bits_below(keys, 0, lane), bits_below(keys, 1, lane));
}

// Bits of two rows' 64 keys to a word.
__device__ __forceinline__ u32 in_register_order(u64 upper, u64 lower, int lane) {
  u32 word = 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int shift = 32 * half + lane % 4 * 2;
    u32 nibbles = (static_cast<u32>(upper >> shift) & 0x03030303) | (static_cast<u32>(lower >> shift) & 0x03030303)
                                                                        << 2;
    nibbles = (nibbles | nibbles >> 4) & 0x00ff00ff;
    word |= ((nibbles | nibbles >> 8) & 0xffff) << 16 * half;
  }
  return word;
}

// Of each row over all its columns.
template <int kScores>
__device__ __forceinline__ void row_maxima(float (&highest)[2], const float (&scores)[kScores]) {
  float halves[4] = {scores[0], scores[1], scores[2], scores[3]};  // two short chains a row
#pragma unroll
  for (int i = 4; i < kScores; ++i) halves[i & 3] = fmaxf(halves[i & 3], scores[i]);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    highest[i] = fmaxf(halves[2 * i], halves[2 * i + 1]);
    highest[i] = fmaxf(highest[i], __shfl_xor_sync(~0u, highest[i], 1));
    highest[i] = fmaxf(highest[i], __shfl_xor_sync(~0u, highest[i], 2));
  }
}

// In two registers side by side: they lie in different banks, and an FFMA that takes either, with a score of the same
// bank as the other, reads it once for many. Without that the assembler's choice was by chance, and loops of steps took
// 2 to 6 % longer where both were even. A hint, which the assembler may not take.
__device__ __forceinline__ void pair_up(float (&values)[2]) {
  asm("{.reg .b64 pair;\nmov.b64 pair, {%0, %1};\nmov.b64 {%0, %1}, pair;\n}" : "+f"(values[0]), "+f"(values[1]));
}

// It must: an addition of -0, which changes no bits but those of NaN, takes both as one number. Not for loops of steps,
// which it slows down by a fifth.
__device__ __forceinline__ void force_pair(float (&values)[2]) {
  asm("{.reg .b64 pair;\nmov.b64 pair, {%0, %1};\nadd.rn.f64 pair, pair, 0d8000000000000000;\n"
      "mov.b64 {%0, %1}, pair;\n}"
      : "+f"(values[0]), "+f"(values[1]));
}

// Scores to weights exp(scale (score - maximum)), added to the sums.
template <bool kMasked, int kScores>
__device__ __forceinline__ void exponentials(float (&scores)[kScores], RowStats& rows, float scale_log2) {
  float origin[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    origin[i] = rows.maximum[i] * scale_log2;
    if constexpr (kMasked) origin[i] = rows.maximum[i] == kMinusInfinity ? 0.f : origin[i];
  }
  pair_up(origin);
#pragma unroll
  for (int i = 0; i < kScores; ++i) {
    scores[i] = exp2_approx(__fmaf_rn(scores[i], scale_log2, -origin[i >> 1 & 1]));
    rows.sum[i >> 1 & 1] += scores[i];
  }
}

// One step of many: the reference maximum moves only when a row's maximum exceeds it by more than 2^8, so that weights
// stay below 256, which fp16 holds well; then `factor` is what results so far must be multiplied by, and the answer
// (the same in the whole warp) is true. kMasked: some scores may be -inf, a whole row too.
template <bool kMasked, int kScores>
__device__ __forceinline__ bool weigh(float (&scores)[kScores], RowStats& rows, float (&factor)[2], float scale_log2) {
  float highest[2];
  row_maxima(highest, scores);
  const bool raised = __any_sync(
      ~0u, (highest[0] - rows.maximum[0]) * scale_log2 > 8.f || (highest[1] - rows.maximum[1]) * scale_log2 > 8.f);
  if (raised) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      highest[i] = fmaxf(highest[i], rows.maximum[i]);
      factor[i] = highest[i] == kMinusInfinity ? 0.f : exp2_approx((rows.maximum[i] - highest[i]) * scale_log2);
      rows.maximum[i] = highest[i];
      rows.sum[i] *= factor[i];
    }
  }
  exponentials<kMasked>(scores, rows, scale_log2);
  return raised;
}

// What weigh_trusting subtracts, in units of log2. No reference: infinite weights, but 0 for scores of -inf.
__device__ __forceinline__ void origins_of(const RowStats& rows, float scale_log2, float (&origins)[2]) {
  constexpr float kLowest = -1e38f;
#pragma unroll
  for (int i = 0; i < 2; ++i) origins[i] = fmaxf(rows.maximum[i] * scale_log2, kLowest);
  pair_up(origins);
}

// One step with the reference maxima as they stand, without a look at the scores: those of a row's first step are good
// for most of its others. False, and the sums stay as they were, where a weight may be more than fp16 holds, or where a
// row without a reference has a score: then the scores, which are lost, must be made again and weighed. The answer is
// the same in the whole warp. Scores may be -inf, a whole row too; NaN is never trusted.
template <int kScores>
__device__ __forceinline__ bool weigh_trusting(float (&scores)[kScores], RowStats& rows, const float (&origins)[2],
                                               float scale_log2) {
  constexpr float kMost = 32768.f;
#pragma unroll
  for (int i = 0; i < kScores; ++i) scores[i] = exp2_approx(__fmaf_rn(scores[i], scale_log2, -origins[i >> 1 & 1]));
  float sums[2] = {scores[0] + scores[1], scores[2] + scores[3]};
#pragma unroll
  for (int i = 4; i < kScores; ++i) sums[i >> 1 & 1] += scores[i];
  // The vote itself, not a value that branches set: the loop around a step then stays uniform to the compiler, and its
  // descriptors in uniform registers.
  const bool trusted = __all_sync(~0u, sums[0] < kMost && sums[1] < kMost);
  if (trusted) rows.sum[0] += sums[0], rows.sum[1] += sums[1];
  return trusted;
}

template <int kScores>
__device__ __forceinline__ bool weigh_trusting(float (&scores)[kScores], RowStats& rows, float scale_log2) {
  float origins[2];
  origins_of(rows, scale_log2, origins);
  return weigh_trusting(scores, rows, origins, scale_log2);
}

// The first step of a row: nothing to rescale.
template <int kScores>
__device__ __forceinline__ void weigh_first(float (&scores)[kScores], RowStats& rows, float scale_log2) {
  rows.reset();
  row_maxima(rows.maximum, scores);
  exponentials<true>(scores, rows, scale_log2);
}

template <class Element, int kScores>
__device__ __forceinline__ void pack_weights(u32 (&weights)[kScores / 2], const float (&scores)[kScores]) {
#pragma unroll
  for (int i = 0; i < kScores / 2; ++i) weights[i] = Element::pack(scores[2 * i], scores[2 * i + 1]);
}

template <int kCount>
__device__ __forceinline__ void rescale(float (&out)[kCount], const float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) out[i] *= factor[i >> 1 & 1];
}

// Natural logarithm of the sum of exponentials, from full sums.
__device__ __forceinline__ float log_sum_exp(const RowStats& rows, int i, float scale_log2) {
  constexpr float kLn2 = 0.6931471805599453f;
  return rows.sum[i] == 0.f ? kMinusInfinity : (rows.maximum[i] * scale_log2 + log2_approx(rows.sum[i])) * kLn2;
}

}  // namespace stof::cuda
