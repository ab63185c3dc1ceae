// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/templates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/fusion/work.h"

namespace stof {
namespace {

template <class OpKind>
const OpKind& op_of(const Node& node) {
  return std::get<OpKind>(node.op);
}

// Of a sum, the value that is not `made`.
ValueId other_input(const Node& sum, ValueId made) { return sum.inputs[0] == made ? sum.inputs[1] : sum.inputs[0]; }

// A single operator, or attention: as it is.
bool is_single(const SegmentView& segment) { return segment.nodes.size() == 1; }
Node keep(const SegmentView& segment) { return segment.nodes.front(); }

constexpr std::ptrdiff_t kMostTables = 4;  // that the row operations sum
static_assert(2 * kMostTables == kMostOperators, "with their sums and a norm");

bool sums_lookups(std::span<const Operator> operators, std::ptrdiff_t least) {
  const auto count = [&](std::string_view name) {
    return std::count_if(operators.begin(), operators.end(), [&](const Operator& op) { return op.name == name; });
  };
  const std::ptrdiff_t lookups = count("lookup");
  return lookups >= least && lookups <= kMostTables && count("add") == lookups - 1 &&
         2 * lookups - 1 == std::ssize(operators);
}
bool is_embedding(const SegmentView& segment) { return sums_lookups(segment.operators, 2); }
bool is_normalised_embedding(const SegmentView& segment) {
  const auto operators = segment.operators;
  return operators.back().name == "norm" && sums_lookups(operators.first(operators.size() - 1), 1);
}

// The lookups below a value, left to right.
void collect_lookups(const SegmentView& segment, ValueId value, std::vector<const Node*>& lookups) {
  const auto maker =
      std::find_if(segment.nodes.begin(), segment.nodes.end(), [&](const Node& n) { return n.output == value; });
  STOF_CHECK(maker != segment.nodes.end());
  if (std::holds_alternative<op::Lookup>(maker->op)) lookups.push_back(&*maker);
  else
    for (const ValueId input : maker->inputs) collect_lookups(segment, input, lookups);
}

Node fuse_embedding(const SegmentView& segment) {
  const Node& last = segment.nodes.back();
  std::vector<const Node*> lookups;
  collect_lookups(segment, last.output, lookups);
  op::Embed embed;
  Node fused{.op = {}, .inputs = {}, .weights = {}, .output = last.output};
  for (const Node* lookup : lookups) {
    embed.indices.push_back(op_of<op::Lookup>(*lookup).index);
    fused.weights.push_back(lookup->weights[0]);
  }
  if (const auto* norm = std::get_if<op::LayerNorm>(&last.op)) {
    embed.epsilon = norm->epsilon;
    fused.weights.insert(fused.weights.end(), last.weights.begin(), last.weights.end());
  }
  fused.op = std::move(embed);
  return fused;
}

// A matmul, with a bias or without, and the nodes behind it.
struct Product {
  const SegmentView& segment;
  bool bias = segment.nodes.size() > 1 && std::holds_alternative<op::AddBias>(segment.nodes[1].op);
  std::span<const Node> behind = segment.nodes.subspan(bias ? 2 : 1);
  ValueId value() const { return segment.nodes[bias ? 1 : 0].output; }

  // With the output of the last node.
  Node fused(op::Linear op) const {
    op.bias = bias;
    const Node& matmul = segment.nodes[0];
    Node node{.op = op, .inputs = matmul.inputs, .weights = matmul.weights, .output = segment.nodes.back().output};
    if (bias) node.weights.insert(node.weights.end(), segment.nodes[1].weights.begin(), segment.nodes[1].weights.end());
    return node;
  }
};

Node fuse_linear(const SegmentView& segment) { return Product{segment}.fused({}); }

Node fuse_activated(const SegmentView& segment) {
  const Product product{segment};
  return product.fused({.activation = op_of<op::Activate>(product.behind[0]).activation});
}

Node fuse_gate(const SegmentView& segment) {
  const Product product{segment};
  return product.fused({.activation = op_of<op::Gate>(product.behind[0]).activation, .gate = true});
}

// What reads it must be attention: see the rule of that name.
Node fuse_turned(const SegmentView& segment) {
  const Product product{segment};
  return product.fused({.turned = op_of<op::Rotate>(product.behind[0])});
}

Node fuse_residual(const SegmentView& segment) {
  const Product product{segment};
  Node fused = product.fused({});
  fused.inputs.push_back(other_input(product.behind[0], product.value()));
  return fused;
}

// The norm is left to its readers where they can apply it (defer_norms.h), else it stays a node of its own.
Node fuse_residual_norm(const SegmentView& segment) {
  Node fused = fuse_residual(segment);
  fused.output = segment.nodes[segment.nodes.size() - 2].output;
  return fused;
}

Node fuse_bias_activation(const SegmentView& segment) {
  Node fused = segment.nodes[0];
  fused.op = op::AddBias{.activation = op_of<op::Activate>(segment.nodes[1]).activation};
  fused.output = segment.nodes[1].output;
  return fused;
}

Node fuse_add_norm(const SegmentView& segment) {
  return {.op = op::AddLayerNorm{op_of<op::LayerNorm>(segment.nodes[1]).epsilon},
          .inputs = segment.nodes[0].inputs,
          .weights = segment.nodes[1].weights,
          .output = segment.nodes[1].output};
}

Node fuse_norm_add(const SegmentView& segment) {
  const Node& norm = segment.nodes[0];
  return {.op = op::RmsNormAdd{op_of<op::RmsNorm>(norm).epsilon},
          .inputs = {norm.inputs[0], other_input(segment.nodes[1], norm.output)},
          .weights = norm.weights,
          .output = segment.nodes[1].output};
}

constexpr std::array<Template, 17> kTemplates{{
    {"single", "one operator, or the five of attention", keep, is_single},
    {"embedding", "2 to 4 lookups, their sums", fuse_embedding, is_embedding},
    {"embedding_norm", "1 to 4 lookups, their sums, norm", fuse_embedding, is_normalised_embedding},
    {"linear", "matmul, bias", fuse_linear},
    {"linear_activation", "matmul, bias, activate", fuse_activated},
    {"linear_residual", "matmul, bias, add", fuse_residual},
    {.name = "linear_residual_norm",
     .covers = "matmul, bias, add, norm",
     .fuse = fuse_residual_norm,
     .needs_moments = true},
    {"product_activation", "matmul, activate", fuse_activated},
    {"product_residual", "matmul, add", fuse_residual},
    {.name = "product_residual_norm", .covers = "matmul, add, norm", .fuse = fuse_residual_norm, .needs_moments = true},
    {.name = "product_gate", .covers = "matmul, gate", .fuse = fuse_gate, .asks_device = true},
    {.name = "linear_gate", .covers = "matmul, bias, gate", .fuse = fuse_gate, .asks_device = true},
    {.name = "product_rope", .covers = "matmul, rope", .fuse = fuse_turned, .asks_device = true},
    {.name = "linear_rope", .covers = "matmul, bias, rope", .fuse = fuse_turned, .asks_device = true},
    {"bias_activation", "bias, activate", fuse_bias_activation},
    {"add_norm", "add, norm", fuse_add_norm},
    {"norm_add", "rms_norm, add", fuse_norm_add},
}};

}  // namespace

std::string SegmentView::names() const {
  std::string text;
  for (const Operator& op : operators) text += fmt::format("{}{}", text.empty() ? "" : ", ", op.name);
  return text;
}

std::span<const Template> templates() { return kTemplates; }

bool FusionTarget::applies_norms() const {
  if (device == nullptr || device->backend->matmul.settings == nullptr) return false;
  const TensorView square{.data = nullptr, .dtype = dtype, .shape = {64, 64}, .strides = {64, 1}},
      row{.data = nullptr, .dtype = dtype, .shape = {64}, .strides = {1}};
  const DeferredNorm norm{row, row};
  const LinearSpec spec{.weight = {square},
                        .bias = {row},
                        .residual = true,
                        .x_norm = norm,
                        .residual_norm = norm,
                        .moments = true,
                        .dtype = dtype,
                        .device = device};
  return !device->backend->matmul.settings(spec, 64).empty();
}

Node FusionTarget::adapted(Node linear) const {
  if (auto* op = std::get_if<op::Linear>(&linear.op); few_rows && op != nullptr && (op->gate || op->own_norm))
    op->few_rows = true;
  return linear;
}

bool FusionTarget::takes(const Node& linear) const {
  const auto* op = std::get_if<op::Linear>(&linear.op);
  if (keeps_keys && op != nullptr && op->turned) return false;
  return device != nullptr && device->backend->matmul.takes(linear_spec(adapted(linear), dtype, device));
}

bool Template::covers_all(const SegmentView& segment) const {
  return matches != nullptr ? matches(segment) : segment.names() == covers;
}

const Template* template_for(const SegmentView& segment, bool applies_norms) {
  const auto found = std::find_if(kTemplates.begin(), kTemplates.end(), [&](const Template& candidate) {
    return candidate.covers_all(segment) && (!candidate.needs_moments || applies_norms);
  });
  return found == kTemplates.end() ? nullptr : &*found;
}

}  // namespace stof
