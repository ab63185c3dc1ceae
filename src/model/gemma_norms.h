// SPDX-License-Identifier: Apache-2.0
// Norms of Gemma as other models have them, so that nothing behind this knows of Gemma.
#pragma once
#include "src/model/model.h"

namespace stof {

// Gemma stores of a norm's scales what they have above 1, multiplies embeddings by the root of hidden_size, and divides
// scores by the root of score_divisor. Scales become whole; those of what layers add are divided by the root of
// hidden_size, so that embeddings may stay as they are: all sums between layers are that much smaller, of which norms
// see their epsilon alone (build_llama.cpp). Those of q take what scores are divided by besides the root of head_dim.
void make_norms_whole(Model& model);

}  // namespace stof
