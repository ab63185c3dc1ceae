// SPDX-License-Identifier: Apache-2.0
#include "src/model/config.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <span>

#include "src/backend/contract.h"
#include "src/base/error.h"
#include "src/base/file_status.h"
#include "src/model/config_activation.h"
#include "src/model/config_gemma.h"
#include "src/model/config_llama.h"
#include "src/model/config_modernbert.h"
#include "src/model/config_nomic.h"
#include "src/model/config_rotary.h"
#include "src/model/config_t5.h"
#include "src/model/file_names.h"
#include "src/model/generation_config.h"
#include "src/model/json.h"

namespace stof {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

// Each has the family's encoder or decoder; what it adds on top is not read, but for the head of language models.
constexpr std::array<std::string_view, 8> kBert{
    "BertModel",
    "BertForMaskedLM",
    "BertForPreTraining",
    "BertForNextSentencePrediction",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertForQuestionAnswering",
    "BertForMultipleChoice",
};
constexpr std::array<std::string_view, 6> kRoberta{
    "RobertaModel",
    "RobertaForMaskedLM",
    "RobertaForSequenceClassification",
    "RobertaForTokenClassification",
    "RobertaForQuestionAnswering",
    "RobertaForMultipleChoice",
};
constexpr std::array<std::string_view, 6> kXlmRoberta{
    "XLMRobertaModel",
    "XLMRobertaForMaskedLM",
    "XLMRobertaForSequenceClassification",
    "XLMRobertaForTokenClassification",
    "XLMRobertaForQuestionAnswering",
    "XLMRobertaForMultipleChoice",
};
constexpr std::array<std::string_view, 6> kDistilBert{
    "DistilBertModel",
    "DistilBertForMaskedLM",
    "DistilBertForSequenceClassification",
    "DistilBertForTokenClassification",
    "DistilBertForQuestionAnswering",
    "DistilBertForMultipleChoice",
};
constexpr std::array<std::string_view, 6> kLongformer{
    "LongformerModel",
    "LongformerForMaskedLM",
    "LongformerForSequenceClassification",
    "LongformerForTokenClassification",
    "LongformerForQuestionAnswering",
    "LongformerForMultipleChoice",
};
constexpr std::array<std::string_view, 5> kGpt2{
    "GPT2Model",
    "GPT2LMHeadModel",
    "GPT2DoubleHeadsModel",
    "GPT2ForSequenceClassification",
    "GPT2ForTokenClassification",
};
constexpr std::array<std::string_view, 6> kModernBert{
    "ModernBertModel",
    "ModernBertForMaskedLM",
    "ModernBertForSequenceClassification",
    "ModernBertForTokenClassification",
    "ModernBertForQuestionAnswering",
    "ModernBertForMultipleChoice",
};
constexpr std::array<std::string_view, 4> kLlama{"LlamaModel", "LlamaForCausalLM", "LlamaForSequenceClassification",
                                                 "LlamaForTokenClassification"};
constexpr std::array<std::string_view, 5> kMistral{"MistralModel", "MistralForCausalLM",
                                                   "MistralForSequenceClassification", "MistralForTokenClassification",
                                                   "MistralForQuestionAnswering"};
constexpr std::array<std::string_view, 5> kQwen2{"Qwen2Model", "Qwen2ForCausalLM", "Qwen2ForSequenceClassification",
                                                 "Qwen2ForTokenClassification", "Qwen2ForQuestionAnswering"};
constexpr std::array<std::string_view, 5> kQwen3{"Qwen3Model", "Qwen3ForCausalLM", "Qwen3ForSequenceClassification",
                                                 "Qwen3ForTokenClassification", "Qwen3ForQuestionAnswering"};

constexpr std::array<std::string_view, 4> kPhi3{"Phi3Model", "Phi3ForCausalLM", "Phi3ForSequenceClassification",
                                                "Phi3ForTokenClassification"};
constexpr std::array<std::string_view, 4> kGemma2{"Gemma2Model", "Gemma2ForCausalLM", "Gemma2ForSequenceClassification",
                                                  "Gemma2ForTokenClassification"};
constexpr std::array<std::string_view, 4> kEuroBert{
    "EuroBertModel", "EuroBertForMaskedLM", "EuroBertForSequenceClassification", "EuroBertForTokenClassification"};
constexpr std::array<std::string_view, 4> kNomic{
    "NomicBertModel", "NomicBertForMaskedLM", "NomicBertForSequenceClassification", "NomicBertForTokenClassification"};
constexpr std::array<std::string_view, 3> kGemma3{"Gemma3TextModel", "Gemma3ForCausalLM",
                                                  "Gemma3TextForSequenceClassification"};

constexpr std::array<std::string_view, 6> kMpnet{"MPNetModel",
                                                 "MPNetForMaskedLM",
                                                 "MPNetForSequenceClassification",
                                                 "MPNetForTokenClassification",
                                                 "MPNetForQuestionAnswering",
                                                 "MPNetForMultipleChoice"};
constexpr std::array<std::string_view, 7> kT5{"T5EncoderModel",
                                              "T5Model",
                                              "T5WithLMHeadModel",  // as T5ForConditionalGeneration was called
                                              "T5ForConditionalGeneration",
                                              "T5ForSequenceClassification",
                                              "T5ForTokenClassification",
                                              "T5ForQuestionAnswering"};
constexpr std::array<std::string_view, 6> kMt5{"MT5EncoderModel",
                                               "MT5Model",
                                               "MT5ForConditionalGeneration",
                                               "MT5ForSequenceClassification",
                                               "MT5ForTokenClassification",
                                               "MT5ForQuestionAnswering"};
constexpr std::array<std::string_view, 6> kUmt5{"UMT5EncoderModel",
                                                "UMT5Model",
                                                "UMT5ForConditionalGeneration",
                                                "UMT5ForSequenceClassification",
                                                "UMT5ForTokenClassification",
                                                "UMT5ForQuestionAnswering"};

// How a family's config.json calls things; "" where it has nothing of the kind.
struct FamilyKeys {
  Family family;
  std::string_view model_type;
  std::span<const std::string_view> architectures;
  std::string_view hidden_size, layers, heads, intermediate_size, positions, activation;
};
constexpr FamilyKeys llama_keys(std::string_view model_type, std::span<const std::string_view> architectures,
                                Family family = Family::llama, std::string_view activation = "hidden_act") {
  return {family,
          model_type,
          architectures,
          "hidden_size",
          "num_hidden_layers",
          "num_attention_heads",
          "intermediate_size",
          "max_position_embeddings",
          activation};
}
constexpr FamilyKeys t5_keys(std::string_view model_type, std::span<const std::string_view> architectures) {
  return {Family::t5, model_type, architectures, "d_model", "num_layers", "num_heads", "d_ff", "", ""};
}
constexpr std::array<FamilyKeys, 20> kFamilies{{
    {Family::bert, "bert", kBert, "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
     "max_position_embeddings", "hidden_act"},
    {Family::roberta, "roberta", kRoberta, "hidden_size", "num_hidden_layers", "num_attention_heads",
     "intermediate_size", "max_position_embeddings", "hidden_act"},
    {Family::roberta, "xlm-roberta", kXlmRoberta, "hidden_size", "num_hidden_layers", "num_attention_heads",
     "intermediate_size", "max_position_embeddings", "hidden_act"},
    {Family::distilbert, "distilbert", kDistilBert, "dim", "n_layers", "n_heads", "hidden_dim",
     "max_position_embeddings", "activation"},
    {Family::longformer, "longformer", kLongformer, "hidden_size", "num_hidden_layers", "num_attention_heads",
     "intermediate_size", "max_position_embeddings", "hidden_act"},
    {Family::gpt2, "gpt2", kGpt2, "n_embd", "n_layer", "n_head", "n_inner", "n_positions", "activation_function"},
    {Family::modernbert, "modernbert", kModernBert, "hidden_size", "num_hidden_layers", "num_attention_heads",
     "intermediate_size", "max_position_embeddings", "hidden_activation"},
    llama_keys("llama", kLlama),
    llama_keys("mistral", kMistral),
    llama_keys("qwen2", kQwen2),
    llama_keys("qwen3", kQwen3),
    llama_keys("phi3", kPhi3),
    llama_keys("gemma2", kGemma2, Family::gemma, "hidden_activation"),
    llama_keys("gemma3_text", kGemma3, Family::gemma, "hidden_activation"),
    llama_keys("eurobert", kEuroBert, Family::eurobert),
    {Family::nomic, "nomic_bert", kNomic, "n_embd", "n_layer", "n_head", "n_inner", "n_positions", ""},
    {Family::mpnet, "mpnet", kMpnet, "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
     "max_position_embeddings", "hidden_act"},
    t5_keys("t5", kT5),
    t5_keys("mt5", kMt5),
    t5_keys("umt5", kUmt5),
}};

std::string known_types() {
  std::string names;
  for (const FamilyKeys& keys : kFamilies) names += fmt::format("{}{}", names.empty() ? "" : ", ", keys.model_type);
  return names;
}

// Older files of BERT have no model_type; transformers finds them by their architectures.
std::string read_model_type(const JsonObject& object) {
  if (object.has("model_type")) return object.string("model_type");
  const nlohmann::json bert = nlohmann::json(kBert);
  if (is_said(object, "architectures") && object.at("architectures").is_array())
    for (const nlohmann::json& name : object.at("architectures"))
      if (std::find(bert.begin(), bert.end(), name) != bert.end()) return "bert";
  fail(ErrorKind::bad_file, "{}: 'model_type' is missing; accepted without it: 'architectures' of BERT",
       object.where());
}

FamilyKeys read_family(const JsonObject& object) {
  const std::string type = read_model_type(object);
  const auto named = [&](const FamilyKeys& keys) { return keys.model_type == type; };
  const auto found = std::find_if(kFamilies.begin(), kFamilies.end(), named);
  if (found == kFamilies.end()) refuse(object, "model_type", known_types());
  FamilyKeys keys = *found;
  // Transformers takes the names of most families for those of GPT-2, DistilBERT and T5, too.
  take_other_name(object, "hidden_size", keys.hidden_size);
  take_other_name(object, "num_hidden_layers", keys.layers);
  take_other_name(object, "num_attention_heads", keys.heads);
  if (!keys.positions.empty()) take_other_name(object, "max_position_embeddings", keys.positions);
  if (keys.family == Family::nomic) take_other_name(object, "intermediate_size", keys.intermediate_size);
  return keys;
}

std::string read_architecture(const JsonObject& object, std::span<const std::string_view> accepted) {
  if (!is_said(object, "architectures")) return std::string(accepted.front());
  const nlohmann::json& list = object.at("architectures");
  if (!list.is_array() || list.size() != 1 || !list[0].is_string())
    object.refuse("architectures", "an array of one string");
  std::string name = list[0].get<std::string>();
  if (std::find(accepted.begin(), accepted.end(), name) == accepted.end())
    refuse(object, "architectures", fmt::format("{}", fmt::join(accepted, ", ")));
  return name;
}

// What changes results in transformers, and what says that the weights are not simply those of the layers.
void check_kind(const JsonObject& object, Family family) {
  const bool has_positions = family == Family::bert || family == Family::roberta;  // ModernBERT's has "sans_pos"
  if (has_positions && object.string("position_embedding_type", "absolute") != "absolute")
    refuse(object, "position_embedding_type", "absolute");
  for (const std::string_view key : {"is_decoder", "add_cross_attention", "scale_attn_by_inverse_layer_idx"})
    if (object.boolean(key, false) && !(key == "is_decoder" && is_decoder(family))) refuse(object, key, "false");
  for (const std::string_view key : {"quantization_config", "per_layer_config", "transformers_weights"})
    if (is_said(object, key)) refuse(object, key, "null");
  if (!object.boolean("scale_attn_weights", true)) refuse(object, "scale_attn_weights", "true");
}

// With false a decoder sees both sides, as models of embeddings do that were made of one; null is false to
// transformers.
bool read_causal(const JsonObject& object, Family family) {
  constexpr std::string_view kKey = "is_causal";
  const bool causal = object.has(kKey) ? object.optional_boolean(kKey).value_or(false) : is_decoder(family);
  if (causal && !is_decoder(family)) refuse(object, kKey, "false for an encoder");
  return causal;
}

// Two, for what the tokenizer puts around a text; those of decoders put nothing behind it.
std::int64_t least_positions(Family family) { return is_decoder(family) ? 1 : 2; }

std::string_view usual_activation(Family family) {
  const bool by_tanh = family == Family::gpt2 || family == Family::gemma;
  return by_tanh ? "gelu_new" : family == Family::llama || family == Family::eurobert ? "silu" : "gelu";
}

ModelConfig read_sizes(const JsonObject& object, const FamilyKeys& keys) {
  ModelConfig config{.family = keys.family,
                     .architecture = read_architecture(object, keys.architectures),
                     .vocab_size = object.integer("vocab_size", 1, kMost),
                     .hidden_size = object.integer(keys.hidden_size, 1, kMost),
                     .layers = object.integer(keys.layers, 0, kMost),
                     .heads = object.integer(keys.heads, 1, kMost)};
  if (!keys.positions.empty())
    config.max_positions = object.integer(keys.positions, least_positions(keys.family), kMost);
  if (!keys.activation.empty())
    config.activation = read_activation(object, keys.activation, usual_activation(keys.family));
  return config;
}

// What only some families have.
void read_bert(const JsonObject& object, ModelConfig& config) {
  config.type_vocab_size = object.integer("type_vocab_size", 1, kMost, 2);
  config.norm_epsilon = object.positive_number("layer_norm_eps", 1e-12);
}

void read_roberta(const JsonObject& object, ModelConfig& config) {
  read_bert(object, config);
  config.first_position = object.integer("pad_token_id", 0, kMost - 1, 1) + 1;
  config.max_positions -= config.first_position;
  if (const std::int64_t least = least_positions(config.family); config.max_positions < least)
    object.refuse("max_position_embeddings",
                  fmt::format("at least pad_token_id + {}, {}", 1 + least, config.first_position + least));
}

// One width of the windows, or one for each layer; half of it lies to either side.
void read_longformer(const JsonObject& object, ModelConfig& config) {
  constexpr std::string_view kKey = "attention_window";
  read_roberta(object, config);
  check_layers_and_positions(object, config);
  const auto refuse_windows = [&] {
    object.refuse(kKey,
                  fmt::format("an even number of 2 or more, or an array of one for each of {} layers", config.layers));
  };
  const auto reach = [&](const nlohmann::json& window) {
    if (!window.is_number_integer() || window < 2 || window > kMost || window.get<std::int64_t>() % 2 != 0)
      refuse_windows();
    return window.get<std::int64_t>() / 2;
  };
  const nlohmann::json windows = object.has(kKey) ? object.at(kKey) : nlohmann::json(512);
  if (windows.is_array()) {
    if (std::ssize(windows) != config.layers) refuse_windows();
    std::transform(windows.begin(), windows.end(), std::back_inserter(config.reaches), reach);
  } else {
    config.reaches.assign(static_cast<std::size_t>(config.layers), reach(windows));
  }
}

void read_gpt2(const JsonObject& object, ModelConfig& config) {
  config.norm_epsilon = object.positive_number("layer_norm_epsilon", 1e-5);
  config.tied_head = object.boolean("tie_word_embeddings", true);
  const bool unsaid = !object.has("n_inner") || object.at("n_inner").is_null();
  config.intermediate_size = unsaid ? 4 * config.hidden_size : object.integer("n_inner", 1, kMost);
  if (config.intermediate_size > kMost)
    object.refuse("n_embd", fmt::format("at most {} where n_inner is not given", kMost / 4));
}

}  // namespace

ModelConfig read_config(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / file_names::kConfig;
  if (!is_there(file))
    fail(ErrorKind::bad_file,
         "{}: no config.json; a model is a folder with config.json, model.safetensors, and "
         "tokenizer.json or vocab.txt",
         folder.string());
  if (is_there(folder / file_names::kAdapter))
    fail(ErrorKind::unsupported, "{}: an adapter is not applied; accepted: a checkpoint that it is merged into",
         (folder / file_names::kAdapter).string());
  const nlohmann::json tree = read_json(file);
  const JsonObject object(tree, file.string());
  const FamilyKeys keys = read_family(object);
  check_kind(object, keys.family);
  ModelConfig config = read_sizes(object, keys);
  config.causal = read_causal(object, config.family);
  if (is_decoder(config.family)) read_generation(folder, object, config);
  if (config.family == Family::nomic)
    config.intermediate_size = read_nomic_width(object, keys.intermediate_size, config);
  else if (config.family != Family::gpt2) config.intermediate_size = object.integer(keys.intermediate_size, 1, kMost);
  switch (config.family) {
    case Family::bert: read_bert(object, config); break;
    case Family::roberta: read_roberta(object, config); break;
    case Family::distilbert: break;
    case Family::longformer: read_longformer(object, config); break;
    case Family::gpt2: read_gpt2(object, config); break;
    case Family::modernbert: read_modernbert(object, config); break;
    case Family::llama:
    case Family::eurobert: read_llama(object, keys.model_type, config); return config;
    case Family::gemma: read_gemma(object, keys.model_type, config); return config;
    case Family::nomic: read_nomic(object, config); return config;
    case Family::mpnet: read_mpnet(object, config); break;
    case Family::t5: read_t5(object, keys.model_type, config); return config;
  }
  if (config.hidden_size % config.heads != 0)
    object.refuse(keys.hidden_size, fmt::format("a multiple of {}, {}", keys.heads, config.heads));
  if (config.hidden_size / config.heads > kMaxHeadDim)
    refuse(object, keys.hidden_size,
           fmt::format("at most {} for each of {}, {}", kMaxHeadDim, keys.heads, config.heads));
  if (!config.rotary.empty() && config.hidden_size / config.heads % 2 != 0)
    object.refuse(keys.hidden_size, fmt::format("an even number for each of {} heads", config.heads));
  return config;
}

}  // namespace stof
