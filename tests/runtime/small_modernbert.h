// SPDX-License-Identifier: Apache-2.0
// A ModernBERT with random weights in memory and heads as wide as those of its checkpoints.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "src/base/hash.h"
#include "src/model/model.h"

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

inline Model small_modernbert() {
  Model model;
  model.config = small_modernbert_config();
  model.pooling = {.pooling = Pooling::mean, .normalize = true, .max_tokens = model.config.max_positions};
  const auto store = std::make_shared<std::vector<Tensor>>();
  std::uint64_t seed = 1;
  const auto add = [&](const std::string& name, Shape shape, float center, float spread) {
    Tensor tensor(DType::f32, shape);
    for (std::int64_t i = 0; i < tensor.size(); ++i)
      tensor.as<float>()[i] =
          center + spread * (static_cast<float>(splitmix64(seed += 0x9E3779B97F4A7C15ull) >> 40) * 0x1p-23f - 1.f);
    model.weights.emplace(name, tensor.view());
    store->push_back(std::move(tensor));
  };
  const std::int64_t hidden = model.config.hidden_size, intermediate = model.config.intermediate_size;
  add("embeddings.tok_embeddings.weight", {model.config.vocab_size, hidden}, 0, 1);
  add("embeddings.norm.weight", {hidden}, 1, 0.3f);
  for (std::int64_t layer = 0; layer < model.config.layers; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    if (layer > 0) add(prefix + "attn_norm.weight", {hidden}, 1, 0.3f);
    add(prefix + "attn.Wqkv.weight", {3 * hidden, hidden}, 0, 0.2f);
    add(prefix + "attn.Wo.weight", {hidden, hidden}, 0, 0.2f);
    add(prefix + "mlp_norm.weight", {hidden}, 1, 0.3f);
    add(prefix + "mlp.Wi.weight", {2 * intermediate, hidden}, 0, 0.15f);
    add(prefix + "mlp.Wo.weight", {hidden, intermediate}, 0, 0.15f);
  }
  add("final_norm.weight", {hidden}, 1, 0.3f);
  model.mapping = store;
  return model;
}

}  // namespace stof
