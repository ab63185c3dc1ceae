// SPDX-License-Identifier: Apache-2.0
// How long a cache should keep each value of a graph.
#pragma once
#include <vector>

#include "src/backend/operations.h"
#include "src/graph/graph.h"

namespace stof {

// Of each value. What a matmul makes wider, such as the middle of a feed-forward block, is read once, by the next one,
// and would push everything else out of the cache; what it makes narrower is read next, and mostly once more as the
// residual. Keys and values are read by several row blocks of their item, and by nothing after it: unknown.
std::vector<CacheUse> cache_uses(const Graph& graph);

}  // namespace stof
