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
      const auto [width, count] = sections.front(slices);
      const int last = slices - width * count;
      EXPECT_LE(width, sections.width) << slices;
      EXPECT_GE(last, 1) << slices;
      EXPECT_LE(last, std::max(sections.most, sections.width)) << slices;
      std::set<std::pair<int, int>> seen;
      for (int index = 0; index < kItems * slices; ++index) {
        const int per_section = kItems * width, section = std::min(index / per_section, count);
        const int within = index - section * per_section, wide = section < count ? width : last;
        seen.insert({within / wide, section * width + within % wide});
      }
      EXPECT_EQ(seen.size(), static_cast<std::size_t>(kItems * slices));
      EXPECT_EQ(*seen.rbegin(), std::pair(kItems - 1, slices - 1));
    }
}

int last_of(const Sections& sections, int slices) { return sections.front(slices).last(slices); }

// 8 heads of 4 MB each are more than stays in the L2, but the 3 behind five would end with one long row block a team.
TEST(Sections, EndWithEnoughToEvenOut) {
  const AttentionShape causal = shape_of(1, 8, 8192, 128);
  const Sections all = sections_of(causal, {.tiles = 64, .longest = 2, .items = 43, .teams = 132});
  EXPECT_EQ(last_of(all, 8), 8);
  const Sections even = sections_of(causal, {.tiles = 64, .longest = 1, .items = 1000, .teams = 132});
  EXPECT_EQ(even.width, 1);
  EXPECT_LE(last_of(even, 8), 5);
  const Sections two_rounds =
      sections_of(shape_of(2, 8, 2048, 256), {.tiles = 17, .longest = 2, .items = 16, .teams = 132});
  EXPECT_EQ(last_of(two_rounds, 16), 16) << "in sections they took 79 us in place of 58";
}

// Keys that are read again and again stay in the L2, at the end, too; those of few tiles may all come at once.
TEST(Sections, EndWithWhatTheL2Holds) {
  const AttentionShape shape = shape_of(16, 12, 1024, 64);
  const Sections dense = sections_of(shape, {.tiles = 8.4, .longest = 2, .items = 16, .teams = 528});
  EXPECT_EQ(dense.width, 22);
  EXPECT_LE(last_of(dense, 192), 96);
  EXPECT_GE(last_of(dense, 192), 96 - 22 / 2);
  const Sections sparse = sections_of(shape, {.tiles = 2, .longest = 8, .items = 16, .teams = 528});
  EXPECT_EQ(last_of(sparse, 192), 192);
}

// Twelve heads of 4 MB each would even out together, of which half can stay.
TEST(Sections, EndWithNoMoreThanCanStay) {
  const ListLoad causal{.tiles = 32.5, .longest = 2, .items = 32, .teams = 264};
  EXPECT_LE(last_of(sections_of(shape_of(1, 12, 4096, 256), causal), 12), 6);
}

// 38 MB of keys and values, each read eight times: side by side they took 62 us on an H100, 41 in sections.
TEST(Sections, OfLittleMoreThanTheL2Holds) {
  const ListLoad bigbird{.tiles = 7, .longest = 1.2, .items = 8, .teams = 264};
  const Sections sections = sections_of(shape_of(12, 12, 512, 128), bigbird);
  EXPECT_EQ(sections.width, 22);
  EXPECT_LE(last_of(sections, 144), 84);
  EXPECT_GE(last_of(sections, 144), 55);
  EXPECT_EQ(last_of(sections_of(shape_of(8, 12, 512, 128), bigbird), 96), 96) << "all that it holds, side by side";
}

// Lists of all heads of an item have these side by side; heads that share keys are not parted.
TEST(Sections, HaveHeadsTogether) {
  const ListLoad half{.tiles = 8, .longest = 2, .items = 16, .teams = 264};
  EXPECT_EQ(sections_of(shape_of(64, 16, 1024, 128), half).width, 16);
  AttentionShape shared = shape_of(64, 32, 8192, 128);
  shared.kv_heads = 8;
  EXPECT_EQ(sections_of(shared, {.tiles = 64, .longest = 2, .items = 128, .teams = 264}).width, 8);
}

// Lists of 12 heads each: as many items side by side as those heads would be, at least one.
TEST(Sections, OfItemsAreThoseOfTheirHeads) {
  const Sections one = Sections{.width = 5, .end = 30, .most = 20}.of_items(12);
  EXPECT_EQ(one.width, 1);
  EXPECT_EQ(one.end, 3);
  EXPECT_EQ(one.most, 1);
  EXPECT_EQ(one.front(8).count, 7);
  const Sections several = Sections{.width = 30, .end = 12, .most = 38}.of_items(12);
  EXPECT_EQ(several.width, 2);
  EXPECT_EQ(several.end, 1);
  EXPECT_EQ(several.most, 3);
}

}  // namespace
}  // namespace stof::cuda
