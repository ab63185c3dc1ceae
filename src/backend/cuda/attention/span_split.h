// SPDX-License-Identifier: Apache-2.0
// How row blocks that begin at an item's own first row are cut into parts, call by call: by the keys that there are.
// Needs no GPU.
#pragma once
#include <span>
#include <vector>

#include "src/backend/cuda/attention/cost_table.h"
#include "src/backend/cuda/attention/instances.h"
#include "src/layout/row_spans.h"

namespace stof::cuda {

// Rows of each position from the first on, and the kernel that takes them.
struct SpanForm {
  std::vector<RowSpan> rows;
  int first_position = 0;
  int block_rows = 64, tiles = 1;  // of a row block, of a step
  ListCosts costs = {};
  double teams = 1;        // that the device works with at once
  bool stacked = false;    // heads share row blocks
  std::int64_t slots = 0;  // partial results that a launch has room for,
  double slot_bytes = 0;   // and what each takes
};

// With room for as many results as any launch may have.
SpanForm span_form(const StreamInstance& instance, int stacked_heads, const ListCosts& costs, const DeviceCaps& caps);

// Of which tiles in pages should begin at multiples: each copy brings as many keys, and tiles that begin nearer to a
// row block's first key are fewer.
int key_step_in_pages(const SpanForm& form);

// Of the items of a launch: how many queries and keys each has, and slices.
struct SpanItems {
  std::span<const int> queries, keys;
  int slices_of_item = 1;
  int key_step = 8;   // of which tiles begin at multiples
  bool known = true;  // else the device alone knows, and these are the most that there may be
  // Of the device's teams that the launch has. Of less than all no grid behind adds parts up: another launch comes.
  double share = 1;
};

struct SpanSplit {
  int row_blocks = 1;    // of an item at most
  int split_blocks = 1;  // of these, in the order in which they are taken, those that may have several parts
  int parts = 1;         // of a row block at most
  int part_steps = 1;    // a row block of more has several
  // Row blocks are taken from the last one of an item on, which has the most keys; else from the first one on.
  bool last_first = true;
  bool summed = false;   // a grid behind adds the parts up; else the last of a row block to end
  bool aligned = false;  // row blocks begin at positions that 64 divides: RowSpans::aligned
  friend bool operator==(const SpanSplit&, const SpanSplit&) = default;
};

// The fewest parts that are done first, when that is, without the launch, and how many steps row blocks have together.
struct SplitTime {
  SpanSplit split;
  double us = 0;
  double steps = 0;
};
SplitTime time_split(const SpanForm& form, const SpanItems& items);
SpanSplit split_spans(const SpanForm& form, const SpanItems& items);

// Partial results that a launch of the items so split leaves.
std::int64_t slots_of(const SpanForm& form, const SpanItems& items);

}  // namespace stof::cuda
