// SPDX-License-Identifier: Apache-2.0
// Random integer expressions over q and k, of every operation, with divisors of either sign, masks of bits and
// constants that are too large for any period.
#pragma once
#include <cstdint>
#include <iterator>
#include <random>

#include "stof/where.h"

namespace stof {

class RandomWhere {
 public:
  explicit RandomWhere(unsigned seed) : random_(seed) {}

  std::int64_t below(std::int64_t count) { return std::uniform_int_distribution<std::int64_t>(0, count - 1)(random_); }

  Symbol expression(int depth) {
    if (depth == 0 || below(6) == 0) return leaf();
    const Symbol a = expression(depth - 1);
    switch (below(16)) {
      case 0: return -a;
      case 1: return abs(a);
      case 2: return !a;
      case 3: return a + expression(depth - 1);
      case 4: return a - expression(depth - 1);
      case 5: return a * expression(depth - 1);
      case 6: return a & expression(depth - 1);
      case 7: return a | expression(depth - 1);
      case 8: return min(a, expression(depth - 1));
      case 9: return max(a, expression(depth - 1));
      case 10: return a / expression(depth - 1);
      case 11: return a == expression(depth - 1);
      case 12: return a < expression(depth - 1);
      case 13: return a / constant();
      default: return a % constant();
    }
  }

 private:
  Symbol leaf() {
    switch (below(5)) {
      case 0: return constant();
      case 1:
      case 2: return Symbol(WhereOp::query);
      default: return Symbol(WhereOp::key);
    }
  }

  Symbol constant() {
    static constexpr std::int64_t kValues[] = {0,
                                               1,
                                               2,
                                               3,
                                               4,
                                               5,
                                               6,
                                               7,
                                               8,
                                               12,
                                               16,
                                               24,
                                               64,
                                               -1,
                                               -2,
                                               -3,
                                               -4,
                                               -7,
                                               9,
                                               -8,
                                               1 << 20,
                                               (1 << 20) + 1,
                                               std::int64_t{1} << 40,
                                               std::int64_t{1} << 62};
    return Symbol(kValues[below(std::size(kValues))]);
  }

  std::mt19937 random_;
};

}  // namespace stof
