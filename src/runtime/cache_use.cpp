// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/cache_use.h"

namespace stof {

std::vector<CacheUse> cache_uses(const Graph& graph) {
  std::vector<CacheUse> uses(graph.values.size(), CacheUse::unknown);
  for (const Node& node : graph.nodes) {
    if (std::holds_alternative<op::Linear>(node.op) || std::holds_alternative<op::MatMul>(node.op)) {
      const bool wider = graph.value(node.output).columns > graph.value(node.inputs[0]).columns;
      uses[static_cast<std::size_t>(node.output)] = wider ? CacheUse::once : CacheUse::again;
    } else if (std::holds_alternative<op::Attend>(node.op) || std::holds_alternative<op::AttendPacked>(node.op)) {
      for (const ValueId input : node.inputs) uses[static_cast<std::size_t>(input)] = CacheUse::unknown;
    }
  }
  // Turning writes over what it reads: what becomes of its result becomes of that.
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node)
    if (std::holds_alternative<op::Rotate>(node->op))
      uses[static_cast<std::size_t>(node->inputs[0])] = uses[static_cast<std::size_t>(node->output)];
  return uses;
}

}  // namespace stof
