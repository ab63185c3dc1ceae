// SPDX-License-Identifier: Apache-2.0
// The encoder of Nomic Embed (Nussbaum et al. 2024): post-norm as BERT, positions by turning q and k, a gate in the
// feed-forward part, no biases but those of norms.
#include <fmt/format.h>

#include "src/graph/build.h"
#include "src/graph/builder.h"

namespace stof {
namespace {

class NomicEncoder {
 public:
  explicit NomicEncoder(const Model& model) : config_(model.config), builder_(model) {}

  Graph build() {
    ValueId hidden = embeddings();
    for (std::size_t layer = 0; layer < config_.rotary.size(); ++layer) {
      prefix_ = fmt::format("encoder.layers.{}.", layer);
      hidden = normed("norm1", "attn.residual", attention(hidden, config_.rotary[layer]), hidden);
      hidden = normed("norm2", "mlp.residual", feed_forward(hidden), hidden);
    }
    return builder_.finish(hidden);
  }

 private:
  ValueId embeddings() {
    ValueId sum = builder_.lookup("embeddings.word_embeddings", TokenIndex::token, config_.vocab_size);
    if (config_.type_vocab_size > 0)
      sum = builder_.add(
          "embeddings.sum", sum,
          builder_.lookup("embeddings.token_type_embeddings", TokenIndex::segment, config_.type_vocab_size));
    return builder_.norm("emb_ln", sum);
  }

  ValueId normed(std::string_view norm, std::string_view sum, ValueId x, ValueId residual) {
    return builder_.norm(name(norm), builder_.add(name(sum), x, residual));
  }

  ValueId attention(ValueId x, const RotaryLayer& layer) {
    const std::int64_t hidden = config_.hidden_size, heads = config_.heads;
    const ValueId qkv = builder_.product(name("attn.Wqkv"), x, 3 * hidden, hidden);
    const op::Rotate rotate{.heads = heads, .kv_heads = heads, .theta = layer.theta, .scaling = layer.scaling};
    const ValueId turned = builder_.node(name("attn.rotary"), rotate, {qkv}, {});
    const ValueId context =
        builder_.node(name("attn"), op::AttendPacked{.heads = heads, .kv_heads = heads}, {turned}, {});
    return builder_.product(name("attn.out_proj"), context, hidden, hidden);
  }

  ValueId feed_forward(ValueId x) {
    const std::int64_t hidden = config_.hidden_size, intermediate = config_.intermediate_size;
    const auto half = [&](std::string_view part) {
      return builder_.weight(name(part) + ".weight", {intermediate, hidden});
    };
    const ValueId expanded =
        builder_.node(name("mlp.fc1"), op::MatMul{}, {x}, {half("mlp.fc12"), half("mlp.fc11")});  // the gate first
    return builder_.product(name("mlp.fc2"), builder_.gate(name("mlp.gate"), expanded), hidden, intermediate);
  }

  std::string name(std::string_view part) const { return prefix_ + std::string(part); }

  const ModelConfig& config_;
  std::string prefix_;
  GraphBuilder builder_;
};

}  // namespace

Graph build_nomic(const Model& model) { return NomicEncoder(model).build(); }

}  // namespace stof
