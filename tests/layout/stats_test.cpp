// SPDX-License-Identifier: Apache-2.0
#include "src/mask/stats.h"

#include <gtest/gtest.h>

#include "tests/expect_error.h"
#include "tests/layout/expect_layout.h"
#include "tests/layout/masks.h"

namespace stof {
namespace {

class Measure : public testing::TestWithParam<LayoutCase> {};
INSTANTIATE_TEST_SUITE_P(Masks, Measure, testing::ValuesIn(layout_cases()));

TEST_P(Measure, EqualsCounting) { expect_measured(BoundMask(parse(GetParam().mask), GetParam().extent), kBlockSizes); }

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
