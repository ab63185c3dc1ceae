// SPDX-License-Identifier: Apache-2.0
// Whether a result is near enough to the expected one for its time to count.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace stof {

struct Agreement {
  double frobenius = 0, worst_row = 0;  // relative errors; NaN where the result holds NaN
  std::string wrong;                    // why its time does not count; empty: it does
};

// As bench/peers/timing.py has it for f16.
constexpr double kF16Bound = 2e-3;

// Of rows of `columns` values. bound: of the whole; a row may be off by ten times that. What was never written is NaN
// where the memory was filled with bytes of 0xFF before.
Agreement agreement_of(std::span<const float> got, std::span<const float> want, std::int64_t columns,
                       double bound = kF16Bound);

}  // namespace stof
