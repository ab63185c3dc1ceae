// SPDX-License-Identifier: Apache-2.0
// config.json of the families of models that run, and the pooling that sentence-transformers put beside it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "src/model/dense_layer.h"
#include "src/model/rotary.h"
#include "stof/session.h"

namespace stof {

enum class Family : std::uint8_t {
  bert,
  roberta,
  distilbert,
  longformer,
  gpt2,
  modernbert,
  llama,     // Mistral, Qwen2, Qwen3 and Phi-3, too
  gemma,     // Gemma 2, and the text models of Gemma 3
  eurobert,  // an encoder of Llama's kind
  nomic,
  mpnet,
  t5,  // the encoders of T5, mT5 and UMT5
};

// Whether it is a decoder: a token sees what is before it, and logits are those of the next one.
constexpr bool is_decoder(Family family) {
  return family == Family::gpt2 || family == Family::llama || family == Family::gemma;
}

// What scores gain by how far their key is away (relative_positions.h).
struct RelativePositions {
  std::int64_t buckets = 0;  // 0: nothing
  std::int64_t max_distance = 0;
  bool each_layer = false;  // has a table of its own; else all share one
};

struct ModelConfig {
  Family family = Family::bert;
  std::string architecture;  // "BertModel", ...
  std::int64_t vocab_size = 0, hidden_size = 0, layers = 0, heads = 0, intermediate_size = 0;
  std::int64_t max_positions = 0;    // tokens of the longest text
  std::int64_t type_vocab_size = 0;  // 0: the family has no token types
  RelativePositions relative = {};   // MPNet, T5
  std::string activation = {};       // "gelu", "gelu_new", "relu", "silu"
  double norm_epsilon = 1e-12;
  // The row of the table of positions that a text's first token takes. Where it is not 0, the token whose id is one
  // less is padding, which takes the row before and is not counted (RoBERTa).
  std::int64_t first_position = 0;
  std::vector<std::int32_t> ends = {};     // of decoders: tokens behind which a text ends
  std::string not_applied = {};            // "FILE: 'KEY' is VALUE, ...": what would change the texts that are made
  bool causal = true;                      // of decoders: a token sees what is before it; else what is behind it, too
  bool tied_head = true;                   // of decoders: logits are products with the table of tokens
  std::vector<RotaryLayer> rotary = {};    // ModernBERT, Nomic, and all of Llama's kind: each layer's
  std::vector<std::int64_t> reaches = {};  // Longformer: how many tokens one of each layer sees to either side
  bool attention_bias = true, mlp_bias = true, norm_bias = true;
  // Of Llama's kind: Llama, Gemma, EuroBERT.
  std::int64_t kv_heads = 0, head_dim = 0;
  bool attention_out_bias = false;
  bool head_norms = false;       // heads of q and k are normalised before they are turned
  bool stacked_weights = false;  // q, k and v are one matrix in the file, and a gate and what it lets through another
  // T5, which has head_dim, too.
  bool gated_mlp = false;
  bool unscaled_scores = false;
  // Gemma.
  bool post_norms = false;                               // what a layer adds is normalised first
  double score_divisor = 0;                              // scores are divided by its root, in place of that of head_dim
  std::optional<double> score_cap = {}, logit_cap = {};  // x becomes cap * tanh(x / cap)

  std::int64_t position_rows() const { return first_position + max_positions; }
  // See RotaryScaling: of all layers alike.
  std::int64_t long_after() const { return rotary.empty() ? 0 : rotary.front().scaling.long_after(); }
};

struct PoolingConfig {
  Pooling pooling = Pooling::cls;  // when nothing says otherwise; of decoders last, of some mean
  bool normalize = false;
  std::int64_t max_tokens = 0;         // max_seq_length of sentence_bert_config.json, else max_positions
  std::vector<DenseLayer> dense = {};  // of pooled vectors, in this order, before they are normalised
};

ModelConfig read_config(const std::filesystem::path& folder);
PoolingConfig read_pooling(const std::filesystem::path& folder, const ModelConfig& config);

}  // namespace stof
