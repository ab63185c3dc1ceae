// SPDX-License-Identifier: Apache-2.0
#include "src/mask/mask_bands.h"

#include <gtest/gtest.h>

#include <vector>

#include "stof/mask.h"
#include "tests/mask/random_mask.h"

namespace stof {
namespace {

struct Seen {
  MaskBand band;
  std::vector<BandRun> runs;
};

std::vector<Seen> all_of(const MaskBands& bands) {
  std::vector<Seen> seen;
  bands.for_each([&](const MaskBand& band) { seen.push_back({band, {band.runs.begin(), band.runs.end()}}); });
  return seen;
}

// By the definition, pair by pair.
void expect_is_the_masks(const BoundMask& mask, const Seen& seen) {
  const MaskBand& band = seen.band;
  const MaskExtent& extent = mask.extent();
  std::int64_t allowed = 0, empty = 0;
  std::vector<std::uint64_t> columns(static_cast<std::size_t>(ceil_div(extent.keys, MaskBands::kKeys)));
  std::vector<std::int64_t> pairs(columns.size());
  for (std::int64_t row = band.positions.begin - extent.offset(); row < band.positions.end - extent.offset(); ++row) {
    std::int64_t of_row = 0;
    for (std::int64_t key = 0; key < extent.keys; ++key) {
      if (!mask.allows(band.group, row, key)) continue;
      ++of_row;
      columns[static_cast<std::size_t>(key / 64)] |= std::uint64_t{1} << key % 64;
      ++pairs[static_cast<std::size_t>(key / 64)];
    }
    allowed += of_row;
    empty += of_row == 0;
  }
  EXPECT_EQ(band.allowed, allowed);
  EXPECT_EQ(band.empty_rows, empty);
  std::size_t cell = 0;
  for (const BandRun& run : seen.runs) {
    for (; cell < static_cast<std::size_t>(run.begin); ++cell) EXPECT_EQ(pairs[cell], 0);
    for (; cell < static_cast<std::size_t>(run.end); ++cell) {
      const Range keys = {static_cast<std::int64_t>(cell) * 64,
                          std::min(static_cast<std::int64_t>(cell + 1) * 64, extent.keys)};
      EXPECT_EQ(run.full, pairs[cell] == keys.size() * band.positions.size());
      EXPECT_GT(pairs[cell], 0);
      if (!run.full) {
        EXPECT_EQ(run.columns, columns[cell]);
      }
    }
  }
  for (; cell < columns.size(); ++cell) EXPECT_EQ(pairs[cell], 0);
}

void expect_alike(const Seen& a, const Seen& b) {
  EXPECT_EQ(a.band.group, b.band.group);
  EXPECT_EQ(a.band.positions.begin, b.band.positions.begin);
  EXPECT_EQ(a.band.positions.end, b.band.positions.end);
  EXPECT_EQ(a.band.allowed, b.band.allowed);
  EXPECT_EQ(a.band.empty_rows, b.band.empty_rows);
  ASSERT_EQ(a.runs.size(), b.runs.size());
  for (std::size_t i = 0; i < a.runs.size(); ++i) {
    EXPECT_EQ(a.runs[i].begin, b.runs[i].begin);
    EXPECT_EQ(a.runs[i].end, b.runs[i].end);
    EXPECT_EQ(a.runs[i].full, b.runs[i].full);
    EXPECT_EQ(a.runs[i].columns, b.runs[i].columns);
  }
}

// Whoever looks first, and whoever looks at what was kept.
void expect_bands_of(const Mask& mask, const MaskExtent& extent) {
  SCOPED_TRACE(mask.text());
  const BoundMask bound(mask, extent);
  const MaskBands bands(bound);
  const std::vector<Seen> first = all_of(bands), again = all_of(bands);
  ASSERT_EQ(first.size(), again.size());
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    expect_is_the_masks(bound, first[i]);
    expect_alike(first[i], again[i]);
    rows += first[i].band.positions.size();
  }
  EXPECT_EQ(rows, extent.queries * bound.groups());
}

TEST(MaskBands, AreTheMasksWhoeverLooks) {
  const MaskExtent extent{.queries = 190, .keys = 333, .batch = 2, .heads = 3};
  for (unsigned seed = 0; seed < 60; ++seed) {
    RandomMask random(seed, extent, true);
    expect_bands_of(random.expression(3), extent);
  }
}

// 63 partial cells in each of 6 bands, where 32 a band and 32 more are kept: they are scanned again.
TEST(MaskBands, OfManyRunsAreTheMasksToo) {
  const MaskExtent extent{.queries = 300, .keys = 4000};
  expect_bands_of(parse("where((q * 31 + k * 17) % 97 < 6)"), extent);
}

TEST(MaskBands, OfNoRowsAllowNothing) {
  for (const Seen& seen : all_of(MaskBands(BoundMask(causal(), {.queries = 0, .keys = 100})))) {
    EXPECT_TRUE(seen.band.positions.empty());
    EXPECT_EQ(seen.band.allowed, 0);
    EXPECT_TRUE(seen.runs.empty());
  }
}

}  // namespace
}  // namespace stof
