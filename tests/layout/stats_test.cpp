// SPDX-License-Identifier: Apache-2.0
#include "src/mask/stats.h"

#include <gtest/gtest.h>

#include "tests/expect_error.h"
#include "tests/layout/masks.h"

namespace stof {
namespace {

constexpr BlockSize kSizes[] = {{64, 64}, {64, 128}, {128, 128}, {192, 128}, {16, 16}, {64, 32}};

struct Counted {
  std::int64_t empty = 0, partial = 0, full = 0;
  double touched_pairs = 0;
  std::int64_t heaviest = 0;
};

// Blocks of one head counted by looking at every pair.
Counted count(const BoundMask& mask, int group, BlockSize size) {
  const MaskExtent& extent = mask.extent();
  Counted counted;
  const std::int64_t first = floor_div(extent.offset(), size.block_q) * size.block_q;
  for (std::int64_t p = first; p < extent.keys; p += size.block_q) {
    std::int64_t touched = 0;
    for (std::int64_t key = 0; key < extent.keys; key += size.block_kv) {
      const Range rows = intersect({p, p + size.block_q}, {extent.offset(), extent.keys});
      const Range keys = intersect({key, key + size.block_kv}, {0, extent.keys});
      std::int64_t allowed = 0;
      for (std::int64_t q = rows.begin; q < rows.end; ++q)
        for (std::int64_t k = keys.begin; k < keys.end; ++k) allowed += mask.allows(group, q - extent.offset(), k);
      const std::int64_t all = rows.size() * keys.size();
      ++(allowed == 0 ? counted.empty : allowed == all ? counted.full : counted.partial);
      if (allowed > 0) counted.touched_pairs += static_cast<double>(all);
      touched += allowed > 0;
    }
    counted.heaviest = std::max(counted.heaviest, touched);
  }
  return counted;
}

class Measure : public testing::TestWithParam<LayoutCase> {};
INSTANTIATE_TEST_SUITE_P(Masks, Measure, testing::ValuesIn(layout_cases()));

TEST_P(Measure, EqualsCounting) {
  const BoundMask mask(parse(GetParam().mask), GetParam().extent);
  const MaskExtent& extent = mask.extent();
  const MaskStats stats = measure(mask, kSizes);
  std::int64_t allowed = 0, empty_rows = 0;
  for (std::int64_t item = 0; item < extent.batch; ++item)
    for (std::int64_t head = 0; head < extent.heads; ++head)
      for (std::int64_t row = 0; row < extent.queries; ++row) {
        std::int64_t in_row = 0;
        for (std::int64_t key = 0; key < extent.keys; ++key) in_row += mask.allows(mask.group_of(item, head), row, key);
        allowed += in_row;
        empty_rows += in_row == 0;
      }
  EXPECT_EQ(stats.allowed_pairs, static_cast<double>(allowed));
  EXPECT_EQ(stats.empty_rows, empty_rows);
  for (const BlockStats& blocks : stats.blocks) {
    SCOPED_TRACE(testing::Message() << blocks.block_q << "x" << blocks.block_kv);
    Counted total;
    for (std::int64_t item = 0; item < extent.batch; ++item)
      for (std::int64_t head = 0; head < extent.heads; ++head) {
        const Counted one = count(mask, mask.group_of(item, head), {blocks.block_q, blocks.block_kv});
        total = {total.empty + one.empty, total.partial + one.partial, total.full + one.full,
                 total.touched_pairs + one.touched_pairs, std::max(total.heaviest, one.heaviest)};
      }
    const auto all = static_cast<double>(total.empty + total.partial + total.full);
    EXPECT_DOUBLE_EQ(blocks.empty, static_cast<double>(total.empty) / all);
    EXPECT_DOUBLE_EQ(blocks.partial, static_cast<double>(total.partial) / all);
    EXPECT_DOUBLE_EQ(blocks.full, static_cast<double>(total.full) / all);
    EXPECT_DOUBLE_EQ(blocks.touched_density, allowed == 0 ? 0 : static_cast<double>(allowed) / total.touched_pairs);
    EXPECT_EQ(blocks.heaviest, total.heaviest);
    double full = 0, partial = 0;
    for (const BlockStats::Bin& bin : blocks.row_blocks) {
      full += bin.full * static_cast<double>(bin.count);
      partial += bin.partial * static_cast<double>(bin.count);
    }
    EXPECT_NEAR(full, static_cast<double>(total.full), 1e-6 * all);
    EXPECT_NEAR(partial, static_cast<double>(total.partial), 1e-6 * all);
    EXPECT_LE(blocks.row_blocks.size(), 64u);
  }
}

TEST(MeasureLimits, AreNamed) {
  const BoundMask mask(parse("causal"), {.queries = 1'000'000'000, .keys = 1'000'000'000});
  EXPECT_ERROR(
      measure(mask, kSizes), ErrorKind::unsupported,
      "a mask of 1000000000 queries and 1000000000 keys has 2.44e+14 blocks of 64 x 64; at most 1.72e+10 are planned");
  const BlockSize wrong[] = {{0, 64}};
  const BoundMask small(parse("causal"), {.queries = 4, .keys = 4});
  EXPECT_ERROR(measure(small, wrong), ErrorKind::invalid_argument, "block size 0 x 64; accepted: 1 to 256 each");
}

}  // namespace
}  // namespace stof
