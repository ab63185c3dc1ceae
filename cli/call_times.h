// SPDX-License-Identifier: Apache-2.0
// How long a call takes: the median of many, and the best of them; alone, or in turns with something it is compared
// with.
#pragma once
#include <functional>
#include <vector>

#include "cli/json_output.h"

namespace stof::cli {

struct CallTimes {
  double median_us = 0, best_us = 0;
  int calls = 0;  // of which this is the median
};

// Seconds of a clock that does not go back; tests have one of their own.
using SecondsNow = std::function<double()>;
double seconds_now();

// Of at least one time.
CallTimes times_of(const std::vector<double>& microseconds);

// Wall time of the host, after one or two calls that warm up: as many calls as `seconds` hold, five to 200; fewer where
// five take more than four times that long.
CallTimes time_calls(const std::function<void()>& call, double seconds);

// The mean of as many calls as begin within `seconds`, at least three, after one that warms up: what others take of the
// machine meanwhile is in it, as it is in a longer call.
double mean_us_within(const std::function<void()>& call, double seconds, const SecondsNow& now = seconds_now);

// A call, and the mean of what was measured right before and right after it, or after the group of short calls that it
// is of.
struct CallBeside {
  double us, beside;
};

// time_calls(), call by call, in turns with `measure`, which begins and ends: after each call, or calls that take 40 ms
// together, it is given a twentieth of their time, at least 40 ms. Those are not counted to `seconds`.
std::vector<CallBeside> time_calls_beside(const std::function<void()>& call, double seconds,
                                          const std::function<double(double)>& measure,
                                          const SecondsNow& now = seconds_now);

Json json_of(const CallTimes& times);

}  // namespace stof::cli
