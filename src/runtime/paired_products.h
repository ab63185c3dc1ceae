// SPDX-License-Identifier: Apache-2.0
// Products that a gate reads.
#pragma once
#include <vector>

#include "src/graph/graph.h"

namespace stof {

// Of each value: whether it is a product, with what follows that sees no order of columns, of a gate with what it lets
// through, which nobody but op::Gate reads. Its columns may then be in any order that those gates are told of
// (LinearSpec::paired), such as that of the same product with the gate inside it.
std::vector<bool> paired_products(const Graph& graph);

}  // namespace stof
