// SPDX-License-Identifier: Apache-2.0
// Masks that are made while a model runs, on the device that uses them: lists of key blocks (top-k selection), tables
// of blocks, or one byte or one bit a pair. A plan is made for the form of a table; contents come by
// Attention::update().
#pragma once
#include <cstdint>

namespace stof {

enum class TableKind : std::uint8_t {
  lists,   // i32 [batch, heads, ceil(queries / block_q), width]: key blocks in any order, -1 for none
  blocks,  // bool [batch, heads, ceil(queries / block_q), ceil(keys / block_kv)]
  bits,    // bool [batch, heads, queries, keys]
  packed,  // the same with a bit a pair: byte [batch, heads, queries, ceil(keys / 8)], the first key lowest
};

// Rows are those of the longest item, row 0 first; a shorter item uses the rows of its own positions. A bool is a byte,
// 0 or not.
struct MaskTable {
  TableKind kind = TableKind::lists;
  std::int64_t batch = 1;                    // 1: all items share one; else as many as the shape has
  std::int64_t heads = 1;                    // 1: all heads share one; else the shape's heads or kv_heads
  std::int64_t block_q = 64, block_kv = 64;  // of lists and blocks: multiples of 64
  std::int64_t width = 0;                    // of lists: entries of a row
  // Of what is kept on a GPU: tiles of 64 keys that 64 rows of a head use at most. 0: room for all that can come.
  std::int64_t capacity = 0;
};

// What an update writes at TableContents::status. Entries that are ignored are those that name no block, -1 excepted.
struct TableStatus {
  std::int32_t
      dropped_row_blocks;        // of 64 rows, which had more tiles than there is room for: out and LSE are NaN there
  std::int32_t most_tiles;       // of 64 keys that some row block uses: the capacity that this table needs
  std::int32_t ignored_entries;  // of lists
};

// In memory of the plan's device. Distances are in elements, and 0 where a table is shared; the last dimension is
// contiguous.
struct TableContents {
  const void* data = nullptr;
  std::int64_t batch_stride = 0, head_stride = 0, row_stride = 0;
  TableStatus* status = nullptr;  // of the plan's device too, or null
  void* stream = nullptr;         // on CUDA, as in AttentionArguments
};

}  // namespace stof
