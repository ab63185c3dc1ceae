// SPDX-License-Identifier: Apache-2.0
// What stands for many times of the same work.
#pragma once
#include <algorithm>
#include <iterator>
#include <vector>

#include "src/base/error.h"

namespace stof {

// Of an even number of values the greater of the two in the middle: one that was measured.
inline double median_of(std::vector<double> values) {
  STOF_CHECK(!values.empty());
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace stof
