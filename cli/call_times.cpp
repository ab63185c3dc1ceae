// SPDX-License-Identifier: Apache-2.0
#include "cli/call_times.h"

#include <algorithm>
#include <chrono>

#include "src/base/median.h"

namespace stof::cli {
namespace {

double seconds_of(const std::function<void()>& call, const SecondsNow& now) {
  const double begin = now();
  call();
  return now() - begin;
}

// Says when there have been enough calls.
struct Limits {
  double seconds;
  double spent = 0;
  int calls = 0;

  void count(double took) {
    spent += took;
    ++calls;
  }
  bool reached() const {
    constexpr int kLeast = 5, kMost = 200;
    return calls == kMost || (calls > 0 && spent >= 4 * seconds) || (calls >= kLeast && spent >= seconds);
  }
};

}  // namespace

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

CallTimes times_of(const std::vector<double>& microseconds) {
  return {.median_us = median_of(microseconds),
          .best_us = *std::min_element(microseconds.begin(), microseconds.end()),
          .calls = static_cast<int>(microseconds.size())};
}

CallTimes time_calls(const std::function<void()>& call, double seconds) {
  if (seconds_of(call, seconds_now) < seconds) call();
  std::vector<double> times;
  for (Limits limits{.seconds = seconds}; !limits.reached(); limits.count(1e-6 * times.back()))
    times.push_back(1e6 * seconds_of(call, seconds_now));
  return times_of(times);
}

double mean_us_within(const std::function<void()>& call, double seconds, const SecondsNow& now) {
  call();
  double spent = 0;
  int calls = 0;
  for (; spent < seconds || calls < 3; ++calls) spent += seconds_of(call, now);
  return 1e6 * spent / calls;
}

std::vector<CallBeside> time_calls_beside(const std::function<void()>& call, double seconds,
                                          const std::function<double(double)>& measure, const SecondsNow& now) {
  constexpr double kShortest = 0.04, kPart = 0.05;
  double last = seconds_of(call, now);
  if (last < seconds) last = seconds_of(call, now);
  std::vector<CallBeside> calls;
  Limits limits{.seconds = seconds};
  double before = measure(std::max(kShortest, kPart * last));
  while (!limits.reached()) {
    const std::size_t first = calls.size();
    double together = 0;
    do {
      last = seconds_of(call, now);
      calls.push_back({.us = 1e6 * last, .beside = 0});
      limits.count(last);
      together += last;
    } while (together < kShortest && !limits.reached());
    const double after = measure(std::max(kShortest, kPart * together));
    for (std::size_t i = first; i < calls.size(); ++i) calls[i].beside = (before + after) / 2;
    before = after;
  }
  return calls;
}

Json json_of(const CallTimes& times) {
  return {{"median_us", times.median_us}, {"best_us", times.best_us}, {"calls", times.calls}};
}

}  // namespace stof::cli
