// SPDX-License-Identifier: Apache-2.0
// Checkpoint to graph, one function per model family.
#pragma once
#include "src/graph/graph.h"
#include "src/model/model.h"

namespace stof {

enum class GraphResult : std::uint8_t { hidden, logits };  // logits: a language model's scores of every token

// By the model's family, from token ids to the last hidden state or to logits. `global_tokens`, of Longformer: so many
// first tokens of each text see all others and are seen by them. Throws bad_file naming the first weight that is
// missing or has another shape; unsupported for an activation that is not known, for logits of an encoder, and for
// global tokens of others; invalid_argument for fewer than none, and more than there are positions.
Graph build_graph(const Model& model, GraphResult result = GraphResult::hidden, std::int64_t global_tokens = 0);

Graph build_bert(const Model& model, std::int64_t global_tokens = 0);  // RoBERTa and Longformer, too
Graph build_distilbert(const Model& model);
Graph build_mpnet(const Model& model);
Graph build_t5(const Model& model);  // the encoders of T5, mT5 and UMT5
Graph build_gpt2(const Model& model, GraphResult result = GraphResult::hidden);
Graph build_modernbert(const Model& model);
Graph build_nomic(const Model& model);
// Mistral, Qwen2, Qwen3, Phi-3, Gemma and EuroBERT, too.
Graph build_llama(const Model& model, GraphResult result = GraphResult::hidden);

// Of a simplified graph whose result is logits: what it is without them.
Graph without_logits(Graph simplified);

// Of dense layers behind a pooling, at least one, each of what the one before gives: from op::Input, whose rows are
// texts. Throws unsupported for an activation that is not known.
Graph build_dense(const std::vector<DenseLayer>& layers);

}  // namespace stof
