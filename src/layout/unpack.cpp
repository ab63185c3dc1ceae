// SPDX-License-Identifier: Apache-2.0
// Layouts back to dense arrays.
#include <algorithm>

#include "src/layout/pack.h"

namespace stof {

Tensor unpack(const BlockLayout& layout) {
  const auto& [queries, keys, batch, heads] = layout.extent;
  Tensor dense(DType::boolean, {layout.groups, queries, keys});
  auto* out = dense.as<std::uint8_t>();
  std::fill_n(out, dense.size(), std::uint8_t{0});
  const int words = layout.words_per_row();
  for (std::int64_t block = 0; block < layout.groups * layout.row_blocks; ++block) {
    const std::int64_t group = block / layout.row_blocks, r = block % layout.row_blocks;
    const std::int64_t first = layout.first_position + r * layout.format.block_q;
    const std::int64_t* begin = layout.row_begin.data() + group * (layout.row_blocks + 1) + r;
    for (std::int64_t e = begin[0]; e < begin[1]; ++e) {
      const BlockEntry& entry = layout.entries[static_cast<std::size_t>(e)];
      for (int i = 0; i < layout.format.block_q; ++i) {
        if (!layout.positions.contains(first + i)) continue;
        const std::int64_t row = first + i - layout.positions.begin;
        for (int j = 0; j < layout.format.block_kv && entry.key_start + j < keys; ++j) {
          const bool allowed =
              entry.full() || (layout.bitmaps[static_cast<std::size_t>(
                                   (std::int64_t{entry.bitmap} * layout.format.block_q + i) * words + j / 64)] >>
                                   (j % 64) &
                               1) != 0;
          out[(group * queries + row) * keys + entry.key_start + j] = allowed;
        }
      }
    }
  }
  return dense;
}

Tensor unpack(const RowLayout& layout) {
  const auto& [queries, keys, batch, heads] = layout.extent;
  Tensor dense(DType::boolean, {layout.groups, queries, keys});
  auto* out = dense.as<std::uint8_t>();
  std::fill_n(out, dense.size(), std::uint8_t{0});
  for (std::int64_t group = 0; group < layout.groups; ++group)
    for (std::int64_t row = 0; row < queries; ++row) {
      const std::int64_t* begin = layout.row_begin.data() + group * (queries + 1) + row;
      for (std::int64_t i = begin[0]; i < begin[1]; ++i) {
        const RowLayout::Interval& interval = layout.intervals[static_cast<std::size_t>(i)];
        std::fill_n(out + (group * queries + row) * keys + interval.begin, interval.end - interval.begin,
                    std::uint8_t{1});
      }
    }
  return dense;
}

}  // namespace stof
