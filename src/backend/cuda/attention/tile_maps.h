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

// Dimensions as AttentionMaps says; columns past the head dimension read as zeros. key_box: keys of one load.
TileBoxes boxes_of(const stof::AttentionCall& call, const ItemRun& items, const HeadRun& heads, int key_box);

AttentionMaps encode(const TileBoxes& boxes);

}  // namespace stof::cuda
