// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/decode_mask.h"

#include <algorithm>

#include "src/backend/cuda/attention/call_pieces.h"
#include "src/backend/cuda/attention/decode.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

template <class... Integers>
bool all_whole(std::int64_t unit, Integers... values) {
  return ((values % unit == 0) && ...);
}

// Whether every row of the call begins at a multiple of 16 bytes.
bool is_aligned(const stof::AttentionCall& call) {
  constexpr std::int64_t kBytes = 16, kElements = 8;
  for (const void* address : {call.q, call.k, call.v, static_cast<const void*>(call.out)})
    if (reinterpret_cast<std::uintptr_t>(address) % kBytes != 0) return false;
  for (const AttentionStrides& s : {call.q_strides, call.k_strides, call.v_strides, call.out_strides})
    if (!all_whole(kElements, s.head, s.row)) return false;
  const stof::DeviceItems& listed = call.device_items;
  return all_whole(kElements, call.pages.k_stride, call.pages.v_stride, listed.q, listed.k, listed.v, listed.out) &&
         std::all_of(call.items.begin(), call.items.end(),
                     [](const AttentionItem& item) { return all_whole(kElements, item.q, item.k, item.v, item.out); });
}

}  // namespace

std::size_t partial_floats(const DecodeMask& mask) {
  return static_cast<std::size_t>(2 * mask.ctas * mask.forms.back().rows) *
         static_cast<std::size_t>(mask.instance.head_dim + kStatFloats);
}

int rows_of(const DecodeMask& mask, std::int64_t queries) {
  return narrow<int>(mask.sets.most_heads * queries, "rows of a key head");
}
int chunks_of(const DecodeMask& mask, std::int64_t queries) {
  return static_cast<int>(ceil_div(std::int64_t{rows_of(mask, queries)}, std::int64_t{mask.forms.back().rows}));
}

const DecodeList* list_of(const DecodeMask& mask, const RowItem& item) {
  constexpr int kPositions = DecodeList::kPositions;
  const int at = item.keys - item.queries - mask.first_position, block = at / kPositions;
  if (item.keys == 0 || item.queries == 0 || at < 0 || block >= mask.blocks) return nullptr;
  const bool wide = at - block * kPositions + item.queries > kPositions;
  return &mask.of_positions[static_cast<std::size_t>(block) + (wide ? static_cast<std::size_t>(mask.blocks) : 0)];
}
int tiles_of(const DecodeMask& mask, const RowItem& item) {
  const DecodeList* const list = list_of(mask, item);
  return list == nullptr ? 0 : list->tiles;
}

std::int64_t launches_beside(const DecodeMask& mask, const stof::AttentionCall& call, std::int64_t queries) {
  const std::int64_t tasks = std::int64_t{mask.sets.sets} * chunks_of(mask, queries);
  const std::int64_t at_once =
      std::min<std::int64_t>(decode_items_of_launch(tasks, mask.most_tiles), DecodeParams::kMostItems);
  return ceil_div(std::ssize(call.items), at_once);
}

const char* why_by_rows(const DecodeMask& mask, const stof::AttentionCall& call) {
  static_assert(kMostTiledScale == 65536);
  if (!tiles_take_scale(call.scale)) return "a positive scale of at most 65536";
  static_assert(kMostTiledCap == 1024);
  if (call.softcap > kMostTiledCap) return "a softcap of at most 1024";
  if (!is_aligned(call)) return "tensors and strides at multiples of 16 bytes";
  if (call.device_items.starts != nullptr) return "lengths, not rows";
  // A plan for every position has many queries, of which calls bring few.
  const std::int64_t tasks = std::int64_t{mask.sets.sets} * chunks_of(mask, std::min(mask.shape.queries, kMostDecoded));
  return decode_items_of_launch(tasks, mask.most_tiles) < 1 ? "fewer heads with masks of their own" : nullptr;
}

std::int64_t decode_items_of_launch(std::int64_t tasks, std::int64_t most_tiles) {
  return std::min(DecodeParams::kMostTasks / tasks,
                  DecodeParams::kMostUnits / (tasks * (most_tiles + DecodeParams::kMostStart)));
}

}  // namespace stof::cuda
