// SPDX-License-Identifier: Apache-2.0
// A call, cut into what one launch can take: items at even distances or one after another, heads that share a mask.
#pragma once
#include <memory_resource>
#include <optional>
#include <span>
#include <vector>

#include "kernels/shared/score_bias.h"
#include "src/backend/contract.h"

namespace stof::cuda {

inline constexpr std::int64_t kMostInGrid = 65535;  // CTAs in y, and in z

// Query heads [first, first + count) of one mask; their keys begin at key head first / (heads / kv_heads).
struct HeadRun {
  std::int64_t first = 0, count = 0, per_kv = 1;
  int group = 0;
  friend bool operator==(const HeadRun&, const HeadRun&) = default;
};

// groups: of each query head. A run that does not begin or end with a key head's own heads stays within one key head.
std::vector<HeadRun> head_runs(std::span<const int> groups, std::int64_t heads_per_kv);

// Items of the call that one set of tensor maps describes.
struct ItemRun {
  std::size_t first = 0, count = 0;           // of call.items
  std::int64_t places = 0;                    // items as the kernel counts them, those without rows included
  std::int64_t query_rows = 0, key_rows = 0;  // that the maps may touch, of an item or of all in a row
  bool in_a_row = false;                      // one after another, without room of their own
  // Distance from item to item, where they are not in a row.
  std::int64_t q = 0, k = 0, v = 0, out = 0, lse = 0;
  std::int64_t place = 1;                                                            // the same of AttentionItem::place
  std::int64_t residues = 1;                                                         // classes of each item
  std::int64_t q_class = 0, k_class = 0, v_class = 0, out_class = 0, lse_class = 0;  // distance from class to class
  // [places] each; starts of items in a row only.
  std::pmr::vector<int> query_lengths = {}, key_lengths = {}, query_starts = {}, key_starts = {};
};

// Runs of at most so many places, in the call's memory. Packed items are in a row, unless they lie evenly: then they
// run as padded ones do, without starts that a launch in front must bring to the device.
std::pmr::vector<ItemRun> item_runs(const stof::AttentionCall& call, std::int64_t most);

// The items of a call of residue classes in another order, all classes of an item side by side: a run for each item.
std::pmr::vector<AttentionItem> classes_of_each_item(const stof::AttentionCall& call);

// All items of a call of residue classes as one run, each item with its classes; nothing where they do not lie so, and
// where they are more than `most`, a class of an item counting as one.
std::optional<ItemRun> class_run(const stof::AttentionCall& call, std::int64_t most);

// By tiles a score is capped with an error of 2^-22 of the cap; row_attention caps with full accuracy.
inline constexpr float kMostTiledCap = 1024;

// Tiles are weighed as 2^(score * scale_log2 - reference), where the reference, one product, is rounded: from 2^28 on
// by more than 16 bits hold as a weight. row_attention takes differences of scores. The maximum is that of unscaled
// scores, which is that of scaled ones for positive factors.
inline constexpr float kMostTiledScale = 65536;
inline constexpr float kLeastBiasedScale = 1e-18f;  // a bias is divided by it
inline bool tiles_take_scale(float scale) { return scale > 0 && scale <= kMostTiledScale; }

// What the kernels multiply scores with, as the AttentionCall of kernels/shared has it.
struct ScoreScale {
  float log2, cap_log2;
};
inline ScoreScale score_scale(const stof::AttentionCall& call) {
  constexpr float kLog2E = 1.4426950408889634f;
  const float cap_log2 = call.softcap > 0 ? 2 * kLog2E * call.scale / call.softcap : 0.f;
  // Too small a number for fp32 is 0, which says that nothing is capped: nothing is, so far below the cap.
  if (cap_log2 == 0.f) return {call.scale * kLog2E, 0.f};
  return {call.softcap * kLog2E, cap_log2};
}

// Of heads from this one on. score_scale: what the kernel multiplies scores with, once they have their bias.
inline ScoreBias score_bias(const stof::AttentionCall& call, std::int64_t first_head, float score_scale) {
  static_assert(ScoreBias::kMargin == stof::ScoreBias::kMargin);
  if (call.bias.values == nullptr) return {};
  return {.values = call.bias.values + first_head * call.bias.head_stride,
          .head_stride = static_cast<int>(call.bias.head_stride),
          .zero = static_cast<int>(call.bias.reach) + ScoreBias::kMargin,
          .shifted = static_cast<int>(call.bias.head_stride / 2),
          .reach = static_cast<int>(call.bias.reach),
          .factor = 1 / score_scale};
}

}  // namespace stof::cuda
