// SPDX-License-Identifier: Apache-2.0
// How far rows of a result are from what they should be.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace stof {

// Relative, of all rows together and of the one that is furthest off: in the first one wrong row of thousands is lost.
// NaN where a number is NaN.
struct RowErrors {
  double all = 0, worst_row = 0;
};

// Piece by piece, whole rows each.
class RowDistances {
 public:
  explicit RowDistances(std::int64_t columns) : columns_(static_cast<std::size_t>(columns)) {}

  void add(std::span<const float> got, std::span<const float> want);
  RowErrors errors() const;

 private:
  std::size_t columns_;
  double distance_ = 0, norm_ = 0, worst_ = 0;  // the first two squared
};

}  // namespace stof
