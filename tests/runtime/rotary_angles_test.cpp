// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/rotary_angles.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stof {
namespace {

constexpr RotaryShape kHalves{.positions = 5, .head_dim = 8, .theta = 100.};
constexpr RotaryShape kPairs{.positions = 5, .head_dim = 8, .theta = 100., .order = AngleOrder::pairs};

TEST(RotaryAngles, AreThoseOfTheDefinition) {
  const Tensor angles = rotary_angles(kHalves);
  ASSERT_EQ(angles.shape(), (Shape{5, 2, 4}));
  for (int position = 0; position < 5; ++position)
    for (int i = 0; i < 4; ++i) {
      const double angle = position * std::pow(100., -i / 4.);
      EXPECT_NEAR(angles.as<float>()[8 * position + i], std::cos(angle), 1e-6);
      EXPECT_NEAR(angles.as<float>()[8 * position + 4 + i], std::sin(angle), 1e-6);
    }
}

TEST(RotaryAngles, HaveTheSameNumbersInEitherOrder) {
  const Tensor halves = rotary_angles(kHalves), pairs = rotary_angles(kPairs);
  ASSERT_EQ(pairs.shape(), (Shape{5, 4, 2}));
  for (int position = 0; position < 5; ++position)
    for (int i = 0; i < 4; ++i)
      for (const int of_sine : {0, 1})
        EXPECT_EQ(pairs.as<float>()[8 * position + 2 * i + of_sine],
                  halves.as<float>()[8 * position + 4 * of_sine + i]);
}

// Sessions keep one table for each text.
TEST(RotaryAngles, OfEitherOrderHaveTextsOfTheirOwn) { EXPECT_NE(text_of(kHalves), text_of(kPairs)); }

}  // namespace
}  // namespace stof
