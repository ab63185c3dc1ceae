// SPDX-License-Identifier: Apache-2.0
// A ModernBERT with random weights in memory and heads as wide as those of its checkpoints.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "src/model/model.h"
#include "tests/runtime/random_weights.h"

namespace stof {

inline ModelConfig small_modernbert_config() {
  ModelConfig config{.family = Family::modernbert,
                     .architecture = "ModernBertModel",
                     .vocab_size = 50,
                     .hidden_size = 128,
                     .layers = 4,
                     .heads = 2,
                     .intermediate_size = 192,
                     .max_positions = 512,
                     .activation = "gelu",
                     .norm_epsilon = 1e-5};
  config.attention_bias = config.mlp_bias = config.norm_bias = false;
  for (int layer = 0; layer < 4; ++layer)
    config.rotary.push_back(layer % 3 == 0 ? RotaryLayer{.reach = {}, .theta = 160'000}
                                           : RotaryLayer{.reach = 64, .theta = 10'000});
  return config;
}

inline Model small_modernbert(ModelConfig config = small_modernbert_config()) {
  Model model;
  model.config = std::move(config);
  model.pooling = {.pooling = Pooling::mean, .normalize = true, .max_tokens = model.config.max_positions};
  RandomWeights weights(model);
  const std::int64_t hidden = model.config.hidden_size, intermediate = model.config.intermediate_size;
  weights.add("embeddings.tok_embeddings.weight", {model.config.vocab_size, hidden}, 0, 1);
  weights.add("embeddings.norm.weight", {hidden}, 1, 0.3f);
  for (std::int64_t layer = 0; layer < model.config.layers; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    if (layer > 0) weights.add(prefix + "attn_norm.weight", {hidden}, 1, 0.3f);
    weights.add(prefix + "attn.Wqkv.weight", {3 * hidden, hidden}, 0, 0.2f);
    weights.add(prefix + "attn.Wo.weight", {hidden, hidden}, 0, 0.2f);
    weights.add(prefix + "mlp_norm.weight", {hidden}, 1, 0.3f);
    weights.add(prefix + "mlp.Wi.weight", {2 * intermediate, hidden}, 0, 0.15f);
    weights.add(prefix + "mlp.Wo.weight", {hidden, intermediate}, 0, 0.15f);
  }
  weights.add("final_norm.weight", {hidden}, 1, 0.3f);
  return model;
}

}  // namespace stof
