// SPDX-License-Identifier: Apache-2.0
// Slices in sections: the rule of StreamLoader::row_block visits each row block of each slice once, in sections that
// the L2 holds, and ends with one that evens out.
#include "src/backend/cuda/attention/sections.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace stof::cuda {
namespace {

AttentionShape shape_of(std::int64_t batch, std::int64_t heads, std::int64_t length, std::int64_t head_dim) {
  return {.batch = batch, .heads = heads, .kv_heads = heads, .queries = length, .keys = length, .head_dim = head_dim};
}

TEST(Sections, VisitEveryRowBlockOnce) {
  constexpr int kItems = 3;
  for (const Sections sections :
       {Sections{}, Sections{5, 1, 5}, Sections{5, 7, 9}, Sections{4, 30, 6}, Sections{1, 9, 20}})
    for (int slices = 1; slices <= 40; ++slices) {
      const int last = sections.before_last(slices);
      EXPECT_GE(slices - last * sections.width, 1) << slices;
      EXPECT_LE(slices - last * sections.width, std::max(sections.most, sections.width)) << slices;
      std::set<std::pair<int, int>> seen;
      for (int index = 0; index < kItems * slices; ++index) {
        const int per_section = kItems * sections.width, section = std::min(index / per_section, last);
        const int within = index - section * per_section;
        const int width = section < last ? sections.width : slices - section * sections.width;
        seen.insert({within / width, section * sections.width + within % width});
      }
      EXPECT_EQ(seen.size(), static_cast<std::size_t>(kItems * slices));
      EXPECT_EQ(*seen.rbegin(), std::pair(kItems - 1, slices - 1));
    }
}

// 8 heads of 4 MB each: 5 fit beside everything else, and the 3 behind them would end with one long row block a team.
TEST(Sections, EndWithEnoughToEvenOut) {
  const AttentionShape causal = shape_of(1, 8, 8192, 128);
  const Sections all = sections_of(causal, {.tiles = 64, .longest = 2, .items = 43, .teams = 132});
  EXPECT_EQ(all.width, 5);
  EXPECT_EQ(all.before_last(8), 0);
  const Sections even = sections_of(causal, {.tiles = 64, .longest = 1, .items = 1000, .teams = 132});
  EXPECT_EQ(even.before_last(8), 1);
}

// Keys that are read again and again stay in the L2 at the end, too; those of few tiles may all come at once.
TEST(Sections, EndWithWhatTheL2Holds) {
  const AttentionShape shape = shape_of(16, 12, 1024, 64);
  const Sections dense = sections_of(shape, {.tiles = 8.4, .longest = 2, .items = 16, .teams = 528});
  EXPECT_EQ(dense.width, 95);
  EXPECT_EQ(dense.before_last(192), 1);
  const Sections sparse = sections_of(shape, {.tiles = 2, .longest = 8, .items = 16, .teams = 528});
  EXPECT_EQ(sparse.before_last(192), 0);
}

// Lists of 12 heads each: as many items side by side as those heads would be, at least one.
TEST(Sections, OfItemsAreThoseOfTheirHeads) {
  const Sections one = Sections{.width = 5, .end = 30, .most = 20}.of_items(12);
  EXPECT_EQ(one.width, 1);
  EXPECT_EQ(one.end, 3);
  EXPECT_EQ(one.most, 1);
  EXPECT_EQ(one.before_last(8), 7);
  const Sections several = Sections{.width = 30, .end = 12, .most = 38}.of_items(12);
  EXPECT_EQ(several.width, 2);
  EXPECT_EQ(several.end, 1);
  EXPECT_EQ(several.most, 3);
}

}  // namespace
}  // namespace stof::cuda
