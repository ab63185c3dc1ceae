// SPDX-License-Identifier: Apache-2.0
// The decoder of GPT-2 (Radford et al. 2019): pre-norm, causal, q, k and v from one matrix.
#include <fmt/format.h>

#include "src/graph/build.h"
#include "src/graph/builder.h"

namespace stof {
namespace {

class Decoder {
 public:
  explicit Decoder(const Model& model) : config_(model.config), builder_(model) {}

  Graph build(GraphResult result) {
    const ValueId tokens = builder_.lookup("wte", TokenIndex::token, config_.vocab_size);
    const ValueId positions = builder_.lookup("wpe", TokenIndex::position, config_.position_rows());
    ValueId hidden = builder_.add("embeddings", tokens, positions);
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      const std::string prefix = fmt::format("h.{}.", layer);
      hidden = feed_forward(prefix, attention(prefix, hidden));
    }
    hidden = builder_.norm("ln_f", hidden);
    return builder_.finish(result == GraphResult::logits ? builder_.logits("wte.weight", hidden) : hidden);
  }

 private:
  ValueId attention(const std::string& prefix, ValueId x) {
    const std::int64_t hidden = config_.hidden_size;
    const ValueId qkv = linear(prefix + "attn.c_attn", builder_.norm(prefix + "ln_1", x), 3 * hidden, hidden);
    const Mask mask = config_.causal ? causal() : all();
    const ValueId context = builder_.node(
        prefix + "attn", op::AttendPacked{.heads = config_.heads, .kv_heads = config_.heads, .mask = mask}, {qkv}, {});
    return builder_.add(prefix + "attn.residual", linear(prefix + "attn.c_proj", context, hidden, hidden), x);
  }

  ValueId feed_forward(const std::string& prefix, ValueId x) {
    const std::int64_t hidden = config_.hidden_size, intermediate = config_.intermediate_size;
    const ValueId expanded = linear(prefix + "mlp.c_fc", builder_.norm(prefix + "ln_2", x), intermediate, hidden);
    const ValueId activated = builder_.activate(prefix + "mlp.activation", expanded);
    return builder_.add(prefix + "mlp.residual", linear(prefix + "mlp.c_proj", activated, hidden, intermediate), x);
  }

  // Its matrices are stored as [in, out]: the view of [out, in] is their transpose.
  ValueId linear(const std::string& name, ValueId x, std::int64_t out, std::int64_t in) {
    Weight matrix = builder_.weight(name + ".weight", {in, out});
    matrix.tensor.shape = {out, in};
    matrix.tensor.strides = {1, out};
    const ValueId product = builder_.node(name + ".product", op::MatMul{}, {x}, {std::move(matrix)});
    return builder_.node(name, op::AddBias{}, {product}, {builder_.weight(name + ".bias", {out})});
  }

  const ModelConfig& config_;
  GraphBuilder builder_;
};

}  // namespace

Graph build_gpt2(const Model& model, GraphResult result) { return Decoder(model).build(result); }

}  // namespace stof
