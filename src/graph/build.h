// SPDX-License-Identifier: Apache-2.0
// Checkpoint to graph, one function per model family.
#pragma once
#include "src/graph/graph.h"
#include "src/model/model.h"

namespace stof {

// The encoder of BERT (Devlin et al. 2018, post-norm), from token ids to the last hidden state. Throws bad_file naming
// the first weight that is missing or has another shape; unsupported for an activation that is not known.
Graph build_bert(const Model& model);

}  // namespace stof
