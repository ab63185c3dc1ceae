// SPDX-License-Identifier: Apache-2.0
// Which calls a lane keeps recordings of, and how many.
#include "src/runtime/recordings.h"

#include <gtest/gtest.h>

namespace stof {
namespace {

CallKind of_bucket(std::int64_t rows) { return {.bucket = {.rows = rows, .texts = 1, .longest = 64}}; }
CallKind of_lengths(std::vector<std::int32_t> lengths) {
  return {.bucket = {.rows = 64, .texts = 2, .longest = 64}, .lengths = std::move(lengths)};
}
Recording with_plans(std::size_t count) {
  Recording recording;
  for (std::size_t i = 0; i < count; ++i) recording.plans.push_back(std::make_shared<const int>(0));
  return recording;
}

TEST(Recordings, ABucketIsWorthItAtOnceAndLengthsTheSecondTime) {
  Recordings recordings;
  EXPECT_TRUE(recordings.is_worth_it(of_bucket(64)));
  EXPECT_FALSE(recordings.is_worth_it(of_lengths({3, 4})));
  EXPECT_FALSE(recordings.is_worth_it(of_lengths({4, 3})));
  EXPECT_TRUE(recordings.is_worth_it(of_lengths({3, 4})));
  EXPECT_FALSE(recordings.is_worth_it(of_lengths({3, 4})));  // whoever has it recorded does not ask
}

TEST(Recordings, CallsThatCameLongAgoAreForgotten) {
  Recordings recordings;
  const auto all = static_cast<std::int32_t>(Recordings::kMostSeen);
  for (std::int32_t i = 0; i < all; ++i) EXPECT_FALSE(recordings.is_worth_it(of_lengths({i})));
  EXPECT_FALSE(recordings.is_worth_it(of_lengths({all})));
  EXPECT_FALSE(recordings.is_worth_it(of_lengths({0})));
  EXPECT_TRUE(recordings.is_worth_it(of_lengths({2})));
}

TEST(Recordings, WhatWasNotWantedForLongestGoesFirst) {
  Recordings recordings;
  const auto all = static_cast<std::int64_t>(Recordings::kMost);
  for (std::int64_t rows = 0; rows < all; ++rows) recordings.keep(of_bucket(rows), {});
  EXPECT_NE(recordings.find(of_bucket(0)), nullptr);
  recordings.keep(of_bucket(all), {});
  EXPECT_EQ(recordings.size(), Recordings::kMost);
  EXPECT_EQ(recordings.find(of_bucket(1)), nullptr);
  EXPECT_NE(recordings.find(of_bucket(0)), nullptr);
  EXPECT_NE(recordings.find(of_bucket(all)), nullptr);
  recordings.clear();
  EXPECT_EQ(recordings.find(of_bucket(0)), nullptr);
}

TEST(Recordings, PlansThatAreHeldAreBounded) {
  Recordings recordings;
  recordings.keep(of_lengths({1}), with_plans(100));
  recordings.keep(of_lengths({2}), with_plans(100));
  std::weak_ptr<const void> first = recordings.find(of_lengths({1}))->plans.front();
  EXPECT_FALSE(first.expired());
  recordings.find(of_lengths({2}));
  recordings.keep(of_lengths({3}), with_plans(Recordings::kMostPlans - 100));
  EXPECT_EQ(recordings.size(), 2U);
  EXPECT_TRUE(first.expired());
  recordings.keep(of_lengths({4}), with_plans(Recordings::kMostPlans + 1));
  EXPECT_EQ(recordings.find(of_lengths({4})), nullptr);
  EXPECT_EQ(recordings.size(), 2U);
}

// Made again it would have as many plans: a session that recorded it on every second call would only lose time.
TEST(Recordings, WhatWasRefusedIsNotWorthItAnotherTime) {
  Recordings recordings;
  const CallKind large = of_lengths({1, 2}), bucket = of_bucket(64);
  EXPECT_FALSE(recordings.is_worth_it(large));
  EXPECT_TRUE(recordings.is_worth_it(large));
  EXPECT_TRUE(recordings.is_worth_it(bucket));
  for (const CallKind& kind : {large, bucket}) recordings.keep(kind, with_plans(Recordings::kMostPlans + 1));
  for (int call = 0; call < 4; ++call) {
    EXPECT_FALSE(recordings.is_worth_it(large)) << call;
    EXPECT_FALSE(recordings.is_worth_it(bucket)) << call;
  }
  // Of so many others that are refused too, it is forgotten, as long as it does not come.
  const auto all = static_cast<std::int32_t>(Recordings::kMostSeen);
  for (std::int32_t i = 1; i < all; ++i) {
    recordings.keep(of_lengths({i, i}), with_plans(Recordings::kMostPlans + 1));
    EXPECT_FALSE(recordings.is_worth_it(bucket));
  }
  EXPECT_FALSE(recordings.is_worth_it(large));  // for the first time, as far as is known
  EXPECT_TRUE(recordings.is_worth_it(large));
  EXPECT_FALSE(recordings.is_worth_it(bucket));
}

}  // namespace
}  // namespace stof
