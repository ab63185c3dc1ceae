// SPDX-License-Identifier: Apache-2.0
// Terms made of masks: and, or, not, and selection by head or batch item.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/mask/array_names.h"
#include "stof/mask.h"

namespace stof::term {

struct And {
  std::vector<Mask> masks;  // sorted by canonical text, distinct, at least two, none of them an And
  std::string print(ArrayNames names) const;
};

struct Or {
  std::vector<Mask> masks;  // as in And
  std::string print(ArrayNames names) const;
};

struct Not {
  Mask mask;  // not a Not
  std::string print(ArrayNames names) const;
};

enum class SelectBy { head, item };

struct Select {
  SelectBy by;
  std::vector<Selection> selections;  // ascending, disjoint
  std::optional<Mask> otherwise;

  std::string print(ArrayNames names) const;
  std::string_view name() const { return by == SelectBy::head ? "heads" : "batch"; }
  // Throws invalid_argument unless every index below `count` is selected and none at or above it.
  void check(std::int64_t count) const;
  const Mask& at(std::int64_t index) const;  // after check
};

}  // namespace stof::term
