// SPDX-License-Identifier: Apache-2.0
// What the row-wise CUDA kernel and the kernels around a call read: a packed mask as it is, sizes, pointers and
// strides.
#pragma once
#include "kernels/shared/draft_trees.h"
#include "kernels/shared/score_bias.h"

namespace stof::cuda {

// 64 keys of a row block; see BlockEntry.
struct RowEntry {
  int key_start;
  int bitmap;  // -1: every pair is allowed
};

struct RowLayoutView {
  const int* group_of;         // [items of the mask][heads]
  const long long* row_begin;  // [groups][row_blocks + 1] into entries
  const RowEntry* entries;
  const unsigned long long* bitmaps;  // [bitmap][block_q], bit j for key_start + j
  int heads, row_blocks, block_q;
  int first_position;
};

struct RowStride {
  long long head, row;  // in elements
};

// Row i has position i + keys - queries; offsets of its first element, in elements.
struct RowItem {
  long long q, k, v, out, lse;
  int queries, keys, index;
  int place;  // among the items of the call, for what is listed for them on the device
};

// Where key i of an item lies: in row i % 2^shift of page table[place of the item][i / 2^shift].
struct PageTable {
  const int* table;              // null: in row i of the item, with a shift of 31 and strides of 0
  long long item_stride;         // between the rows of the table
  long long k_stride, v_stride;  // from page to page, in elements
  int shift;
};

struct RowAttentionParams {
  static constexpr int kMostItems = 48;  // of one launch: parameters end at 4 KB
  const void *q, *k, *v;
  void* out;
  float* lse;  // or null
  RowStride q_stride, k_stride, v_stride, out_stride, lse_stride;
  int heads, heads_per_kv, head_dim;
  int chunks;  // groups of rows of the longest item
  float scale;
  float softcap;  // 0: scores are not capped
  PageTable pages;
  DraftTrees trees;
  ScoreBias bias;
  RowLayoutView layout;
  // [items of the grid] each: rows of q, k, v and out alike, in place of the list below; or null.
  const int *starts, *lengths;
  RowItem items[kMostItems];
};

// Numbers of a call, brought to the device by value: a captured launch keeps them.
struct NumbersParams {
  static constexpr int kMost = 960;
  int* to;
  int count;
  int values[kMost];
};

}  // namespace stof::cuda
