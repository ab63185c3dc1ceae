// SPDX-License-Identifier: Apache-2.0
// Models with random weights, for timing: time does not depend on the values.
#pragma once
#include <cstdint>
#include <string>

#include "src/model/model.h"

namespace stof::cli {

// The sizes of BERT-base (12 layers, hidden size 768, 12 heads, intermediate size 3072) for texts of up to
// `max_positions` tokens, with a vocabulary of 1000: embedding lookups cost nothing that grows with it. Matrices are
// uniform with deviation 0.02, as BERT is initialised; norms are the identity.
Model random_bert_base(std::int64_t max_positions, std::uint64_t seed);

// "bert-base", "bert-large" (24 layers, 1024, 16 heads), "gpt2" (12 layers, 768, 12 heads), "modernbert-base" (22
// layers, 768, 12 heads), "modernbert-large" (28 layers, 1024, 16 heads), "longformer-base", "mpnet-base",
// "nomic-base" and "eurobert-210m" (as bert-base), "t5-base" (the encoder: as bert-base), "llama-3.2-1b" (16 layers,
// 2048, 32 heads of 8 for keys) or "qwen3-0.6b" (28 layers, 1024, 16 heads of 8), in the same way.
Model random_model(const std::string& name, std::int64_t max_positions, std::uint64_t seed);
// The same without values, which nobody may read but those of relative biases: sizes and names take no time and no
// memory.
Model described_model(const std::string& name, std::int64_t max_positions);

}  // namespace stof::cli
