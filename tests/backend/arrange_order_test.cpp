// SPDX-License-Identifier: Apache-2.0
// In which order a row block's tiles come, and what the plan says of the steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "src/backend/cuda/attention/arrange.h"
#include "src/backend/cuda/attention/row_window.h"
#include "src/layout/pack.h"
#include "tests/backend/arranged_bits.h"
#include "tests/mask/random_mask.h"

namespace stof::cuda {
namespace {

// Which tiles come when: those that every part needs, then those that some do in turns, then the full ones.
TEST(ArrangeStream, OrdersTilesByWhoNeedsThem) {
  constexpr StreamArrangement kShapes[] = {{1, 1, 0}, {2, 1, 0}, {2, 2, 0}, {3, 1, 0}, {4, 2, 0}};
  for (unsigned seed = 0; seed < 100; ++seed) {
    const MaskExtent extent = random_extent(seed);
    const StreamArrangement& how = kShapes[seed % std::size(kShapes)];
    const BoundMask mask(RandomMask(seed, extent, true).expression(2), extent);
    const ArrangedStream arranged =
        arrange_stream(pack_blocks(mask, {.block_q = 64 * how.parts, .block_kv = 64, .key_step = 64}), how);
    for (const StreamItem& item : arranged.items) {
      std::map<std::vector<bool>, int> seen;
      std::pair<int, int> before{-1, -1};  // rank and key of the tile before
      const int tiles = item.steps * how.tiles;
      for (int tile = 0; tile < tiles; ++tile) {
        const int* at = arranged.steps.data() + (item.first_step * how.tiles + tile) * (1 + how.parts);
        if (how.tiles == 2 && tile == 1 && at[0] == extent.keys) continue;  // fills the first step up
        std::vector<bool> users;
        bool whole = at[0] + 64 <= extent.keys;
        for (int part = 0; part < how.parts; ++part)
          users.push_back(at[1 + part] != TileState::kUnused), whole = whole && at[1 + part] == TileState::kFull;
        const bool all = std::find(users.begin(), users.end(), false) == users.end();
        const std::pair<int, int> rank{whole ? 1 << 30 : all ? 0 : 1 + seen[users]++, whole || all ? at[0] : 0};
        ASSERT_LE(before, rank) << "seed " << seed << " row " << item.row << " tile " << tile;
        before = rank;
      }
    }
  }
}

// Split ones, too, and items without steps.
TEST(ArrangeStream, FirstStepsAreThoseOfTheirItems) {
  int without = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    const MaskExtent extent = random_extent(seed);
    const StreamArrangement how{
        .parts = 1 + static_cast<int>(seed % 3), .tiles = 1 + static_cast<int>(seed % 2), .most_steps = 2};
    const BoundMask mask(RandomMask(seed, extent, true).expression(2), extent);
    const ArrangedStream arranged =
        arrange_stream(pack_blocks(mask, {.block_q = 64 * how.parts, .block_kv = 64, .key_step = 64}), how);
    const int of_step = how.tiles * (1 + how.parts);
    const std::vector<int> first = first_steps(arranged, of_step);
    ASSERT_EQ(first.size(), arranged.items.size() * static_cast<std::size_t>(of_step));
    for (std::size_t i = 0; i < first.size(); ++i) {
      const StreamItem& item = arranged.items[i / static_cast<std::size_t>(of_step)];
      const std::size_t at =
          static_cast<std::size_t>(item.first_step * of_step) + i % static_cast<std::size_t>(of_step);
      ASSERT_EQ(first[i], item.steps == 0 ? 0 : arranged.steps.at(at)) << "seed " << seed << " row " << item.row;
      without += item.steps == 0;
    }
  }
  EXPECT_GT(without, 0);
}

// The tile that fills an odd number of them up begins at the number of keys, whatever that is.
TEST(ArrangeStream, KeyStepIsThatOfTilesWithKeys) {
  const MaskExtent extent{.queries = 100, .keys = 187};
  const StreamArrangement how{.parts = 2, .tiles = 2};
  const auto arranged = [&](const char* text, int key_step) {
    return arrange_stream(
        pack_blocks(BoundMask(parse(text), extent), {.block_q = 128, .block_kv = 64, .key_step = key_step}), how);
  };
  const ArrangedStream every_64 = arranged("all", 64), every_8 = arranged("causal & window(70)", 8);
  EXPECT_EQ(every_64.steps.size(), 2u * 4 * 3) << "of two row blocks, three tiles and one that fills them up";
  EXPECT_EQ(key_step_of(every_64, 3, extent.keys), 64);
  EXPECT_EQ(key_step_of(every_8, 3, extent.keys), 8);
}

// Every item has a place of its own, found by its row, and no two parts that a slice may have rows of share a slot.
TEST(RowWindow, HasItemsWhereTheirRowsSay) {
  constexpr int kRows = 64, kQueries = 130;
  const MaskExtent extent{.queries = 2000, .keys = 2000};
  const StreamArrangement how{.parts = 1, .tiles = 1, .most_steps = 6};
  const ArrangedStream before = arrange_stream(
      pack_blocks(BoundMask(parse("causal"), extent), {.block_q = 64, .block_kv = 64, .key_step = 64}), how);
  const WindowShape shape = window_shape(before, kRows, kQueries);
  EXPECT_EQ(shape.row_blocks, 4) << "130 rows from the last one of a row block on";
  EXPECT_EQ(shape.window.row_blocks, 32);
  EXPECT_EQ(shape.window.parts, 6) << "32 tiles, at most 6 a part";
  ArrangedStream after = before;
  put_in_row_order(after, kRows, shape);
  ASSERT_EQ(after.items.size(), 32u * 6);
  std::size_t found = 0;
  for (std::size_t at = 0; at < after.items.size(); ++at) {
    const StreamItem& item = after.items[at];
    const auto same = [&](const StreamItem& a) { return a.row == item.row && a.first_step == item.first_step; };
    const auto was = std::find_if(before.items.begin(), before.items.end(), same);
    if (was == before.items.end()) continue;
    ++found;
    EXPECT_EQ(item.row / kRows, static_cast<int>(at) / 6);
    EXPECT_EQ(item.steps, was->steps);
    EXPECT_EQ(item.split >> 16, was->split >> 16);
    if (item.split != 0) {
      EXPECT_EQ(item.split & 0xffff, item.row / kRows % 4 * 6);
    }
  }
  EXPECT_EQ(found, before.items.size());
  EXPECT_EQ(after.groups.front().slots, 4 * 6);
  EXPECT_EQ(window_shape(before, kRows, 0).window.parts, 0);
  EXPECT_EQ(window_shape(before, kRows, 1950).window.parts, 0) << "as many row blocks as there are";
}

// Rows of the item's row block that have a key in step `n`.
std::set<int> rows_with_a_key(const ArrangedStream& arranged, const StreamArrangement& how, const StreamItem& item,
                              int n) {
  std::set<int> rows;
  for (int part = 0; part < how.parts; ++part)
    for (int tile = 0; tile < how.tiles; ++tile) {
      const int state =
          arranged
              .steps[static_cast<std::size_t>(((item.first_step + n) * how.tiles + tile) * (1 + how.parts) + 1 + part)];
      for (int row = 0; row < 64; ++row) {
        bool any = state == TileState::kFull;
        for (int key = 0; state >= 0 && key < 64; ++key) any |= bit(arranged.words.data() + state * 128, row, key);
        if (any) rows.insert(64 * part + row);
      }
    }
  return rows;
}

// A row whose first key comes in a later step makes that step dearer.
TEST(ArrangeStream, TheFirstStepsHaveAKeyForAsManyRowsAsAny) {
  for (const char* text : {"causal & window(200)", "window(100)", "window(300) | global(5)", "strided(48)",
                           "documents([0,255,420]) & causal", "bigbird(64,3,2,3,1)", "causal & (window(90) | sink(4))"})
    for (const StreamArrangement how :
         {StreamArrangement{1, 1, 0, 1}, {1, 1, 0, 4}, {2, 1, 0, 1}, {3, 1, 0, 1}, {4, 1, 0, 1}}) {
      const BoundMask mask(parse(text), {.queries = 768, .keys = 768});
      const ArrangedStream arranged =
          arrange_stream(pack_blocks(mask, {.block_q = 64 * how.parts, .block_kv = 64, .key_step = 8}), how);
      for (const StreamItem& item : arranged.items)
        for (int n = 1; n < item.steps; ++n)
          for (int first = 0; first < std::min(how.covering, n); ++first)
            EXPECT_GE(rows_with_a_key(arranged, how, item, first).size(),
                      rows_with_a_key(arranged, how, item, n).size())
                << text << " " << how.parts << " parts, row " << item.row << " step " << n;
    }
}

// Bit n: some row, of the first `rows` of the mask, has its first key in the group's step n behind its first one.
unsigned late_steps(const ArrangedStream& arranged, const StreamArrangement& how, const StreamItem& item, int rows) {
  const int groups = std::max(1, how.covering);
  std::vector<std::set<int>> met(static_cast<std::size_t>(groups));
  unsigned late = 0;
  for (int n = 0; n < std::min(item.steps, 32); ++n)
    for (const int row : rows_with_a_key(arranged, how, item, n))
      if (item.row + row < rows && met[static_cast<std::size_t>(n % groups)].insert(row).second && n >= groups)
        late |= 1u << n;
  return late;
}

TEST(ArrangeStream, MarksStepsInWhichRowsHaveTheirFirstKeys) {
  unsigned marked = 0, unmarked = 0;
  for (unsigned seed = 0; seed < 60; ++seed)
    for (const StreamArrangement how : {StreamArrangement{1, 1, 0, 1},
                                        {1, 1, 0, 4},
                                        {1, 1, 3, 2},
                                        {2, 1, 0, 1},
                                        {2, 2, 0, 1},
                                        {3, 1, 2, 1},
                                        {4, 1, 0, 1}}) {
      MaskExtent extent = random_extent(seed);
      extent.queries = extent.keys;  // so that items begin with a row block
      const BoundMask mask(RandomMask(seed, extent, true).expression(2), extent);
      const ArrangedStream arranged =
          arrange_stream(pack_blocks(mask, {.block_q = 64 * how.parts, .block_kv = 64, .key_step = 8}), how);
      for (const StreamItem& item : arranged.items) {
        EXPECT_EQ(item.late_steps, late_steps(arranged, how, item, static_cast<int>(extent.queries)))
            << "seed " << seed << " row " << item.row;
        marked += item.late_steps != 0, unmarked += item.late_steps == 0 && item.steps > 1;
      }
    }
  EXPECT_GT(marked, 100u);
  EXPECT_GT(unmarked, 100u);
}

}  // namespace
}  // namespace stof::cuda
