// SPDX-License-Identifier: Apache-2.0
// Row blocks of a band that begin at an item's first row: where their keys begin, and what threads' rows are allowed of
// them.
#pragma once
#include "kernels/cuda/row_spans.cuh"
#include "kernels/cuda/softmax.cuh"

namespace stof::cuda {

// Of the row block's keys the first that is loaded; anything where it has no rows or no keys.
template <int kParts>
__device__ __forceinline__ int band_key_start(const RowSpans& spans, const RowBlock& block) {
  const int rows = block.rows - block.row, position = block.keys - rows;
  if (rows <= 0 || block.keys == 0) return 0;
  const int begin = spans.rows != nullptr ? __ldg(&spans.rows[position - spans.first_position].band_begin)
                                          : band_begin(spans.rule, position, min(rows, 64 * kParts));
  return begin & -spans.key_step;
}

// A thread's words of the keys from `key` on, which eight divides, of rows `row` and `row` + 8 of the item. Of rows
// that do not exist, the last one's; keys behind the item's are not looked at.
template <int kWords>
__device__ __forceinline__ void words_by_spans(u32 (&words)[kWords], const RowSpans& spans, const RowBlock& block,
                                               int row, int key, int lane) {
  int prefix[2], begin[2], end[2], zero[2];
  bool any_prefix = false;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    // An item without keys has no positions.
    const int position = block.keys - block.rows + min(row + 8 * i, block.rows - 1);
    const RowKeys allowed = row_keys(spans, max(position, spans.first_position));
    begin[i] = bits_below(allowed.begin - key, i, lane), end[i] = bits_below(allowed.end - key, i, lane);
    prefix[i] = bits_below(allowed.prefix_end - key, i, lane), zero[i] = bits_below(-key, i, lane);
    any_prefix = any_prefix || allowed.prefix_end > 0;
  }
#pragma unroll
  for (int i = 0; i < kWords; ++i)
    words[i] = mask_of_rows(end[0] - 32 * i, end[1] - 32 * i) & ~mask_of_rows(begin[0] - 32 * i, begin[1] - 32 * i);
  if (!any_prefix) return;
#pragma unroll
  for (int i = 0; i < kWords; ++i)
    words[i] |=
        mask_of_rows(prefix[0] - 32 * i, prefix[1] - 32 * i) & ~mask_of_rows(zero[0] - 32 * i, zero[1] - 32 * i);
}

}  // namespace stof::cuda
