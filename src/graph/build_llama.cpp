// SPDX-License-Identifier: Apache-2.0
// Decoders of Llama's kind (Touvron et al. 2023): pre-norm by the root mean square, positions by turning q and k, heads
// that share keys, a gate in the feed-forward part. Mistral adds a window, Qwen2 biases of q, k and v, Qwen3 norms of
// heads, Gemma 2 norms of what layers add and caps of scores, Gemma 3 the former norms of both; Phi-3 stacks matrices
// and may turn some columns of a head alone, and EuroBERT sees both sides.
#include <fmt/format.h>

#include <cmath>
#include <cstddef>

#include "src/base/error.h"
#include "src/graph/build.h"
#include "src/graph/builder.h"

namespace stof {
namespace {

Weight rows_of(const Weight& matrix, std::int64_t first, std::int64_t rows) {
  Weight result = matrix;
  result.tensor.shape[0] = rows;
  result.tensor.data = matrix.tensor.as<std::byte>() +
                       static_cast<std::size_t>(first * matrix.tensor.strides[0]) * size_of(matrix.tensor.dtype);
  return result;
}

class LlamaDecoder {
 public:
  explicit LlamaDecoder(const Model& model)
      : config_(model.config), names_(config_.post_norms ? kWithPostNorms : kWithout), builder_(model) {}

  Graph build(GraphResult result) {
    ValueId hidden = builder_.lookup("embed_tokens", TokenIndex::token, config_.vocab_size);
    for (std::size_t layer = 0; layer < config_.rotary.size(); ++layer) {
      prefix_ = fmt::format("layers.{}.", layer);
      const ValueId context = attention(norm_of_sum(prefix_ + "input_layernorm", hidden), config_.rotary[layer]);
      hidden = builder_.add(prefix_ + "self_attn.residual", added(names_.behind_attention, context), hidden);
      const ValueId fed = feed_forward(norm_of_sum(prefix_ + std::string(names_.before_feed_forward), hidden));
      hidden = builder_.add(prefix_ + "mlp.residual", added(names_.behind_feed_forward, fed), hidden);
    }
    hidden = norm_of_sum("norm", hidden);
    return builder_.finish(result == GraphResult::logits ? builder_.logits("embed_tokens.weight", hidden) : hidden);
  }

 private:
  struct NormNames {
    std::string_view behind_attention, before_feed_forward, behind_feed_forward;
  };
  static constexpr NormNames kWithout{
      .behind_attention = "", .before_feed_forward = "post_attention_layernorm", .behind_feed_forward = ""};
  static constexpr NormNames kWithPostNorms{.behind_attention = "post_attention_layernorm",
                                            .before_feed_forward = "pre_feedforward_layernorm",
                                            .behind_feed_forward = "post_feedforward_layernorm"};

  // Of embeddings with what layers have added. Gemma's are smaller here by the root of hidden_size than the epsilon
  // was meant for (gemma_norms.h).
  ValueId norm_of_sum(const std::string& name, ValueId x) {
    const double smaller = config_.post_norms ? static_cast<double>(config_.hidden_size) : 1;
    return builder_.rms_norm(name, x, config_.norm_epsilon / smaller);
  }

  ValueId added(std::string_view norm, ValueId x) {
    return norm.empty() ? x : builder_.rms_norm(prefix_ + std::string(norm), x, config_.norm_epsilon);
  }

  struct Part {
    std::string_view name;
    std::int64_t out;
  };
  // One product with all of the parts' matrices, stacked.
  ValueId projection(const std::string& name, std::span<const Part> parts, ValueId x, std::int64_t in, bool bias) {
    std::vector<Weight> matrices, biases;
    for (const Part& part : parts) {
      const std::string full = prefix_ + std::string(part.name);
      matrices.push_back(builder_.weight(full + ".weight", {part.out, in}));
      if (bias) biases.push_back(builder_.weight(full + ".bias", {part.out}));
    }
    const std::string own = prefix_ + name;
    const ValueId product = builder_.node(bias ? own + ".product" : own, op::MatMul{}, {x}, std::move(matrices));
    return bias ? builder_.node(own, op::AddBias{}, {product}, std::move(biases)) : product;
  }

  // Where some columns of a head turn: the checkpoint pairs column i with i + pairs and has those that stay behind
  // them, while op::Rotate pairs i with i + head_dim / 2. So half of those that stay goes in front of the second ones
  // of the pairs, in q and k alike, which leaves their products as they are. Rows are read where they lie.
  ValueId paired_projection(const std::string& name, const Part& part, ValueId x, std::int64_t pairs) {
    STOF_CHECK(config_.stacked_weights && !config_.attention_bias && !config_.head_norms);
    const Weight whole = builder_.weight(prefix_ + std::string(part.name) + ".weight", {part.out, config_.hidden_size});
    const std::int64_t head_dim = config_.head_dim, staying = head_dim / 2 - pairs;
    std::vector<Weight> matrices;
    std::int64_t next = 0;  // the row behind the last head's, which goes with the first ones of this one
    const auto take = [&](std::int64_t first, std::int64_t rows) { matrices.push_back(rows_of(whole, first, rows)); };
    for (std::int64_t head = 0; head < (config_.heads + config_.kv_heads) * head_dim; head += head_dim) {
      take(next, head + pairs - next);
      take(head + 2 * pairs, staying);
      take(head + pairs, pairs);
      next = head + 2 * pairs + staying;
    }
    take(next, part.out - next);
    return builder_.node(prefix_ + name, op::MatMul{}, {x}, std::move(matrices));
  }

  ValueId attention(ValueId x, const RotaryLayer& layer) {
    const std::int64_t heads = config_.heads, kv_heads = config_.kv_heads, head_dim = config_.head_dim;
    std::vector<Part> parts{{"self_attn.q_proj", heads * head_dim},
                            {"self_attn.k_proj", kv_heads * head_dim},
                            {"self_attn.v_proj", kv_heads * head_dim}};
    if (config_.stacked_weights) parts = {{"self_attn.qkv_proj", (heads + 2 * kv_heads) * head_dim}};
    const ValueId qkv = layer.pairs
                            ? paired_projection("self_attn.qkv", parts.front(), x, *layer.pairs)
                            : projection("self_attn.qkv", parts, x, config_.hidden_size, config_.attention_bias);
    op::Rotate rotate{
        .heads = heads, .kv_heads = kv_heads, .theta = layer.theta, .scaling = layer.scaling, .pairs = layer.pairs};
    std::vector<Weight> scales;
    if (config_.head_norms) {
      rotate.norm = config_.norm_epsilon;
      for (const std::string_view name : {"self_attn.q_norm.weight", "self_attn.k_norm.weight"})
        scales.push_back(builder_.weight(prefix_ + std::string(name), {head_dim}));
    }
    const ValueId turned = builder_.node(prefix_ + "self_attn.rotary", rotate, {qkv}, std::move(scales));
    const Mask side = config_.causal ? causal() : all();
    const Mask mask = layer.reach ? side & window(*layer.reach) : side;
    const ValueId context = builder_.node(
        prefix_ + "self_attn", op::AttendPacked{.heads = heads, .kv_heads = kv_heads, .mask = mask, .scores = scores()},
        {turned}, {});
    const Part out{"self_attn.o_proj", config_.hidden_size};
    return projection("self_attn.o_proj", {&out, 1}, context, heads * head_dim, config_.attention_out_bias);
  }

  // Norms of q have taken what scores are divided by, where there are some (gemma_norms.h).
  op::Scores scores() const {
    op::Scores scores{.softcap = config_.score_cap};
    if (config_.score_divisor > 0 && !config_.head_norms) scores.scale = 1 / std::sqrt(config_.score_divisor);
    return scores;
  }

  ValueId feed_forward(ValueId x) {
    const std::int64_t intermediate = config_.intermediate_size;
    std::vector<Part> parts{{"mlp.gate_proj", intermediate}, {"mlp.up_proj", intermediate}};
    if (config_.stacked_weights) parts = {{"mlp.gate_up_proj", 2 * intermediate}};
    const ValueId expanded = projection("mlp.gate_up", parts, x, config_.hidden_size, config_.mlp_bias);
    const Part down{"mlp.down_proj", config_.hidden_size};
    return projection("mlp.down_proj", {&down, 1}, builder_.gate(prefix_ + "mlp.gate", expanded), intermediate,
                      config_.mlp_bias);
  }

  const ModelConfig& config_;
  const NormNames& names_;
  std::string prefix_;
  GraphBuilder builder_;
};

}  // namespace

Graph build_llama(const Model& model, GraphResult result) { return LlamaDecoder(model).build(result); }

}  // namespace stof
