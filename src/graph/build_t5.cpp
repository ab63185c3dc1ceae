// SPDX-License-Identifier: Apache-2.0
// The encoders of T5 (Raffel et al. 2020), mT5 and UMT5: pre-norm by the root mean square, without biases, scores that
// are not scaled and gain by distance, and a feed-forward part with a gate or without.
#include <fmt/format.h>

#include "src/graph/build.h"
#include "src/graph/builder.h"
#include "src/model/relative_positions.h"
#include "src/model/t5_sums.h"

namespace stof {
namespace {

class T5Encoder {
 public:
  explicit T5Encoder(const Model& model) : model_(model), config_(model.config), builder_(model) {}

  Graph build() {
    const std::string_view table = t5_table(model_);
    const std::string name(table.substr(0, table.rfind('.')));
    ValueId hidden = builder_.lookup(name, TokenIndex::token, config_.vocab_size);
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      prefix_ = fmt::format("encoder.block.{}.layer.", layer);
      hidden = builder_.add(prefix_ + "0.residual", attention(normed("0.layer_norm", hidden), layer), hidden);
      hidden = builder_.add(prefix_ + "1.residual", feed_forward(normed("1.layer_norm", hidden)), hidden);
    }
    prefix_ = "encoder.";
    return builder_.finish(normed("final_layer_norm", hidden));
  }

 private:
  // Of sums, which are small (t5_sums.h).
  ValueId normed(std::string_view name, ValueId x) {
    return builder_.rms_norm(prefix_ + std::string(name), x, config_.norm_epsilon * kT5SumScale * kT5SumScale);
  }

  // One product with all of the matrices, stacked, each of so many rows.
  ValueId stacked(const std::string& name, std::initializer_list<std::string_view> parts, ValueId x, std::int64_t out) {
    std::vector<Weight> matrices;
    for (const std::string_view part : parts)
      matrices.push_back(builder_.weight(fmt::format("{}{}.weight", prefix_, part), {out, config_.hidden_size}));
    return builder_.node(prefix_ + name, op::MatMul{}, {x}, std::move(matrices));
  }

  Weight bias_of(std::int64_t layer) const {
    const std::string name = fmt::format("encoder.block.{}.layer.0.SelfAttention.relative_attention_bias{}",
                                         config_.relative.each_layer ? layer : 0, kByDistance);
    return builder_.weight(name, {config_.heads, 2 * reach_of(config_.relative) + 1});
  }

  ValueId attention(ValueId x, std::int64_t layer) {
    const std::int64_t heads = config_.heads, inner = heads * config_.head_dim;
    const ValueId qkv =
        stacked("0.SelfAttention.qkv", {"0.SelfAttention.q", "0.SelfAttention.k", "0.SelfAttention.v"}, x, inner);
    const ValueId context =
        builder_.node(prefix_ + "0.SelfAttention",
                      op::AttendPacked{.heads = heads, .kv_heads = heads, .scores = {.scale = 1.0, .biased = true}},
                      {qkv}, {bias_of(layer)});
    return builder_.product(prefix_ + "0.SelfAttention.o", context, config_.hidden_size, inner);
  }

  ValueId feed_forward(ValueId x) {
    const std::string part = "1.DenseReluDense.";
    const std::int64_t intermediate = config_.intermediate_size;
    ValueId activated = 0;
    if (config_.gated_mlp) {
      const ValueId expanded =
          stacked(part + "wi", {"1.DenseReluDense.wi_0", "1.DenseReluDense.wi_1"}, x, intermediate);
      activated = builder_.gate(prefix_ + part + "act", expanded);
    } else {
      activated = builder_.activate(prefix_ + part + "act",
                                    builder_.product(prefix_ + part + "wi", x, intermediate, config_.hidden_size));
    }
    return builder_.product(prefix_ + part + "wo", activated, config_.hidden_size, intermediate);
  }

  const Model& model_;
  const ModelConfig& config_;
  std::string prefix_;
  GraphBuilder builder_;
};

}  // namespace

Graph build_t5(const Model& model) { return T5Encoder(model).build(); }

}  // namespace stof
