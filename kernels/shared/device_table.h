// SPDX-License-Identifier: Apache-2.0
// What the kernels that plan on the device read and write: a table of the caller's, what else limits the mask, and the
// stretches of a stream layout that each row block has to itself. Row blocks have 64 rows, tiles 64 keys.
#pragma once
#include "kernels/shared/device_layout.h"

namespace stof::cuda {

struct TableSource {
  int item, head;  // in the table
  int limit;       // which limits
  int first;       // 1: no source before it has the same table
};

// 32 tiles of one row block, a bit a tile.
struct LimitTiles {
  unsigned touched;   // allowed at all
  unsigned partial;   // of those; the others are full
  int first_pattern;  // of the partial ones, in ascending order, into DeviceTable::patterns
};

// What one row block came to, before its item has a place in the order.
struct PlannedRow {
  int steps;  // -1: there is no room for it
  int full_steps;
  int tiles;
  int ignored;  // entries that name no block
};

// Zero before and after.
struct PlanReport {
  int dropped, most, ignored;
  int arrived;  // groups
};

struct DeviceTable {
  static constexpr int kMostKeys = 1 << 19;

  const void* data;
  long long item_stride, head_stride, row_stride;  // in elements
  const TableSource* sources;                      // [groups]
  const LimitTiles* limits;                        // [limits][row_blocks][words], or null: everything is allowed
  const int* patterns;                             // indices into words
  int queries, keys;
  int row_blocks, words;        // of a head; of 32 tiles, of a row block
  int columns;                  // of a row of the table
  int blocks;                   // of keys that can be named
  int block_rows, block_tiles;  // row blocks and tiles of a block of the table
  int room;                     // steps of a row block
  int first_own_pattern;        // row block r of a group may write patterns from here + (row_blocks group + r) room on
  PlannedRow* planned;          // [groups][row_blocks]
  StreamItem* items;            // [groups][row_blocks], dearest first
  int* steps;                   // [groups][row_blocks][room][2]
  int* first_steps;             // [groups][row_blocks][2], of items
  unsigned* pattern_words;      // [patterns][128]
  int* status;                  // {dropped row blocks, most tiles, ignored entries}, or null
  PlanReport* report;           // where groups add them up
};

}  // namespace stof::cuda
