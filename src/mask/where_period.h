// SPDX-License-Identifier: Apache-2.0
// where() that repeats: along the diagonal, as q / 64 == k / 64 | k % 64 >= 60 does, from row to row and from key to
// key, as q * k % 7 == 3 does.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "src/mask/range.h"
#include "stof/where.h"

namespace stof {

inline constexpr std::int64_t kMostPeriod = 4096;

// From (q, k) to (q + n, k + n), (q + n, k), (q, k + n).
enum class Along : std::uint8_t { diagonal, rows, keys };

// A number n, at most kMostPeriod, such that the expression has the same value so much further on, for all q and k; 0
// where none is found. Holds as long as nothing overflows. 1 along the diagonal where only q - k matters.
std::int64_t where_period(const std::vector<WhereStep>& steps, Along along);

// Of the positions of a mask.
struct Period {
  std::int64_t length = 0;   // 0: none
  std::int64_t queries = 0;  // of the mask
  // Places in it where ranges of so many positions begin.
  std::int64_t places(std::int64_t positions) const;
  // What the bits of these positions depend on besides position - key, or the key, never 0. Nothing where too few
  // others of the mask would have the same.
  std::optional<std::int64_t> place_of(Range positions) const;
};

struct WherePeriods {
  Period diagonal = {}, rows = {};
  std::int64_t keys = 0;
};
WherePeriods where_periods(const std::vector<WhereStep>& steps, std::int64_t queries);

}  // namespace stof
