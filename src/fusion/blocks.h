// SPDX-License-Identifier: Apache-2.0
// A graph as kinds of blocks: a layer that repeats is one kind, what stands before and after it are others. Whatever is
// decided about a kind holds for all its blocks.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "src/graph/graph.h"

namespace stof {

struct FusionBlock {
  std::string name;                 // from the checkpoint: "encoder.layer.*"
  std::size_t size = 0;             // nodes
  std::vector<std::size_t> starts;  // the first node of each block, ascending
};

// In the order of their first blocks. Every node is in exactly one block. Of the ways to cut a repeated layer the one
// that begins last: a norm that closes every layer, and the embeddings too, belongs to the layer. None begins by
// turning what the one before has made.
std::vector<FusionBlock> find_blocks(const Graph& graph);

// The kind with the most nodes in all its blocks: the layers.
std::size_t layer_kind(const std::vector<FusionBlock>& kinds);

}  // namespace stof
