// SPDX-License-Identifier: Apache-2.0
// A packed block layout in the form of the CPU kernel: what to visit, and bitmaps with one row per key.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/cpu/attention_task.h"
#include "src/backend/cpu/memory.h"
#include "src/layout/block_layout.h"

namespace stof::cpu {

struct ArrangedBlocks {
  BlockTiles tiles;  // its masks point into `masks`
  std::vector<int> group_of;
  std::int64_t heads = 1, row_blocks = 0, first_position = 0;
  std::vector<std::int64_t> row_begin;  // [groups][row_blocks + 1] into visits
  std::vector<BlockVisit> visits;
  std::vector<std::uint8_t> masks;
  mutable ScratchPool scratch;

  ArrangedBlocks(BlockLayout layout, std::size_t scratch_bytes);
};

BlockTiles tiles_of(const BlockFormat& format);  // without masks

}  // namespace stof::cpu
