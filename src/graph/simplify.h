// SPDX-License-Identifier: Apache-2.0
// Passes that leave the result as it is and the work smaller. Each can be looked at: `stof graph` prints them all.
#pragma once
#include <span>
#include <string_view>

#include "src/graph/graph.h"

namespace stof {

struct Pass {
  std::string_view name;
  std::string_view what;  // one line
  Graph (*run)(Graph);
};

// In order: embeddings into one node, matmul with bias, one matmul for q, k and v, activation into the matmul, residual
// into the norm.
std::span<const Pass> simplify_passes();

// All passes, the graph verified after each.
Graph simplify(Graph graph);

// Every attention allows a pair only where `mask` does too.
Graph restrict_attention(Graph graph, const Mask& mask);

}  // namespace stof
