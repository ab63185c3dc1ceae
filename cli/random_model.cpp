// SPDX-License-Identifier: Apache-2.0
#include "cli/random_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "cli/random_configs.h"
#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/model/relative_positions.h"

namespace stof::cli {
namespace {

// bias: random, too, and of described models as well, since attention's values by distance are made of it.
enum class Fill { random, zero, one, bias };

struct Weight {
  std::string name;
  Shape shape;
  Fill fill;
};

void add_linear(std::vector<Weight>& weights, const std::string& name, std::int64_t out, std::int64_t in) {
  weights.push_back({name + ".weight", {out, in}, Fill::random});
  weights.push_back({name + ".bias", {out}, Fill::zero});
}

void add_norm(std::vector<Weight>& weights, const std::string& name, std::int64_t size) {
  weights.push_back({name + ".weight", {size}, Fill::one});
  weights.push_back({name + ".bias", {size}, Fill::zero});
}

// Names as in checkpoints of Hugging Face's BertModel and LongformerModel.
std::vector<Weight> list_weights(const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size;
  std::vector<Weight> weights = {
      {"embeddings.word_embeddings.weight", {config.vocab_size, hidden}, Fill::random},
      {"embeddings.position_embeddings.weight", {config.position_rows(), hidden}, Fill::random},
      {"embeddings.token_type_embeddings.weight", {config.type_vocab_size, hidden}, Fill::random}};
  add_norm(weights, "embeddings.LayerNorm", hidden);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = fmt::format("encoder.layer.{}.", layer);
    for (const std::string part : {"query", "key", "value"}) {
      add_linear(weights, prefix + "attention.self." + part, hidden, hidden);
      if (config.family == Family::longformer)
        add_linear(weights, prefix + "attention.self." + part + "_global", hidden, hidden);
    }
    add_linear(weights, prefix + "attention.output.dense", hidden, hidden);
    add_norm(weights, prefix + "attention.output.LayerNorm", hidden);
    add_linear(weights, prefix + "intermediate.dense", config.intermediate_size, hidden);
    add_linear(weights, prefix + "output.dense", hidden, config.intermediate_size);
    add_norm(weights, prefix + "output.LayerNorm", hidden);
  }
  return weights;
}

// Names as in checkpoints of Hugging Face's MPNetModel.
std::vector<Weight> list_mpnet_weights(const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size;
  std::vector<Weight> weights = {
      {"embeddings.word_embeddings.weight", {config.vocab_size, hidden}, Fill::random},
      {"embeddings.position_embeddings.weight", {config.position_rows(), hidden}, Fill::random},
      {"encoder.relative_attention_bias.weight", {config.relative.buckets, config.heads}, Fill::bias}};
  add_norm(weights, "embeddings.LayerNorm", hidden);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = fmt::format("encoder.layer.{}.", layer);
    for (const std::string part : {"q", "k", "v", "o"})
      add_linear(weights, prefix + "attention.attn." + part, hidden, hidden);
    add_norm(weights, prefix + "attention.LayerNorm", hidden);
    add_linear(weights, prefix + "intermediate.dense", config.intermediate_size, hidden);
    add_linear(weights, prefix + "output.dense", hidden, config.intermediate_size);
    add_norm(weights, prefix + "output.LayerNorm", hidden);
  }
  return weights;
}

// Names as in checkpoints of Hugging Face's T5EncoderModel without gates, whose layers share one table of biases.
std::vector<Weight> list_t5_weights(const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size, inner = config.heads * config.head_dim;
  const std::int64_t intermediate = config.intermediate_size;
  std::vector<Weight> weights = {{"shared.weight", {config.vocab_size, hidden}, Fill::random},
                                 {"encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                                  {config.relative.buckets, config.heads},
                                  Fill::bias}};
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = fmt::format("encoder.block.{}.layer.", layer);
    weights.push_back({prefix + "0.layer_norm.weight", {hidden}, Fill::one});
    for (const char* part : {"q", "k", "v"})
      weights.push_back({prefix + fmt::format("0.SelfAttention.{}.weight", part), {inner, hidden}, Fill::random});
    weights.push_back({prefix + "0.SelfAttention.o.weight", {hidden, inner}, Fill::random});
    weights.push_back({prefix + "1.layer_norm.weight", {hidden}, Fill::one});
    weights.push_back({prefix + "1.DenseReluDense.wi.weight", {intermediate, hidden}, Fill::random});
    weights.push_back({prefix + "1.DenseReluDense.wo.weight", {hidden, intermediate}, Fill::random});
  }
  weights.push_back({"encoder.final_layer_norm.weight", {hidden}, Fill::one});
  return weights;
}

// Names as in checkpoints of Nomic Embed on the Hub.
std::vector<Weight> list_nomic_weights(const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size, intermediate = config.intermediate_size;
  std::vector<Weight> weights = {
      {"embeddings.word_embeddings.weight", {config.vocab_size, hidden}, Fill::random},
      {"embeddings.token_type_embeddings.weight", {config.type_vocab_size, hidden}, Fill::random}};
  add_norm(weights, "emb_ln", hidden);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = fmt::format("encoder.layers.{}.", layer);
    weights.push_back({prefix + "attn.Wqkv.weight", {3 * hidden, hidden}, Fill::random});
    weights.push_back({prefix + "attn.out_proj.weight", {hidden, hidden}, Fill::random});
    add_norm(weights, prefix + "norm1", hidden);
    for (const char* part : {"fc11", "fc12"})
      weights.push_back({prefix + fmt::format("mlp.{}.weight", part), {intermediate, hidden}, Fill::random});
    weights.push_back({prefix + "mlp.fc2.weight", {hidden, intermediate}, Fill::random});
    add_norm(weights, prefix + "norm2", hidden);
  }
  return weights;
}

// Names as in checkpoints of Hugging Face's GPT2Model, whose matrices are [in, out].
std::vector<Weight> list_gpt2_weights(const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size;
  std::vector<Weight> weights = {{"wte.weight", {config.vocab_size, hidden}, Fill::random},
                                 {"wpe.weight", {config.max_positions, hidden}, Fill::random}};
  const auto linear = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    weights.push_back({name + ".weight", {in, out}, Fill::random});
    weights.push_back({name + ".bias", {out}, Fill::zero});
  };
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = fmt::format("h.{}.", layer);
    add_norm(weights, prefix + "ln_1", hidden);
    linear(prefix + "attn.c_attn", 3 * hidden, hidden);
    linear(prefix + "attn.c_proj", hidden, hidden);
    add_norm(weights, prefix + "ln_2", hidden);
    linear(prefix + "mlp.c_fc", config.intermediate_size, hidden);
    linear(prefix + "mlp.c_proj", hidden, config.intermediate_size);
  }
  add_norm(weights, "ln_f", hidden);
  return weights;
}

// Names as in checkpoints of Hugging Face's ModernBertModel.
std::vector<Weight> list_modernbert_weights(const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size, intermediate = config.intermediate_size;
  std::vector<Weight> weights = {{"embeddings.tok_embeddings.weight", {config.vocab_size, hidden}, Fill::random},
                                 {"embeddings.norm.weight", {hidden}, Fill::one}};
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = fmt::format("layers.{}.", layer);
    if (layer > 0) weights.push_back({prefix + "attn_norm.weight", {hidden}, Fill::one});
    weights.push_back({prefix + "attn.Wqkv.weight", {3 * hidden, hidden}, Fill::random});
    weights.push_back({prefix + "attn.Wo.weight", {hidden, hidden}, Fill::random});
    weights.push_back({prefix + "mlp_norm.weight", {hidden}, Fill::one});
    weights.push_back({prefix + "mlp.Wi.weight", {2 * intermediate, hidden}, Fill::random});
    weights.push_back({prefix + "mlp.Wo.weight", {hidden, intermediate}, Fill::random});
  }
  weights.push_back({"final_norm.weight", {hidden}, Fill::one});
  return weights;
}

// Names as in checkpoints of Hugging Face's LlamaModel and Qwen3Model.
std::vector<Weight> list_llama_weights(const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size, head_dim = config.head_dim, intermediate = config.intermediate_size;
  std::vector<Weight> weights = {{"embed_tokens.weight", {config.vocab_size, hidden}, Fill::random}};
  const auto matrix = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    weights.push_back({name + ".weight", {out, in}, Fill::random});
  };
  const auto scale = [&](const std::string& name, std::int64_t columns) {
    weights.push_back({name + ".weight", {columns}, Fill::one});
  };
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = fmt::format("layers.{}.", layer);
    scale(prefix + "input_layernorm", hidden);
    matrix(prefix + "self_attn.q_proj", config.heads * head_dim, hidden);
    for (const char* part : {"k", "v"})
      matrix(prefix + fmt::format("self_attn.{}_proj", part), config.kv_heads * head_dim, hidden);
    for (const char* part : {"q", "k"})
      if (config.head_norms) scale(prefix + fmt::format("self_attn.{}_norm", part), head_dim);
    matrix(prefix + "self_attn.o_proj", hidden, config.heads * head_dim);
    scale(prefix + "post_attention_layernorm", hidden);
    matrix(prefix + "mlp.gate_proj", intermediate, hidden);
    matrix(prefix + "mlp.up_proj", intermediate, hidden);
    matrix(prefix + "mlp.down_proj", hidden, intermediate);
  }
  scale("norm", hidden);
  return weights;
}

// Uniform with deviation 0.02: an interval of width w deviates by w / sqrt(12).
float random_weight(std::uint64_t seed, std::int64_t i) {
  const double uniform = static_cast<double>(splitmix64(seed + static_cast<std::uint64_t>(i))) * 0x1p-64 - 0.5;
  return static_cast<float>(uniform * 0.02 * std::sqrt(12.0));
}

void fill(const Weight& weight, float* values, std::uint64_t seed) {
  const std::int64_t count = element_count(weight.shape);
  switch (weight.fill) {
    case Fill::zero: std::fill_n(values, count, 0.0f); return;
    case Fill::one: std::fill_n(values, count, 1.0f); return;
    case Fill::random:
    case Fill::bias: break;
  }
#pragma omp parallel for
  for (std::int64_t i = 0; i < count; ++i) values[i] = random_weight(seed, i);
}

}  // namespace

namespace {

std::vector<Weight> weights_of(const ModelConfig& config) {
  switch (config.family) {
    case Family::gpt2: return list_gpt2_weights(config);
    case Family::modernbert: return list_modernbert_weights(config);
    case Family::llama:
    case Family::eurobert: return list_llama_weights(config);
    case Family::mpnet: return list_mpnet_weights(config);
    case Family::nomic: return list_nomic_weights(config);
    case Family::t5: return list_t5_weights(config);
    default: return list_weights(config);
  }
}

Model model_of(const std::string& name, std::int64_t max_positions, std::optional<std::uint64_t> seed) {
  Model model;
  model.config = config_named(name);
  model.config.max_positions = max_positions;
  model.pooling = {.pooling = Pooling::mean, .normalize = false, .max_tokens = max_positions};
  const std::vector<Weight> weights = weights_of(model.config);
  std::int64_t total = 0;
  for (const Weight& weight : weights) total += element_count(weight.shape);
  const auto memory = std::make_shared<Tensor>(DType::f32, Shape{total});
  float* next = memory->as<float>();
  for (const Weight& weight : weights) {
    if (seed || weight.fill == Fill::bias)
      fill(weight, next, splitmix64(seed.value_or(0) ^ hash64(weight.name.data(), weight.name.size())));
    model.weights.emplace(weight.name, view_of(next, DType::f32, weight.shape));
    next += element_count(weight.shape);
  }
  model.mapping = memory;
  add_biases_by_distance(model);
  return model;
}

}  // namespace

Model random_model(const std::string& name, std::int64_t max_positions, std::uint64_t seed) {
  return model_of(name, max_positions, seed);
}

Model described_model(const std::string& name, std::int64_t max_positions) {
  return model_of(name, max_positions, std::nullopt);
}

Model random_bert_base(std::int64_t max_positions, std::uint64_t seed) {
  return random_model("bert-base", max_positions, seed);
}

}  // namespace stof::cli
