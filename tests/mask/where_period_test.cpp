// SPDX-License-Identifier: Apache-2.0
#include "src/mask/where_period.h"

#include <gtest/gtest.h>

#include "src/mask/bind.h"
#include "tests/mask/repeating_mask.h"

namespace stof {
namespace {

std::int64_t period_of(const Symbol& expression) { return where_period(expression.steps()); }

TEST(WherePeriod, IsThatOfDivisors) {
  const Symbol q(WhereOp::query), k(WhereOp::key);
  EXPECT_EQ(period_of(abs(q - k) < 5), 1);
  EXPECT_EQ(period_of((q - k) % 3 != 1), 1);
  EXPECT_EQ(period_of(k % 128 == 0), 128);
  EXPECT_EQ(period_of(q / 64 == k / 64 || k % 64 >= 60), 64);
  EXPECT_EQ(period_of(q % 7 == k % 5), 35);
  EXPECT_EQ(period_of((q / 32) % 4 == (k / 32) % 4), 128);
  EXPECT_EQ(period_of(q / 3 / 4 == k / 12), 12);
  EXPECT_EQ(period_of(q / -3 == k / -3), 3);
  EXPECT_EQ(period_of((2 * q + k) / 9 % 2 == 0), 6);
}

TEST(WherePeriod, IsNotThere) {
  const Symbol q(WhereOp::query), k(WhereOp::key);
  EXPECT_EQ(period_of(k < 100), 0);
  EXPECT_EQ(period_of(q < k / 2), 0);
  EXPECT_EQ(period_of(q * k % 7 == 3), 0);
  EXPECT_EQ(period_of(q / 64 == 3), 0);
  EXPECT_EQ(period_of(q % (k + 1) == 0), 0);
  EXPECT_EQ(period_of(q % 4096 == k % 4095), 0);  // too long
  EXPECT_EQ(period_of((q & 1) == 0), 0);
}

// Whatever is found, the mask is the same so much further along the diagonal.
TEST(WherePeriod, MovesAlongTheDiagonal) {
  int found = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    RepeatingMask random(seed);
    const Symbol expression = random.expression();
    const std::int64_t period = period_of(expression);
    ASSERT_LE(period, kMostPeriod);
    if (period == 0) continue;
    ++found;
    const Mask mask = where(expression);
    const MaskExtent extent{.queries = 3 * period + 50, .keys = 3 * period + 50};
    const BoundMask bound(mask, extent);
    for (int i = 0; i < 500; ++i) {
      const std::int64_t row = random.below(extent.queries - period), key = random.below(extent.keys - period);
      ASSERT_EQ(bound.allows(0, row, key), bound.allows(0, row + period, key + period)) << mask.text() << " " << period;
    }
  }
  EXPECT_GT(found, 250);
}

// Where a period has as few bands as here, each band is looked at.
TEST(DiagonalPeriod, NamesPlacesThatComeAgain) {
  const DiagonalPeriod period{48, 768};
  EXPECT_EQ(period.place_of({0, 64}), 1);
  EXPECT_EQ(period.place_of({64, 128}), 17);
  EXPECT_EQ(period.place_of({192, 256}), 1);
  EXPECT_EQ(period.place_of({-64, 0}), 33);
  EXPECT_EQ(DiagonalPeriod({48, 767}).place_of({0, 64}), std::nullopt);
  EXPECT_EQ(DiagonalPeriod({}).place_of({0, 64}), std::nullopt);
}

}  // namespace
}  // namespace stof
