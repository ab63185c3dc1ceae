// SPDX-License-Identifier: Apache-2.0
// Bands of random masks seen in cells: as sure as asking about each cell, and alike where they are said to be.
#include "src/mask/outline.h"

#include <map>
#include <random>
#include <tuple>

#include "src/mask/cell_scan.h"
#include "tests/mask/naive.h"
#include "tests/mask/random_mask.h"

namespace stof {
namespace {

constexpr MaskExtent kExtents[] = {{.queries = 190, .keys = 190, .batch = 2, .heads = 2},
                                   {.queries = 37, .keys = 301, .batch = 1, .heads = 2},
                                   {.queries = 210, .keys = 90, .batch = 1, .heads = 1},
                                   {.queries = 256, .keys = 256, .batch = 1, .heads = 1}};

void expect_outlined(const BoundMask& mask, int group, Range rows, std::int64_t cell_keys) {
  Outline outline;
  mask.outline(group, rows, cell_keys, outline);
  std::int64_t next = 0;  // cells before it were looked at
  const auto expect_cells = [&](Range cells, BlockKind kind) {
    for (std::int64_t cell = cells.begin; cell < cells.end; ++cell) {
      const Range keys = intersect({cell * cell_keys, (cell + 1) * cell_keys}, {0, mask.extent().keys});
      const BlockKind asked = mask.classify(group, rows, keys);
      ASSERT_TRUE(asked == BlockKind::partial || asked == kind) << "cell " << cell << " is known to be another";
      if (kind == BlockKind::partial) continue;
      for (std::int64_t row = rows.begin; row < rows.end; ++row)
        for (std::int64_t key = keys.begin; key < keys.end; ++key)
          ASSERT_EQ(mask.allows(group, row, key), kind == BlockKind::full) << "row " << row << " key " << key;
    }
    next = cells.end;
  };
  for (const Outline::Run& run : outline.runs()) {
    ASSERT_LE(next, run.cells.begin);
    ASSERT_FALSE(run.cells.empty());
    expect_cells({next, run.cells.begin}, BlockKind::empty);
    expect_cells(run.cells, run.kind);
  }
  expect_cells({next, ceil_div(mask.extent().keys, cell_keys)}, BlockKind::empty);
}

TEST(Outline, IsNeverWrongAndAsSureAsAskingEachCell) {
  for (unsigned seed = 0; seed < 800; ++seed) {
    const MaskExtent& extent = kExtents[seed % std::size(kExtents)];
    RandomMask random(seed, extent, true);
    const Mask expression = random.expression(static_cast<int>(seed / 4 % 4));
    const BoundMask mask(expression, extent);
    for (const std::int64_t cell_keys : {8, 64, 100})
      for (int n = 0; n < 4; ++n) {
        const std::int64_t begin = random.below(extent.queries), most = n % 2 == 0 ? 64 : extent.queries;
        const Range rows = {begin, std::min(extent.queries, begin + 1 + random.below(most))};
        SCOPED_TRACE(fmt::format("seed {} rows [{}, {}) cells of {}: {}", seed, rows.begin, rows.end, cell_keys,
                                 expression.text().substr(0, 200)));
        expect_outlined(mask, static_cast<int>(random.below(mask.groups())), rows, cell_keys);
        if (HasFatalFailure()) return;
      }
  }
}

// Also of documents that come again, of padding, and of positions before the first key.
TEST(Outline, OfDocumentsIsNeverWrong) {
  std::mt19937 random(5);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (int round = 0; round < 300; ++round) {
    const std::int64_t keys = 1 + below(400), names = 1 + below(round % 3 == 0 ? 3 : 40), longest = 1 + below(150);
    const Tensor ids(DType::i32, {keys});
    for (std::int64_t at = 0; at < keys;) {
      const std::int64_t end = std::min(keys, at + 1 + below(longest)), id = below(8) == 0 ? -1 : below(names);
      for (; at < end; ++at) ids.as<std::int32_t>()[at] = static_cast<std::int32_t>(id);
    }
    const MaskExtent extent{.queries = 1 + below(2 * keys), .keys = keys};
    const BoundMask mask(document_ids(ids.view()), extent);
    for (const std::int64_t cell_keys : {8, 64}) {
      const std::int64_t begin = below(extent.queries), end = std::min(extent.queries, begin + 1 + below(80));
      SCOPED_TRACE(fmt::format("round {} rows [{}, {}) cells of {}", round, begin, end, cell_keys));
      expect_outlined(mask, 0, {begin, end}, cell_keys);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Outline, RowsOfTwoBandsAreOneKindWhereBothAre) {
  Outline above, below, both;
  above.add({0, 4}, BlockKind::full), above.add({4, 5}, BlockKind::partial), above.add({9, 12}, BlockKind::full);
  below.add({2, 5}, BlockKind::full), below.add({7, 8}, BlockKind::partial), below.add({10, 14}, BlockKind::full);
  both.add_rows_of(above, below);
  const std::vector<Outline::Run> expected = {{{0, 2}, BlockKind::partial},  {{2, 4}, BlockKind::full},
                                              {{4, 5}, BlockKind::partial},  {{7, 8}, BlockKind::partial},
                                              {{9, 10}, BlockKind::partial}, {{10, 12}, BlockKind::full},
                                              {{12, 14}, BlockKind::partial}};
  EXPECT_TRUE(std::equal(both.runs().begin(), both.runs().end(), expected.begin(), expected.end()));
}

// Of partial cells: what a scan knows of one from another is what their bits say.
TEST(Outline, CellsOfOnePatternAreAlike) {
  int repeated = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    const MaskExtent& extent = kExtents[seed % std::size(kExtents)];
    const Mask expression = RandomMask(seed, extent, true).expression(static_cast<int>(seed / 4 % 4));
    const BoundMask mask(expression, extent);
    CellScan scan(mask, 16);
    std::map<std::tuple<int, std::int64_t, int>, std::vector<std::uint64_t>> patterns;  // by group and rows
    for (int group = 0; group < mask.groups(); ++group)
      for (std::int64_t row = 0; row < extent.queries; row += 16) {
        const Range rows = {row, std::min(extent.queries, row + 16)};
        scan.scan(group, rows);
        for (const CellRun& run : scan.runs()) {
          if (run.full) continue;
          std::vector<std::uint64_t> bits(static_cast<std::size_t>(rows.size()), 0);
          mask.tile_bits(group, rows, scan.keys_of(run), bits);
          ASSERT_TRUE(std::equal(bits.begin(), bits.end(), scan.bits(run).begin(), scan.bits(run).end()));
          if (run.pattern == CellRun::kNoPattern) continue;
          const auto [known, added] = patterns.emplace(std::tuple{group, rows.size(), run.pattern}, bits);
          ASSERT_EQ(known->second, bits) << expression.text().substr(0, 200) << " pattern " << run.pattern;
          repeated += !added;
        }
      }
  }
  EXPECT_GT(repeated, 5000);
}

// The cells of a window beside global tokens lie on two diagonals, though the mask looks at more than position - key.
TEST(Outline, TermsThatAreEmptyOrFullInACellDoNotHideTheDiagonal) {
  const MaskExtent extent{.queries = 1024, .keys = 1024};
  const BoundMask mask(parse("global(64) | (causal & documents([0,320]) & window(100))"), extent);
  CellScan scan(mask, 64);
  int patterns = 0, cells = 0;
  for (std::int64_t row = 0; row < extent.queries; row += 64) {
    scan.scan(0, {row, row + 64});
    for (const CellRun& run : scan.runs())
      if (!run.full) ++cells, patterns = std::max(patterns, run.pattern + 1);
  }
  EXPECT_EQ(patterns, 3) << "the diagonal, and two where the window ends";
  EXPECT_GT(cells, 30);
}

}  // namespace
}  // namespace stof
