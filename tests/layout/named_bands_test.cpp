// SPDX-License-Identifier: Apache-2.0
// Masks whose bands are known again, planned as masks of bits are, of which nothing is known.
#include <gtest/gtest.h>

#include "src/layout/band_widths.h"
#include "src/layout/key_pieces.h"
#include "src/layout/key_tiles.h"
#include "tests/layout/expect_layout.h"
#include "tests/mask/repeating_mask.h"

namespace stof {
namespace {

Mask bits_of(const BoundMask& mask) {
  const MaskExtent& extent = mask.extent();
  const Tensor dense(DType::boolean, {extent.queries, extent.keys});
  auto* allowed = dense.as<std::uint8_t>();
  for (std::int64_t row = 0; row < extent.queries; ++row)
    for (std::int64_t key = 0; key < extent.keys; ++key) *allowed++ = mask.allows(0, row, key) ? 1 : 0;
  return bits(dense.view());
}

void expect_same_layout(const BoundMask& mask, const BoundMask& as_bits, const BlockFormat& format) {
  SCOPED_TRACE(testing::Message() << format.block_q << "x" << format.block_kv << " step " << format.key_step);
  const BlockLayout layout = pack_blocks(mask, format), expected = pack_blocks(as_bits, format);
  EXPECT_EQ(layout.row_begin, expected.row_begin);
  EXPECT_EQ(layout.entries, expected.entries);
  EXPECT_EQ(layout.bitmaps, expected.bitmaps);
  EXPECT_EQ(layout.has_empty_row, expected.has_empty_row);
}

void expect_same_stats(const MaskStats& stats, const MaskStats& expected) {
  EXPECT_EQ(stats.allowed_pairs, expected.allowed_pairs);
  EXPECT_EQ(stats.empty_rows, expected.empty_rows);
  ASSERT_EQ(stats.blocks.size(), expected.blocks.size());
  for (std::size_t i = 0; i < stats.blocks.size(); ++i) {
    const BlockStats &blocks = stats.blocks[i], &other = expected.blocks[i];
    EXPECT_EQ(blocks.empty, other.empty);
    EXPECT_EQ(blocks.partial, other.partial);
    EXPECT_EQ(blocks.full, other.full);
    EXPECT_EQ(blocks.touched_density, other.touched_density);
    EXPECT_EQ(blocks.heaviest, other.heaviest);
    EXPECT_EQ(blocks.row_blocks, other.row_blocks);
  }
}

void expect_same_keys(const BoundMask& mask, const BoundMask& as_bits, const MaskStats& stats) {
  EXPECT_EQ(measure_bands(mask, stats), measure_bands(as_bits, stats));
  EXPECT_EQ(measure_pieces(mask, stats), measure_pieces(as_bits, stats));
  const KeyTiles tiles = measure_tiles(mask, stats), expected = measure_tiles(as_bits, stats);
  ASSERT_EQ(tiles.blocks.size(), expected.blocks.size());
  for (std::size_t i = 0; i < tiles.blocks.size(); ++i) {
    EXPECT_EQ(tiles.blocks[i].block_q, expected.blocks[i].block_q);
    EXPECT_EQ(tiles.blocks[i].heaviest, expected.blocks[i].heaviest);
    EXPECT_EQ(tiles.blocks[i].row_blocks, expected.blocks[i].row_blocks);
  }
}

TEST(NamedBands, ArePlannedAsBitsAre) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    const RepeatingMask random(seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << random.mask.text() << " of " << random.extent.queries
                                    << "x" << random.extent.keys);
    const BoundMask mask(random.mask, random.extent), as_bits(bits_of(mask), random.extent);
    const MaskStats stats = measure(mask, kBlockSizes);
    expect_same_stats(stats, measure(as_bits, kBlockSizes));
    expect_same_keys(mask, as_bits, stats);
    for (const BlockFormat& format : kBlockFormats) expect_same_layout(mask, as_bits, format);
    expect_same_layout(mask, as_bits, {.block_q = 64, .block_kv = 128, .key_step = 128});
    if (testing::Test::HasFailure()) return;
  }
}

// Two row-blocks with 64 of 128 rows each: the last of the first one, the first of the other.
TEST(NamedBands, HaveTheirRowsInTheirRowBlocks) {
  const MaskExtent extent{.queries = 128, .keys = 192};
  const BoundMask mask(window(10, 0), extent), as_bits(bits_of(mask), extent);
  expect_same_layout(mask, as_bits, {.block_q = 128, .block_kv = 64, .key_step = 64});
}

}  // namespace
}  // namespace stof
