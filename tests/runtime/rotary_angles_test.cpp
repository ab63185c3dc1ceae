// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/rotary_angles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

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
TEST(RotaryAngles, OfEitherOrderHaveTextsOfTheirOwn) {
  EXPECT_NE(text_of(kHalves), text_of(kPairs));
  RotaryShape scaled = kHalves;
  scaled.scaling = {.kind = RotaryScaling::Kind::linear, .factor = 2};
  EXPECT_NE(text_of(kHalves), text_of(scaled));
}

// The first pairs are those of a head that is so narrow, whatever stands behind them.
TEST(RotaryAngles, OfPairsThatStayAreZero) {
  for (const AngleOrder order : {AngleOrder::cosines_then_sines, AngleOrder::pairs}) {
    RotaryShape shape{.positions = 5, .head_dim = 10, .theta = 100., .scaling = {.amplitude = 1.5}, .pairs = 3};
    shape.order = order;
    const RotaryShape narrow{.positions = 5, .head_dim = 6, .theta = 100., .scaling = {.amplitude = 1.5}};
    EXPECT_NE(text_of(shape), text_of(narrow));
    const Tensor some = rotary_angles(shape), all = rotary_angles(narrow);
    const bool beside = order == AngleOrder::pairs;
    for (int position = 0; position < 5; ++position)
      for (int i = 0; i < 5; ++i) {
        const float* const of_position = some.as<float>() + 10 * position;
        const float* const wanted = all.as<float>() + 6 * position;
        EXPECT_EQ(of_position[beside ? 2 * i : i], i < 3 ? wanted[i] : 1.f);
        EXPECT_EQ(of_position[beside ? 2 * i + 1 : 5 + i], i < 3 ? wanted[3 + i] : 0.f);
      }
  }
}

// How often each pair turns in the positions of its table, over how often it would without the scaling.
std::vector<double> slowed(const RotaryScaling& scaling) {
  RotaryShape shape{.positions = 2, .head_dim = 32, .theta = 10'000};
  const Tensor plain = rotary_angles(shape);
  shape.scaling = scaling;
  const Tensor scaled = rotary_angles(shape);
  std::vector<double> ratios;
  for (int i = 0; i < 16; ++i) {
    const auto angle = [&](const Tensor& angles) {
      return std::atan2(angles.as<float>()[32 + 16 + i], angles.as<float>()[32 + i]);
    };
    ratios.push_back(angle(scaled) / angle(plain));
  }
  return ratios;
}

// Pair i turns 1000 / (2 pi) * 10^(-i / 4) times in 1000 positions: more than 4 times up to pair 6, less than once from
// pair 9 on.
TEST(RotaryAngles, AreSlowedByTheNumberOfTurns) {
  for (const double ratio : slowed({.kind = RotaryScaling::Kind::linear, .factor = 8})) EXPECT_NEAR(ratio, 0.125, 1e-5);
  const std::vector<double> llama3 =
      slowed({.kind = RotaryScaling::Kind::llama3, .factor = 8, .trained_positions = 1000, .few = 1, .many = 4});
  for (std::size_t i = 0; i < 16; ++i) {
    const double turns = 1000 / (2 * M_PI) * std::pow(10, -0.25 * static_cast<double>(i));
    const double kept = std::clamp((turns - 1) / 3, 0., 1.);
    EXPECT_NEAR(llama3[i], kept + (1 - kept) / 8, 1e-5) << i;
  }
  EXPECT_NEAR(llama3[5], 1, 1e-6);
  EXPECT_NEAR(llama3[10], 0.125, 1e-6);
}

// The line of YaRN goes from pair floor(2.79) to pair ceil(8.82) where 32 turns and 1 turn are asked for.
TEST(RotaryAngles, AreSlowedByTheNumberOfThePair) {
  RotaryScaling scaling{
      .kind = RotaryScaling::Kind::yarn, .factor = 4, .trained_positions = 1000, .few = 1, .many = 32};
  const auto expect = [&](double low, double high) {
    const std::vector<double> yarn = slowed(scaling);
    for (std::size_t i = 0; i < 16; ++i) {
      const double slowing = std::clamp((static_cast<double>(i) - low) / (high - low), 0., 1.);
      EXPECT_NEAR(yarn[i], slowing / 4 + (1 - slowing), 1e-5) << i;
    }
  };
  expect(2, 9);
  scaling.whole_pairs = false;
  const auto pair_of = [](double turns) { return 4 * std::log10(1000 / (2 * M_PI * turns)); };
  expect(pair_of(32), pair_of(1));
  scaling.amplitude = 1.5;
  RotaryShape shape{.positions = 2, .head_dim = 32, .theta = 10'000, .scaling = scaling};
  EXPECT_NEAR(rotary_angles(shape).as<float>()[0], 1.5, 1e-6);  // cos 0
}

// Those of texts that are longer than what was trained with stand behind the others.
TEST(RotaryAngles, OfLongerTextsHaveFactorsOfTheirOwn) {
  RotaryShape shape{.positions = 7, .head_dim = 8, .theta = 100.};
  shape.scaling = {.kind = RotaryScaling::Kind::longrope,
                   .trained_positions = 5,
                   .amplitude = 1.25,
                   .short_factors = {1, 2, 1, 4},
                   .long_factors = {1, 3, 5, 30}};
  const Tensor angles = rotary_angles(shape);
  ASSERT_EQ(angles.shape(), (Shape{5 + 7, 2, 4}));
  for (int row = 0; row < 12; ++row)
    for (std::size_t i = 0; i < 4; ++i) {
      const int position = row < 5 ? row : row - 5;
      const double factor = double{(row < 5 ? shape.scaling.short_factors : shape.scaling.long_factors)[i]};
      const double angle = position * std::pow(100., -static_cast<double>(i) / 4.) / factor;
      EXPECT_NEAR(angles.as<float>()[8 * row + static_cast<int>(i)], 1.25 * std::cos(angle), 1e-6);
      EXPECT_NEAR(angles.as<float>()[8 * row + 4 + static_cast<int>(i)], 1.25 * std::sin(angle), 1e-6);
    }
  EXPECT_EQ(angles_begin(5, 5), 0);
  EXPECT_EQ(angles_begin(6, 5), 5);
  EXPECT_EQ(angles_begin(6, 0), 0);
  shape.positions = 5;  // no text is longer
  EXPECT_EQ(rotary_angles(shape).shape(), (Shape{5, 2, 4}));
}

}  // namespace
}  // namespace stof
