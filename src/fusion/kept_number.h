// SPDX-License-Identifier: Apache-2.0
// Numbers that are written into plans and logs. JSON has none for what is not finite: it is the largest one there.
#pragma once
#include <cmath>
#include <limits>

namespace stof {

inline double kept_number(double value) { return std::isfinite(value) ? value : std::numeric_limits<double>::max(); }

}  // namespace stof
