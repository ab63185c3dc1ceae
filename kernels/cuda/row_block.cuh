// SPDX-License-Identifier: Apache-2.0
// A row block of one slice: which rows and keys of which item it has, and where they lie.
#pragma once
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/quotient.cuh"

namespace stof::cuda {

// Where the rows of an item begin: the maps' last coordinate, and in a packed batch the rows before it.
struct ItemPlace {
  int item, query_start, key_start;
};

struct RowBlock {
  int row;                                   // of the slice; below 0 where the item begins inside the row block
  int first_step, steps, full_steps, split;  // see StreamItem
  int slice, head, residue;
  int rows, keys;  // of the slice: rows from `rows` on are not written, keys from `keys` on are not used
  ItemPlace place;
};

__device__ __forceinline__ int rows_of_residue(int rows, int residue, const Divisor& residues) {
  return (rows + residues - 1 - residue) / residues;
}

// Of the order in which slices are gone through.
__device__ __forceinline__ int slice_of(const SliceShape& s, int place) { return s.first_slice + s.slice_step * place; }

struct WorkPlace {
  int slice, entry;
};
// Of the place in the order of all row blocks: the place of the slice, and which of its row blocks.
__device__ __forceinline__ WorkPlace place_in_sections(const SliceSections& sections, int index) {
  const int section = min(index / sections.row_blocks, sections.before_last),
            within = index - section * sections.row_blocks;
  const Divisor& width = section < sections.before_last ? sections.width : sections.last_width;
  const int entry = within / width;
  return {section * sections.width + within - entry * width, entry};
}

// Of a slice, before its rows and keys are known; place.item: of its item.
__device__ __forceinline__ RowBlock block_of_slice(const SliceShape& s, int slice) {
  const int over_residues = slice / s.residues, item = over_residues / s.heads;
  RowBlock block{};
  block.slice = slice;
  block.head = over_residues - item * s.heads;
  block.residue = slice - over_residues * s.residues;
  block.place.item = item;
  return block;
}
// Items may have lengths and starts of their own, others are as planned.
__device__ __forceinline__ void find_lengths(RowBlock& block, const SliceShape& s) {
  const int item = block.place.item;
  block.rows = s.query_lengths ? rows_of_residue(s.query_lengths[item], block.residue, s.residues) : s.item_queries;
  block.keys = s.key_lengths ? rows_of_residue(s.key_lengths[item], block.residue, s.residues) : s.item_keys;
}
__device__ __forceinline__ void find_starts(RowBlock& block, const SliceShape& s) {
  const int item = block.place.item;
  block.place = {s.query_starts ? 0 : item, s.query_starts ? s.query_starts[item] : 0,
                 s.key_starts ? s.key_starts[item] : 0};
}
// By what comes with the launch, where it does. It is read where it is, all at once: through pointers, which may be to
// it or to arrays, it would come by way of the memory.
__device__ __forceinline__ void find_numbers(RowBlock& block, const SliceShape& s, const FewNumbers& few) {
  const FewNumbers::Item item = few.items[few.given ? block.place.item : 0];
  if (few.given) block.rows = item.queries, block.keys = item.keys;
  else find_lengths(block, s);
  if (few.given && few.with_starts) block.place = {0, item.query_start, item.key_start};
  else find_starts(block, s);
}
// From row `row` of the layout on. An item without keys has no positions: its rows see nothing wherever they are.
__device__ __forceinline__ void begin_at(RowBlock& block, const SliceShape& s, int row) {
  block.row = block.keys == 0 ? row : row + s.first_position - (block.keys - block.rows);
}

// The row block that begins at row `row` of the layout. kRagged: see find_lengths.
template <bool kRagged>
__device__ __forceinline__ RowBlock row_block_of(const SliceShape& s, int slice, int row) {
  RowBlock block = block_of_slice(s, slice);
  if constexpr (kRagged) {
    find_lengths(block, s), find_starts(block, s);
    begin_at(block, s, row);
  } else {
    block.row = row + s.first_position - (s.keys - s.queries), block.rows = s.queries, block.keys = s.keys;
  }
  return block;
}

// Of items that may have come with the launch.
__device__ __forceinline__ RowBlock row_block_of(const SliceShape& s, const FewNumbers& few, int slice, int row) {
  RowBlock block = block_of_slice(s, slice);
  find_numbers(block, s, few);
  begin_at(block, s, row);
  return block;
}

// Where the n-th of the items that a slice's rows may need lies; -1 where there is none.
__device__ __forceinline__ int item_in_window(const SliceShape& s, const RowWindow& window, int slice, int block_rows,
                                              int n) {
  const int first = -row_block_of<true>(s, slice, 0).row / block_rows, at = n / window.parts, block = first + at;
  return block < window.row_blocks ? first * window.parts + n : -1;
}

}  // namespace stof::cuda
