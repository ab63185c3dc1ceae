// SPDX-License-Identifier: Apache-2.0
// From the canonical layout to what one CUDA kernel reads.
#pragma once
#include <optional>
#include <vector>

#include "kernels/shared/device_layout.h"
#include "src/layout/block_layout.h"

namespace stof::bench {

struct StreamArrangement {
  int parts = 1;       // 64-row parts of a row block
  int tiles = 1;       // 64-key tiles of a step
  int most_steps = 0;  // row blocks with more are split; 0: never
};

struct ArrangedStream {
  std::vector<StreamItem> items;
  std::vector<int> steps;
  std::vector<unsigned> words;
  int slots = 0;
};

// Needs block_q = 64 * parts and block_kv = 64. Group 0 only.
ArrangedStream arrange_stream(const BlockLayout& layout, const StreamArrangement& arrangement);

struct ArrangedBand {
  std::vector<BandRow> rows;
  std::vector<unsigned> words;
};

// Nothing when some row block's keys do not lie in a band of `keys` keys a part, part i's starting 64 i keys on.
std::optional<ArrangedBand> arrange_band(const BlockLayout& layout, int parts, int keys);

}  // namespace stof::bench
