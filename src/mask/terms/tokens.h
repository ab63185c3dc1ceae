// SPDX-License-Identifier: Apache-2.0
// Terms about chosen tokens: global ones, sinks, a shared prefix.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "src/mask/array_names.h"
#include "src/mask/outline.h"
#include "src/mask/range.h"
#include "src/mask/row_bits.h"
#include "src/mask/traits.h"

namespace stof::term {

struct Sink {
  std::int64_t count;
  Range keys(std::int64_t) const { return {0, count}; }
  std::string print(ArrayNames) const;
  static constexpr MaskTraits traits() { return kPositions; }
};

struct Prefix {
  std::int64_t count;
  Range keys(std::int64_t p) const { return {-kMaxParameter, p + 1 > count ? p + 1 : count}; }
  std::string print(ArrayNames) const;
  static constexpr MaskTraits traits() { return kPositions; }
};

// Position or key is one of the chosen tokens.
struct Global {
  std::int64_t first = 0;               // [0, first)
  std::vector<std::int64_t> positions;  // and these, ascending, all > first

  bool allows(std::int64_t p, std::int64_t key) const { return chosen(p) || chosen(key); }
  BlockKind classify(Range positions_, Range keys) const;
  bool outline(const CellGrid& grid, Range cells, Outline& out) const;  // false: chosen one by one, it does not say
  void fill(std::int64_t p, RowBits row) const;
  std::string print(ArrayNames) const;
  static constexpr MaskTraits traits() { return kPositions; }

 private:
  bool chosen(std::int64_t x) const;
  BlockKind chosen(Range range) const;  // none, some or all of the range
};

}  // namespace stof::term
