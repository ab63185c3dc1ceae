// SPDX-License-Identifier: Apache-2.0
// The encoder of Nomic Embed (Nussbaum et al. 2024): post-norm as BERT, positions by turning q and k, a gate in the
// feed-forward part, no biases but those of norms.
#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

#include "src/graph/build.h"
#include "src/graph/builder.h"

namespace stof {
namespace {

// Of tensors: as the first code calls them, whose files are on the Hub, or as transformers does. It writes the former
// unless it is asked for its own (save_original_format).
struct Names {
  std::string_view layers, embeddings_norm;
  std::array<std::string_view, 3> qkv;  // one matrix, or three
  std::string_view out, behind_attention, gate, let_through, down, behind_feed_forward;
};
constexpr Names kFirst{.layers = "encoder.layers",
                       .embeddings_norm = "emb_ln",
                       .qkv = {"attn.Wqkv"},
                       .out = "attn.out_proj",
                       .behind_attention = "norm1",
                       .gate = "mlp.fc12",
                       .let_through = "mlp.fc11",
                       .down = "mlp.fc2",
                       .behind_feed_forward = "norm2"};
constexpr Names kTransformers{.layers = "layers",
                              .embeddings_norm = "embeddings.LayerNorm",
                              .qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
                              .out = "self_attn.o_proj",
                              .behind_attention = "post_attention_layernorm",
                              .gate = "mlp.gate_proj",
                              .let_through = "mlp.up_proj",
                              .down = "mlp.down_proj",
                              .behind_feed_forward = "post_mlp_layernorm"};

class NomicEncoder {
 public:
  explicit NomicEncoder(const Model& model)
      : config_(model.config),
        names_(model.has("embeddings.LayerNorm.weight") ? kTransformers : kFirst),
        builder_(model) {}

  Graph build() {
    ValueId hidden = embeddings();
    for (std::size_t layer = 0; layer < config_.rotary.size(); ++layer) {
      prefix_ = fmt::format("{}.{}.", names_.layers, layer);
      hidden = normed(names_.behind_attention, "attn.residual", attention(hidden, config_.rotary[layer]), hidden);
      hidden = normed(names_.behind_feed_forward, "mlp.residual", feed_forward(hidden), hidden);
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
    return builder_.norm(std::string(names_.embeddings_norm), sum);
  }

  ValueId normed(std::string_view norm, std::string_view sum, ValueId x, ValueId residual) {
    return builder_.norm(name(norm), builder_.add(name(sum), x, residual));
  }

  ValueId attention(ValueId x, const RotaryLayer& layer) {
    const std::int64_t hidden = config_.hidden_size, heads = config_.heads;
    std::vector<Weight> matrices;
    const std::int64_t rows = names_.qkv[1].empty() ? 3 * hidden : hidden;
    for (const std::string_view part : names_.qkv)
      if (!part.empty()) matrices.push_back(builder_.weight(name(part) + ".weight", {rows, hidden}));
    const ValueId qkv = builder_.node(name("attn.Wqkv"), op::MatMul{}, {x}, std::move(matrices));
    const op::Rotate rotate{.heads = heads, .kv_heads = heads, .theta = layer.theta, .scaling = layer.scaling};
    const ValueId turned = builder_.node(name("attn.rotary"), rotate, {qkv}, {});
    const ValueId context =
        builder_.node(name("attn"), op::AttendPacked{.heads = heads, .kv_heads = heads}, {turned}, {});
    return builder_.product(name(names_.out), context, hidden, hidden);
  }

  ValueId feed_forward(ValueId x) {
    const std::int64_t hidden = config_.hidden_size, intermediate = config_.intermediate_size;
    const auto half = [&](std::string_view part) {
      return builder_.weight(name(part) + ".weight", {intermediate, hidden});
    };
    const ValueId expanded =
        builder_.node(name("mlp.fc1"), op::MatMul{}, {x}, {half(names_.gate), half(names_.let_through)});
    return builder_.product(name(names_.down), builder_.gate(name("mlp.gate"), expanded), hidden, intermediate);
  }

  std::string name(std::string_view part) const { return prefix_ + std::string(part); }

  const ModelConfig& config_;
  const Names& names_;
  std::string prefix_;
  GraphBuilder builder_;
};

}  // namespace

Graph build_nomic(const Model& model) { return NomicEncoder(model).build(); }

}  // namespace stof
