// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/defer_norms.h"

#include <algorithm>
#include <optional>

#include "src/backend/contract.h"
#include "src/fusion/work.h"

namespace stof {
namespace {

// A reader with the norm applied to its operands, or nothing where it cannot be.
std::optional<Node> with_norm(const Node& reader, const Node& norm) {
  Node changed = reader;
  if (std::holds_alternative<op::MatMul>(reader.op)) changed.op = op::Linear{.bias = false};
  if (!std::holds_alternative<op::Linear>(changed.op)) return std::nullopt;
  const double epsilon = std::get<op::LayerNorm>(norm.op).epsilon;
  auto& op = std::get<op::Linear>(changed.op);
  const std::size_t before_norms = norms_begin(op, matrices_of(op, changed));
  const auto after_biases = changed.weights.begin() + static_cast<std::ptrdiff_t>(before_norms);
  if (reader.inputs[0] == norm.output) {
    op.x_norm = epsilon;
    changed.weights.insert(after_biases, norm.weights.begin(), norm.weights.end());
    changed.inputs[0] = norm.inputs[0];
  }
  if (reader.inputs.size() == 2 && reader.inputs[1] == norm.output) {
    op.residual_norm = epsilon;
    changed.weights.insert(changed.weights.end(), norm.weights.begin(), norm.weights.end());
    changed.inputs[1] = norm.inputs[0];
  }
  return changed;
}

class Deferral {
 public:
  Deferral(Graph graph, const FusionTarget& target) : graph_(std::move(graph)), target_(target) {}

  void try_to_defer(ValueId value) {
    if (value == graph_.result) return;
    const Node* norm = maker_of(value);
    Node sum = *maker_of(norm->inputs[0]);
    std::get<op::Linear>(sum.op).moments = true;
    if (!target_.takes(sum)) return;
    std::vector<std::pair<std::size_t, Node>> readers;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (std::find(node.inputs.begin(), node.inputs.end(), value) == node.inputs.end()) continue;
      std::optional<Node> changed = with_norm(node, *norm);
      if (!changed || !target_.takes(*changed)) return;
      readers.emplace_back(n, std::move(*changed));
    }
    *maker_of(sum.output) = sum;
    for (auto& [n, changed] : readers) graph_.nodes[n] = std::move(changed);
  }
  Graph finish() { return std::move(graph_); }

 private:
  Node* maker_of(ValueId value) {
    return &*std::find_if(graph_.nodes.begin(), graph_.nodes.end(),
                          [&](const Node& node) { return node.output == value; });
  }

  Graph graph_;
  const FusionTarget& target_;
};

}  // namespace

Graph defer_norms(Graph fused, std::span<const ValueId> norms, const FusionTarget& target) {
  Deferral deferral(std::move(fused), target);
  for (const ValueId norm : norms) deferral.try_to_defer(norm);
  return deferral.finish();
}

}  // namespace stof
