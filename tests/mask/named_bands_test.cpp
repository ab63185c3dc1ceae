// SPDX-License-Identifier: Apache-2.0
// Bands of one name allow the same keys, and a scan that knows them again finds what one does that has seen none.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "src/mask/bound.h"
#include "src/mask/cell_scan.h"
#include "tests/mask/repeating_mask.h"

namespace stof {
namespace {

TEST(NamedBands, AllowTheSameKeysFromTheirOriginsOn) {
  int alike = 0;
  for (unsigned seed = 0; seed < 120; ++seed) {
    RepeatingMask random(seed);
    const MaskExtent& extent = random.extent;
    const BoundMask mask(random.mask, extent);
    const std::int64_t rows = std::min<std::int64_t>(extent.queries, 8 << random.below(4));
    for (int n = 0; n < 40; ++n) {
      // Often as far from one another as bands of a grid are.
      const std::int64_t begin = random.below(extent.queries - rows + 1),
                         other = random.below(2) == 0 ? random.below(extent.queries - rows + 1)
                                                      : begin % rows + random.below(extent.queries / rows) * rows;
      if (other + rows > extent.queries) continue;
      const std::optional<NamedBand> one = mask.named_band(0, {begin, begin + rows}),
                                     two = mask.named_band(0, {other, other + rows});
      if (!one || !two || one->name != two->name) continue;
      alike += begin != other;
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t key = std::max<std::int64_t>(0, one->origin - two->origin); key < extent.keys; ++key) {
          const std::int64_t moved = key + two->origin - one->origin;
          if (moved >= extent.keys) break;
          ASSERT_EQ(mask.allows(0, begin + row, key), mask.allows(0, other + row, moved))
              << random.mask.text() << " rows " << begin << " and " << other << " + " << row << " key " << key;
        }
    }
  }
  EXPECT_GT(alike, 600);
}

// Of two scans of the same band.
void expect_same(const CellScan& scan, const CellScan& other) {
  ASSERT_EQ(scan.runs().size(), other.runs().size());
  for (std::size_t i = 0; i < scan.runs().size(); ++i) {
    const CellRun &run = scan.runs()[i], &expected = other.runs()[i];
    ASSERT_EQ(run.begin, expected.begin);
    ASSERT_EQ(run.end, expected.end);
    ASSERT_EQ(run.full, expected.full);
    ASSERT_EQ(run.allowed, expected.allowed);
    ASSERT_EQ(run.columns, expected.columns);
    ASSERT_TRUE(run.full || std::ranges::equal(scan.bits(run), other.bits(expected)));
  }
  ASSERT_TRUE(std::ranges::equal(scan.empty_rows(), other.empty_rows()));
  ASSERT_EQ(scan.empty_row_count(), other.empty_row_count());
}

// The bands that a scan says are alike.
class Alike {
 public:
  void expect_alike(const CellScan& scan) {
    const BandAlike alike = scan.alike();
    const auto [known, added] = bands_.emplace(alike.number, Band{alike.cells, {}});
    std::vector<CellRun>& runs = known->second.runs;
    if (added) runs.assign(scan.runs().begin(), scan.runs().end());
    else ++repeated;
    ASSERT_EQ(runs.size(), scan.runs().size());
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const CellRun &one = runs[i], &other = scan.runs()[i];
      ASSERT_EQ(one.begin + alike.cells, other.begin + known->second.cells);
      ASSERT_EQ(one.end + alike.cells, other.end + known->second.cells);
      ASSERT_EQ(one.full, other.full);
      ASSERT_EQ(one.pattern, other.pattern);
      ASSERT_TRUE(added || one.full || one.pattern != CellRun::kNoPattern);
    }
  }
  void expect_tail(const CellScan& scan) {
    if (!scan.tail()) return;
    ++tails;
    const auto& [first, alike] = *scan.tail();
    const auto& [cells, runs] = bands_.at(alike.number);
    ASSERT_GT(first, 0u);
    ASSERT_EQ(first + runs.size(), scan.runs().size());
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const CellRun &one = runs[i], &other = scan.runs()[first + i];
      ASSERT_EQ(one.begin + alike.cells, other.begin + cells);
      ASSERT_EQ(one.end + alike.cells, other.end + cells);
      ASSERT_EQ(one.full, other.full);
      ASSERT_EQ(one.pattern, other.pattern);
    }
  }
  std::int64_t repeated = 0, tails = 0;

 private:
  struct Band {
    std::int64_t cells;
    std::vector<CellRun> runs;
  };
  std::map<int, Band> bands_;
};

TEST(NamedBands, AreScannedAsIfNoneHadBeenBefore) {
  constexpr std::int64_t kCellKeys[] = {64, 64, 64, 16, 24, 128};
  std::int64_t named = 0, bands = 0, repeated = 0, tails = 0;
  for (unsigned seed = 0; seed < 1200; ++seed) {
    RepeatingMask random(seed);
    const MaskExtent& extent = random.extent;
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << random.mask.text() << " of " << extent.queries << "x"
                                    << extent.keys);
    const BoundMask mask(random.mask, extent);
    const std::int64_t cell_keys = kCellKeys[random.below(std::size(kCellKeys))], band = 8 << random.below(5);
    CellScan scan(mask, cell_keys);
    Alike alike;
    // In order, now and then with bands left out, or from an earlier one on.
    for (std::int64_t row = random.below(2) * random.below(extent.queries); row < extent.queries;) {
      const Range rows = {row, std::min(row + band, extent.queries)};
      CellScan fresh(mask, cell_keys);
      fresh.scan(0, rows);
      scan.scan(0, rows);
      expect_same(scan, fresh);
      alike.expect_alike(scan);
      alike.expect_tail(scan);
      if (testing::Test::HasFatalFailure()) return;
      ++bands;
      named += mask.named_band(0, rows).has_value();
      if (random.below(30) == 0) row = std::max<std::int64_t>(0, row - band * random.below(4));
      row += band * (random.below(10) == 0 ? 3 : 1);
    }
    repeated += alike.repeated, tails += alike.tails;
  }
  EXPECT_GT(named, bands / 2);
  EXPECT_GT(repeated, bands / 6);
  EXPECT_GT(tails, bands / 60);
}

void expect_scans_as_fresh_ones(const BoundMask& mask) {
  CellScan scan(mask, 64);
  for (std::int64_t row = 0; row < mask.extent().queries; row += 64)
    for (int group = 0; group < mask.groups(); ++group) {
      CellScan fresh(mask, 64);
      fresh.scan(group, {row, row + 64});
      scan.scan(group, {row, row + 64});
      expect_same(scan, fresh);
    }
}

TEST(NamedBands, OfOtherHeadsAreOthers) {
  const MaskExtent extent{.queries = 1024, .keys = 1024, .batch = 1, .heads = 2};
  expect_scans_as_fresh_ones(BoundMask(parse("heads(0: natten(32,32,5,5), 1: natten(32,32,3,7))"), extent));
}

// Of more terms than a name has bits for the cells have no patterns, and their bits are gone with the band.
TEST(NamedBands, WithoutPatternsAreScannedAgain) {
  Mask mask = natten(32, 32, 5, 5);
  for (int i = 0; i < bound::kMostNumbered; ++i) mask = mask | where(fmt::format("q - k == {}", 11 * i));
  const BoundMask bound(mask, {.queries = 1024, .keys = 1024});
  ASSERT_TRUE(bound.named_band(0, {0, 64}) && !bound.name_along_diagonal(0, {0, 64}, {0, 64}));
  expect_scans_as_fresh_ones(bound);
}

}  // namespace
}  // namespace stof
