// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/paired_products.h"

namespace stof {
namespace {

// A residual's columns are in the order of its own.
bool may_be_in_any_order(const Node& node) {
  if (std::holds_alternative<op::MatMul>(node.op)) return true;
  const auto* linear = std::get_if<op::Linear>(&node.op);
  return linear != nullptr && !linear->gate && !linear->turned && !linear->moments && node.inputs.size() == 1;
}

}  // namespace

std::vector<bool> paired_products(const Graph& graph) {
  std::vector<bool> paired(graph.values.size()), read_otherwise(graph.values.size());
  for (const Node& node : graph.nodes)
    for (const ValueId input : node.inputs)
      if (!std::holds_alternative<op::Gate>(node.op)) read_otherwise[static_cast<std::size_t>(input)] = true;
  for (const Node& node : graph.nodes) {
    if (!std::holds_alternative<op::Gate>(node.op)) continue;
    const ValueId input = node.inputs[0];
    paired[static_cast<std::size_t>(input)] = input != graph.result && !read_otherwise[static_cast<std::size_t>(input)];
  }
  for (const Node& node : graph.nodes)
    if (!may_be_in_any_order(node) || graph.value(node.output).columns % (2 * kPairedColumns) != 0)
      paired[static_cast<std::size_t>(node.output)] = false;
  return paired;
}

}  // namespace stof
