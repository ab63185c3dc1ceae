// SPDX-License-Identifier: Apache-2.0
// tree(): every position attends to itself and its ancestors.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "src/mask/array_names.h"
#include "src/mask/range.h"
#include "src/mask/range_extremes.h"
#include "src/mask/row_bits.h"
#include "src/mask/traits.h"

namespace stof::term {

struct Tree {
  std::vector<std::int64_t> parents;  // parents[i] in [-1, i)
  std::string print(ArrayNames) const;
  static constexpr MaskTraits traits() { return kPositions; }
};

}  // namespace stof::term

namespace stof::bound {

// Positions numbered in preorder: the descendants of j, itself among them, are the numbers [number, number + size).
class Ancestors {
 public:
  explicit Ancestors(const std::vector<std::int64_t>& parents);

  // Positions before the first key are in no tree.
  bool allows(std::int64_t p, std::int64_t key) const { return p >= 0 && descendants(key).contains(number(p)); }
  BlockKind classify(Range positions, Range keys) const;
  void fill(std::int64_t p, RowBits row) const;

 private:
  std::int64_t number(std::int64_t i) const { return numbers_[static_cast<std::size_t>(i)]; }
  Range descendants(std::int64_t i) const { return {number(i), number(i) + sizes_[static_cast<std::size_t>(i)]}; }

  std::vector<std::int64_t> parents_, numbers_, sizes_;
  std::vector<std::int64_t>
      chain_;                   // chain_[i]: the smallest c such that each of c + 1 .. i has its predecessor as parent
  RangeExtremes number_range_;  // of the numbers
  RangeExtremes descendant_range_;  // from the least number to the largest end
};

}  // namespace stof::bound
