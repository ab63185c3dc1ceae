// SPDX-License-Identifier: Apache-2.0
// What makes rectangles of one shape on one diagonal alike.
#pragma once
#include <cstdint>

namespace stof {

struct DiagonalName {
  std::uint64_t leaves = 0;  // of the tree of terms, those that decide the rectangle, a bit each
  std::int64_t place = 0;    // of its positions in the grid of a natten() or the period of a where() among them
  friend bool operator==(const DiagonalName&, const DiagonalName&) = default;
};

}  // namespace stof
