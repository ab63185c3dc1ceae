// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/turns.h"

#include <chrono>
#include <cmath>
#include <utility>

#include "src/base/median.h"

namespace stof {
namespace {

constexpr double kSteady = 0.005;  // that a window may differ from the one before: what a change of a plan must bring

double seconds_of_host() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Race {
 public:
  Race(std::span<const OneTime> rivals, const Turns& turns)
      : rivals_(rivals), turns_(turns), now_(turns.now ? turns.now : OneTime(seconds_of_host)) {}

  std::vector<std::vector<double>> run() {
    if (rivals_.empty()) return {};
    settle();
    std::vector<std::vector<double>> times(rivals_.size());
    const double end = now_() + turns_.seconds * static_cast<double>(rivals_.size());
    for (int n = 0; n < turns_.least_rounds || (n < turns_.most_rounds && now_() < end); ++n) {
      const std::vector<double> us = round(n);
      for (std::size_t i = 0; i < us.size(); ++i) times[i].push_back(us[i]);
    }
    return times;
  }

 private:
  // Every second one backwards: nobody has always the same one in front of it.
  std::vector<double> round(int n) const {
    std::vector<double> us(rivals_.size());
    for (std::size_t i = 0; i < us.size(); ++i) {
      const std::size_t turn = n % 2 == 0 ? i : us.size() - 1 - i;
      us[turn] = rivals_[turn]();
    }
    return us;
  }

  // The median of what its rounds took.
  double window() const {
    std::vector<double> sums;
    const double end = now_() + turns_.window_seconds;
    do {
      double sum = 0;
      for (const double us : round(static_cast<int>(sums.size()))) sum += us;
      sums.push_back(sum);
    } while (now_() < end);
    return median_of(std::move(sums));
  }

  void settle() const {
    if (turns_.window_seconds <= 0) return;
    double before = window();
    for (int n = 1; n < turns_.most_windows; ++n) {
      const double after = window();
      if (std::abs(after - before) <= kSteady * before) return;
      before = after;
    }
  }

  std::span<const OneTime> rivals_;
  const Turns& turns_;
  OneTime now_;
};

}  // namespace

std::vector<std::vector<double>> times_in_turns(std::span<const OneTime> rivals, const Turns& turns) {
  return Race(rivals, turns).run();
}

std::vector<std::vector<double>> without_drift(std::vector<std::vector<double>> times) {
  if (times.size() < 2) return times;
  std::vector<double> sums(times.front().size());
  for (const std::vector<double>& us : times)
    for (std::size_t round = 0; round < us.size(); ++round) sums[round] += us[round];
  const double usual = median_of(sums);
  for (std::vector<double>& us : times)
    for (std::size_t round = 0; round < us.size(); ++round) us[round] *= usual / sums[round];
  return times;
}

}  // namespace stof
