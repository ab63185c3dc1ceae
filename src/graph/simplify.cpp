// SPDX-License-Identifier: Apache-2.0
#include "src/graph/simplify.h"

#include <algorithm>
#include <array>

#include "src/graph/infer.h"
#include "src/graph/rewrite.h"

namespace stof {
namespace {

// The lookups below a tree of sums, left to right; false when something else is in it.
bool collect_lookups(Graph& graph, const Uses& uses, ValueId value, std::vector<const Node*>& lookups) {
  if (const Node* lookup = uses.sole_maker<op::Lookup>(graph, value)) {
    lookups.push_back(lookup);
    return true;
  }
  const Node* sum = uses.sole_maker<op::Add>(graph, value);
  return sum && collect_lookups(graph, uses, sum->inputs[0], lookups) &&
         collect_lookups(graph, uses, sum->inputs[1], lookups);
}

Graph merge_embeddings(Graph graph) {
  const Uses uses(graph);
  for (Node& node : graph.nodes) {
    const auto* norm = std::get_if<op::LayerNorm>(&node.op);
    std::vector<const Node*> lookups;
    if (!norm || !collect_lookups(graph, uses, node.inputs[0], lookups)) continue;
    op::Embed embed{.indices = {}, .epsilon = norm->epsilon};
    std::vector<Weight> weights;
    for (const Node* lookup : lookups) {
      embed.indices.push_back(std::get<op::Lookup>(lookup->op).index);
      weights.push_back(lookup->weights[0]);
    }
    weights.insert(weights.end(), node.weights.begin(), node.weights.end());
    node = {.op = std::move(embed), .inputs = {}, .weights = std::move(weights), .output = node.output};
  }
  return drop_unused(std::move(graph));
}

Graph merge_bias(Graph graph) {
  const Uses uses(graph);
  for (Node& node : graph.nodes) {
    if (!std::holds_alternative<op::AddBias>(node.op)) continue;
    const Node* product = uses.sole_maker<op::MatMul>(graph, node.inputs[0]);
    if (!product || product->weights.size() != 1) continue;
    node = {.op = op::Linear{},
            .inputs = product->inputs,
            .weights = {product->weights[0], node.weights[0]},
            .output = node.output};
  }
  return drop_unused(std::move(graph));
}

Graph merge_qkv(Graph graph) {
  const Uses uses(graph);
  for (Node& node : graph.nodes) {
    const auto* attend = std::get_if<op::Attend>(&node.op);
    if (!attend) continue;
    std::array<Node*, 3> parts{};
    for (std::size_t i = 0; i < 3; ++i) parts[i] = uses.sole_maker<op::Linear>(graph, node.inputs[i]);
    if (!parts[0] || !parts[1] || !parts[2] || parts[0]->inputs != parts[1]->inputs ||
        parts[0]->inputs != parts[2]->inputs)
      continue;
    // The last of the three becomes the merged matmul: everything it needs is made before it.
    Node& merged = *std::max({parts[0], parts[1], parts[2]});
    std::vector<Weight> weights;
    for (const std::size_t w : {0U, 1U})
      for (const Node* part : parts) weights.push_back(part->weights[w]);
    merged.weights = std::move(weights);
    merged.op = op::Linear{};
    node.op = op::AttendPacked{.heads = attend->heads, .mask = attend->mask};
    node.inputs = {merged.output};
    graph.values[static_cast<std::size_t>(merged.output)].name = graph.value(node.output).name + ".qkv";
  }
  return drop_unused(std::move(graph));
}

Graph merge_activations(Graph graph) {
  const Uses uses(graph);
  for (Node& node : graph.nodes) {
    const auto* activate = std::get_if<op::Activate>(&node.op);
    if (!activate) continue;
    const Node* linear = uses.sole_maker<op::Linear>(graph, node.inputs[0]);
    if (!linear || std::get<op::Linear>(linear->op).activation != Activation::none) continue;
    node = {.op = op::Linear{activate->activation},
            .inputs = linear->inputs,
            .weights = linear->weights,
            .output = node.output};
  }
  return drop_unused(std::move(graph));
}

Graph merge_residuals(Graph graph) {
  const Uses uses(graph);
  for (Node& node : graph.nodes) {
    const auto* norm = std::get_if<op::LayerNorm>(&node.op);
    const Node* sum = norm ? uses.sole_maker<op::Add>(graph, node.inputs[0]) : nullptr;
    if (!sum) continue;
    node = {
        .op = op::AddLayerNorm{norm->epsilon}, .inputs = sum->inputs, .weights = node.weights, .output = node.output};
  }
  return drop_unused(std::move(graph));
}

constexpr std::array<Pass, 5> kPasses{{
    {"embeddings", "lookups, their sum and its norm are one node", merge_embeddings},
    {"bias", "a bias is added by the matmul before it", merge_bias},
    {"qkv", "the projections to q, k and v are one matmul, and attention reads its slices", merge_qkv},
    {"activation", "an activation is applied by the matmul before it", merge_activations},
    {"residual", "a residual is added by the norm after it", merge_residuals},
}};

}  // namespace

std::span<const Pass> simplify_passes() { return kPasses; }

Graph simplify(Graph graph) {
  for (const Pass& pass : simplify_passes()) {
    graph = pass.run(std::move(graph));
    infer(graph);
  }
  return graph;
}

Graph restrict_attention(Graph graph, const Mask& mask) {
  const auto restricted = [&](const Mask& own) { return own == all() ? mask : own & mask; };
  for (Node& node : graph.nodes) {
    if (auto* attend = std::get_if<op::Attend>(&node.op)) attend->mask = restricted(attend->mask);
    if (auto* attend = std::get_if<op::AttendPacked>(&node.op)) attend->mask = restricted(attend->mask);
  }
  return graph;
}

}  // namespace stof
