// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

namespace stof {
namespace {

constexpr float kLarge = 3;

// How often each token is chosen over evenly spaced chances.
std::map<std::int32_t, double> shares(std::span<const float> scores, const Sampling& sampling) {
  constexpr int kCount = 10'000;
  std::map<std::int32_t, double> shares;
  for (int i = 0; i < kCount; ++i) shares[next_token(scores, sampling, (i + 0.5) / kCount)] += 1. / kCount;
  return shares;
}

TEST(Sampling, TakesTheFirstOfTheHighest) {
  const std::array<float, 5> scores{1, kLarge, -2, kLarge, 0};
  EXPECT_EQ(next_token(scores, {}, 0.9), 1);
  const std::array<float, 3> none{-INFINITY, -INFINITY, -INFINITY}, one{-INFINITY, INFINITY, 2};
  EXPECT_EQ(next_token(none, {.temperature = 1}, 0.5), 0);
  EXPECT_EQ(next_token(one, {.temperature = 1}, 0.5), 1);
}

TEST(Sampling, ChoosesBySoftmaxAtTheTemperature) {
  const std::array<float, 3> scores{std::log(1.f), std::log(2.f), std::log(5.f)};
  std::map<std::int32_t, double> found = shares(scores, {.temperature = 1});
  EXPECT_NEAR(found[0], 1 / 8., 2e-4);
  EXPECT_NEAR(found[1], 2 / 8., 2e-4);
  EXPECT_NEAR(found[2], 5 / 8., 2e-4);
  found = shares(scores, {.temperature = 0.5});  // squares
  EXPECT_NEAR(found[0], 1 / 30., 2e-4);
  EXPECT_NEAR(found[2], 25 / 30., 2e-4);
}

TEST(Sampling, KeepsTheLikeliest) {
  const std::array<float, 4> scores{std::log(4.f), std::log(1.f), std::log(3.f), std::log(2.f)};
  std::map<std::int32_t, double> found = shares(scores, {.temperature = 1, .top_k = 2});
  EXPECT_EQ(found.size(), 2U);
  EXPECT_NEAR(found[0], 4 / 7., 2e-4);
  EXPECT_NEAR(found[2], 3 / 7., 2e-4);
  found = shares(scores, {.temperature = 1, .top_p = 0.71});  // 0.4 and 0.3 are less
  EXPECT_EQ(found.size(), 3U);
  EXPECT_NEAR(found[3], 2 / 9., 2e-4);
  EXPECT_EQ(shares(scores, {.temperature = 1, .top_p = 0.69}).size(), 2U);
  EXPECT_EQ(shares(scores, {.temperature = 1, .top_p = 1e-9}).size(), 1U);
  EXPECT_EQ(shares(scores, {.temperature = 1, .top_k = 100}).size(), 4U);
}

// Sorted a part at a time: the same as sorted at once.
TEST(Sampling, KeepsTheLikeliestOfALargeVocabulary) {
  std::vector<float> scores;
  for (int i = 0; i < 20'000; ++i) scores.push_back(static_cast<float>(std::fmod(i * 0.618034, 1.0)) * 6);
  std::vector<double> weights;
  double total = 0;
  for (const float score : scores) total += weights.emplace_back(std::exp(double{score} - 6));
  std::vector<double> sorted = weights;
  std::sort(sorted.rbegin(), sorted.rend());
  for (const double top_p : {0.01, 0.3, 0.9}) {
    double kept = 0;
    std::size_t count = 0;
    while (kept < top_p * total) kept += sorted[count++];
    const double least = sorted[count - 1];
    for (int i = 0; i < 50; ++i) {
      const std::int32_t token = next_token(scores, {.temperature = 1, .top_p = top_p}, (i + 0.5) / 50);
      EXPECT_GE(weights[static_cast<std::size_t>(token)], least * (1 - 1e-6)) << top_p;
    }
    const std::int32_t last = next_token(scores, {.temperature = 1, .top_p = top_p}, 1 - 1e-12);
    EXPECT_NEAR(weights[static_cast<std::size_t>(last)], least, 1e-3 * least) << top_p;
  }
}

TEST(Sampling, ChoosesNothingWhereAScoreIsNoNumber) {
  const std::array<float, 3> scores{0, NAN, 1};
  EXPECT_EQ(next_token(scores, {}, 0), -1);
  EXPECT_EQ(next_token(scores, {.temperature = 1, .top_k = 1}, 0.5), -1);
}

TEST(Sampling, ChancesDifferByTextAndTokenAndAreEven) {
  double sum = 0;
  for (std::int64_t text = 0; text < 100; ++text)
    for (std::int64_t token = 0; token < 100; ++token) {
      const double chance = chance_of(5, text, token);
      EXPECT_TRUE(chance >= 0 && chance < 1);
      EXPECT_NE(chance, chance_of(5, text, token + 1));
      EXPECT_NE(chance, chance_of(6, text, token));
      sum += chance;
    }
  EXPECT_NEAR(sum / 10'000, 0.5, 0.02);
  EXPECT_EQ(chance_of(5, 1, 2), chance_of(5, 1, 2));
}

// Enough rows and columns for several threads: each as it would be by itself.
TEST(Sampling, ChoosesForManyTextsAtOnce) {
  constexpr std::size_t kTexts = 64, kColumns = 999;
  std::vector<float> scores(kTexts * kColumns);
  for (std::size_t i = 0; i < scores.size(); ++i)
    scores[i] = static_cast<float>(3 * chance_of(5, 0, std::ssize(scores) - static_cast<std::int64_t>(i)));
  std::vector<double> chances;
  for (std::size_t text = 0; text < kTexts; ++text) chances.push_back(chance_of(6, static_cast<std::int64_t>(text), 0));
  for (const Sampling& sampling :
       {Sampling{.temperature = 0.7}, Sampling{.temperature = 1, .top_k = 20, .top_p = 0.9}}) {
    const std::vector<std::int32_t> found = next_tokens(scores, sampling, chances);
    ASSERT_EQ(found.size(), kTexts);
    for (std::size_t text = 0; text < kTexts; ++text)
      EXPECT_EQ(found[text], next_token(std::span(scores).subspan(text * kColumns, kColumns), sampling, chances[text]));
  }
  scores[17 * kColumns + 3] = scores[40 * kColumns + 5] = NAN;
  const std::vector<std::int32_t> found = next_tokens(scores, {.temperature = 1}, chances);
  for (std::size_t text = 0; text < kTexts; ++text) EXPECT_EQ(found[text] < 0, text == 17 || text == 40) << text;
  EXPECT_TRUE(next_tokens({}, {.temperature = 1}, {}).empty());
}

}  // namespace
}  // namespace stof
