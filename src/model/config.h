// SPDX-License-Identifier: Apache-2.0
// config.json of the BERT family, and the pooling that sentence-transformers put beside it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "stof/session.h"

namespace stof {

struct BertConfig {
  std::string architecture;  // "BertModel", ...
  std::int64_t vocab_size = 0, hidden_size = 0, layers = 0, heads = 0, intermediate_size = 0;
  std::int64_t max_positions = 0, type_vocab_size = 0;
  std::string activation;  // "gelu", "gelu_new", "relu"
  double norm_epsilon = 1e-12;
  std::string position_embedding = "absolute";
};

struct PoolingConfig {
  Pooling pooling = Pooling::cls;  // when nothing says otherwise
  bool normalize = false;
  std::int64_t max_tokens = 0;  // max_seq_length of sentence_bert_config.json, else max_positions
};

BertConfig read_config(const std::filesystem::path& folder);
PoolingConfig read_pooling(const std::filesystem::path& folder, const BertConfig& config);

}  // namespace stof
