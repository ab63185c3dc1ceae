// SPDX-License-Identifier: Apache-2.0
#include "src/graph/simplify.h"

#include <algorithm>
#include <array>
#include <optional>

#include "src/graph/infer.h"
#include "src/graph/rewrite.h"

namespace stof {
namespace {

// The matmul with its bias whose result the value is, if nothing else uses either.
struct Projection {
  Node* product = nullptr;
  Node* bias = nullptr;
};
std::optional<Projection> projection_to(Graph& graph, const Uses& uses, ValueId value) {
  Node* bias = uses.sole_maker<op::AddBias>(graph, value);
  Node* product = bias ? uses.sole_maker<op::MatMul>(graph, bias->inputs[0]) : nullptr;
  if (!product) return std::nullopt;
  return Projection{product, bias};
}

Graph merge_qkv(Graph graph) {
  const Uses uses(graph);
  for (Node& node : graph.nodes) {
    const auto* attend = std::get_if<op::Attend>(&node.op);
    if (!attend) continue;
    std::array<std::optional<Projection>, 3> parts;
    for (std::size_t i = 0; i < 3; ++i) parts[i] = projection_to(graph, uses, node.inputs[i]);
    if (!std::all_of(parts.begin(), parts.end(),
                     [&](const auto& part) { return part && part->product->inputs == parts[0]->product->inputs; }))
      continue;
    // The last of the three becomes the merged one: everything it needs is made before it.
    const Projection merged = **std::max_element(parts.begin(), parts.end(),
                                                 [](const auto& a, const auto& b) { return a->product < b->product; });
    std::vector<Weight> matrices, biases;
    for (const auto& part : parts) {
      matrices.push_back(part->product->weights[0]);
      biases.push_back(part->bias->weights[0]);
    }
    merged.product->weights = std::move(matrices);
    merged.bias->weights = std::move(biases);
    node.op = op::AttendPacked{
        .heads = attend->heads, .kv_heads = attend->heads, .mask = attend->mask, .scores = attend->scores};
    node.inputs = {merged.bias->output};
    const std::string name = graph.value(node.output).name + ".qkv";
    graph.values[static_cast<std::size_t>(merged.bias->output)].name = name;
    graph.values[static_cast<std::size_t>(merged.product->output)].name = name + ".product";
  }
  return drop_unused(std::move(graph));
}

constexpr std::array<Pass, 1> kPasses{{
    {"qkv", "the projections to q, k and v are one matmul, and attention reads its slices", merge_qkv},
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
