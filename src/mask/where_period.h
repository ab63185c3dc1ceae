// SPDX-License-Identifier: Apache-2.0
// where() that repeats along the diagonal, as q / 64 == k / 64 | k % 64 >= 60 does.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "src/mask/range.h"
#include "stof/where.h"

namespace stof {

inline constexpr std::int64_t kMostPeriod = 4096;

// A number n, at most kMostPeriod, such that the expression has the same value at (q + n, k + n) as at (q, k) for all q
// and k; 0 where none is found. Holds as long as nothing overflows. 1 where only q - k matters.
std::int64_t where_period(const std::vector<WhereStep>& steps);

// Of a mask with such a period.
struct DiagonalPeriod {
  std::int64_t length = 0;   // 0: none
  std::int64_t queries = 0;  // of the mask
  // What the bits of these positions depend on besides position - key, never 0. Nothing where too few others of the
  // mask would have the same.
  std::optional<std::int64_t> place_of(Range positions) const;
};

}  // namespace stof
