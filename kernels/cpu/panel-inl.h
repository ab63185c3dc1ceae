// SPDX-License-Identifier: Apache-2.0
// One key block against one panel of query rows: scores, online softmax, weighted values.
#if defined(STOF_KERNELS_CPU_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STOF_KERNELS_CPU_PANEL_INL_H_
#undef STOF_KERNELS_CPU_PANEL_INL_H_
#else
#define STOF_KERNELS_CPU_PANEL_INL_H_
#endif
#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/cpu/block_parts-inl.h"
#include "kernels/cpu/exp2-inl.h"
#include "kernels/cpu/matrix_tiles-inl.h"
#include "kernels/cpu/tile_matmul-inl.h"
#include "kernels/cpu/trusted_weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stof::cpu::HWY_NAMESPACE {

struct Peak {
  FloatVec at[kVectors];
};

// Scores of the live tiles into panel.s, forbidden ones as -inf, and the largest of each row in units of log2.
template <class Words, bool kMasked>
HWY_INLINE Peak write_scores(const Block& block, const Panel& panel, const Live& live) {
  const Floats d;
  const FloatVec forbidden = hn::Set(d, -std::numeric_limits<float>::infinity());
  Peak peak = {{forbidden, forbidden}};
  for (int j = 0; j < block.keys; j += kRows) {
    block.ahead.fetch(j, panel.index, block.panels);
    if (kMasked && !live.tile[j / kRows]) continue;
    Accumulators acc;
    read_scores<Words>(block, panel, j, acc);
    const int rows = std::min(kRows, block.keys - j);
    float* s = panel.s + j * kPanel;
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      if (r >= rows) break;
      const std::uint32_t word = kMasked ? mask_word(block, panel, j + r) : 0;
      for (int v = 0; v < kVectors; ++v) {
        FloatVec score = acc.at[r][v];
        if (kMasked) score = hn::IfThenElse(lanes_of(word, v), score, forbidden);
        hn::Store(score, d, s + r * kPanel + v * kLanes);
        peak.at[v] = hn::Max(peak.at[v], score);
      }
    }
  }
  if constexpr (Words::kEach > 1)
    for (FloatVec& at : peak.at) at = hn::Mul(at, hn::Set(d, block.unit));
  return peak;
}

// What a key of the block adds to the scores of the panel's rows, from the first one on.
HWY_INLINE const float* bias_of(const Block& block, const Panel& panel, int key) {
  const HeadBias& bias = block.bias;
  const int back = panel.position - (block.first_key + key);
  return bias.zero + std::clamp(back, -bias.reach - kPanel, bias.reach);
}
static_assert(kPanel <= HeadBias::kMargin);

// Scores that are not forbidden, capped and with their bias, and their peak: in units of log2, whatever they were in
// before.
template <bool kMasked>
HWY_NOINLINE Peak change_scores(const Block& block, const Panel& panel, const Live& live) {
  const Floats d;
  const FloatVec cap = hn::Set(d, block.cap), factor = hn::Set(d, block.factor);
  const FloatVec forbidden = hn::Set(d, -std::numeric_limits<float>::infinity());
  Peak peak = {{forbidden, forbidden}};
  for (int j = 0; j < block.keys; ++j) {
    if (kMasked && !live.tile[j / kRows]) continue;
    const std::uint32_t word = kMasked ? mask_word(block, panel, j) : ~0u;
    const float* const bias = block.bias.zero == nullptr ? nullptr : bias_of(block, panel, j);
    for (int v = 0; v < kVectors; ++v) {
      float* const at = panel.s + j * kPanel + v * kLanes;
      FloatVec score = hn::Mul(hn::Load(d, at), factor);
      if (block.cap > 0) score = hn::Mul(cap, hn::Tanh(d, score));
      if (bias != nullptr) score = hn::Add(score, hn::LoadU(d, bias + v * kLanes));
      if (kMasked) score = hn::IfThenElse(lanes_of(word, v), score, forbidden);
      hn::Store(score, d, at);
      peak.at[v] = hn::Max(peak.at[v], score);
    }
  }
  return peak;
}

// Raises the running maxima where the block's peak is more than kLag above, with the factors that then apply to sums
// and outputs; false, and nothing changed, when no row needs it.
HWY_INLINE bool raise_top(const Panel& panel, const Peak& peak, float* factor) {
  const Floats d;
  bool raise = false;
  for (int v = 0; v < kVectors; ++v) {
    const auto lagging = hn::Gt(peak.at[v], hn::Add(hn::Load(d, panel.top + v * kLanes), hn::Set(d, kLag)));
    raise = raise || !hn::AllFalse(d, lagging);
  }
  if (!raise) return false;
  for (int v = 0; v < kVectors; ++v) {
    const FloatVec old = hn::Load(d, panel.top + v * kLanes);
    const FloatVec top = hn::Max(old, peak.at[v]);
    const auto none = hn::Eq(top, hn::Set(d, -std::numeric_limits<float>::infinity()));
    const FloatVec by = exp2(d, hn::Sub(old, hn::IfThenZeroElse(none, top)));
    hn::Store(top, d, panel.top + v * kLanes);
    hn::Store(by, d, factor + v * kLanes);
    hn::Store(hn::Mul(hn::Load(d, panel.sum + v * kLanes), by), d, panel.sum + v * kLanes);
  }
  return true;
}

// Scores to words of weights, in place; sums gain them. Dead tiles become 0: a group of rows may still read them.
template <class Words, bool kMasked>
HWY_INLINE void write_weights(const Block& block, const Panel& panel, const Live& live) {
  const Floats d;
  const FloatVec unit = hn::Set(d, block.unit);
  const Tops tops = tops_of(panel);
  const FloatVec* const top = tops.subtract;
  FloatVec sum[kVectors];
  for (FloatVec& each : sum) each = hn::Zero(d);
  const float* s = panel.s;
  float* to = panel.s;
  for (int j = 0; j < block.keys; j += Words::kEach, s += Words::kEach * kPanel, to += kPanel) {
    const bool dead = kMasked && !live.tile[j / kRows];
    HWY_UNROLL(2)
    for (int v = 0; v < kVectors; ++v) {
      FloatVec weight = dead ? hn::Zero(d) : weight_of<Words>(hn::Load(d, s + v * kLanes), unit, top[v]);
      sum[v] = hn::Add(sum[v], weight);
      if constexpr (Words::kEach > 1) {
        const bool last = j + 1 == block.keys;
        const FloatVec second =
            dead || last ? hn::Zero(d) : weight_of<Words>(hn::Load(d, s + kPanel + v * kLanes), unit, top[v]);
        sum[v] = hn::Add(sum[v], second);
        weight = Words::joined(weight, second);
      }
      hn::Store(weight, d, to + v * kLanes);
    }
  }
  for (int v = 0; v < kVectors; ++v)
    hn::Store(hn::Add(hn::Load(d, panel.sum + v * kLanes), sum[v]), d, panel.sum + v * kLanes);
}

template <class Words>
HWY_INLINE void add_values(const Block& block, const Panel& panel, const Live& live, const float* factor) {
  if constexpr (Words::kTiles) return add_values_by_tiles<Words>(block, panel, live, factor);
  for (int group = 0; group < kGroups; ++group) {
    const int row = group * kRows, begin = live.begin[group] / Words::kEach;  // kRows is a multiple
    const int words = std::max(0, (live.end[group] + Words::kEach - 1) / Words::kEach - begin);
    if (words == 0 && factor == nullptr) continue;
    ValueTile tile{.p = panel.s + begin * kPanel + row,
                   .v = block.v.words(begin),
                   .v_stride = block.v.stride / 4,
                   .words = words,
                   .o = panel.o + std::int64_t{row} * block.depth,
                   .o_stride = block.depth,
                   .factor = factor == nullptr ? nullptr : factor + row};
    int c = 0;
    for (; c + 2 * kLanes <= block.depth; c += 2 * kLanes, tile.v += 2 * kLanes, tile.o += 2 * kLanes)
      value_tile<Words, 2>(tile);
    if (c < block.depth) value_tile<Words, 1>(tile);
  }
}

template <class Words, bool kMasked>
void attend(const Block& block, const Panel& panel) {
  const Live live = kMasked ? live_parts(block, panel) : all_live(block.keys);
  const bool whole_tiles = block.keys % kRows == 0 && !block.changes_scores();
  if constexpr (Words::kTiles) multiply_all_keys<Words>(block, panel, live);
  if (whole_tiles) {
    if (write_trusted_weights<Words, kMasked>(block, panel, live))
      return add_values<Words>(block, panel, live, nullptr);
    if constexpr (Words::kTiles) multiply_all_keys<Words>(block, panel, live);  // weights took the place of some
  }
  Peak peak = write_scores<Words, kMasked>(block, panel, live);
  if (block.changes_scores()) peak = change_scores<kMasked>(block, panel, live);
  HWY_ALIGN float factor[kPanel];
  const bool raised = raise_top(panel, peak, factor);
  write_weights<Words, kMasked>(block, panel, live);
  add_values<Words>(block, panel, live, raised ? factor : nullptr);
}

}  // namespace stof::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
