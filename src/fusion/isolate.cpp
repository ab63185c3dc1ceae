// SPDX-License-Identifier: Apache-2.0
#include "src/fusion/isolate.h"

#include <algorithm>

#include "src/graph/infer.h"

namespace stof {
namespace {

class Isolation {
 public:
  enum class Moments : std::uint8_t { kept, none };

  Isolation(const Graph& graph, const Node& node, Moments moments) : graph_(graph), node_(node) {
    for (const ValueId input : node.inputs) {
      if (std::find(inputs_.begin(), inputs_.end(), input) != inputs_.end()) continue;
      inputs_.push_back(input);
      const Value& value = graph.value(input);
      add(op::Input{value.columns, moments == Moments::kept && value.moments}, {}, {});
    }
  }

  ValueId input(std::size_t index) const {
    const auto place = std::find(inputs_.begin(), inputs_.end(), node_.inputs[index]);
    return static_cast<ValueId>(place - inputs_.begin());
  }
  std::vector<ValueId> inputs() const {
    std::vector<ValueId> all;
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) all.push_back(input(i));
    return all;
  }

  ValueId add(Op op, std::vector<ValueId> inputs, std::vector<Weight> weights) {
    const ValueId output = made_.add_value(graph_.value(node_.output).name);
    made_.nodes.push_back(
        {.op = std::move(op), .inputs = std::move(inputs), .weights = std::move(weights), .output = output});
    return output;
  }
  std::vector<Weight> weights(std::size_t first, std::size_t count) const {
    const auto begin = node_.weights.begin() + static_cast<std::ptrdiff_t>(first);
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }
  std::size_t weight_count() const { return node_.weights.size(); }

  Graph finish(ValueId result) {
    made_.result = result;
    infer(made_);
    return std::move(made_);
  }

 private:
  const Graph& graph_;
  const Node& node_;
  std::vector<ValueId> inputs_;
  Graph made_;
};

ValueId plain(const op::Embed& op, Isolation& to) {
  ValueId sum = to.add(op::Lookup{op.indices[0]}, {}, to.weights(0, 1));
  for (std::size_t t = 1; t < op.indices.size(); ++t) {
    const ValueId next = to.add(op::Lookup{op.indices[t]}, {}, to.weights(t, 1));
    sum = to.add(op::Add{}, {sum, next}, {});
  }
  if (op.epsilon) sum = to.add(op::LayerNorm{*op.epsilon}, {sum}, to.weights(op.indices.size(), 2));
  return sum;
}

ValueId plain(const op::AddLayerNorm& op, Isolation& to) {
  const ValueId sum = to.add(op::Add{}, to.inputs(), {});
  return to.add(op::LayerNorm{op.epsilon}, {sum}, to.weights(0, 2));
}

ValueId plain(const op::RmsNormAdd& op, Isolation& to) {
  const ValueId normed = to.add(op::RmsNorm{op.epsilon}, {to.input(0)}, to.weights(0, 1));
  return to.add(op::Add{}, {normed, to.input(1)}, {});
}

ValueId plain(const op::AddBias& op, Isolation& to) {
  const ValueId biased = to.add(op::AddBias{}, to.inputs(), to.weights(0, to.weight_count()));
  return op.activation == Activation::none ? biased : to.add(op::Activate{op.activation}, {biased}, {});
}

ValueId plain(const op::Linear& op, Isolation& to, const Node& node) {
  const std::size_t matrices = matrices_of(op, node);
  const auto norm = [&](std::size_t index, const std::optional<double>& epsilon, std::size_t first) {
    const ValueId x = to.input(index);
    return epsilon ? to.add(op::LayerNorm{*epsilon}, {x}, to.weights(first, 2)) : x;
  };
  const std::size_t norms = norms_begin(op, matrices);
  const ValueId x = norm(0, op.x_norm, norms);
  ValueId y = to.add(op::MatMul{}, {x}, to.weights(0, matrices));
  if (op.bias) y = to.add(op::AddBias{}, {y}, to.weights(matrices, matrices));
  if (op.gate) y = to.add(op::Gate{op.activation}, {y}, {});
  else if (op.activation != Activation::none) y = to.add(op::Activate{op.activation}, {y}, {});
  if (op.turned) y = to.add(*op.turned, {y}, {});
  if (node.inputs.size() < 2) return y;
  const ValueId residual = norm(1, op.residual_norm, norms + (op.x_norm ? 2 : 0));
  return to.add(op::Add{}, {y, residual}, {});
}

}  // namespace

Graph isolated(const Graph& graph, const Node& node) {
  Isolation to(graph, node, Isolation::Moments::kept);
  return to.finish(to.add(node.op, to.inputs(), node.weights));
}

Graph isolated_plain(const Graph& graph, const Node& node) {
  Isolation to(graph, node, Isolation::Moments::none);
  if (const auto* embed = std::get_if<op::Embed>(&node.op)) return to.finish(plain(*embed, to));
  if (const auto* norm = std::get_if<op::AddLayerNorm>(&node.op)) return to.finish(plain(*norm, to));
  if (const auto* sum = std::get_if<op::RmsNormAdd>(&node.op)) return to.finish(plain(*sum, to));
  if (const auto* bias = std::get_if<op::AddBias>(&node.op)) return to.finish(plain(*bias, to));
  if (const auto* linear = std::get_if<op::Linear>(&node.op)) return to.finish(plain(*linear, to, node));
  return to.finish(to.add(node.op, to.inputs(), node.weights));
}

bool is_fused(const Node& node) {
  const auto* bias = std::get_if<op::AddBias>(&node.op);
  return std::holds_alternative<op::Embed>(node.op) || std::holds_alternative<op::AddLayerNorm>(node.op) ||
         std::holds_alternative<op::RmsNormAdd>(node.op) || std::holds_alternative<op::Linear>(node.op) ||
         (bias != nullptr && bias->activation != Activation::none);
}

}  // namespace stof
