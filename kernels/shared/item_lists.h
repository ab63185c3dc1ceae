// SPDX-License-Identifier: Apache-2.0
// The items of a call as lists of its caller's on the device: what they say, and what they may say.
#pragma once
#include "kernels/shared/row_layout.h"

namespace stof::cuda {

struct ItemLists {
  const int *q_lengths, *kv_lengths;  // [items] each, where there are no offsets; null: `queries`, `keys`
  const int *cu_q, *cu_kv;            // packed, [items + 1] each, ascending from 0; cu_kv: null for keys in pages, too
  int queries, keys;                  // the most that an item may have
  int q_rows, kv_rows;                // that a packed batch may reach
  int least_first;                    // position of an item's first row, keys - queries, at least
  int least_queries;                  // of fewer, from the first key on, another launch has the rows
};

// In elements: from item to item, where they are padded, and from row to row.
struct ItemStep {
  long long item, row;
};
struct ItemSteps {
  ItemStep q, k, v, out, lse;
};

// What the lists say becomes numbers that kernels read: an item whose entries are wrong has no rows.
struct ItemPlacement {
  ItemLists lists;
  ItemSteps steps;
  int items;
  int* numbers;   // [4][items]: queries, keys, first row of q, first row of k; or null
  RowItem* list;  // [items]; or null
  int* status;    // {wrong items, the first of them or -1}; or null
};

}  // namespace stof::cuda
