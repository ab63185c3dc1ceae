// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/tile_maps.h"

#include <algorithm>
#include <cstring>

namespace stof::cuda {
namespace {

// A tensor argument of the call from some element on.
struct Part {
  std::string_view name;
  const void* base;
  std::int64_t offset, item_stride, class_stride, rows, heads;
  AttentionStrides strides;
  int box_rows, box_heads = 1;
  std::optional<std::int64_t> items = {};  // in place of the run's
  TensorPromotion promotion = TensorPromotion::bytes_128;
};

TensorBox box_of(const stof::AttentionCall& call, const ItemRun& items, const Part& part) {
  constexpr int kColumns = 64;  // 128 bytes, one row of the swizzle
  const std::int64_t places = items.in_a_row ? 1 : items.places;
  return {.name = part.name,
          .element = call.dtype == DType::bf16 ? TensorElement::bf16 : TensorElement::f16,
          .base = static_cast<const std::uint16_t*>(part.base) + part.offset,
          .sizes = {call.head_dim, part.rows, items.residues, part.heads, part.items.value_or(places)},
          .strides = {part.strides.row, part.class_stride, part.strides.head, part.item_stride},
          .box = {kColumns, part.box_rows, 1, part.box_heads, 1},
          .promotion = part.promotion};
}

TensorMap map_of(const TensorBox& box) {
  const TensorMapBytes bytes = encode(box);
  TensorMap map;
  static_assert(sizeof map == sizeof bytes);
  std::memcpy(&map, &bytes, sizeof map);
  return map;
}

}  // namespace

TileBoxes boxes_of(const stof::AttentionCall& call, const ItemRun& items, const HeadRun& heads, const BoxRows& rows) {
  constexpr int kQueries = 64, kOut = 16;  // rows of a load, and of a warp's store
  const int positions = kQueries / rows.stacked_heads, out_positions = std::min(kOut, positions);
  const AttentionItem& first = call.items[items.first];
  const std::int64_t kv_head = heads.first / (call.heads / call.kv_heads), kv_heads = heads.count / heads.per_kv;
  const auto from = [](std::int64_t item, std::int64_t head, const AttentionStrides& strides) {
    return item + head * strides.head;
  };
  const Part q{"q",
               call.q,
               from(first.q, heads.first, call.q_strides),
               items.q,
               items.q_class,
               items.query_rows,
               heads.count,
               call.q_strides,
               positions,
               rows.stacked_heads};
  Part k{"k",      call.k,         from(first.k, kv_head, call.k_strides),
         items.k,  items.k_class,  items.key_rows,
         kv_heads, call.k_strides, rows.keys};
  Part v{"v",      call.v,         from(first.v, kv_head, call.v_strides),
         items.v,  items.v_class,  items.key_rows,
         kv_heads, call.v_strides, rows.keys};
  if (const KeyPages& pages = call.pages; pages.table != nullptr) {
    k.rows = v.rows = pages.size;
    k.items = v.items = pages.count;
    k.item_stride = pages.k_stride, v.item_stride = pages.v_stride;
    // Keys in pages are mostly long and come from memory once, which takes up to 2 % less with 256 bytes at a time;
    // rows that the L2 keeps take up to 5 % less with 128 (bench/results/h100-promotion.txt).
    k.promotion = v.promotion = TensorPromotion::bytes_256;
  }
  // Without keys nothing is loaded, k and v may be anywhere, and a map must have a row: one of q stands in.
  Part none = q;
  none.rows = 1, none.box_rows = rows.keys, none.box_heads = 1;
  const bool has_keys = items.key_rows > 0 && k.items != 0;
  return {.q = box_of(call, items, q),
          .k = box_of(call, items, has_keys ? k : none),
          .v = box_of(call, items, has_keys ? v : none),
          .out = box_of(call, items,
                        {"out", call.out, from(first.out, heads.first, call.out_strides), items.out, items.out_class,
                         items.query_rows, heads.count, call.out_strides, out_positions, kOut / out_positions})};
}

AttentionMaps encode(const TileBoxes& boxes) {
  return {.q = map_of(boxes.q), .k = map_of(boxes.k), .v = map_of(boxes.v), .out = map_of(boxes.out)};
}

}  // namespace stof::cuda
