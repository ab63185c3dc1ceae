// SPDX-License-Identifier: Apache-2.0
// where() for several rows of 64 keys at a time, in 32-bit integers: for expressions of which no value fails or leaves
// them. What looks at keys alone is computed once for all rows, what looks at the row alone once for all keys.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/mask/row_bits.h"
#include "stof/where.h"

namespace stof::bound {

class WhereLanes {
 public:
  // Of keys alone, or of positions: the value of a constant is the number of one.
  using Part = std::vector<WhereStep>;

  WhereLanes() = default;
  explicit WhereLanes(const std::vector<WhereStep>& steps);  // postfix, over q and k alone

  void fill(const TileBits& tile) const;

  // Operations, and as operands numbers of parts: `key` of key_parts, `query` of row_parts.
  const std::vector<WhereStep>& steps() const { return steps_; }
  const std::vector<Part>& key_parts() const { return key_parts_; }
  const std::vector<Part>& row_parts() const { return row_parts_; }
  const std::vector<std::int32_t>& constants() const { return constants_; }  // 64 times each
  std::size_t most_kept() const { return most_kept_; }                       // values that are kept at once

 private:
  Part part_of(const std::vector<WhereStep>& steps, std::size_t first, std::size_t last);

  std::vector<WhereStep> steps_;
  std::vector<Part> key_parts_, row_parts_;
  std::vector<std::int32_t> constants_;
  std::size_t most_kept_ = 0;
};

}  // namespace stof::bound
