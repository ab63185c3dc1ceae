// SPDX-License-Identifier: Apache-2.0
// The files in a model's folder that are read, beside the *.safetensors and the config.json of a pooling's folder.
#pragma once
#include <algorithm>
#include <array>
#include <string_view>

namespace stof::file_names {

inline constexpr std::string_view kConfig = "config.json", kWeightIndex = "model.safetensors.index.json",
                                  kTokenizer = "tokenizer.json", kVocabulary = "vocab.txt",
                                  kTokenizerConfig = "tokenizer_config.json", kAddedTokens = "added_tokens.json",
                                  kSpecialTokens = "special_tokens_map.json", kModules = "modules.json",
                                  kPrompts = "config_sentence_transformers.json",
                                  kGeneration = "generation_config.json", kAdapter = "adapter_config.json";
// In the order in which they are looked for.
inline constexpr std::array<std::string_view, 7> kSentenceConfigs{
    "sentence_bert_config.json",      "sentence_roberta_config.json", "sentence_distilbert_config.json",
    "sentence_camembert_config.json", "sentence_albert_config.json",  "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
};

constexpr bool is_read(std::string_view name) {
  constexpr std::array kOthers{kConfig,      kWeightIndex,   kTokenizer, kVocabulary, kTokenizerConfig,
                               kAddedTokens, kSpecialTokens, kModules,   kPrompts,    kGeneration};
  const auto has = [&](const auto& names) { return std::find(names.begin(), names.end(), name) != names.end(); };
  return has(kOthers) || has(kSentenceConfigs);
}

}  // namespace stof::file_names
