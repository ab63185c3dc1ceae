// SPDX-License-Identifier: Apache-2.0
// What the block-wise CUDA kernels read: a mask arranged for one kernel, and the call's sizes, pointers and strides.
#pragma once
#include "kernels/shared/divisor.h"
#include "kernels/shared/row_layout.h"
#include "kernels/shared/row_spans.h"

namespace stof::cuda {

// A tensor map of the driver, by size and alignment only, so that device code needs no driver header.
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

// All five maps of a call have the dimensions (column, row, residue, head, item). A residue class is every n-th row,
// counted from its own first row; tensors that are not viewed by residue have one class.
struct AttentionMaps {
  TensorMap q, k, v, out;
};

// 64 keys, and for each 64-row part of the row block what of them is allowed. A step is kTiles tiles, stored as
// kTiles times {key_start, state of part 0, state of part 1, ...}: see StreamTraits::kStepInts.
struct TileState {
  static constexpr int kFull = -1;    // every pair is allowed
  static constexpr int kUnused = -2;  // no pair is
  // otherwise partial: the index of 128 words, one a thread, bit i for the thread's i-th score
};

// A row block, or one part of it when its keys are split.
struct StreamItem {
  int row;              // first row, a multiple of 64 times the parts of the kernel
  int first_step;       // into steps
  int steps;            // 0: no row has a key
  int full_steps;       // the last ones, of whole tiles that are full for every part; every part has used a tile before
  int split;            // 0: whole; else first slot | part << 16 | parts << 24; parts of one row block share first slot
  int head;             // of the launch, in a list that serves all heads; else 0
  unsigned late_steps;  // bit n: in step n some row has its first key; of steps from 32 on it is not known
  static constexpr int kDropped = -1;  // in `split`: a layout made on the device has no room for it; its rows are NaN
};

struct StreamLayout {
  const StreamItem* items;  // dearest first
  const int* steps;
  const int* first_steps;  // of each item its first step once more, to be read beside the item
  const unsigned* words;   // [distinct patterns][128]
  int item_count;
  int slots;  // partial results of one slice
  // Of each slice of the launch, which stretch of item_count items is its own: where items have masks of their own, or
  // the layout is made on the device, by the kernel in front of this one perhaps. Null: all slices share one.
  const int* group_of;
};

// A slice is one (item, head, residue class), residues running fastest, items slowest. Where one list serves all heads,
// by StreamItem::head, it is one (item, residue class): heads is 1.
struct SliceShape {
  int slices;
  Divisor heads, heads_per_kv, residues;  // heads: of an item; where they are stacked, stacks
  int queries, keys;                      // rows and keys of a slice, as planned
  int item_queries, item_keys;            // those that there are, where no list of each item's says it
  int map_keys;                           // in the maps, of a slice or of all items in a row: behind them are zeros
  // Of the layout's row 0. Row i of an item has position i + keys - queries, with the item's own lengths.
  int first_position;
  int numbers_made;  // by the grid in front, which must have ended before lengths and starts are read
  // Slices in their order; or the last one and -1, from the last to the first. stream_attention asks where row blocks
  // do not come by a list, and band_attention does.
  int first_slice = 0, slice_step = 1;
  const int* query_lengths;  // [items], or null: item_queries
  const int* key_lengths;    // [items], or null: item_keys
  // Of a packed batch, where items follow each other along the rows of one: where each begins. Null: items are the
  // last dimension of the maps.
  const int* query_starts;
  const int* key_starts;
};

// Of few items what SliceShape has arrays of: it comes with the launch, which so waits for nothing that brings it.
struct FewNumbers {
  static constexpr int kMost = 32;
  struct alignas(16) Item {
    int queries, keys, query_start, key_start;
  };
  Item items[kMost];
  int given, with_starts;  // 0: SliceShape holds
};

// Slices in sections, each of which goes through the row blocks with its slices side by side: what fits the L2.
struct SliceSections {
  Divisor width, last_width;  // slices of each but the last one, and of that, which has all that are left
  Divisor row_blocks;         // of a section but the last one
  int before_last;            // sections
};

struct AttentionOutput {
  void* values;
  long long row_stride, residue_stride, head_stride, item_stride;  // in elements
  float* lse;                                                      // or null
  long long lse_row_stride, lse_residue_stride, lse_head_stride, lse_item_stride;
  int head_dim;
  int read_next;  // by the grid behind: the L2 keeps it; stream_attention and band_attention ask
};

struct AttentionCall {
  SliceShape shape;
  AttentionOutput out;
  float scale_log2;  // scale * log2(e), positive; with capped scores softcap * log2(e)
  float cap_log2;    // 2 log2(e) * scale / softcap, 0 where scores are not capped; read by kernels for capped scores
};

struct StreamParams {
  AttentionCall call;
  StreamLayout layout;
  SliceSections sections;
  float* partials;  // of each place that SplitRows counts: [128][kHeadDim / 2 + 4], float4 vectors across 128 threads
  int* arrivals;    // of each place, zero before and after
  int* queue;       // {next, finished}, zero before and after; null: items are dealt round robin
  // Read by instances that stack heads, whose slices are stacks: the rows of a part are so many positions of each of
  // its heads, head after head, and as many more as make them 64, which stand for nothing. Rows of items are positions.
  Divisor positions;
  int stacked_heads;
};

struct BiasedStreamParams : StreamParams {
  ScoreBias bias;
};

// What a kernel without tensor maps reads itself.
struct AttentionInput {
  const void* values;
  long long row_stride, head_stride, item_stride;  // in elements
  int aligned;                                     // every row begins and ends at a multiple of 16 bytes
};

// Items in the order of their rows, as many of each row block: of a slice those of `item_count` places from the row
// block of its first row on are looked at. For layouts over many more positions than a slice has rows.
struct RowWindow {
  int parts;  // of a row block; 0: items are in no such order
  int row_blocks;
};

// Keys and values in pages of a pool, which maps of k and v have in place of items. Read by instances for pages.
struct TilePages {
  const int* table;       // of item 0 of the launch: the pages of its keys, 2^shift each
  long long item_stride;  // between the rows of the table
  int shift;
  int copied_log2;  // keys of a copy: divides a page and where each tile begins
};

struct MmaParams {
  AttentionCall call;
  AttentionInput q, k, v;
  int aligned_out;         // as AttentionInput::aligned
  StreamLayout layout;     // of one tile a step
  RowLayoutView blocks;    // read in place of `layout` by instances for masks that another kernel arranged
  SliceSections sections;  // as in StreamParams, with partials and arrivals of 64 rows each
  float* partials;
  int* arrivals;
  PageTable pages;   // read by instances for pages, with the items of the launch as places
  DraftTrees trees;  // of the same
  RowWindow window;  // of `layout`
  ScoreBias bias;
};

// One row block of a band: its keys start at a multiple of 8, before the first key if need be.
struct BandRow {
  int key_start;
  int patterns[3];  // of each 64-row part: the index of its words, [pattern][words a thread][128]
};

struct BandParams {
  AttentionCall call;
  const BandRow* rows;  // [row blocks of the layout]
  const unsigned* words;
  Divisor row_blocks;  // that are gone through of a slice
};
// Row blocks are gone through with slices side by side, each from its first row on: what a shorter one has not comes
// last.
struct RaggedBandParams : BandParams {
  FewNumbers numbers;
  Divisor slices;
  int of_layout;  // row blocks that `rows` has
};
// By spans there are no `rows` and `words`: row blocks begin at an item's first row, their keys at the last multiple of
// key_step in front of those that their rows are allowed.
struct PagedBandParams : RaggedBandParams {
  TilePages pages;
  RowSpans spans;
};

// What the gather kernel does at once: 32 keys from each of up to `pieces` starts. A unit is `pieces` ints, multiples
// of 8, and the index of its words, [pattern][words a thread][128]; see GatherTraits::kUnitInts.
struct GatherItem {
  int row;         // first row, a multiple of 64
  int first_unit;  // into units
  int units;       // at least 1
  int split;       // as StreamItem::split
};

struct GatherParams {
  AttentionCall call;
  const GatherItem* items;  // dearest first
  const int* units;
  const unsigned* words;
  int item_count;
  Divisor long_items;   // the first ones, of more than one unit: those of all slices go first
  Divisor short_items;  // the others
  int slots;            // as in StreamLayout, with partials and arrivals of one part
  float* partials;
  int* arrivals;
};

}  // namespace stof::cuda
