// SPDX-License-Identifier: Apache-2.0
// Divisors of allowed differences, of which 0 stands for a difference of 0: every number divides it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>

namespace stof {

inline constexpr std::int64_t kMostResidues = 1024;  // what a mask is seen by at most

// The least common multiple; above kMostResidues one of the two: the larger that is not.
inline std::int64_t common_multiple(std::int64_t a, std::int64_t b) {
  if (a == 0 || b == 0) return 0;
  const std::int64_t other = a / std::gcd(a, b);  // before it is multiplied: two strides may pass int64 together
  if (other <= kMostResidues / b) return other * b;
  const auto [smaller, larger] = std::minmax(a, b);
  return larger <= kMostResidues ? larger : smaller;
}

}  // namespace stof
