// SPDX-License-Identifier: Apache-2.0
#include "src/layout/pack.h"

#include <gtest/gtest.h>

#include "src/mask/expression.h"
#include "tests/expect_error.h"
#include "tests/layout/expect_layout.h"
#include "tests/layout/masks.h"

namespace stof {
namespace {

class Pack : public testing::TestWithParam<LayoutCase> {};
INSTANTIATE_TEST_SUITE_P(Masks, Pack, testing::ValuesIn(layout_cases()));

TEST_P(Pack, BlocksUnpackToTheMask) {
  const BoundMask mask(parse(GetParam().mask), GetParam().extent);
  for (const BlockFormat& format : kBlockFormats) expect_packed(mask, format);
}

TEST_P(Pack, RowsUnpackToTheMask) { expect_packed_by_rows(BoundMask(parse(GetParam().mask), GetParam().extent)); }

TEST_P(Pack, SaysWhichRowBlocksHaveEmptyRows) {
  const BoundMask mask(parse(GetParam().mask), GetParam().extent);
  const BlockLayout layout = pack_blocks(mask, kBlockFormats.front());
  const MaskExtent& extent = mask.extent();
  for (std::int64_t head = 0; head < extent.heads; ++head)
    for (std::int64_t r = 0; r < layout.row_blocks; ++r) {
      bool expected = false;
      for (std::int64_t p = layout.first_position + 64 * r; p < layout.first_position + 64 * (r + 1); ++p) {
        if (!layout.positions.contains(p)) continue;
        bool any = false;
        for (std::int64_t key = 0; key < extent.keys; ++key)
          any |= mask.allows(mask.group_of(0, head), p - extent.offset(), key);
        expected |= !any;
      }
      const std::int64_t group = layout.group_of[static_cast<std::size_t>(head)];
      ASSERT_EQ(layout.has_empty_row[static_cast<std::size_t>(group * layout.row_blocks + r)] != 0, expected)
          << "row-block " << r;
    }
}

// Few rows are as few row blocks as can hold them, wherever they begin.
TEST(PackBlocks, RowBlocksBeginWithTheFirstRow) {
  const auto pack = [](std::int64_t queries, std::int64_t keys, int block_q) {
    const BoundMask mask(parse("causal"), {.queries = queries, .keys = keys});
    return pack_blocks(mask, {.block_q = block_q, .row_origin = RowOrigin::first_row});
  };
  for (const int block_q : {16, 64, 192}) {
    EXPECT_EQ(pack(192, 1000, block_q).first_position, 808);
    EXPECT_EQ(pack(192, 1000, block_q).row_blocks, 192 / block_q);
    EXPECT_EQ(pack(192, 1003, block_q).first_position, 811);
    EXPECT_EQ(pack(192, 1003, block_q).row_blocks, 192 / block_q);
    EXPECT_EQ(pack(18, 1003, block_q).first_position, 984);  // in step with keys where that takes no block more
    EXPECT_EQ(pack(200, 120, block_q).first_position, -80);
  }
  for (const std::int64_t keys : {300, 301, 3000})
    EXPECT_FALSE(first_row_saves_blocks({.queries = keys, .keys = keys}));
  EXPECT_FALSE(first_row_saves_blocks({.queries = 1, .keys = 1001}));
  EXPECT_FALSE(first_row_saves_blocks({.queries = 0, .keys = 1001}));
  EXPECT_TRUE(first_row_saves_blocks({.queries = 64, .keys = 1001}));
  EXPECT_TRUE(first_row_saves_blocks({.queries = 2048, .keys = 5001}));
  EXPECT_FALSE(first_row_saves_blocks({.queries = 2049, .keys = 5001}));
}

TEST(PackBlocks, EqualHeadsAreStoredOnce) {
  const MaskExtent extent{.queries = 300, .keys = 300, .batch = 2, .heads = 4};
  const BoundMask mask(parse("heads(0: window(64), 1: window(64) & window(400), 2-3: causal)"), extent);
  EXPECT_EQ(pack_blocks(mask, {}).groups, 2);
  EXPECT_EQ(pack_blocks(mask, {}).group_of, (std::vector<int>{0, 0, 1, 1, 0, 0, 1, 1}));
}

TEST(PackBlocks, EntriesStartWhereTheMaskDoes) {
  const BoundMask mask(parse("window(32)"), {.queries = 1024, .keys = 1024});
  const BlockLayout grid = pack_blocks(mask, {.block_q = 64, .block_kv = 64, .key_step = 64});
  const BlockLayout free_start = pack_blocks(mask, {.block_q = 64, .block_kv = 64, .key_step = 8});
  EXPECT_EQ(grid.entries.size(), 16u * 3 - 2);
  EXPECT_EQ(free_start.entries.size(), 16u * 2);
  EXPECT_EQ(free_start.entries[4].key_start, 2 * 64 - 32);
}

TEST(PackBlocks, BitmapsOfABandAreSharedByItsRowBlocks) {
  const BoundMask mask(parse("window(32)"), {.queries = 16384, .keys = 16384});
  EXPECT_LE(pack_blocks(mask, {}).bitmaps.size(), 4u * 64);
}

TEST(PackBlocks, RefusesFormatsByName) {
  const BoundMask mask(parse("causal"), {.queries = 64, .keys = 64});
  EXPECT_ERROR(pack_blocks(mask, {.block_q = 300}), ErrorKind::invalid_argument,
               "block format 300 x 64; accepted: 1 to 256 rows, multiples of 8 from 8 to 256 keys");
  EXPECT_ERROR(pack_blocks(mask, {.block_kv = 64, .key_step = 48}), ErrorKind::invalid_argument,
               "key_step 48 for blocks of 64 keys; accepted: 8, 16, 32 or a multiple of 64 that divides 64");
  const BoundMask huge(parse("causal"), {.queries = 1, .keys = std::int64_t{1} << 31});
  EXPECT_ERROR(pack_blocks(huge, {}), ErrorKind::unsupported,
               "a layout of 1 queries and 2147483648 keys; at most 2^30 of each are packed");
}

// Every entry of the first mask has a bitmap of its own, and every pair of the second an interval.
TEST(Pack, StopsAtTheMemoryItMayTake) {
  const MaskExtent extent{.queries = 4096, .keys = 4096};
  const BoundMask scattered(parse("where(q * q * 31 % 1009 < k * k * 17 % 1013)"), extent);
  EXPECT_ERROR(pack_blocks(scattered, {}, 1 << 20), ErrorKind::unsupported,
               "the layout takes more than 1048576 bytes; use larger blocks or a sparser mask");
  const BoundMask comb(parse("strided(2)"), extent);
  EXPECT_ERROR(pack_rows(comb, 1 << 20), ErrorKind::unsupported,
               "the layout takes more than 1048576 bytes; use the block-wise layout");
  EXPECT_EQ(pack_blocks(comb, {}, 1 << 20).groups, 1);
  const BoundMask nothing(none(), extent);  // where rows and blocks of them begin takes room, too
  EXPECT_ERROR(pack_blocks(nothing, {}, 256), ErrorKind::unsupported,
               "the layout takes more than 256 bytes; use larger blocks or a sparser mask");
  EXPECT_ERROR(pack_rows(nothing, 1 << 10), ErrorKind::unsupported,
               "the layout takes more than 1024 bytes; use the block-wise layout");
}

// The entries of one row-block alone.
TEST(Pack, StopsInsideARowBlock) {
  const BoundMask wide(all(), {.queries = 1, .keys = std::int64_t{1} << 30});
  EXPECT_ERROR(pack_blocks(wide, {.block_kv = 8, .key_step = 8}, 1 << 20), ErrorKind::unsupported,
               "the layout takes more than 1048576 bytes; use larger blocks or a sparser mask");
}

}  // namespace
}  // namespace stof
