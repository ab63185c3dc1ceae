// SPDX-License-Identifier: Apache-2.0
// Names of rectangles: those of one name on one diagonal have the same bits, and scans that go by them find what each
// row allows.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <vector>

#include "src/mask/cell_scan.h"
#include "src/mask/row_bits.h"
#include "tests/mask/random_mask.h"
#include "tests/mask/repeating_mask.h"

namespace stof {
namespace {

TEST(DiagonalNames, RectanglesOfOneNameOnADiagonalAreAlike) {
  int found = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    const MaskExtent extent{.queries = 50, .keys = 60, .batch = 1, .heads = 2};
    RandomMask random(seed, extent, true);
    const Mask expression = random.expression(2);
    const BoundMask mask(expression, extent);
    for (int n = 0; n < 50; ++n) {
      const int group = static_cast<int>(random.below(mask.groups()));
      const std::int64_t row = random.below(30), key = random.below(30), moved = 1 + random.below(15);
      const Range rows = {row, row + 5}, keys = {key, key + 15}, later_rows = {row + moved, row + moved + 5},
                  later_keys = {key + moved, key + moved + 15};
      if (mask.classify(group, rows, keys) != BlockKind::partial) continue;
      if (mask.classify(group, later_rows, later_keys) != BlockKind::partial) continue;
      const std::optional<DiagonalName> name = mask.name_along_diagonal(group, rows, keys);
      if (!name || mask.name_along_diagonal(group, later_rows, later_keys) != name) continue;
      ++found;
      std::array<std::uint64_t, 5> bits{}, later{};
      mask.tile_bits(group, rows, keys, bits);
      mask.tile_bits(group, later_rows, later_keys, later);
      ASSERT_EQ(bits, later) << expression.text() << " row " << row << " key " << key << " moved " << moved;
    }
  }
  EXPECT_GT(found, 2000);
}

// Not on one diagonal, but a multiple of the name's period of keys apart.
TEST(DiagonalNames, RectanglesOfOneNameAndPlaceOfKeysAreAlike) {
  int found = 0;
  for (unsigned seed = 0; seed < 5000; ++seed) {
    RepeatingMask random(seed);
    const MaskExtent& extent = random.extent;
    const BoundMask mask(random.mask, extent);
    if (extent.queries < 8) continue;
    for (int n = 0; n < 40; ++n) {
      const std::int64_t row = random.below(extent.queries - 7), key = random.below(extent.keys - 20);
      const Range rows = {row, row + 8}, keys = {key, key + 20};
      if (mask.classify(0, rows, keys) != BlockKind::partial) continue;
      const std::optional<DiagonalName> name = mask.name_along_diagonal(0, rows, keys);
      if (!name || name->keys == 0) continue;
      const std::int64_t other_row = random.below(extent.queries - 7);
      std::int64_t other_key = key + other_row - row + name->keys * (random.below(9) - 4);
      other_key -= floor_div(other_key, name->keys * 40) * (name->keys * 40);
      const Range other_rows = {other_row, other_row + 8}, other_keys = {other_key, other_key + 20};
      if (other_keys.end > extent.keys || mask.classify(0, other_rows, other_keys) != BlockKind::partial ||
          mask.name_along_diagonal(0, other_rows, other_keys) != name)
        continue;
      ++found;
      std::array<std::uint64_t, 8> bits{}, other{};
      mask.tile_bits(0, rows, keys, bits);
      mask.tile_bits(0, other_rows, other_keys, other);
      ASSERT_EQ(bits, other) << random.mask.text() << " row " << row << " key " << key << ", row " << other_row
                             << " key " << other_key;
    }
  }
  EXPECT_GT(found, 1500);
}

// How many cells of a scan repeat the pattern of another; each cell's bits are compared with the rows' own.
int expect_scan(const BoundMask& mask, std::int64_t band_rows) {
  CellScan scan(mask, 64);
  std::map<int, int> uses;
  const MaskExtent& extent = mask.extent();
  for (std::int64_t row = 0; row < extent.queries; row += band_rows) {
    const Range rows = {row, std::min(row + band_rows, extent.queries)};
    scan.scan(0, rows);
    std::vector<std::uint64_t> words(static_cast<std::size_t>(ceil_div(extent.keys, 64) * rows.size()));
    const std::int64_t stride = ceil_div(extent.keys, 64);
    for (const CellRun& run : scan.runs()) {
      if (run.pattern != CellRun::kNoPattern) ++uses[run.pattern];
      for (std::int64_t cell = run.begin; cell < run.end; ++cell)
        for (std::int64_t i = 0; i < rows.size(); ++i)
          words[static_cast<std::size_t>(i * stride + cell)] =
              run.full ? ~std::uint64_t{0} : scan.bits(run)[static_cast<std::size_t>(i)];
    }
    for (std::int64_t i = 0; i < rows.size(); ++i)
      for (std::int64_t key = 0; key < extent.keys; ++key)
        EXPECT_EQ(words[static_cast<std::size_t>(i * stride + key / 64)] >> key % 64 & 1,
                  std::uint64_t{mask.allows(0, row + i, key)})
            << row + i << " " << key;
  }
  int repeated = 0;
  for (const auto& [pattern, count] : uses) repeated += count - 1;
  return repeated;
}

TEST(DiagonalNames, OfGridsRepeatRowByRowOfTheGrid) {
  struct Grid {
    const char* mask;
    std::int64_t cells;
    bool repeats;
  };
  for (const auto& [text, cells, repeats] : {Grid{"natten(40,32,7,5)", 1280, true},
                                             {"natten(24,48,3,9)", 1152, true},
                                             {"natten(20,64,5,5) & causal", 1280, true},
                                             {"natten(16,80,3,3) & !window(4)", 1280, true},
                                             {"natten(20,64,5,5) | natten(40,32,3,3) & causal", 1280, true},
                                             {"natten(2,640,1,3)", 1280, false}}) {
    const BoundMask mask(parse(text), {.queries = cells, .keys = cells, .batch = 1, .heads = 1});
    EXPECT_EQ(expect_scan(mask, 64) > 10, repeats) << text;
  }
}

}  // namespace
}  // namespace stof
