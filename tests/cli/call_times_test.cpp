// SPDX-License-Identifier: Apache-2.0
// Times of calls beside what they are compared with, on a clock that is written down here.
#include "cli/call_times.h"

#include <gtest/gtest.h>

namespace stof::cli {
namespace {

// Calls take what `takes` says, the last of it from then on; what is measured beside them is 10, 20, 30 ..., and takes
// ten seconds each time.
struct Machine {
  std::vector<double> takes;  // seconds
  double now = 0;
  std::size_t calls = 0;
  std::vector<double> given = {};  // seconds, to each measurement

  double mean_us(double seconds) {
    return mean_us_within([this] { call(); }, seconds, [this] { return now; });
  }
  std::vector<CallBeside> beside(double seconds) {
    const auto measure = [this](double seconds_given) {
      given.push_back(seconds_given);
      now += 10;
      return 10. * static_cast<double>(given.size());
    };
    return time_calls_beside([this] { call(); }, seconds, measure, [this] { return now; });
  }

 private:
  void call() { now += takes[std::min(calls++, takes.size() - 1)]; }
};

TEST(MeanWithin, IsOfAllCallsButTheFirst) {
  Machine machine{{9, 1e-3, 1e-3, 4e-3}};
  EXPECT_NEAR(machine.mean_us(5e-3), 2000, 1e-6);  // the median is 1000
  EXPECT_EQ(machine.calls, 4U);
}

TEST(MeanWithin, IsOfThreeCallsAtLeast) {
  Machine machine{{1, 2, 3, 4}};
  EXPECT_NEAR(machine.mean_us(0.5), 3e6, 1e-3);
}

TEST(CallsBeside, EachLongCallIsBesideWhatIsRightInFrontAndRightBehind) {
  Machine machine{{2}};
  const std::vector<CallBeside> calls = machine.beside(7);
  ASSERT_EQ(calls.size(), 5U);  // the least; one of two that warmed up was shorter than the time that there is
  for (std::size_t i = 0; i < calls.size(); ++i) {
    EXPECT_NEAR(calls[i].us, 2e6, 1e-3);
    EXPECT_DOUBLE_EQ(calls[i].beside, 15 + 10. * static_cast<double>(i));
  }
  ASSERT_EQ(machine.given.size(), 6U);
  for (const double seconds : machine.given) EXPECT_NEAR(seconds, 0.1, 1e-9);  // a twentieth
}

TEST(CallsBeside, ShortCallsShareWhatIsInFrontAndBehindTheirGroup) {
  Machine machine{{0.015}};
  const std::vector<CallBeside> calls = machine.beside(0.1);
  ASSERT_EQ(calls.size(), 7U);
  const std::vector<double> beside{15, 15, 15, 25, 25, 25, 35};  // groups of at least 40 ms
  for (std::size_t i = 0; i < calls.size(); ++i) EXPECT_DOUBLE_EQ(calls[i].beside, beside[i]) << i;
  for (const double seconds : machine.given) EXPECT_NEAR(seconds, 0.04, 1e-9);
}

TEST(CallsBeside, MeasurementsAreNotCountedToTheSeconds) {
  Machine machine{{0.0625}};
  EXPECT_EQ(machine.beside(0.5).size(), 8U);  // 90 s of measurements are beside them
}

}  // namespace
}  // namespace stof::cli
