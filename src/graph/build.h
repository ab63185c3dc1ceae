// SPDX-License-Identifier: Apache-2.0
// Checkpoint to graph, one function per model family.
#pragma once
#include "src/graph/graph.h"
#include "src/model/model.h"

namespace stof {

enum class GraphResult : std::uint8_t { hidden, logits };  // logits: a language model's scores of every token

// By the model's family, from token ids to the last hidden state or to logits. Throws bad_file naming the first weight
// that is missing or has another shape; unsupported for an activation that is not known, and for logits of an encoder.
Graph build_graph(const Model& model, GraphResult result = GraphResult::hidden);

Graph build_bert(const Model& model);  // RoBERTa, too
Graph build_distilbert(const Model& model);
Graph build_gpt2(const Model& model, GraphResult result = GraphResult::hidden);
Graph build_modernbert(const Model& model);
Graph build_llama(const Model& model, GraphResult result = GraphResult::hidden);  // Mistral, Qwen2 and Qwen3, too

}  // namespace stof
