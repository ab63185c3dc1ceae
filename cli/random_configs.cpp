// SPDX-License-Identifier: Apache-2.0
#include "cli/random_configs.h"

#include "src/base/error.h"

namespace stof::cli {
namespace {

// As Llama 3.2 1B and Qwen3 0.6B, whose tables are those of the scores, too.
ModelConfig llama_named(const std::string& name) {
  const bool qwen = name == "qwen3-0.6b";
  ModelConfig config{.family = Family::llama,
                     .architecture = qwen ? "Qwen3Model" : "LlamaModel",
                     .vocab_size = 1000,
                     .hidden_size = qwen ? 1024 : 2048,
                     .layers = qwen ? 28 : 16,
                     .heads = qwen ? 16 : 32,
                     .intermediate_size = qwen ? 3072 : 8192,
                     .activation = "silu",
                     .norm_epsilon = qwen ? 1e-6 : 1e-5};
  config.attention_bias = config.mlp_bias = false;
  config.kv_heads = 8;
  config.head_dim = qwen ? 128 : 64;
  config.head_norms = qwen;
  const RotaryScaling of_llama{
      .kind = RotaryScaling::Kind::llama3, .factor = 32, .trained_positions = 8192, .few = 1, .many = 4};
  const RotaryLayer layer{.reach = {}, .theta = qwen ? 1e6 : 5e5, .scaling = qwen ? RotaryScaling{} : of_llama};
  config.rotary.assign(static_cast<std::size_t>(config.layers), layer);
  return config;
}

// As ModernBERT-base and -large.
ModelConfig modernbert_named(const std::string& name) {
  const bool large = name == "modernbert-large";
  ModelConfig config{.family = Family::modernbert,
                     .architecture = "ModernBertModel",
                     .vocab_size = 1000,
                     .hidden_size = large ? 1024 : 768,
                     .layers = large ? 28 : 22,
                     .heads = large ? 16 : 12,
                     .intermediate_size = large ? 2624 : 1152,
                     .activation = "gelu",
                     .norm_epsilon = 1e-5};
  config.attention_bias = config.mlp_bias = config.norm_bias = false;
  for (std::int64_t layer = 0; layer < config.layers; ++layer)
    config.rotary.push_back(layer % 3 == 0 ? RotaryLayer{.reach = {}, .theta = 160'000}
                                           : RotaryLayer{.reach = 64, .theta = 10'000});
  return config;
}

// As longformer-base-4096.
ModelConfig longformer_base() {
  ModelConfig config{.family = Family::longformer,
                     .architecture = "LongformerModel",
                     .vocab_size = 1000,
                     .hidden_size = 768,
                     .layers = 12,
                     .heads = 12,
                     .intermediate_size = 3072,
                     .type_vocab_size = 1,
                     .activation = "gelu",
                     .norm_epsilon = 1e-5,
                     .first_position = 2};
  config.reaches.assign(static_cast<std::size_t>(config.layers), 256);
  return config;
}

// As all-mpnet-base-v2.
ModelConfig mpnet_base() {
  return {.family = Family::mpnet,
          .architecture = "MPNetModel",
          .vocab_size = 1000,
          .hidden_size = 768,
          .layers = 12,
          .heads = 12,
          .intermediate_size = 3072,
          .relative = {.buckets = 32, .max_distance = 128},
          .activation = "gelu",
          .norm_epsilon = 1e-5,
          .first_position = 2};
}

// As nomic-embed-text-v1 and v1.5.
ModelConfig nomic_base() {
  ModelConfig config{.family = Family::nomic,
                     .architecture = "NomicBertModel",
                     .vocab_size = 1000,
                     .hidden_size = 768,
                     .layers = 12,
                     .heads = 12,
                     .intermediate_size = 3072,
                     .type_vocab_size = 2,
                     .activation = "silu"};
  config.rotary.assign(static_cast<std::size_t>(config.layers), {.reach = {}, .theta = 1000});
  return config;
}

// As EuroBERT-210m.
ModelConfig eurobert_210m() {
  ModelConfig config{.family = Family::eurobert,
                     .architecture = "EuroBertModel",
                     .vocab_size = 1000,
                     .hidden_size = 768,
                     .layers = 12,
                     .heads = 12,
                     .intermediate_size = 3072,
                     .activation = "silu",
                     .norm_epsilon = 1e-5};
  config.attention_bias = config.mlp_bias = config.causal = false;
  config.kv_heads = config.heads;
  config.head_dim = 64;
  config.rotary.assign(static_cast<std::size_t>(config.layers), {.reach = {}, .theta = 250'000});
  return config;
}

// As the encoder of t5-base, and so of sentence-t5-base and gtr-t5-base.
ModelConfig t5_base() {
  ModelConfig config{.family = Family::t5,
                     .architecture = "T5EncoderModel",
                     .vocab_size = 1000,
                     .hidden_size = 768,
                     .layers = 12,
                     .heads = 12,
                     .intermediate_size = 3072,
                     .relative = {.buckets = 32, .max_distance = 128},
                     .activation = "relu",
                     .norm_epsilon = 1e-6};
  config.head_dim = 64;
  config.unscaled_scores = true;
  return config;
}

}  // namespace

ModelConfig config_named(const std::string& name) {
  if (name == "modernbert-base" || name == "modernbert-large") return modernbert_named(name);
  if (name == "longformer-base") return longformer_base();
  if (name == "mpnet-base") return mpnet_base();
  if (name == "nomic-base") return nomic_base();
  if (name == "eurobert-210m") return eurobert_210m();
  if (name == "t5-base") return t5_base();
  if (name == "llama-3.2-1b" || name == "qwen3-0.6b") return llama_named(name);
  ModelConfig config{.family = Family::bert, .architecture = "BertModel", .vocab_size = 1000, .activation = "gelu"};
  config.hidden_size = name == "bert-large" ? 1024 : 768;
  config.layers = name == "bert-large" ? 24 : 12;
  config.heads = name == "bert-large" ? 16 : 12;
  config.intermediate_size = 4 * config.hidden_size;
  config.type_vocab_size = 2;
  if (name == "gpt2") {
    config.family = Family::gpt2;
    config.architecture = "GPT2Model";
    config.activation = "gelu_new";
    config.norm_epsilon = 1e-5;
    config.type_vocab_size = 0;
  } else if (name != "bert-base" && name != "bert-large") {
    fail(
        ErrorKind::invalid_argument,
        "random model '{}'; accepted: bert-base, bert-large, gpt2, modernbert-base, modernbert-large, longformer-base, "
        "mpnet-base, nomic-base, eurobert-210m, t5-base, llama-3.2-1b, qwen3-0.6b",
        name);
  }
  return config;
}

}  // namespace stof::cli
