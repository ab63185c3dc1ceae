// SPDX-License-Identifier: Apache-2.0
// The few values every mask question is asked in: ranges, the kind of a rectangle, the extent of a mask.
#pragma once
#include <cstdint>

#include "stof/mask_extent.h"

namespace stof {

struct Range {
  std::int64_t begin = 0, end = 0;  // half-open
  std::int64_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
  bool contains(std::int64_t x) const { return begin <= x && x < end; }
  bool contains(Range other) const { return begin <= other.begin && other.end <= end; }
  friend bool operator==(const Range&, const Range&) = default;
};

inline Range intersect(Range a, Range b) {
  return {a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
}

// Ordered, so that the kind of an intersection is at most the minimum and that of a union at least the maximum.
enum class BlockKind : std::uint8_t { empty, partial, full };

// Parameters of terms and sizes of extents stay below these, so that no sum of three of them overflows.
inline constexpr std::int64_t kMaxParameter = std::int64_t{1} << 60;
inline constexpr std::int64_t kMaxExtent = std::int64_t{1} << 40;

constexpr std::int64_t floor_div(std::int64_t a, std::int64_t b) {  // b > 0
  return a >= 0 ? a / b : -((b - 1 - a) / b);
}
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return -floor_div(-a, b); }  // b > 0

}  // namespace stof
