// SPDX-License-Identifier: Apache-2.0
// A packed mask in block compressed rows: per group and row-block the listed key blocks, each full or with a bitmap.
#pragma once
#include <cstdint>
#include <vector>

#include "src/mask/bind.h"
#include "src/mask/row_origin.h"

namespace stof {

struct BlockFormat {
  int block_q = 64;   // rows per row-block; up to 256
  int block_kv = 64;  // keys per entry; a multiple of 8 up to 256
  // Keys per step of where an entry may start: block_kv for a fixed grid, 8 for entries that start where the mask does.
  int key_step = 64;
  RowOrigin row_origin = RowOrigin::zero;
  friend bool operator==(const BlockFormat&, const BlockFormat&) = default;
};

struct BlockEntry {
  std::int32_t key_start = 0;  // a multiple of key_step; the last entry may reach past the keys
  std::int32_t bitmap = kFull;
  std::uint32_t parts = 0;  // bit w: rows [64 w, 64 w + 64) of the row-block need this entry
  static constexpr std::int32_t kFull = -1;
  bool full() const { return bitmap == kFull; }
  friend bool operator==(const BlockEntry&, const BlockEntry&) = default;
};

// Row-blocks lie where the format's row_origin says, those of a table from the first row on: row-block r covers
// positions first_position + [r * block_q, (r + 1) * block_q), clipped to `positions`. A call whose items have other
// lengths uses the rows of its own positions and limits the keys. Invariant (validate): entries ascend without overlap
// and are in range; a full entry allows every (position, key) inside the extent; a partial entry has an allowed and a
// forbidden pair inside the extent.
struct BlockLayout {
  BlockFormat format = {};
  MaskExtent extent = {};
  Range positions = {};             // [keys - queries, keys)
  std::int64_t first_position = 0;  // of the row-block that has positions.begin
  std::vector<int> group_of = {};   // [batch * heads]
  int groups = 0;
  std::int64_t row_blocks = 0;
  std::vector<std::int64_t> row_begin = {};  // [groups][row_blocks + 1] into entries
  std::vector<BlockEntry> entries = {};
  std::vector<std::uint64_t> bitmaps =
      {};  // [distinct][block_q][words_per_row], least significant bit is the first key
  std::vector<std::uint8_t> has_empty_row =
      {};  // [groups][row_blocks]: a row inside the extent without any allowed key

  int words_per_row() const { return (format.block_kv + 63) / 64; }
  std::size_t bytes() const;
};

// CSR of column intervals: the row-wise layout. The row of position p is p - positions.begin.
struct RowLayout {
  MaskExtent extent = {};
  Range positions = {};
  std::vector<int> group_of = {};  // [batch * heads]
  int groups = 0;
  std::vector<std::int64_t> row_begin = {};  // [groups][queries + 1] into intervals
  struct Interval {
    std::int32_t begin, end;  // half-open keys
    friend bool operator==(const Interval&, const Interval&) = default;
  };
  std::vector<Interval> intervals = {};  // ascending, disjoint, not adjacent

  std::size_t bytes() const;
};

}  // namespace stof
