// SPDX-License-Identifier: Apache-2.0
// where() for 64 keys at a time, in 32-bit integers: for expressions of which no value fails or leaves them. What looks
// at keys alone is computed once for all rows, what looks at the row alone once for all keys.
#pragma once
#include <cstdint>
#include <vector>

#include "src/mask/row_bits.h"
#include "stof/where.h"

namespace stof::bound {

class WhereLanes {
 public:
  WhereLanes() = default;
  explicit WhereLanes(const std::vector<WhereStep>& steps);  // postfix, over q and k alone

  void fill(const TileBits& tile) const;

 private:
  // Operations, and as operands numbers of parts: `key` of key_parts_, `query` of row_parts_.
  std::vector<WhereStep> steps_;
  std::vector<std::vector<WhereStep>> key_parts_, row_parts_;
};

}  // namespace stof::bound
