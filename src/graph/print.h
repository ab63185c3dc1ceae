// SPDX-License-Identifier: Apache-2.0
// Graphs for people: text, one node a line, and Graphviz.
#pragma once
#include <string>

#include "src/graph/graph.h"

namespace stof {

// What an op's own fields say: "heads=12 mask=all"; empty where it has none.
std::string detail_of(const Op& op);
// "%7 = linear(%6) [1152, 384] gelu    # encoder.layer.0..."
std::string to_text(const Graph& graph);
std::string to_dot(const Graph& graph);

}  // namespace stof
