// SPDX-License-Identifier: Apache-2.0
// One item of lists on the device, checked.
#pragma once
#include "kernels/shared/item_lists.h"

namespace stof::cuda {

struct ItemNumbers {
  int queries, keys, query_start, key_start;
  bool wrong;  // and without rows or keys
};

// Of `most` at the most; where[item] and where[item + 1] are offsets of a packed batch. False: not acceptable.
__device__ __forceinline__ bool read_offsets(const int* offsets, int item, int most, int rows, int& start,
                                             int& length) {
  start = offsets[item];
  const int end = offsets[item + 1];
  const bool acceptable = start >= 0 && end >= start && end <= rows && end - start <= most && (item > 0 || start == 0);
  length = acceptable ? end - start : 0;
  return acceptable;
}

// The same of lengths, or of `most` where there are none.
__device__ __forceinline__ bool read_length(const int* lengths, int item, int most, int& length) {
  length = lengths ? lengths[item] : most;
  return length >= 0 && length <= most;
}

__device__ __forceinline__ ItemNumbers numbers_of(const ItemLists& lists, int item) {
  ItemNumbers found{};
  bool right = lists.cu_q
                   ? read_offsets(lists.cu_q, item, lists.queries, lists.q_rows, found.query_start, found.queries)
                   : read_length(lists.q_lengths, item, lists.queries, found.queries);
  right = (lists.cu_kv ? read_offsets(lists.cu_kv, item, lists.keys, lists.kv_rows, found.key_start, found.keys)
                       : read_length(lists.kv_lengths, item, lists.keys, found.keys)) &&
          right;
  const bool from_first_key = found.keys == 0 || found.keys >= found.queries;
  if (right && found.queries < lists.least_queries && from_first_key) return {};
  // Rows at other positions have none in the layout.
  right = right && (found.queries == 0 || found.keys == 0 || found.keys - found.queries >= lists.least_first);
  return right ? found : ItemNumbers{0, 0, 0, 0, true};
}

__device__ __forceinline__ RowItem row_item(const ItemSteps& steps, const ItemNumbers& found, int item) {
  const auto place = [item](const ItemStep& step, int start) { return item * step.item + start * step.row; };
  return {place(steps.q, found.query_start),
          place(steps.k, found.key_start),
          place(steps.v, found.key_start),
          place(steps.out, found.query_start),
          place(steps.lse, found.query_start),
          found.queries,
          found.keys,
          0,
          item};
}

}  // namespace stof::cuda
