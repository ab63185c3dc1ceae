// SPDX-License-Identifier: Apache-2.0
// where() as masks that are joined.
#pragma once
#include <vector>

#include "stof/where.h"

namespace stof {

struct WhereParts {
  WhereOp op = WhereOp::bit_or;  // or bit_and
  std::vector<std::vector<WhereStep>> parts;
};

// Expressions of which one must not be zero, or all, for the whole not to be zero. One, where it is not such a join.
WhereParts where_parts(const std::vector<WhereStep>& steps);

}  // namespace stof
