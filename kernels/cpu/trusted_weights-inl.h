// SPDX-License-Identifier: Apache-2.0
// Scores of a key block to weights, tile by tile, by the running maxima as they stand: most blocks raise none. Scores
// stay in registers, and exponentials run beside the next tile's products, which leave half of the vector units idle.
#if defined(STOF_KERNELS_CPU_TRUSTED_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STOF_KERNELS_CPU_TRUSTED_WEIGHTS_INL_H_
#undef STOF_KERNELS_CPU_TRUSTED_WEIGHTS_INL_H_
#else
#define STOF_KERNELS_CPU_TRUSTED_WEIGHTS_INL_H_
#endif
#include <algorithm>
#include <limits>

#include "kernels/cpu/block_parts-inl.h"
#include "kernels/cpu/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stof::cpu::HWY_NAMESPACE {

// The weight of a score whose factor to units of log2 is `unit`; scores that are not pairs' are in these units.
template <class Words>
HWY_INLINE FloatVec weight_of(FloatVec score, FloatVec unit, FloatVec top) {
  const Floats d;
  if constexpr (Words::kEach > 1) return exp2(d, hn::MulSub(score, unit, top));
  else return exp2(d, hn::Sub(score, top));
}

// The running maxima of a panel, in units of log2.
struct Tops {
  FloatVec subtract[kVectors];  // 0 for a row without a key yet: -inf - -inf would be NaN
  FloatVec most[kVectors];      // a score above needs a higher maximum; -inf for a row without a key yet
};

HWY_INLINE Tops tops_of(const Panel& panel) {
  const Floats d;
  Tops tops;
  for (int v = 0; v < kVectors; ++v) {
    const FloatVec running = hn::Load(d, panel.top + v * kLanes);
    const auto none = hn::Eq(running, hn::Set(d, -std::numeric_limits<float>::infinity()));
    tops.subtract[v] = hn::IfThenZeroElse(none, running);
    tops.most[v] = hn::Add(running, hn::Set(d, kLag));
  }
  return tops;
}

// A row's first keys set its maximum: its sum and its outputs are 0 and its weights in this block too. False, and
// nothing changed, when a row above its limit has had a key before.
HWY_INLINE bool begin_rows(const Panel& panel, const FloatVec* peak, Tops& tops) {
  const Floats d;
  const FloatVec forbidden = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (int v = 0; v < kVectors; ++v)
    if (!hn::AllFalse(d, hn::And(hn::Gt(peak[v], tops.most[v]), hn::Gt(tops.most[v], forbidden)))) return false;
  for (int v = 0; v < kVectors; ++v) {
    const auto begins = hn::Gt(peak[v], tops.most[v]);
    float* const top = panel.top + v * kLanes;
    hn::Store(hn::IfThenElse(begins, peak[v], hn::Load(d, top)), d, top);
  }
  tops = tops_of(panel);
  return true;
}

// False where a score of the tile is above what the maxima let it be.
template <class Words>
HWY_INLINE bool trusts(const Accumulators& scores, FloatVec unit, const Panel& panel, Tops& tops) {
  const Floats d;
  FloatVec peak[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    peak[v] = scores.at[0][v];
    HWY_UNROLL(8)
    for (int r = 1; r < kRows; ++r) peak[v] = hn::Max(peak[v], scores.at[r][v]);
    if constexpr (Words::kEach > 1) peak[v] = hn::Mul(peak[v], unit);
  }
  bool above = false;
  for (int v = 0; v < kVectors; ++v) above = above || !hn::AllFalse(d, hn::Gt(peak[v], tops.most[v]));
  return !above || begin_rows(panel, peak, tops);
}

template <class Words, bool kMasked>
HWY_INLINE void score_trusted_tile(const Block& block, const Panel& panel, int j, Accumulators& scores) {
  const Floats d;
  read_scores<Words>(block, panel, j, scores);
  if constexpr (kMasked) {
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const std::uint32_t word = mask_word(block, panel, j + r);
      for (int v = 0; v < kVectors; ++v)
        scores.at[r][v] =
            hn::IfThenElse(lanes_of(word, v), scores.at[r][v], hn::Set(d, -std::numeric_limits<float>::infinity()));
    }
  }
}

// Words of weights of whole tiles into panel.s; sums gain them. False where a maximum must be raised: then nothing is
// changed but panel.s and what rows begin with, and the block is for write_scores() and write_weights().
template <class Words, bool kMasked>
HWY_INLINE bool write_trusted_weights(const Block& block, const Panel& panel, const Live& live) {
  const Floats d;
  Tops tops = tops_of(panel);
  const FloatVec unit = hn::Set(d, block.unit);
  FloatVec sum[kVectors];
  for (FloatVec& each : sum) each = hn::Zero(d);
  for (int j = 0; j < block.keys; j += kRows) {
    block.ahead.fetch(j, panel.index, block.panels);
    float* to = panel.s + j / Words::kEach * kPanel;
    if (kMasked && !live.tile[j / kRows]) {  // a group of rows may still read it
      std::fill_n(to, kRows / Words::kEach * kPanel, 0.f);
      continue;
    }
    Accumulators scores;
    score_trusted_tile<Words, kMasked>(block, panel, j, scores);
    if (!trusts<Words>(scores, unit, panel, tops)) return false;
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; r += Words::kEach, to += kPanel) HWY_UNROLL(2)
    for (int v = 0; v < kVectors; ++v) {
      FloatVec weight = weight_of<Words>(scores.at[r][v], unit, tops.subtract[v]);
      sum[v] = hn::Add(sum[v], weight);
      if constexpr (Words::kEach > 1) {
        const FloatVec second = weight_of<Words>(scores.at[r + 1][v], unit, tops.subtract[v]);
        sum[v] = hn::Add(sum[v], second);
        weight = Words::joined(weight, second);
      }
      hn::Store(weight, d, to + v * kLanes);
    }
  }
  for (int v = 0; v < kVectors; ++v)
    hn::Store(hn::Add(hn::Load(d, panel.sum + v * kLanes), sum[v]), d, panel.sum + v * kLanes);
  return true;
}

}  // namespace stof::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
