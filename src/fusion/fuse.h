// SPDX-License-Identifier: Apache-2.0
// A scheme makes a graph of fused nodes; the default scheme is what is known to be good on every device.
#pragma once
#include "src/fusion/rules.h"

namespace stof {

// A node for each segment, verified. Throws invalid_argument for a scheme that breaks a rule.
Graph fuse(const Blocks& blocks, const Scheme& scheme);

// The longest segments, from the first operator on, that these templates cover, and attention; the rest by itself.
Scheme scheme_of_templates(const Blocks& blocks, std::span<const std::string_view> names);

// The embeddings with their norm, a matmul with its bias and activation, a residual with the norm after it; everything
// else by itself.
Scheme default_scheme(const Blocks& blocks);

// Of a target of few rows, where reading weights is what takes time: matmuls do what stands in front of them and
// behind.
Scheme few_rows_scheme(const Blocks& blocks);

// Nothing fused.
Scheme detached_scheme(const Blocks& blocks);

// By the default scheme, of a graph as it was built.
Graph fused_by_default(Graph built);

}  // namespace stof
