// SPDX-License-Identifier: Apache-2.0
// Times in turns, of rivals on a device whose clock is written down here.
#include "src/runtime/turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "src/base/median.h"

namespace stof {
namespace {

// At full speed until it is warm, then `slower` times as long, approached as a power limit does.
class Device {
 public:
  double warm_after = 0.3, slower = 1.3;
  double now = 0;
  std::vector<int> order;

  OneTime rival(int name, double us, double calls = 1) {
    return [this, name, us, calls] {
      const double past = std::max(0., now - warm_after);
      const double took = us * (1 + (slower - 1) * (1 - std::exp(-past / 0.05)));
      now += calls * 1e-6 * took;
      order.push_back(name);
      return took;
    };
  }
  Turns turns(double seconds, double window_seconds) {
    return {.seconds = seconds, .window_seconds = window_seconds, .now = [this] { return now; }};
  }
};

// What is 2 % slower wins by being timed while the device is cold, unless they take turns.
TEST(Turns, WhoIsTimedFirstHasNoAdvantage) {
  Device alone;
  const double slow_alone = median_of(times_in_turns(std::array{alone.rival(0, 10200)}, alone.turns(0.3, 0)).front());
  const double fast_alone = median_of(times_in_turns(std::array{alone.rival(1, 10000)}, alone.turns(0.3, 0)).front());
  EXPECT_LT(slow_alone, fast_alone);
  for (const double window : {0., 0.1}) {
    Device device;
    const auto times =
        times_in_turns(std::array{device.rival(0, 10200), device.rival(1, 10000)}, device.turns(0.3, window));
    EXPECT_GT(median_of(times[0]), 1.01 * median_of(times[1])) << window;
  }
}

TEST(Turns, NothingCountsBeforeTheClockStays) {
  Device device;
  device.warm_after = 0.05;
  const auto times = times_in_turns(std::array{device.rival(0, 4000), device.rival(1, 3000)}, device.turns(0.3, 0.1));
  for (const double us : times[0]) EXPECT_NEAR(us, 1.3 * 4000, 0.01 * 4000);
  for (const double us : times[1]) EXPECT_NEAR(us, 1.3 * 3000, 0.01 * 3000);
}

TEST(Turns, AClockThatNeverStaysIsWaitedForNoLongerThanSaid) {
  double us = 1000, now = 0;
  const OneTime ever_slower = [&] {
    us *= 1.01;
    now += 1e-6 * us;
    return us;
  };
  Turns turns{.seconds = 0.02, .window_seconds = 0.01, .most_windows = 3, .now = [&] { return now; }};
  times_in_turns(std::array{ever_slower}, turns);
  EXPECT_LT(now, 3 * 0.01 + 0.02 + 5 * 2e-3);
}

TEST(Turns, EveryRoundHasEveryoneAndEverySecondIsBackwards) {
  Device device;
  const auto times =
      times_in_turns(std::array{device.rival(0, 1), device.rival(1, 1), device.rival(2, 1)}, device.turns(0, 0));
  ASSERT_EQ(times.size(), 3U);
  for (const auto& us : times) EXPECT_EQ(us.size(), 5U);  // the least, however short the time
  EXPECT_EQ(std::vector(device.order.begin(), device.order.begin() + 6), (std::vector{0, 1, 2, 2, 1, 0}));
}

// The clock falls by a third while six rounds last, and further in one of them: a rival that is 1 % faster is 1 %
// faster in every round.
TEST(Turns, WhatChangesAllAlikeIsTakenOut) {
  const std::vector<double> clock{1.0, 0.8, 0.75, 0.7, 0.3, 0.66};
  std::vector<std::vector<double>> times(2);
  for (const double speed : clock) {
    times[0].push_back(10000 / speed);
    times[1].push_back(9900 / speed);
  }
  const auto even = without_drift(times);
  for (std::size_t round = 0; round < clock.size(); ++round) {
    EXPECT_NEAR(even[0][round], 10000 / 0.7, 1e-6);
    EXPECT_NEAR(even[1][round], 9900 / 0.7, 1e-6);
  }
  // What disturbs one of them stays its own.
  times[1][2] *= 1.5;
  EXPECT_GT(without_drift(times)[1][2], 1.4 * without_drift(times)[0][2]);
}

TEST(Turns, ASingleRivalDrifts) {
  EXPECT_EQ(without_drift({{3, 2, 1}}), (std::vector<std::vector<double>>{{3, 2, 1}}));
  EXPECT_TRUE(without_drift({}).empty());
}

TEST(Turns, RoundsAreBounded) {
  Device device;
  EXPECT_EQ(times_in_turns(std::array{device.rival(0, 1)}, device.turns(10, 0)).front().size(), 60U);
  EXPECT_TRUE(times_in_turns({}, device.turns(1, 0.1)).empty());
}

}  // namespace
}  // namespace stof
