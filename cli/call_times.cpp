// SPDX-License-Identifier: Apache-2.0
#include "cli/call_times.h"

#include <algorithm>
#include <chrono>

#include "src/base/median.h"

namespace stof::cli {

CallTimes times_of(const std::vector<double>& microseconds) {
  return {.median_us = median_of(microseconds),
          .best_us = *std::min_element(microseconds.begin(), microseconds.end()),
          .calls = static_cast<int>(microseconds.size())};
}

CallTimes time_calls(const std::function<void()>& call, double seconds) {
  constexpr int kLeast = 5, kMost = 200;
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  const Clock::time_point start = Clock::now();
  call();
  if (seconds_since(start) < seconds) call();
  std::vector<double> times;
  const Clock::time_point begin = Clock::now();
  while (std::ssize(times) < kMost) {
    const Clock::time_point before = Clock::now();
    call();
    times.push_back(1e6 * seconds_since(before));
    const double spent = seconds_since(begin);
    if (spent >= 4 * seconds || (std::ssize(times) >= kLeast && spent >= seconds)) break;
  }
  return times_of(times);
}

Json json_of(const CallTimes& times) {
  return {{"median_us", times.median_us}, {"best_us", times.best_us}, {"calls", times.calls}};
}

}  // namespace stof::cli
