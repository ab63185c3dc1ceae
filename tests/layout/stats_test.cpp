// SPDX-License-Identifier: Apache-2.0
#include "src/mask/stats.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "src/mask/row_block_costs.h"
#include "tests/expect_error.h"
#include "tests/layout/expect_layout.h"
#include "tests/layout/masks.h"

namespace stof {
namespace {

class Measure : public testing::TestWithParam<LayoutCase> {};
INSTANTIATE_TEST_SUITE_P(Masks, Measure, testing::ValuesIn(layout_cases()));

TEST_P(Measure, EqualsCounting) { expect_measured(BoundMask(parse(GetParam().mask), GetParam().extent), kBlockSizes); }

// More different costs than are kept unsorted, some of them many times.
TEST(RowBlockCosts, ComeAsBinsOfNeighbours) {
  RowBlockCosts costs;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> counted;  // entries, full
  std::mt19937 random(5);
  for (int i = 0; i < 40'000; ++i) {
    const auto full = static_cast<std::int64_t>(random() % 90), partial = static_cast<std::int64_t>(random() % 80);
    costs.add({.full = full, .partial = partial}, 1 + i % 3);
    counted[{full + partial, full}] += 1 + i % 3;
  }
  const std::vector<BlockStats::Bin> bins = costs.bins();
  const std::size_t per_bin = (counted.size() + 63) / 64;
  ASSERT_EQ(bins.size(), (counted.size() + per_bin - 1) / per_bin);
  auto next = counted.begin();
  for (const BlockStats::Bin& bin : bins) {
    BlockStats::Bin expected;
    for (std::size_t i = 0; i < per_bin && next != counted.end(); ++i, ++next) {
      const auto& [entries, full] = next->first;
      expected.full += static_cast<double>(full * next->second);
      expected.partial += static_cast<double>((entries - full) * next->second);
      expected.count += next->second;
    }
    EXPECT_EQ(bin.count, expected.count);
    EXPECT_NEAR(bin.full, expected.full / static_cast<double>(expected.count), 1e-9);
    EXPECT_NEAR(bin.partial, expected.partial / static_cast<double>(expected.count), 1e-9);
  }
}

// Runs of blocks over several bands of cells, the last block cut off.
TEST(MeasureRuns, AreCountedAsTheirBlocksAre) {
  constexpr BlockSize kSizes[] = {{64, 64}, {128, 64}, {192, 64}, {256, 64}, {128, 128}, {64, 256}, {256, 192}};
  for (const char* text : {"all", "causal", "window(70)", "longformer(90,70)", "bigbird(64,3,2,3,1)", "dilated(60,3)",
                           "bigbird(32,3,2,3,1) | window(100)", "random_blocks(16,9,4)"})
    for (const MaskExtent& extent :
         {MaskExtent{.queries = 800, .keys = 800}, MaskExtent{.queries = 333, .keys = 845}}) {
      SCOPED_TRACE(testing::Message() << text << " " << extent.keys);
      expect_measured(BoundMask(parse(text), extent), kSizes);
    }
}

TEST(MeasureLimits, AreNamed) {
  const BoundMask mask(parse("causal"), {.queries = 1'000'000'000, .keys = 1'000'000'000});
  EXPECT_ERROR(
      measure(mask, kBlockSizes), ErrorKind::unsupported,
      "a mask of 1000000000 queries and 1000000000 keys has 2.44e+14 blocks of 64 x 64; at most 1.72e+10 are planned");
  const BlockSize wrong[] = {{0, 64}};
  const BoundMask small(parse("causal"), {.queries = 4, .keys = 4});
  EXPECT_ERROR(measure(small, wrong), ErrorKind::invalid_argument, "block size 0 x 64; accepted: 1 to 256 each");
}

}  // namespace
}  // namespace stof
