// SPDX-License-Identifier: Apache-2.0
// Scans take the cells of an array as they are stored and counted, where bands begin with them: what they say is what
// the array says, wherever bands begin.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>

#include "src/mask/cell_scan.h"
#include "stof/mask.h"

namespace stof {
namespace {

// Cells of 64 x 64 that are empty, full, random, or full but for one pair, some of them many in a row.
Tensor cells_of_all_kinds(const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  Tensor dense(DType::boolean, shape);
  const std::int64_t keys = shape.back(), queries = shape[shape.size() - 2], columns = (keys + 63) / 64;
  std::vector<unsigned> kinds(
      static_cast<std::size_t>(dense.size() / keys / queries * ((queries + 63) / 64) * columns));
  const unsigned mean_run = 1 + seed % 2 * 8;
  unsigned last = 0;
  for (unsigned& kind : kinds) kind = last = random() % mean_run == 0 ? static_cast<unsigned>(random() % 4) : last;
  for (std::int64_t i = 0; i < dense.size(); ++i) {
    const std::int64_t key = i % keys, row = i / keys % queries, slice = i / keys / queries;
    const unsigned kind =
        kinds[static_cast<std::size_t>((slice * ((queries + 63) / 64) + row / 64) * columns + key / 64)];
    const bool first = row % 64 == 0 && key % 64 == 0;
    const bool of_kind[] = {false, true, random() % 5 == 0, !first};
    dense.as<std::uint8_t>()[i] = of_kind[kind];
  }
  return dense;
}

void expect_cell(const BoundMask& mask, const CellScan& scan, Range rows, Range keys, const CellRun* run) {
  std::int64_t allowed = 0;
  std::uint64_t columns = 0;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    std::uint64_t word = 0;
    for (std::int64_t key = keys.begin; key < keys.end; ++key)
      word |= static_cast<std::uint64_t>(mask.allows(0, row, key)) << (key - keys.begin);
    allowed += std::popcount(word);
    columns |= word;
    if (run == nullptr || run->full) continue;
    ASSERT_EQ(scan.bits(*run)[static_cast<std::size_t>(row - rows.begin)], word);
  }
  ASSERT_EQ(run == nullptr, allowed == 0);
  if (run == nullptr) return;
  ASSERT_EQ(run->full, allowed == rows.size() * keys.size());
  ASSERT_TRUE(run->full || (run->allowed == allowed && run->columns == columns));
}

// Returns how many partial cells were not copied.
int expect_scanned(const BoundMask& mask, std::int64_t height) {
  const MaskExtent& extent = mask.extent();
  CellScan scan(mask, 64);
  int in_place = 0;
  for (std::int64_t p = extent.offset() / height * height; p < extent.keys; p += height) {
    const Range positions = intersect({p, p + height}, {extent.offset(), extent.keys});
    const Range rows = {positions.begin - extent.offset(), positions.end - extent.offset()};
    scan.scan(0, rows);
    for (std::int64_t key = 0; key < extent.keys; key += 64) {
      const auto run = std::find_if(scan.runs().begin(), scan.runs().end(),
                                    [&](const CellRun& r) { return r.begin <= key / 64 && key / 64 < r.end; });
      const CellRun* const found = run == scan.runs().end() ? nullptr : &*run;
      expect_cell(mask, scan, rows, {key, std::min(key + 64, extent.keys)}, found);
      if (testing::Test::HasFatalFailure()) return in_place;
      in_place += found != nullptr && found->stored != nullptr;
    }
  }
  return in_place;
}

TEST(StoredCells, SayWhatTheArraySays) {
  constexpr MaskExtent kExtents[] = {{.queries = 384, .keys = 384},  {.queries = 256, .keys = 2048},
                                     {.queries = 149, .keys = 1301}, {.queries = 301, .keys = 301},
                                     {.queries = 130, .keys = 258},  {.queries = 100, .keys = 228},
                                     {.queries = 200, .keys = 237}};
  unsigned seed = 0;
  int not_copied = 0;
  for (const MaskExtent& extent : kExtents)
    for (const std::int64_t height : {64, 128, 192, 256, 48, 40, 16}) {
      SCOPED_TRACE(testing::Message() << extent.queries << " x " << extent.keys << " in bands of " << height);
      const Tensor dense = cells_of_all_kinds({extent.queries, extent.keys}, ++seed);
      const int in_place = expect_scanned(BoundMask(bits(dense.view()), extent), height);
      if (testing::Test::HasFatalFailure()) return;
      if (height == 64 && extent.offset() % 64 == 0) not_copied += in_place;
    }
  EXPECT_GT(not_copied, 50);
}

TEST(StoredCells, AreThoseOfTheirSlice) {
  const MaskExtent extent{.queries = 192, .keys = 192, .heads = 3};
  const Tensor dense = cells_of_all_kinds({3, 192, 192}, 11);
  auto* const allowed = dense.as<std::uint8_t>();
  std::copy_n(allowed, 192 * 192, allowed + 2 * 192 * 192);  // the last head's slice repeats the first one's
  const BoundMask mask(bits(dense.view()), extent);
  for (const std::int64_t rows : {64, 192})
    for (const int head : {0, 1, 2}) {
      CellScan scan(mask, 64);
      const int group = mask.group_of(0, head);
      std::int64_t pairs = 0;
      for (std::int64_t row = 0; row < 192; row += rows) {
        scan.scan(group, {row, row + rows});
        pairs += scan.allowed_pairs();
      }
      EXPECT_EQ(pairs, std::count(allowed + head * 192 * 192, allowed + (head + 1) * 192 * 192, 1));
    }
}

// Whatever the band, a row or a column that is repeated has no cells of its own.
TEST(StoredCells, ARowForAllRowsIsNone) {
  const MaskExtent extent{.queries = 128, .keys = 128};
  for (const Shape& shape : {Shape{1, 128}, Shape{128, 1}}) {
    const BoundMask mask(bits(cells_of_all_kinds(shape, 5).view()), extent);
    EXPECT_EQ(mask.stored_cell(0, 0, 0).words, nullptr);
    EXPECT_EQ(expect_scanned(mask, 64), 0);
  }
}

}  // namespace
}  // namespace stof
