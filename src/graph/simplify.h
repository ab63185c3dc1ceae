// SPDX-License-Identifier: Apache-2.0
// What is done to a graph before anything is fused (src/fusion): passes that leave the result as it is. Each can be
// looked at: `stof graph` prints them all.
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

// In order. So far one: a single matmul for q, k and v.
std::span<const Pass> simplify_passes();

// All passes, the graph verified after each.
Graph simplify(Graph graph);

// Every attention allows a pair only where `mask` does too.
Graph restrict_attention(Graph graph, const Mask& mask);

}  // namespace stof
