// SPDX-License-Identifier: Apache-2.0
// Mask words of row blocks that go by spans: each thread makes its own, by what its two rows are allowed.
#pragma once
#include "kernels/cuda/softmax.cuh"
#include "kernels/cuda/stream_traits.cuh"

namespace stof::cuda {

// Which rows of a part a thread has.
struct RowsOfThread {
  int part, at, lane;  // at, and eight further on
};

template <class Traits>
struct SpanWords {
  using Params = typename Traits::Params;
  // Of each row's range, as bits_below says it of keys from the first one on: a tile's words take a few instructions.
  int begin[2], end[2];

  __device__ __forceinline__ void find(const Params& p, const RowBlock& block, const RowsOfThread& rows) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const RowKeys allowed = keys_of(p, block, rows, row);
      begin[row] = bits_below(allowed.begin, row, rows.lane);
      end[row] = bits_below(min(allowed.end, block.keys), row, rows.lane);
    }
  }

  // Of a tile from `key` on, which eight divides; state: of SpanReach.
  __device__ __forceinline__ u32 of_tile(const Params& p, const RowBlock& block, const RowsOfThread& rows, int key,
                                         int state) const {
    const int first = key >> 1;
    const u32 of_range =
        mask_of_rows(end[0] - first, end[1] - first) & ~mask_of_rows(begin[0] - first, begin[1] - first);
    const u32 word = state == SpanReach::kCutPrefix ? of_range | of_prefix(p, block, rows, key) : of_range;
    const bool cut_by_tree = has_tree(p.spans.trees, block.rows) && key + 64 > block.keys - block.rows;
    return cut_by_tree ? word & of_tree(p, block, rows, key) : word;
  }

 private:
  // Seldom: of one tile of a row block, where a mask is a sink's.
  static __device__ __forceinline__ u32 of_prefix(const Params& p, const RowBlock& block, const RowsOfThread& rows,
                                                  int key) {
    const auto bits = [&](int row) {
      return bits_below(min(keys_of(p, block, rows, row).prefix_end, block.keys) - key, row, rows.lane);
    };
    return mask_of_rows(bits(0), bits(1));
  }
  // Of the last tiles of an item that has a tree.
  static __device__ __forceinline__ u32 of_tree(const Params& p, const RowBlock& block, const RowsOfThread& rows,
                                                int key) {
    const int place = block.slice / p.call.shape.heads, first = key - (block.keys - block.rows);
    const auto bits = [&](int row) {
      return wide_tree_bits(p.spans.trees, place, row_of_item(p, block, rows, row), first);
    };
    return in_register_order(bits(0), bits(1), rows.lane);
  }
  static __device__ __forceinline__ RowKeys keys_of(const Params& p, const RowBlock& block, const RowsOfThread& rows,
                                                    int row) {
    return row_keys(p.spans, block.keys - block.rows + row_of_item(p, block, rows, row));
  }
  // Of rows that do not exist, the nearest one.
  static __device__ __forceinline__ int row_of_item(const Params& p, const RowBlock& block, const RowsOfThread& rows,
                                                    int row) {
    const int of_item = row_of_part<Traits>(p, block, rows.part, rows.at + 8 * row).row;
    return min(max(of_item, 0), block.rows - 1);
  }
};

}  // namespace stof::cuda
