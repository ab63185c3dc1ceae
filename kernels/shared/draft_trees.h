// SPDX-License-Identifier: Apache-2.0
// Draft trees of speculative decoding: an item's last keys are those of its own queries, of which a query may see only
// some, whatever the mask allows.
#pragma once

namespace stof::cuda {

struct DraftTrees {
  const unsigned* words;  // bit j % 32 of the j / 32-th from words[place * item_stride + i * row_stride] on: query i, j
  long long item_stride;
  int row_stride;
  int queries;  // items of more have no tree; 0: none has
};

}  // namespace stof::cuda
