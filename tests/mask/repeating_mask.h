// SPDX-License-Identifier: Apache-2.0
// Random masks whose bands of rows repeat: a grid of any shape, terms of position - key alone, and both together.
#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>

#include "stof/mask.h"

namespace stof {

class RepeatingMask {
 public:
  explicit RepeatingMask(unsigned seed) : random_(seed) {
    const std::int64_t most_cells = 300 + below(1500);
    width_ = kWidths[below(std::size(kWidths))];
    height_ = std::max<std::int64_t>(1, most_cells / width_);
    extent = {.queries = height_ * width_, .keys = height_ * width_};
    switch (below(8)) {
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

  std::mt19937 random_;
  std::int64_t width_ = 1, height_ = 1;
};

}  // namespace stof
