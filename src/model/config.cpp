// SPDX-License-Identifier: Apache-2.0
#include "src/model/config.h"

#include <algorithm>
#include <array>
#include <limits>

#include "src/base/error.h"
#include "src/model/json.h"

namespace stof {
namespace {

// Each has the same encoder under the prefix "bert." (BertModel: none); what they add on top of it is not read.
constexpr std::array<std::string_view, 8> kArchitectures{
    "BertModel",
    "BertForMaskedLM",
    "BertForPreTraining",
    "BertForNextSentencePrediction",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertForQuestionAnswering",
    "BertForMultipleChoice",
};

struct Activation {
  std::string_view in_file, ours;
};
constexpr std::array<Activation, 4> kActivations{{
    {"gelu", "gelu"},
    {"gelu_new", "gelu_new"},
    {"gelu_pytorch_tanh", "gelu_new"},  // the same formula
    {"relu", "relu"},
}};

[[noreturn]] void refuse(const JsonObject& object, std::string_view key, std::string_view accepted) {
  fail(ErrorKind::unsupported, "{}: '{}' is {}; accepted: {}", object.where(), key, excerpt(object.at(key)), accepted);
}

std::string read_architecture(const JsonObject& object) {
  if (!object.has("architectures")) return "BertModel";
  const nlohmann::json& list = object.at("architectures");
  if (!list.is_array() || list.size() != 1 || !list[0].is_string())
    object.refuse("architectures", "an array of one string");
  std::string name = list[0].get<std::string>();
  if (std::find(kArchitectures.begin(), kArchitectures.end(), name) == kArchitectures.end())
    refuse(object, "architectures", fmt::format("{}", fmt::join(kArchitectures, ", ")));
  return name;
}

std::string read_activation(const JsonObject& object) {
  const std::string name = object.string("hidden_act", "gelu");
  for (const Activation& known : kActivations)
    if (name == known.in_file) return std::string(known.ours);
  refuse(object, "hidden_act", "gelu, gelu_new, gelu_pytorch_tanh, relu");
}

void check_kind(const JsonObject& object) {
  if (object.string("model_type", "bert") != "bert") refuse(object, "model_type", "bert");
  if (object.string("position_embedding_type", "absolute") != "absolute")
    refuse(object, "position_embedding_type", "absolute");
  for (const std::string_view key : {"is_decoder", "add_cross_attention"})
    if (object.boolean(key, false)) refuse(object, key, "false");
}

}  // namespace

BertConfig read_config(const std::filesystem::path& folder) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::filesystem::path file = folder / "config.json";
  if (!std::filesystem::exists(file))
    fail(ErrorKind::bad_file,
         "{}: no config.json; a model is a folder with config.json, model.safetensors, and "
         "tokenizer.json or vocab.txt",
         folder.string());
  const nlohmann::json tree = read_json(file);
  const JsonObject object(tree, file.string());
  check_kind(object);
  BertConfig config{.architecture = read_architecture(object),
                    .vocab_size = object.integer("vocab_size", 1, kMost),
                    .hidden_size = object.integer("hidden_size", 1, kMost),
                    .layers = object.integer("num_hidden_layers", 0, kMost),
                    .heads = object.integer("num_attention_heads", 1, kMost),
                    .intermediate_size = object.integer("intermediate_size", 1, kMost),
                    .max_positions = object.integer("max_position_embeddings", 1, kMost),
                    .type_vocab_size = object.integer("type_vocab_size", 1, kMost, 2),
                    .activation = read_activation(object),
                    .norm_epsilon = object.positive_number("layer_norm_eps", 1e-12),
                    .position_embedding = "absolute"};
  if (config.hidden_size % config.heads != 0)
    object.refuse("hidden_size", fmt::format("a multiple of num_attention_heads, {}", config.heads));
  return config;
}

}  // namespace stof
