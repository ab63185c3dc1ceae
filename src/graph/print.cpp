// SPDX-License-Identifier: Apache-2.0
#include "src/graph/print.h"

#include <fmt/format.h>

namespace stof {
namespace {

std::string_view name_of(TokenIndex index) {
  switch (index) {
    case TokenIndex::token: return "token";
    case TokenIndex::position: return "position";
    case TokenIndex::segment: return "segment";
  }
  return "";
}

template <class Packed>
std::string heads_detail(const Packed& op) {
  const std::string heads = fmt::format("heads={}", op.heads);
  return op.kv_heads == op.heads ? heads : heads + fmt::format(" kv_heads={}", op.kv_heads);
}

// What an op's own fields say; each overload beside its op, so that a new op without one does not compile.
std::string detail(const op::Input& op) { return op.moments ? "moments" : ""; }
std::string detail(const op::Lookup& op) { return std::string(name_of(op.index)); }
std::string detail(const op::Add&) { return {}; }
std::string detail(const op::LayerNorm& op) { return fmt::format("epsilon={}", op.epsilon); }
std::string detail(const op::RmsNorm& op) { return fmt::format("epsilon={}", op.epsilon); }
std::string detail(const op::MatMul&) { return {}; }
std::string applied(Activation activation) {
  return activation == Activation::none ? "" : std::string(stof::name_of(activation));
}
std::string detail(const op::AddBias& op) { return applied(op.activation); }
std::string detail(const op::Activate& op) { return std::string(stof::name_of(op.activation)); }
std::string detail(const op::Gate& op) { return std::string(stof::name_of(op.activation)); }
std::string detail(const op::Rotate& op) {
  std::string text = fmt::format("{} theta={}", heads_detail(op), op.theta);
  if (const std::string scaling = text_of(op.scaling); !scaling.empty()) text += fmt::format(" scaling=({})", scaling);
  if (op.pairs) text += fmt::format(" pairs={}", *op.pairs);
  return op.norm ? text + fmt::format(" norm={}", *op.norm) : text;
}
std::string detail(const op::Scores& scores) {
  return fmt::format("{}{}{}", scores.scale ? fmt::format(" scale={}", *scores.scale) : "",
                     scores.softcap ? fmt::format(" softcap={}", *scores.softcap) : "", scores.biased ? " biased" : "");
}
std::string detail(const op::Attend& op) {
  return fmt::format("heads={} mask={}{}", op.heads, op.mask.text(), detail(op.scores));
}
std::string detail(const op::Embed& op) {
  std::string text;
  for (const TokenIndex index : op.indices) text += fmt::format("{}{}", text.empty() ? "" : "+", name_of(index));
  return op.epsilon ? fmt::format("{} epsilon={}", text, *op.epsilon) : text;
}
std::string detail(const op::Linear& op) {
  std::string text = applied(op.activation);
  const auto add = [&](bool is, std::string_view word) {
    if (is) text += fmt::format("{}{}", text.empty() ? "" : " ", word);
  };
  add(!op.bias, "bare");
  add(op.gate, "gate");
  if (op.turned) add(true, fmt::format("rope=({})", detail(*op.turned)));
  add(op.x_norm.has_value(), "x_norm");
  add(op.residual_norm.has_value(), "residual_norm");
  add(op.moments, "moments");
  add(op.few_rows, "few_rows");
  if (op.own_norm) add(true, fmt::format("{}={}", op.own_norm->shifts ? "norm" : "rms_norm", op.own_norm->epsilon));
  return text;
}
std::string detail(const op::AddLayerNorm& op) { return fmt::format("epsilon={}", op.epsilon); }
std::string detail(const op::RmsNormAdd& op) { return fmt::format("epsilon={}", op.epsilon); }
std::string detail(const op::AttendPacked& op) {
  return fmt::format("{} mask={}{}", heads_detail(op), op.mask.text(), detail(op.scores));
}

struct Named {
  std::string_view operator()(const op::Input&) const { return "input"; }
  std::string_view operator()(const op::Lookup&) const { return "lookup"; }
  std::string_view operator()(const op::Add&) const { return "add"; }
  std::string_view operator()(const op::LayerNorm&) const { return "layer_norm"; }
  std::string_view operator()(const op::RmsNorm&) const { return "rms_norm"; }
  std::string_view operator()(const op::MatMul&) const { return "matmul"; }
  std::string_view operator()(const op::AddBias&) const { return "add_bias"; }
  std::string_view operator()(const op::Activate&) const { return "activate"; }
  std::string_view operator()(const op::Gate&) const { return "gate"; }
  std::string_view operator()(const op::Rotate&) const { return "rope"; }
  std::string_view operator()(const op::Attend&) const { return "attend"; }
  std::string_view operator()(const op::Embed&) const { return "embed"; }
  std::string_view operator()(const op::Linear&) const { return "linear"; }
  std::string_view operator()(const op::AddLayerNorm&) const { return "add_layer_norm"; }
  std::string_view operator()(const op::RmsNormAdd&) const { return "rms_norm_add"; }
  std::string_view operator()(const op::AttendPacked&) const { return "attend_packed"; }
};

}  // namespace

std::string detail_of(const Op& op) {
  return std::visit([](const auto& kind) { return detail(kind); }, op);
}

std::string_view name_of(const Op& op) { return std::visit(Named{}, op); }

std::string to_text(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) {
    std::string inputs;
    for (const ValueId input : node.inputs) inputs += fmt::format("{}%{}", inputs.empty() ? "" : ", ", input);
    std::string line = fmt::format("%{} = {}({})", node.output, name_of(node.op), inputs);
    const std::string detail = detail_of(node.op);
    if (!detail.empty()) line += ' ' + detail;
    text += fmt::format("{:58} [tokens, {}]  # {}\n", line, graph.value(node.output).columns,
                        graph.value(node.output).name);
  }
  return text + fmt::format("result %{}\n", graph.result);
}

std::string to_dot(const Graph& graph) {
  std::string text = "digraph model {\n  node [shape=box, fontname=\"monospace\"];\n";
  for (const Node& node : graph.nodes) {
    text += fmt::format("  v{} [label=\"{}\\n{}\\n[tokens, {}]\"];\n", node.output, name_of(node.op),
                        detail_of(node.op), graph.value(node.output).columns);
    for (const ValueId input : node.inputs) text += fmt::format("  v{} -> v{};\n", input, node.output);
  }
  return text + "}\n";
}

}  // namespace stof
