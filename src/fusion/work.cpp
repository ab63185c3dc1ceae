// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/work.h"

#include <fmt/format.h>

#include "src/graph/print.h"
#include "src/mask/expression.h"

namespace stof {
namespace {

std::optional<DeferredNorm> norm_at(const Node& node, std::size_t first, const std::optional<double>& epsilon) {
  if (!epsilon) return std::nullopt;
  return DeferredNorm{node.weights[first].tensor, node.weights[first + 1].tensor, static_cast<float>(*epsilon)};
}

// What the text of a mask does not say where it names a file: the content.
std::string arrays_of(const Node& node) {
  const auto content = [](const Mask& mask) {
    return print(mask, ArrayNames::canonical) == mask.text() ? std::string() : fmt::format(" {}", mask.fingerprint());
  };
  if (const auto* attend = std::get_if<op::Attend>(&node.op)) return content(attend->mask);
  if (const auto* attend = std::get_if<op::AttendPacked>(&node.op)) return content(attend->mask);
  return {};
}

}  // namespace

std::string work_text(const Graph& graph, const Node& node) {
  std::string text = fmt::format("{} ", name_of(node.op));
  if (!node.inputs.empty()) text += fmt::format("{}>", graph.value(node.inputs[0]).columns);
  text += std::to_string(graph.value(node.output).columns);
  if (std::holds_alternative<op::Linear>(node.op) && node.inputs.size() == 2) text += " residual";
  if (const std::string detail = detail_of(node.op); !detail.empty()) text += " " + detail;
  return text + arrays_of(node);
}

LinearSpec linear_spec(const Node& node, DType dtype, const Device* device) {
  const auto* linear = std::get_if<op::Linear>(&node.op);
  const std::size_t matrices = linear != nullptr ? matrices_of(*linear, node) : node.weights.size();
  LinearSpec spec;
  spec.dtype = dtype;
  spec.device = device;
  for (std::size_t w = 0; w < matrices; ++w) spec.weight.push_back(node.weights[w].tensor);
  if (linear == nullptr) return spec;
  const std::size_t norms = norms_begin(*linear, matrices);
  for (std::size_t w = matrices; w < norms; ++w) spec.bias.push_back(node.weights[w].tensor);
  spec.activation = linear->activation;
  spec.gate = linear->gate;
  if (linear->turned) {
    std::int64_t columns = 0;
    for (const TensorView& part : spec.weight) columns += part.dim(0);
    const op::Rotate& turned = *linear->turned;
    spec.turned = TurnedHeads{turned.heads + turned.kv_heads, packed_head_dim(turned, columns)};
  }
  spec.residual = node.inputs.size() == 2;
  spec.x_norm = norm_at(node, norms, linear->x_norm);
  spec.residual_norm = norm_at(node, norms + (linear->x_norm ? 2 : 0), linear->residual_norm);
  spec.moments = linear->moments;
  spec.few_rows = linear->few_rows;
  if (const auto& own = linear->own_norm) {
    spec.own_norm = OwnNorm{node.weights[norms].tensor, {}, static_cast<float>(own->epsilon)};
    if (own->shifts) spec.own_norm->shift = node.weights[norms + 1].tensor;
  }
  return spec;
}

}  // namespace stof
