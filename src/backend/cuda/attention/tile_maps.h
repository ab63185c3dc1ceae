// SPDX-License-Identifier: Apache-2.0
// The tensors of one launch as the copy engine sees them.
#pragma once
#include <array>

#include "kernels/shared/device_layout.h"
#include "src/backend/cuda/attention/call_pieces.h"
#include "src/backend/cuda/driver/tensor_map.h"

namespace stof::cuda {

struct TileBoxes {
  TensorBox q, k, v, out;
  std::array<TensorBox, 4> all() const { return {q, k, v, out}; }
};

// Keys of one load, of pages at most one, and heads that a load of q has rows of: as many of each as make 64 together.
struct BoxRows {
  int keys = 64, stacked_heads = 1;
};

// Dimensions as AttentionMaps says; columns past the head dimension read as zeros.
TileBoxes boxes_of(const stof::AttentionCall& call, const ItemRun& items, const HeadRun& heads, const BoxRows& rows);

AttentionMaps encode(const TileBoxes& boxes);

}  // namespace stof::cuda
