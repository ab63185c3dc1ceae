// SPDX-License-Identifier: Apache-2.0
// The files in a model's folder that are read, beside the *.safetensors and the config.json of a pooling's folder.
#pragma once
#include <array>
#include <string_view>

namespace stof::file_names {

inline constexpr std::string_view kConfig = "config.json", kWeightIndex = "model.safetensors.index.json",
                                  kTokenizer = "tokenizer.json", kVocabulary = "vocab.txt",
                                  kTokenizerConfig = "tokenizer_config.json", kAddedTokens = "added_tokens.json",
                                  kModules = "modules.json", kSentenceConfig = "sentence_bert_config.json",
                                  kPrompts = "config_sentence_transformers.json",
                                  kGeneration = "generation_config.json";
inline constexpr std::array kAll{kConfig,      kWeightIndex, kTokenizer,      kVocabulary, kTokenizerConfig,
                                 kAddedTokens, kModules,     kSentenceConfig, kPrompts,    kGeneration};

}  // namespace stof::file_names
