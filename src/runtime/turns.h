// SPDX-License-Identifier: Apache-2.0
// Times of rivals, taken in turns. A device that is limited by power is fast for some tenths of a second and slower
// from then on: whoever is timed first would look better than it is. In turns a clock that falls changes all alike.
#pragma once
#include <functional>
#include <span>
#include <vector>

namespace stof {

using OneTime = std::function<double()>;  // does it once more: microseconds of a call

struct Turns {
  double seconds = 0.3;  // of timing each of the rivals, in the mean
  // Before anything counts rivals run in turns, window by window, until one takes as long as that before it: the clock
  // is then where it stays. 0: at once.
  double window_seconds = 0;
  int most_windows = 8;
  int least_rounds = 5, most_rounds = 60;
  OneTime now = {};  // seconds; empty: the host's clock
};

// For each rival its times, one of every round.
std::vector<std::vector<double>> times_in_turns(std::span<const OneTime> rivals, const Turns& turns);

// The same times as if every round had taken as long as the median one: what makes all rivals of a round slower alike,
// a clock that falls between two rounds, says nothing of one beside another. Of a single rival: as they are.
std::vector<std::vector<double>> without_drift(std::vector<std::vector<double>> times);

}  // namespace stof
