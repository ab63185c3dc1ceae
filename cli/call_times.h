// SPDX-License-Identifier: Apache-2.0
// How long a call takes: the median of many, and the best of them.
#pragma once
#include <functional>
#include <vector>

#include "cli/json_output.h"

namespace stof::cli {

struct CallTimes {
  double median_us = 0, best_us = 0;
  int calls = 0;  // of which this is the median
};

// Of at least one time.
CallTimes times_of(const std::vector<double>& microseconds);

// Wall time of the host, after one or two calls that warm up: as many calls as `seconds` hold, five to 200; fewer where
// five take more than four times that long.
CallTimes time_calls(const std::function<void()>& call, double seconds);

Json json_of(const CallTimes& times);

}  // namespace stof::cli
