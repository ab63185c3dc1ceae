// SPDX-License-Identifier: Apache-2.0
#include "src/mask/where_period.h"

#include <gtest/gtest.h>

#include "src/base/error.h"
#include "src/mask/bind.h"
#include "tests/mask/random_where.h"
#include "tests/mask/repeating_mask.h"

namespace stof {
namespace {

std::int64_t period_of(const Symbol& expression) { return where_period(expression.steps(), Along::diagonal); }
std::int64_t rows_of(const Symbol& expression) { return where_period(expression.steps(), Along::rows); }
std::int64_t keys_of(const Symbol& expression) { return where_period(expression.steps(), Along::keys); }

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
  EXPECT_EQ(period_of((q & 1) == 0), 2);
}

TEST(WherePeriod, IsNotThere) {
  const Symbol q(WhereOp::query), k(WhereOp::key);
  EXPECT_EQ(period_of(k < 100), 0);
  EXPECT_EQ(period_of(q < k / 2), 0);
  EXPECT_EQ(period_of(q / 64 == 3), 0);
  EXPECT_EQ(period_of(q % (k + 1) == 0), 0);
  EXPECT_EQ(period_of(q % 4096 == k % 4095), 0);  // too long
  EXPECT_EQ(period_of((q & -2) == 0), 0);
}

TEST(WherePeriod, OfRowsAndOfKeysAlone) {
  const Symbol q(WhereOp::query), k(WhereOp::key);
  EXPECT_EQ(rows_of(q % 64 >= k % 48), 64);
  EXPECT_EQ(keys_of(q % 64 >= k % 48), 48);
  EXPECT_EQ(rows_of(k < 100), 1);
  EXPECT_EQ(keys_of(k < 100), 0);
  EXPECT_EQ(rows_of((q - k) % 3 != 1), 3);
  EXPECT_EQ(keys_of(abs(q - k) % 3 != 1), 0);
  EXPECT_EQ(keys_of(q / 64 == k / 64), 0);
  EXPECT_EQ(rows_of((q & 12) == (k & 3)), 16);
  EXPECT_EQ(keys_of((q & 12) == (k & 3)), 4);
}

TEST(WherePeriod, OfProducts) {
  const Symbol q(WhereOp::query), k(WhereOp::key);
  const Symbol product = q * k % 7 == 3, square = (q * q + 3 * k) % 12 < 5, halves = q * k * 6 / 4 % 5 == 1;
  EXPECT_EQ(period_of(product), 7);
  EXPECT_EQ(rows_of(product), 7);
  EXPECT_EQ(keys_of(product), 7);
  EXPECT_EQ(rows_of(square), 12);
  EXPECT_EQ(keys_of(square), 4);
  EXPECT_EQ(rows_of(halves), 10);
  EXPECT_EQ(rows_of(q * k / 7 == 3), 0);
  EXPECT_EQ(rows_of(q / 2 * k % 7 == 3), 14);
  EXPECT_EQ(keys_of(q / 2 * k % 7 == 3), 7);
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

// A step along each of the three. Nothing is said of places where an evaluation fails.
TEST(WherePeriod, HoldsForWhateverIsWritten) {
  constexpr Along kAlong[] = {Along::diagonal, Along::rows, Along::keys};
  int found[] = {0, 0, 0}, compared = 0;
  for (unsigned seed = 0; seed < 40000; ++seed) {
    RandomWhere random(seed);
    const Symbol expression = random.expression(4);
    for (const Along along : kAlong) {
      const std::int64_t period = where_period(expression.steps(), along);
      if (period <= 1) continue;
      ++found[static_cast<int>(along)];
      const Mask mask = where(expression);
      const MaskExtent extent{.queries = 3 * period + 90, .keys = 2 * period + 50};  // positions below 0, too
      const BoundMask bound(mask, extent);
      const std::int64_t down = along == Along::keys ? 0 : period, right = along == Along::rows ? 0 : period;
      for (int i = 0; i < 60; ++i) {
        const std::int64_t row = random.below(extent.queries - down), key = random.below(extent.keys - right);
        try {
          const bool one = bound.allows(0, row, key), other = bound.allows(0, row + down, key + right);
          ASSERT_EQ(one, other) << mask.text() << " " << period << " row " << row << " key " << key;
          ++compared;
        } catch (const Error&) {
        }
      }
    }
  }
  for (const int count : found) EXPECT_GT(count, 1000);
  EXPECT_GT(compared, 150000);
}

// Where a period has as few bands as here, each band is looked at.
TEST(Period, NamesPlacesThatComeAgain) {
  const Period period{48, 768};
  EXPECT_EQ(period.place_of({0, 64}), 1);
  EXPECT_EQ(period.place_of({64, 128}), 17);
  EXPECT_EQ(period.place_of({192, 256}), 1);
  EXPECT_EQ(period.place_of({-64, 0}), 33);
  EXPECT_EQ(Period({48, 767}).place_of({0, 64}), std::nullopt);
  EXPECT_EQ(Period({}).place_of({0, 64}), std::nullopt);
}

}  // namespace
}  // namespace stof
