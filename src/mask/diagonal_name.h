// SPDX-License-Identifier: Apache-2.0
// What makes rectangles of one shape alike, on one diagonal, or where the difference of key and position is another
// by a multiple.
#pragma once
#include <cstdint>

namespace stof {

struct DiagonalName {
  std::uint64_t leaves = 0;  // of the tree of terms, those that decide the rectangle, a bit each
  std::int64_t place = 0;    // of its positions in the grid of a natten() or the period of a where() among them
  std::int64_t keys = 0;     // the bits are the same so many keys further on; 0: nothing is known of others
  friend bool operator==(const DiagonalName&, const DiagonalName&) = default;
};

}  // namespace stof
