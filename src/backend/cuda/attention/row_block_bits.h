// SPDX-License-Identifier: Apache-2.0
// One row block of a layout, read bit by bit: what the kernels that regroup keys ask.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "src/layout/block_layout.h"

namespace stof::cuda {

// Needs block_kv = 64. Keys past the last one of the mask are not there, whatever full entries say.
class RowBlockBits {
 public:
  // row: among the row blocks of all groups.
  RowBlockBits(const BlockLayout& layout, std::int64_t row) : layout_(layout) {
    const std::int64_t* begin = layout.row_begin.data() + row / layout.row_blocks + row;
    entries_ = std::span(layout.entries)
                   .subspan(static_cast<std::size_t>(begin[0]), static_cast<std::size_t>(begin[1] - begin[0]));
  }

  std::span<const BlockEntry> entries() const { return entries_; }

  // Of one row, for the 64 keys of an entry.
  std::uint64_t bits(const BlockEntry& entry, int row) const {
    return existing(entry.key_start) &
           (entry.full()
                ? ~std::uint64_t{0}
                : layout_.bitmaps[static_cast<std::size_t>(std::int64_t{entry.bitmap} * layout_.format.block_q + row)]);
  }

  // Of one row, for 64 keys from any key on.
  std::uint64_t row_word(int row, std::int64_t key) const {
    std::uint64_t word = 0;
    // Entries ascend and do not overlap.
    auto entry = std::partition_point(entries_.begin(), entries_.end(),
                                      [&](const BlockEntry& e) { return e.key_start <= key - 64; });
    for (; entry != entries_.end() && entry->key_start < key + 64; ++entry) {
      const std::int64_t shift = entry->key_start - key;
      word |= shift >= 0 ? bits(*entry, row) << shift : bits(*entry, row) >> -shift;
    }
    return word;
  }

  // The keys of an entry that some row of rows 64 part ... 64 part + 63 uses.
  std::uint64_t used(const BlockEntry& entry, int part) const {
    if ((entry.parts >> part & 1) == 0) return 0;
    if (entry.full()) return existing(entry.key_start);
    std::uint64_t any = 0;
    for (int row = 64 * part; row < 64 * part + 64; ++row) any |= bits(entry, row);
    return any;
  }

 private:
  std::uint64_t existing(std::int64_t start) const {
    const std::int64_t count = layout_.extent.keys - start;
    return count >= 64 ? ~std::uint64_t{0} : count <= 0 ? 0 : (std::uint64_t{1} << count) - 1;
  }

  const BlockLayout& layout_;
  std::span<const BlockEntry> entries_;
};

}  // namespace stof::cuda
