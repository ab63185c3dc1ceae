// SPDX-License-Identifier: Apache-2.0
// Random masks whose bands of rows repeat: a grid of any shape, terms of position - key alone or with a period, and
// these together.
#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>

#include "stof/mask.h"
#include "stof/where.h"

namespace stof {

class RepeatingMask {
 public:
  explicit RepeatingMask(unsigned seed) : random_(seed) {
    const std::int64_t most_cells = 300 + below(1500);
    width_ = kWidths[below(std::size(kWidths))];
    height_ = std::max<std::int64_t>(1, most_cells / width_);
    extent = {.queries = height_ * width_, .keys = height_ * width_};
    switch (below(13)) {
      case 8: mask = periodic() & differences(); break;
      case 9: mask = (periodic() & !differences()) | differences(); break;
      case 10: mask = periodic() | (periodic() & differences()); break;
      case 11: mask = grid() & periodic(); break;
      case 12:
        mask = periodic();
        extent.queries = 1 + below(extent.keys + 100);  // of a grid there are as many
        break;
      case 0: mask = !grid(); break;
      case 1: mask = grid() & differences(); break;
      case 2: mask = grid() | differences(); break;
      case 3: mask = (grid() & !differences()) | differences(); break;
      case 4:
        mask = differences();
        extent.queries = 1 + below(extent.keys + 100);  // of a grid there are as many
        break;
      default: mask = grid();
    }
  }

  Mask mask = all();
  MaskExtent extent;

  std::int64_t below(std::int64_t count) { return std::uniform_int_distribution<std::int64_t>(0, count - 1)(random_); }

  // Of a where() that repeats along the diagonal, by divisors and multiples of blocks, and neither.
  Symbol expression() {
    static constexpr std::int64_t kPeriods[] = {1, 2, 3, 5, 7, 8, 16, 24, 32, 48, 64, 100, 128, 192};
    const std::int64_t a = kPeriods[below(std::size(kPeriods))], b = kPeriods[below(6)], c = below(a);
    const Symbol q(WhereOp::query), k(WhereOp::key);
    constexpr std::int64_t kWide = 3'000'000'019;  // what is multiplied by it does not fit 32 bits
    switch (below(14)) {
      case 7: return q * k % a < c;
      case 8: return (q * q + b * k) % a == c % b;
      case 9: return (q & (a - 1)) * (k & 5) % b == 1;
      case 11: return (q * kWide + k * 7919) % a < c;
      case 12: return (q - k) * kWide % a == c;
      case 13: return q * k * kWide % b == 0 && (q - k) * (q - k) <= k * a;
      case 10: return (q - k) * (q + k) % a < c || q / b == k / b;
      case 0: return q % a >= k % a;
      case 1: return q / a == k / a || k % a >= c;
      case 2: return q % a < k % b;
      case 3: return (q / a) % b == (k / b) % a;
      case 4: return (2 * q + k) / a % 2 == 0;
      case 5: return min(q % a, abs(k - q)) * 2 < c;
      default: return (q / b / a - k / b / a) % 3 == 0 && !(q % b == 0);
    }
  }

 private:
  // Divisors and multiples of blocks, and neither.
  static constexpr std::int64_t kWidths[] = {1, 2, 7, 8, 16, 20, 31, 32, 40, 48, 64, 80, 96, 128, 192, 300, 640};

  // Up to as wide as the grid, more often a few cells.
  std::int64_t odd_up_to(std::int64_t most) {
    const std::int64_t odd = (most + 1) / 2;
    return 1 + 2 * below(below(3) == 0 ? odd : std::min<std::int64_t>(odd, 4));
  }

  Mask grid() { return natten(height_, width_, odd_up_to(height_), odd_up_to(width_)); }

  Mask differences() {
    switch (below(7)) {
      case 0: return causal();
      case 5: return !causal();
      case 1: return window(below(200), below(200));
      case 2: return dilated(below(30), 1 + below(9));
      case 3: return causal() & (window(below(70)) | strided(1 + below(130)));
      case 4: return where("abs(q - k) % 37 < 5");
      default: return !window(below(300));
    }
  }

  Mask periodic() { return where(expression()); }

  std::mt19937 random_;
  std::int64_t width_ = 1, height_ = 1;
};

}  // namespace stof
