// SPDX-License-Identifier: Apache-2.0
// Shapes and checks: every pass is followed by infer(), which also verifies.
#pragma once
#include "src/graph/graph.h"

namespace stof {

// Sets the columns of every value. Throws internal, naming the node and what does not fit: a value used before it is
// made or made twice, a wrong number of inputs or weights, shapes that do not agree.
void infer(Graph& graph);

}  // namespace stof
