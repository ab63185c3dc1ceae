// SPDX-License-Identifier: Apache-2.0
// A list of the row blocks that have rows (kernels/cuda/row_block_list.cuh), in front of launches of which many have
// none.
#pragma once
#include "kernels/shared/row_block_list.h"
#include "src/backend/cuda/attention/listed_mask.h"

namespace stof::cuda {

// Loads what makes lists.
void prepare_row_block_lists(const Gpu& gpu);

// Ints that the list of a launch of the mask may have; 0 where none is made: of one item, of more places than one CTA
// looks at, of heads that were too many to read their keys side by side.
std::size_t list_ints(const ListedMask& mask, const Sections& sections, std::int64_t items, std::int64_t entries);

// Row blocks of a launch: those of a layout, or of `spans` (null: the former), so many positions high. room: ints that
// a list of them may have.
struct ListedBlocks {
  const StreamLayout& layout;
  const RowSpans* spans;
  const Sections& sections;
  int rows;
  std::size_t room;
};

// Whether the launch has so many row blocks without rows, for certain, that a list of the others pays. at_once: row
// blocks that the device works on at once.
bool list_pays(const TiledLaunch& launch, const ListedBlocks& blocks, std::int64_t at_once);

// Puts what makes the list on the launch's stream.
const int* list_row_blocks(const ListedMask& mask, const TiledLaunch& launch, const ListedBlocks& blocks);

}  // namespace stof::cuda
