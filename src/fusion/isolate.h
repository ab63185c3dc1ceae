// SPDX-License-Identifier: Apache-2.0
// One fused node as a graph of its own, to be timed, and as the operators that it was made of, to be compared with.
#pragma once
#include "src/graph/graph.h"

namespace stof {

// Values 0, 1, ... are the node's inputs, each once; the result is its output.
Graph isolated(const Graph& graph, const Node& node);
// The same inputs; nothing fused. A norm that is applied to an operand is a node, moments are not written, and columns
// of heads that are turned are in their own order.
Graph isolated_plain(const Graph& graph, const Node& node);

// Whether the two differ.
bool is_fused(const Node& node);

}  // namespace stof
