// SPDX-License-Identifier: Apache-2.0
// A decoder of Llama's kind with random weights in memory and heads as wide as those of its checkpoints, for the
// vocabulary and the lengths of random_prompts.h.
#pragma once
#include <string>

#include "src/model/model.h"
#include "tests/runtime/random_prompts.h"
#include "tests/runtime/random_weights.h"

namespace stof {

struct DecoderHeads {
  std::int64_t heads = 4, kv_heads = 2, head_dim = 64;
  bool norms = false;
};

inline Model small_decoder(const DecoderHeads& of) {
  constexpr std::int64_t kHidden = 96, kIntermediate = 160, kLayers = 2;
  Model model;
  model.config = {.family = Family::llama,
                  .architecture = of.norms ? "Qwen3Model" : "LlamaModel",
                  .vocab_size = kTokens,
                  .hidden_size = kHidden,
                  .layers = kLayers,
                  .heads = of.heads,
                  .intermediate_size = kIntermediate,
                  .max_positions = kLongest,
                  .activation = "silu",
                  .norm_epsilon = 1e-6};
  model.config.attention_bias = model.config.mlp_bias = false;
  model.config.kv_heads = of.kv_heads;
  model.config.head_dim = of.head_dim;
  model.config.head_norms = of.norms;
  model.config.rotary.assign(kLayers, RotaryLayer{.reach = {}, .theta = 10'000});
  model.pooling = {.pooling = Pooling::last, .normalize = false, .max_tokens = kLongest};
  RandomWeights weights(model);
  weights.add("embed_tokens.weight", {kTokens, kHidden}, 0, 1);
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    weights.add(prefix + "input_layernorm.weight", {kHidden}, 1, 0.3f);
    weights.add(prefix + "self_attn.q_proj.weight", {of.heads * of.head_dim, kHidden}, 0, 0.2f);
    for (const char* part : {"k", "v"})
      weights.add(prefix + "self_attn." + part + "_proj.weight", {of.kv_heads * of.head_dim, kHidden}, 0, 0.2f);
    for (const char* part : {"q", "k"})
      if (of.norms) weights.add(prefix + "self_attn." + part + "_norm.weight", {of.head_dim}, 1, 0.3f);
    weights.add(prefix + "self_attn.o_proj.weight", {kHidden, of.heads * of.head_dim}, 0, 0.15f);
    weights.add(prefix + "post_attention_layernorm.weight", {kHidden}, 1, 0.3f);
    weights.add(prefix + "mlp.gate_proj.weight", {kIntermediate, kHidden}, 0, 0.15f);
    weights.add(prefix + "mlp.up_proj.weight", {kIntermediate, kHidden}, 0, 0.15f);
    weights.add(prefix + "mlp.down_proj.weight", {kHidden, kIntermediate}, 0, 0.15f);
  }
  weights.add("norm.weight", {kHidden}, 1, 0.3f);
  return model;
}

}  // namespace stof
