// SPDX-License-Identifier: Apache-2.0
#include "src/base/error.h"
#include "src/graph/build.h"

namespace stof {
namespace {

Activation activation_of(const std::string& name) {
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::gelu_tanh;
  if (name == "relu") return Activation::relu;
  fail(ErrorKind::unsupported, "activation '{}'; accepted: gelu, gelu_new, gelu_pytorch_tanh, relu", name);
}

class Builder {
 public:
  explicit Builder(const Model& model) : model_(model), config_(model.config) {}

  Graph build() {
    ValueId hidden = embeddings();
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      const std::string prefix = fmt::format("encoder.layer.{}.", layer);
      hidden = attention(prefix + "attention.", hidden);
      hidden = feed_forward(prefix, hidden);
    }
    graph_.result = hidden;
    return std::move(graph_);
  }

 private:
  ValueId embeddings() {
    const std::int64_t columns = config_.hidden_size;
    const ValueId words = lookup("embeddings.word_embeddings", TokenIndex::token, config_.vocab_size);
    const ValueId segments = lookup("embeddings.token_type_embeddings", TokenIndex::segment, config_.type_vocab_size);
    const ValueId positions = lookup("embeddings.position_embeddings", TokenIndex::position, config_.max_positions);
    const ValueId sum = add("embeddings.sum", add("embeddings.words_and_segments", words, segments), positions);
    return norm("embeddings.LayerNorm", sum, columns);
  }

  ValueId attention(const std::string& prefix, ValueId x) {
    const std::int64_t hidden = config_.hidden_size;
    const ValueId q = linear(prefix + "self.query", x, hidden, hidden);
    const ValueId k = linear(prefix + "self.key", x, hidden, hidden);
    const ValueId v = linear(prefix + "self.value", x, hidden, hidden);
    const ValueId context = node(prefix + "self", op::Attend{.heads = config_.heads}, {q, k, v}, {});
    const ValueId projected = linear(prefix + "output.dense", context, hidden, hidden);
    return norm(prefix + "output.LayerNorm", add(prefix + "output.residual", projected, x), hidden);
  }

  ValueId feed_forward(const std::string& prefix, ValueId x) {
    const std::int64_t hidden = config_.hidden_size, intermediate = config_.intermediate_size;
    const ValueId expanded = linear(prefix + "intermediate.dense", x, intermediate, hidden);
    const ValueId activated =
        node(prefix + "intermediate.activation", op::Activate{activation_of(config_.activation)}, {expanded}, {});
    const ValueId projected = linear(prefix + "output.dense", activated, hidden, intermediate);
    return norm(prefix + "output.LayerNorm", add(prefix + "output.residual", projected, x), hidden);
  }

  ValueId lookup(const std::string& name, TokenIndex index, std::int64_t entries) {
    return node(name, op::Lookup{index}, {}, {weight(name + ".weight", {entries, config_.hidden_size})});
  }
  ValueId add(const std::string& name, ValueId x, ValueId y) { return node(name, op::Add{}, {x, y}, {}); }
  ValueId norm(const std::string& name, ValueId x, std::int64_t columns) {
    return node(name, op::LayerNorm{config_.norm_epsilon}, {x},
                {weight(name + ".weight", {columns}), weight(name + ".bias", {columns})});
  }
  ValueId linear(const std::string& name, ValueId x, std::int64_t out, std::int64_t in) {
    const ValueId product = node(name + ".product", op::MatMul{}, {x}, {weight(name + ".weight", {out, in})});
    return node(name, op::AddBias{}, {product}, {weight(name + ".bias", {out})});
  }

  Weight weight(const std::string& name, const Shape& shape) const { return {name, model_.weight(name, shape)}; }

  ValueId node(std::string name, Op op, std::vector<ValueId> inputs, std::vector<Weight> weights) {
    const ValueId output = graph_.add_value(std::move(name));
    graph_.nodes.push_back(
        {.op = std::move(op), .inputs = std::move(inputs), .weights = std::move(weights), .output = output});
    return output;
  }

  const Model& model_;
  const BertConfig& config_;
  Graph graph_;
};

}  // namespace

Graph build_bert(const Model& model) { return Builder(model).build(); }

}  // namespace stof
