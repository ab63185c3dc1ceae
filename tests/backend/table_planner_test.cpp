// SPDX-License-Identifier: Apache-2.0
// What is planned on a GPU is what the host would have arranged: every row block's steps, in the same order, with the
// same words.
#include "src/backend/cuda/attention/table_planner.h"

#include <gtest/gtest.h>

#include <bit>

#include "src/backend/cuda/attention/limit_tiles.h"
#include "src/backend/cuda/driver/stream.h"
#include "tests/backend/planned_layout.h"
#include "tests/expect_error.h"
#include "tests/layout/random_table.h"

namespace stof::cuda {
namespace {

void expect_same(const Gpu& gpu, unsigned seed) {
  const auto [table, extent] = random_form(seed);
  const Mask limit = parse(kTableLimits[seed / 4 % std::size(kTableLimits)]);
  SCOPED_TRACE(testing::Message() << "seed " << seed << " " << limit.text());
  const BoundMask bound(limit, extent);
  const TableForm form = form_of(table, bound, 1);
  const RandomTable random(table, extent, seed, seed / 4 % 2 == 0 ? 3 : 16 - form.columns % 16);  // off 16 bytes or on
  const std::vector<std::byte>& bytes = random.bytes();
  const std::size_t offset = seed / 4 % 4 == 1 ? 4 : 0;  // off 16 bytes
  const DeviceMemory memory(gpu, bytes.size() + offset), status(gpu, sizeof(TableStatus));
  copy_in(gpu, memory.address() + offset, bytes);

  TableStatus expected{};
  TableContents contents = random.contents(bytes.data());
  contents.status = &expected;
  const ArrangedStream arranged = arrange_stream(pack_table(form, contents, bound), {});

  const TablePlanner planner(gpu, form, bound);
  const Stream stream(gpu);
  contents.data = memory.as<std::byte>() + offset;
  contents.status = status.as<TableStatus>();
  contents.stream = stream.handle();
  planner.plan(contents);
  stream.synchronize();
  const auto said = read_back<TableStatus>(gpu, status.as<void>(), 1).front();
  EXPECT_EQ(said.dropped_row_blocks, 0);
  EXPECT_EQ(said.most_tiles, expected.most_tiles);
  EXPECT_EQ(said.ignored_entries, expected.ignored_entries);
  EXPECT_EQ(PlannedLayout(gpu, planner).difference(arranged), "");
}

TEST(TablePlanner, ArrangesAsTheHostDoes) {
  if (!missing_driver().empty()) GTEST_SKIP() << missing_driver();
  for (unsigned seed = 0; seed < 120 && !testing::Test::HasFailure(); ++seed) expect_same(gpu(0), seed);
}

// A long row of tiles, in several words of 32.
TEST(TablePlanner, TakesLongRows) {
  if (!missing_driver().empty()) GTEST_SKIP() << missing_driver();
  const MaskExtent extent{.queries = 200, .keys = 70000};
  const BoundMask bound(parse("window(30000)"), extent);
  for (const MaskTable& table :
       {MaskTable{.width = 700}, MaskTable{.kind = TableKind::bits}, MaskTable{.kind = TableKind::packed}}) {
    const TableForm form = form_of(table, bound, 1);
    const RandomTable random(table, extent, 5);
    const std::vector<std::byte>& bytes = random.bytes();
    const DeviceMemory memory = to_device<std::byte>(gpu(0), bytes);
    const ArrangedStream arranged = arrange_stream(pack_table(form, random.contents(bytes.data()), bound), {});
    const TablePlanner planner(gpu(0), form, bound);
    planner.plan(random.contents(memory.as<void>()));
    EXPECT_EQ(PlannedLayout(gpu(0), planner).difference(arranged), "");
  }
}

// Bit by bit what the mask says, of tiles that exist.
TEST(LimitTiles, SayWhatTheMaskSays) {
  const MaskExtent extent{.queries = 150, .keys = 2100, .heads = 2};
  for (const char* text : {"causal", "heads(0: window(70), *: causal & strided(3))", "sink(5)"}) {
    const BoundMask bound(parse(text), extent);
    const TableForm form = form_of({.width = 1}, bound, 1);
    const LimitArrays limits = limit_tiles(form, bound);
    ASSERT_EQ(std::ssize(limits.tiles), bound.groups() * 3 * 2) << "33 tiles are two words";
    std::size_t patterns = 0;
    for (std::size_t i = 0; i < limits.tiles.size(); ++i) {
      const LimitTiles& tiles = limits.tiles[i];
      EXPECT_EQ(tiles.partial & ~tiles.touched, 0u);
      EXPECT_EQ(tiles.first_pattern, static_cast<int>(patterns));
      patterns += static_cast<std::size_t>(std::popcount(tiles.partial));
      const auto index = static_cast<std::int64_t>(i);
      const int group = static_cast<int>(index / 6);
      const std::int64_t first_row = index / 2 % 3 * 64, last_row = std::min<std::int64_t>(first_row + 64, 150);
      for (std::int64_t tile = index % 2 * 32; tile < std::min<std::int64_t>(33, index % 2 * 32 + 32); ++tile) {
        std::int64_t allowed = 0, pairs = 0;
        for (std::int64_t row = first_row; row < last_row; ++row)
          for (std::int64_t key = 64 * tile; key < std::min<std::int64_t>(64 * tile + 64, 2100); ++key, ++pairs)
            allowed += bound.allows(group, row, key);
        EXPECT_EQ((tiles.touched >> tile % 32 & 1) != 0, allowed > 0) << text << " tile " << tile;
        EXPECT_EQ((tiles.partial >> tile % 32 & 1) != 0, allowed > 0 && allowed < pairs) << text << " tile " << tile;
      }
    }
    EXPECT_EQ(limits.patterns.size(), patterns);
  }
  const BoundMask everything(all(), extent);
  EXPECT_TRUE(limit_tiles(form_of({.width = 1}, everything, 1), everything).tiles.empty());
}

TEST(TablePlanner, RefusesWhatIsTooLarge) {
  if (!missing_driver().empty()) GTEST_SKIP() << missing_driver();
  const auto planner = [](const MaskTable& table, const MaskExtent& extent) {
    const BoundMask bound(all(), extent);
    return TablePlanner(gpu(0), form_of(table, bound, 1), bound);
  };
  EXPECT_ERROR(planner({.width = 1}, {.queries = 64, .keys = 1 << 21}), ErrorKind::unsupported,
               "table: 2097152 keys; planning on a GPU takes at most 524288");
  EXPECT_ERROR(planner({.kind = TableKind::bits}, {.queries = 1 << 19, .keys = 1 << 19}), ErrorKind::unsupported,
               "table: 67108864 tiles of 64x64 may be touched; planning on a GPU takes 16777216: lower the capacity");
}

}  // namespace
}  // namespace stof::cuda
