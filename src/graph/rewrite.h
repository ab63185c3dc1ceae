// SPDX-License-Identifier: Apache-2.0
// What passes need to know about a graph, and the clean-up after them.
#pragma once
#include "src/graph/graph.h"

namespace stof {

// Uses and makers of values, as of the moment it is made.
class Uses {
 public:
  explicit Uses(const Graph& graph);
  // The node that makes the value if its op is of this kind and nothing else uses the value, or null: such a node may
  // be merged into its user.
  template <class OpKind>
  Node* sole_maker(Graph& graph, ValueId value) const {
    Node* node = maker(graph, value);
    return node && count(value) == 1 && std::holds_alternative<OpKind>(node->op) ? node : nullptr;
  }
  Node* maker(Graph& graph, ValueId value) const;
  int count(ValueId value) const { return counts_[static_cast<std::size_t>(value)]; }

 private:
  std::vector<int> counts_, makers_;
};

// Removes nodes whose output nothing uses; the numbers of values stay.
void drop_unused_nodes(Graph& graph);

// The same, then values that nothing makes: numbers change.
Graph drop_unused(Graph graph);

}  // namespace stof
