// SPDX-License-Identifier: Apache-2.0
// How many queries, keys, items and heads a mask is asked about.
#pragma once
#include <cstdint>

namespace stof {

struct MaskExtent {
  std::int64_t queries = 0, keys = 0;
  std::int64_t batch = 1, heads = 1;
  // Position of row 0; row i has position i + offset().
  std::int64_t offset() const { return keys - queries; }
  friend bool operator==(const MaskExtent&, const MaskExtent&) = default;
};

}  // namespace stof
