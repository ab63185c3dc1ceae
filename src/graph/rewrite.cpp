// SPDX-License-Identifier: Apache-2.0
#include "src/graph/rewrite.h"

#include <algorithm>

namespace stof {

Uses::Uses(const Graph& graph) : counts_(graph.values.size(), 0), makers_(graph.values.size(), -1) {
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const ValueId input : graph.nodes[n].inputs) ++counts_[static_cast<std::size_t>(input)];
    makers_[static_cast<std::size_t>(graph.nodes[n].output)] = static_cast<int>(n);
  }
  ++counts_[static_cast<std::size_t>(graph.result)];
}

Node* Uses::maker(Graph& graph, ValueId value) const {
  const int index = makers_[static_cast<std::size_t>(value)];
  return index < 0 ? nullptr : &graph.nodes[static_cast<std::size_t>(index)];
}

void drop_unused_nodes(Graph& graph) {
  std::vector<bool> needed(graph.values.size(), false);
  needed[static_cast<std::size_t>(graph.result)] = true;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node)
    if (needed[static_cast<std::size_t>(node->output)])
      for (const ValueId input : node->inputs) needed[static_cast<std::size_t>(input)] = true;
  std::erase_if(graph.nodes, [&](const Node& node) { return !needed[static_cast<std::size_t>(node.output)]; });
}

Graph drop_unused(Graph graph) {
  drop_unused_nodes(graph);
  std::vector<ValueId> renamed(graph.values.size(), -1);
  std::vector<Value> values;
  for (Node& node : graph.nodes) {
    renamed[static_cast<std::size_t>(node.output)] = static_cast<ValueId>(values.size());
    values.push_back(std::move(graph.values[static_cast<std::size_t>(node.output)]));
    node.output = renamed[static_cast<std::size_t>(node.output)];
    for (ValueId& input : node.inputs) input = renamed[static_cast<std::size_t>(input)];
  }
  graph.result = renamed[static_cast<std::size_t>(graph.result)];
  graph.values = std::move(values);
  return graph;
}

}  // namespace stof
