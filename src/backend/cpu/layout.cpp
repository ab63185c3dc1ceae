// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cpu/layout.h"

#include <utility>

namespace stof::cpu {
namespace {

// [mask][block_q][words of keys] to [mask][block_kv][bytes of rows]
std::vector<std::uint8_t> transpose_bitmaps(const BlockLayout& layout, const BlockTiles& tiles) {
  const int words = layout.words_per_row(), row_bytes = tiles.mask_row_bytes();
  const std::size_t per_mask = static_cast<std::size_t>(tiles.block_q) * static_cast<std::size_t>(words);
  const std::size_t count = layout.bitmaps.size() / per_mask;
  const std::size_t bytes_per_mask = static_cast<std::size_t>(tiles.block_kv) * static_cast<std::size_t>(row_bytes);
  std::vector<std::uint8_t> masks(count * bytes_per_mask);
  for (std::size_t mask = 0; mask < count; ++mask)
    for (int row = 0; row < tiles.block_q; ++row)
      for (int word = 0; word < words; ++word) {
        std::uint64_t bits = layout.bitmaps[mask * per_mask + static_cast<std::size_t>(row * words + word)];
        for (; bits != 0; bits &= bits - 1) {
          const int key = 64 * word + __builtin_ctzll(bits);
          masks[mask * bytes_per_mask + static_cast<std::size_t>(key * row_bytes + row / 8)] |=
              static_cast<std::uint8_t>(1 << (row % 8));
        }
      }
  return masks;
}

}  // namespace

BlockTiles tiles_of(const BlockFormat& format) { return {.block_q = format.block_q, .block_kv = format.block_kv}; }

ArrangedBlocks::ArrangedBlocks(BlockLayout layout, std::size_t scratch_bytes)
    : tiles(tiles_of(layout.format)),
      group_of(std::move(layout.group_of)),
      heads(layout.extent.heads),
      row_blocks(layout.row_blocks),
      first_position(layout.first_position),
      row_begin(std::move(layout.row_begin)),
      masks(transpose_bitmaps(layout, tiles)),
      scratch(scratch_bytes) {
  visits.reserve(layout.entries.size());
  for (const BlockEntry& entry : layout.entries) visits.push_back({.key_start = entry.key_start, .mask = entry.bitmap});
  tiles.masks = masks.data();
}

}  // namespace stof::cpu
