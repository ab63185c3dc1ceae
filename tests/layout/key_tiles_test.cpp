// SPDX-License-Identifier: Apache-2.0
// Tiles that are counted before packing are those that are packed.
#include "src/layout/key_tiles.h"

#include <gtest/gtest.h>

#include <map>

#include "src/layout/band_widths.h"
#include "src/layout/key_pieces.h"
#include "src/layout/pack.h"
#include "src/mask/mask_bands.h"
#include "tests/layout/masks.h"
#include "tests/mask/random_mask.h"

namespace stof {
namespace {

constexpr BlockSize kSizes[] = {{64, 64}, {128, 64}, {192, 64}, {256, 64}, {8, 64}, {32, 64}};

struct Packed {
  std::map<std::int64_t, std::int64_t> row_blocks;  // of so many tiles, over all items and heads
  std::int64_t full = 0, heaviest = 0;
};

Packed packed(const BoundMask& mask, int block_q, RowOrigin origin) {
  const BlockLayout layout =
      pack_blocks(mask, {.block_q = block_q, .block_kv = 64, .key_step = KeyTiles::kStep, .row_origin = origin});
  Packed result;
  for (const int group : layout.group_of)
    for (std::int64_t block = 0; block < layout.row_blocks; ++block) {
      const auto at = static_cast<std::size_t>(group * (layout.row_blocks + 1) + block);
      const std::int64_t begin = layout.row_begin[at], end = layout.row_begin[at + 1];
      ++result.row_blocks[end - begin];
      result.heaviest = std::max(result.heaviest, end - begin);
      for (std::int64_t i = begin; i < end; ++i) result.full += layout.entries[static_cast<std::size_t>(i)].full();
    }
  return result;
}

// Returns how many sizes were counted.
int expect_packed_tiles(const BoundMask& mask, RowOrigin origin) {
  const MaskBands bands(mask, origin);
  const KeyTiles tiles = measure_tiles(bands, measure(bands, kSizes));
  for (const CutTiles& cut : tiles.blocks) {
    const Packed expected = packed(mask, cut.block_q, origin);
    std::map<std::int64_t, std::int64_t> counted;
    double full = 0;
    for (const BlockStats::Bin& bin : cut.row_blocks) {
      counted[std::llround(bin.full + bin.partial)] += bin.count;
      full += bin.full * static_cast<double>(bin.count);
    }
    EXPECT_EQ(counted, expected.row_blocks) << cut.block_q << " rows";
    EXPECT_EQ(cut.heaviest, expected.heaviest) << cut.block_q << " rows";
    EXPECT_LE(full, static_cast<double>(expected.full) + 1e-6) << cut.block_q << " rows";
  }
  return static_cast<int>(tiles.blocks.size());
}

TEST(KeyTiles, AreThoseThatArePacked) {
  int counted = 0;
  for (const LayoutCase& one : layout_cases()) {
    SCOPED_TRACE(testing::Message() << one);
    for (const RowOrigin origin : {RowOrigin::zero, RowOrigin::first_row})
      counted += expect_packed_tiles(BoundMask(parse(one.mask), one.extent), origin);
  }
  for (unsigned seed = 0; seed < 200; ++seed) {
    const MaskExtent extent{.queries = 100 + seed % 3 * 150, .keys = 130 + seed % 5 * 77, .batch = 2, .heads = 2};
    const Mask expression = RandomMask(seed, extent, true).expression(2);
    SCOPED_TRACE(testing::Message() << "seed " << seed << " " << expression.text().substr(0, 200));
    counted +=
        expect_packed_tiles(BoundMask(expression, extent), seed % 2 == 0 ? RowOrigin::zero : RowOrigin::first_row);
  }
  EXPECT_GT(counted, 400);
}

// 64 rows of window(32) use 128 keys: two tiles, where the grid has three.
TEST(KeyTiles, OfAWindowAreFewerThanTheGridHas) {
  const BoundMask mask(window(32), {.queries = 1024, .keys = 1024});
  const MaskStats stats = measure(mask, kSizes);
  EXPECT_EQ(stats.blocks[0].heaviest, 3);
  const KeyTiles tiles = measure_tiles(mask, stats);
  const CutTiles* const cut = tiles.of(64);
  ASSERT_NE(cut, nullptr);
  EXPECT_EQ(cut->heaviest, 2);
}

// Three cells beside each other of which the first 36 keys are used: 164 keys from the first to the last, two pieces of
// 32 in each, and nothing to gain where tiles begin.
TEST(KeyTiles, OfNeighboursOfTheSameColumns) {
  const BoundMask mask(where("q / 192 == k / 192 & k % 64 < 36"), {.queries = 768, .keys = 768});
  const MaskStats stats = measure(mask, kSizes);
  EXPECT_EQ(measure_bands(mask, stats).keys[0], 164);
  EXPECT_EQ(measure_pieces(mask, stats).row_blocks, (std::vector<KeyPieces::Bin>{{.pieces = 6, .count = 12}}));
  const KeyTiles tiles = measure_tiles(mask, stats);
  ASSERT_NE(tiles.of(64), nullptr);
  EXPECT_EQ(tiles.of(64)->heaviest, 3);
}

TEST(KeyTiles, AreNotCountedOfMostlyFullOrLongRowBlocks) {
  const BoundMask dense(causal(), {.queries = 1024, .keys = 1024});
  EXPECT_TRUE(measure_tiles(dense, measure(dense, kSizes)).blocks.empty());
  const BoundMask comb(strided(48), {.queries = 4096, .keys = 4096});
  EXPECT_TRUE(measure_tiles(comb, measure(comb, kSizes)).blocks.empty());
}

}  // namespace
}  // namespace stof
