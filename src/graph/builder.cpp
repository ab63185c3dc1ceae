// SPDX-License-Identifier: Apache-2.0
#include "src/graph/builder.h"

#include <cstring>

#include "src/base/error.h"

namespace stof {
namespace {

bool has_the_same_bytes(const TensorView& a, const TensorView& b) {
  const std::size_t bytes = static_cast<std::size_t>(element_count(a.shape)) * size_of(a.dtype);
  return a.dtype == b.dtype && (a.data == b.data || std::memcmp(a.data, b.data, bytes) == 0);
}

// The shift of a norm that has none: one zero, seen as all of them.
TensorView zeros(std::int64_t columns) {
  static constexpr float kZero = 0;
  return {.data = const_cast<float*>(&kZero),  // read alone, as all weights are
          .dtype = DType::f32,
          .shape = {columns},
          .strides = {0}};
}

}  // namespace

Activation activation_of(const std::string& name) {
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_new") return Activation::gelu_tanh;
  if (name == "relu") return Activation::relu;
  if (name == "silu") return Activation::silu;
  if (name == "tanh") return Activation::tanh;
  fail(ErrorKind::unsupported, "activation '{}'; accepted: gelu, gelu_new, relu, silu, tanh", name);
}

ValueId GraphBuilder::lookup(const std::string& name, TokenIndex index, std::int64_t entries) {
  return node(name, op::Lookup{index}, {}, {weight(name + ".weight", {entries, model_.config.hidden_size})});
}

ValueId GraphBuilder::norm(const std::string& name, ValueId x) {
  const Shape columns{model_.config.hidden_size};
  const std::string shift = name + ".bias";
  return node(name, op::LayerNorm{model_.config.norm_epsilon}, {x},
              {weight(name + ".weight", columns),
               model_.config.norm_bias ? weight(shift, columns) : Weight{shift, zeros(columns[0])}});
}

ValueId GraphBuilder::rms_norm(const std::string& name, ValueId x, double epsilon) {
  return node(name, op::RmsNorm{epsilon}, {x}, {weight(name + ".weight", {model_.config.hidden_size})});
}

ValueId GraphBuilder::linear(const std::string& name, ValueId x, std::int64_t out, std::int64_t in) {
  const ValueId product = node(name + ".product", op::MatMul{}, {x}, {weight(name + ".weight", {out, in})});
  return node(name, op::AddBias{}, {product}, {weight(name + ".bias", {out})});
}

ValueId GraphBuilder::product(const std::string& name, ValueId x, std::int64_t out, std::int64_t in) {
  return node(name, op::MatMul{}, {x}, {weight(name + ".weight", {out, in})});
}

ValueId GraphBuilder::gate(const std::string& name, ValueId x) {
  return node(name, op::Gate{activation_of(model_.config.activation)}, {x}, {});
}

// Where a head that is tied stands in the file, too, and is another matrix, transformers takes that one. Where it is
// the same one the tokens' is taken, which is then in memory once.
ValueId GraphBuilder::logits(const std::string& table, ValueId x) {
  const std::string head = "lm_head.weight";
  const Shape shape{model_.config.vocab_size, model_.config.hidden_size};
  Weight matrix = weight(model_.config.tied_head ? table : head, shape);
  if (model_.config.tied_head && model_.has(head))
    if (Weight own = weight(head, shape); !has_the_same_bytes(own.tensor, matrix.tensor)) matrix = std::move(own);
  return node("logits", op::MatMul{}, {x}, {std::move(matrix)});
}

ValueId GraphBuilder::activate(const std::string& name, ValueId x) {
  return node(name, op::Activate{activation_of(model_.config.activation)}, {x}, {});
}

ValueId GraphBuilder::node(std::string name, Op op, std::vector<ValueId> inputs, std::vector<Weight> weights) {
  const ValueId output = graph_.add_value(std::move(name));
  graph_.nodes.push_back(
      {.op = std::move(op), .inputs = std::move(inputs), .weights = std::move(weights), .output = output});
  return output;
}

Graph GraphBuilder::finish(ValueId result) {
  graph_.result = result;
  return std::move(graph_);
}

}  // namespace stof
