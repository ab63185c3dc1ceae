// SPDX-License-Identifier: Apache-2.0
// The encoder of ModernBERT (Warner et al. 2024): pre-norm, positions by turning q and k, most layers seeing a window
// of keys, a gate in the feed-forward part.
#include <fmt/format.h>

#include "src/graph/build.h"
#include "src/graph/builder.h"

namespace stof {
namespace {

class ModernEncoder {
 public:
  explicit ModernEncoder(const Model& model) : config_(model.config), builder_(model) {}

  Graph build() {
    const ValueId tokens = builder_.lookup("embeddings.tok_embeddings", TokenIndex::token, config_.vocab_size);
    ValueId hidden = builder_.norm("embeddings.norm", tokens);
    for (std::size_t layer = 0; layer < config_.rotary.size(); ++layer) {
      prefix_ = fmt::format("layers.{}.", layer);
      // What comes in has just been normalised.
      const ValueId x = layer == 0 ? hidden : builder_.norm(prefix_ + "attn_norm", hidden);
      hidden = builder_.add(prefix_ + "attn.residual", attention(x, config_.rotary[layer]), hidden);
      hidden =
          builder_.add(prefix_ + "mlp.residual", feed_forward(builder_.norm(prefix_ + "mlp_norm", hidden)), hidden);
    }
    return builder_.finish(builder_.norm("final_norm", hidden));
  }

 private:
  ValueId attention(ValueId x, const RotaryLayer& layer) {
    const std::int64_t hidden = config_.hidden_size;
    const ValueId qkv = linear("attn.Wqkv", x, 3 * hidden, hidden, config_.attention_bias);
    const std::int64_t heads = config_.heads;
    const ValueId turned = builder_.node(
        prefix_ + "attn.rotary", op::Rotate{.heads = heads, .kv_heads = heads, .theta = layer.theta}, {qkv}, {});
    const Mask mask = layer.reach ? window(*layer.reach) : all();
    const ValueId context = builder_.node(
        prefix_ + "attn", op::AttendPacked{.heads = heads, .kv_heads = heads, .mask = mask}, {turned}, {});
    return linear("attn.Wo", context, hidden, hidden, config_.attention_bias);
  }

  ValueId feed_forward(ValueId x) {
    const std::int64_t hidden = config_.hidden_size, intermediate = config_.intermediate_size;
    const ValueId expanded = linear("mlp.Wi", x, 2 * intermediate, hidden, config_.mlp_bias);
    return linear("mlp.Wo", builder_.gate(prefix_ + "mlp.gate", expanded), hidden, intermediate, config_.mlp_bias);
  }

  ValueId linear(std::string_view name, ValueId x, std::int64_t out, std::int64_t in, bool bias) {
    const std::string full = prefix_ + std::string(name);
    return bias ? builder_.linear(full, x, out, in) : builder_.product(full, x, out, in);
  }

  const ModelConfig& config_;
  std::string prefix_;
  GraphBuilder builder_;
};

}  // namespace

Graph build_modernbert(const Model& model) { return ModernEncoder(model).build(); }

}  // namespace stof
