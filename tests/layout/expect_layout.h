// SPDX-License-Identifier: Apache-2.0
// Layouts and statistics of a mask against the mask itself, asked pair by pair.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "src/layout/pack.h"
#include "src/mask/mask_bands.h"
#include "src/mask/stats.h"

namespace stof {

inline const std::vector<BlockFormat> kBlockFormats = {
    {.block_q = 64, .block_kv = 64, .key_step = 64},    {.block_q = 64, .block_kv = 64, .key_step = 8},
    {.block_q = 128, .block_kv = 128, .key_step = 128}, {.block_q = 192, .block_kv = 128, .key_step = 64},
    {.block_q = 128, .block_kv = 64, .key_step = 8},    {.block_q = 256, .block_kv = 256, .key_step = 32},
    {.block_q = 8, .block_kv = 16, .key_step = 16},     {.block_q = 64, .block_kv = 96, .key_step = 8},
    {.block_q = 9, .block_kv = 64, .key_step = 8},      {.block_q = 24, .block_kv = 64, .key_step = 64}};

inline constexpr BlockSize kBlockSizes[] = {{64, 64}, {64, 128}, {128, 128}, {192, 128}, {16, 16}, {64, 32}};

// What unpack() gave, for each head of each item.
inline void expect_unpacked(const Tensor& dense, const std::vector<int>& group_of, const BoundMask& mask) {
  const MaskExtent& extent = mask.extent();
  const auto* got = dense.as<std::uint8_t>();
  for (std::int64_t item = 0; item < extent.batch; ++item)
    for (std::int64_t head = 0; head < extent.heads; ++head) {
      const std::int64_t group = group_of[static_cast<std::size_t>(item * extent.heads + head)];
      for (std::int64_t row = 0; row < extent.queries; ++row)
        for (std::int64_t key = 0; key < extent.keys; ++key)
          ASSERT_EQ(got[(group * extent.queries + row) * extent.keys + key] != 0,
                    mask.allows(mask.group_of(item, head), row, key))
              << "item " << item << " head " << head << " row " << row << " key " << key;
    }
}

inline constexpr RowOrigin kRowOrigins[] = {RowOrigin::zero, RowOrigin::first_row};

inline void expect_packed(const BoundMask& mask, BlockFormat format) {
  for (const RowOrigin origin : kRowOrigins) {
    format.row_origin = origin;
    SCOPED_TRACE(testing::Message() << format.block_q << "x" << format.block_kv << " step " << format.key_step
                                    << (origin == RowOrigin::zero ? "" : " from the first row"));
    const BlockLayout layout = pack_blocks(mask, format);
    validate(layout);
    expect_unpacked(unpack(layout), layout.group_of, mask);
  }
}

inline void expect_packed_by_rows(const BoundMask& mask) {
  const RowLayout layout = pack_rows(mask);
  validate(layout);
  expect_unpacked(unpack(layout), layout.group_of, mask);
}

struct CountedBlocks {
  std::int64_t empty = 0, partial = 0, full = 0;
  double touched_pairs = 0;
  std::int64_t heaviest = 0;
};

// Adds the blocks of one head.
inline void count_blocks(const BoundMask& mask, RowOrigin origin, int group, BlockSize size, CountedBlocks& counted) {
  const MaskExtent& extent = mask.extent();
  for (std::int64_t p = row_block_at(extent, origin, size.block_q, extent.offset()); p < extent.keys;
       p += size.block_q) {
    std::int64_t touched = 0;
    for (std::int64_t key = 0; key < extent.keys; key += size.block_kv) {
      const Range rows = intersect({p, p + size.block_q}, {extent.offset(), extent.keys});
      const Range keys = intersect({key, key + size.block_kv}, {0, extent.keys});
      std::int64_t allowed = 0;
      for (std::int64_t q = rows.begin; q < rows.end; ++q)
        for (std::int64_t k = keys.begin; k < keys.end; ++k) allowed += mask.allows(group, q - extent.offset(), k);
      const std::int64_t all = rows.size() * keys.size();
      ++(allowed == 0 ? counted.empty : allowed == all ? counted.full : counted.partial);
      if (allowed > 0) counted.touched_pairs += static_cast<double>(all);
      touched += allowed > 0;
    }
    counted.heaviest = std::max(counted.heaviest, touched);
  }
}

inline void expect_blocks_counted(const BoundMask& mask, RowOrigin origin, const BlockStats& blocks,
                                  double allowed_pairs) {
  SCOPED_TRACE(testing::Message() << blocks.block_q << "x" << blocks.block_kv);
  const MaskExtent& extent = mask.extent();
  CountedBlocks total;
  for (std::int64_t item = 0; item < extent.batch; ++item)
    for (std::int64_t head = 0; head < extent.heads; ++head)
      count_blocks(mask, origin, mask.group_of(item, head), {blocks.block_q, blocks.block_kv}, total);
  const auto all = static_cast<double>(total.empty + total.partial + total.full);
  EXPECT_DOUBLE_EQ(blocks.empty, static_cast<double>(total.empty) / all);
  EXPECT_DOUBLE_EQ(blocks.partial, static_cast<double>(total.partial) / all);
  EXPECT_DOUBLE_EQ(blocks.full, static_cast<double>(total.full) / all);
  EXPECT_DOUBLE_EQ(blocks.touched_density, allowed_pairs == 0 ? 0 : allowed_pairs / total.touched_pairs);
  EXPECT_EQ(blocks.heaviest, total.heaviest);
  double full = 0, partial = 0;
  for (const BlockStats::Bin& bin : blocks.row_blocks) {
    full += bin.full * static_cast<double>(bin.count);
    partial += bin.partial * static_cast<double>(bin.count);
  }
  EXPECT_NEAR(full, static_cast<double>(total.full), 1e-6 * all);
  EXPECT_NEAR(partial, static_cast<double>(total.partial), 1e-6 * all);
  EXPECT_LE(blocks.row_blocks.size(), 64u);
}

// Of all items and heads.
inline std::int64_t count_keys_seen(const BoundMask& mask) {
  const MaskExtent& extent = mask.extent();
  std::int64_t seen = 0;
  for (std::int64_t item = 0; item < extent.batch; ++item)
    for (std::int64_t head = 0; head < extent.heads; ++head)
      for (std::int64_t key = 0; key < extent.keys; key += 64) {
        const Range tile = {key, std::min(key + 64, extent.keys)};
        bool any = false;
        for (std::int64_t row = 0; row < extent.queries && !any; ++row)
          for (std::int64_t k = tile.begin; k < tile.end; ++k) any |= mask.allows(mask.group_of(item, head), row, k);
        seen += any ? tile.size() : 0;
      }
  return seen;
}

inline void expect_measured(const BoundMask& mask, std::span<const BlockSize> sizes) {
  const MaskExtent& extent = mask.extent();
  std::int64_t allowed = 0, empty_rows = 0;
  for (std::int64_t item = 0; item < extent.batch; ++item)
    for (std::int64_t head = 0; head < extent.heads; ++head)
      for (std::int64_t row = 0; row < extent.queries; ++row) {
        std::int64_t in_row = 0;
        for (std::int64_t key = 0; key < extent.keys; ++key) in_row += mask.allows(mask.group_of(item, head), row, key);
        allowed += in_row;
        empty_rows += in_row == 0;
      }
  for (const RowOrigin origin : kRowOrigins) {
    SCOPED_TRACE(origin == RowOrigin::zero ? "" : "from the first row");
    const MaskStats stats = measure(MaskBands(mask, origin), sizes);
    EXPECT_EQ(stats.allowed_pairs, static_cast<double>(allowed));
    EXPECT_EQ(stats.empty_rows, empty_rows);
    EXPECT_NEAR(stats.keys_seen * static_cast<double>(extent.batch * extent.heads),
                static_cast<double>(count_keys_seen(mask)), 1e-6);
    EXPECT_EQ(stats.blocks.size(), sizes.size());
    for (const BlockStats& blocks : stats.blocks) expect_blocks_counted(mask, origin, blocks, stats.allowed_pairs);
  }
}

}  // namespace stof
