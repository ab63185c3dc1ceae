// SPDX-License-Identifier: Apache-2.0
// Smallest and largest value of any range of a fixed array, from a sparse table over blocks of 64 values.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "src/mask/range.h"

namespace stof {

class RangeExtremes {
 public:
  RangeExtremes() = default;
  // values[i] counts as lows[i] for the minimum and highs[i] for the maximum.
  RangeExtremes(std::vector<std::int64_t> lows, std::vector<std::int64_t> highs);

  struct Extremes {
    std::int64_t low, high;
  };
  Extremes of(Range range) const;  // not empty, inside the array

 private:
  static constexpr std::int64_t kBlock = 64;
  Extremes scan(std::int64_t begin, std::int64_t end) const;

  std::vector<std::int64_t> lows_, highs_;
  std::vector<std::vector<Extremes>> levels_;  // levels_[l][i]: blocks [i, i + 2^l)
};

}  // namespace stof
