// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/few_rows.h"

#include <algorithm>

namespace stof {
namespace {

// Of a norm of one value.
std::optional<op::OwnNorm> own_norm_of(const Node& node) {
  if (const auto* norm = std::get_if<op::LayerNorm>(&node.op)) return op::OwnNorm{norm->epsilon, true};
  if (const auto* norm = std::get_if<op::RmsNorm>(&node.op)) return op::OwnNorm{norm->epsilon, false};
  return std::nullopt;
}

// The reader of the norm, if it is a matmul of x alone, as one that computes the norm.
std::optional<Node> with_own_norm(const Node& reader, const Node& norm) {
  Node changed = reader;
  if (std::holds_alternative<op::MatMul>(reader.op)) changed.op = op::Linear{.bias = false};
  auto* const linear = std::get_if<op::Linear>(&changed.op);
  const bool takes = linear != nullptr && !linear->x_norm && !linear->residual_norm &&
                     reader.inputs[0] == norm.output &&
                     std::count(reader.inputs.begin(), reader.inputs.end(), norm.output) == 1;
  if (!takes) return std::nullopt;
  linear->own_norm = own_norm_of(norm);
  changed.inputs[0] = norm.inputs[0];
  changed.weights.insert(changed.weights.end(), norm.weights.begin(), norm.weights.end());
  return changed;
}

// The one node that reads the value, or null.
Node* only_reader(Graph& graph, ValueId value) {
  Node* found = nullptr;
  for (Node& node : graph.nodes) {
    if (std::find(node.inputs.begin(), node.inputs.end(), value) == node.inputs.end()) continue;
    if (found != nullptr) return nullptr;
    found = &node;
  }
  return value == graph.result ? nullptr : found;
}

}  // namespace

Graph norms_into_matmuls(Graph fused, const FusionTarget& target) {
  for (const Node& norm : fused.nodes) {
    if (!own_norm_of(norm)) continue;
    Node* const reader = only_reader(fused, norm.output);
    if (reader == nullptr) continue;
    const std::optional<Node> changed = with_own_norm(*reader, norm);
    if (changed && target.takes(*changed)) *reader = *changed;
  }
  for (Node& node : fused.nodes) node = target.adapted(std::move(node));
  return fused;
}

}  // namespace stof
