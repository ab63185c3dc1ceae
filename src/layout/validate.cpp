// SPDX-License-Identifier: Apache-2.0
// The invariants of layouts, each with the sentence that names it.
#include <bit>

#include "src/base/error.h"
#include "src/layout/pack.h"

namespace stof {
namespace {

void require(bool holds, std::string_view invariant) {
  if (!holds) fail(ErrorKind::internal, "layout: {}", invariant);
}

void check_groups(const std::vector<int>& group_of, int groups, const MaskExtent& extent) {
  require(std::ssize(group_of) == extent.batch * extent.heads, "every head of every item has a group");
  for (const int group : group_of) require(group >= 0 && group < groups, "groups are in range");
}

template <class Items>
void check_rows(const std::vector<std::int64_t>& row_begin, std::int64_t rows, int groups, const Items& items) {
  require(std::ssize(row_begin) == groups * (rows + 1), "every row has a beginning");
  std::int64_t last = 0;
  for (const std::int64_t begin : row_begin) {
    require(begin >= last, "rows begin in ascending order");
    last = begin;
  }
  require(row_begin.empty() || row_begin.front() == 0, "the first row begins at 0");
  require(last == std::ssize(items), "the rows hold every entry");
}

void check_entry(const BlockLayout& layout, const BlockEntry& entry, Range rows) {
  const BlockFormat& format = layout.format;
  require(entry.key_start >= 0 && entry.key_start < layout.extent.keys && entry.key_start % format.key_step == 0,
          "entries start inside the keys at a multiple of key_step");
  require(entry.parts != 0 && entry.parts < 1u << ((format.block_q + 63) / 64),
          "entries are needed by some part of the row-block");
  if (entry.full()) return;
  const std::int64_t words = layout.words_per_row(), size = format.block_q * words;
  require(entry.bitmap >= 0 && (entry.bitmap + 1) * size <= std::ssize(layout.bitmaps), "bitmaps are in range");
  const Range keys = intersect({entry.key_start, entry.key_start + format.block_kv}, {0, layout.extent.keys});
  std::int64_t allowed = 0;
  std::uint32_t parts = 0;
  for (std::int64_t i = 0; i < format.block_q; ++i)
    for (std::int64_t w = 0; w < words; ++w) {
      const std::uint64_t word = layout.bitmaps[static_cast<std::size_t>(entry.bitmap * size + i * words + w)];
      if (word == 0) continue;
      const std::int64_t valid = keys.size() - w * 64;
      require(rows.contains(i) && valid > 0 && (valid >= 64 || word >> valid == 0), "bits outside the extent are 0");
      allowed += std::popcount(word);
      parts |= 1u << (i / 64);
    }
  require(allowed > 0 && allowed < rows.size() * keys.size(), "a partial entry has an allowed and a forbidden pair");
  require(parts == entry.parts, "the parts of a partial entry are those with bits");
}

}  // namespace

void validate(const BlockLayout& layout) {
  require(layout.positions == Range{layout.extent.keys - layout.extent.queries, layout.extent.keys},
          "positions end with the keys");
  check_groups(layout.group_of, layout.groups, layout.extent);
  check_rows(layout.row_begin, layout.row_blocks, layout.groups, layout.entries);
  require(std::ssize(layout.has_empty_row) == layout.groups * layout.row_blocks,
          "every row-block says whether a row is empty");
  for (std::int64_t block = 0; block < layout.groups * layout.row_blocks; ++block) {
    const std::int64_t group = block / layout.row_blocks, r = block % layout.row_blocks;
    const std::int64_t first = layout.first_position + r * layout.format.block_q;
    const Range inside = intersect({first, first + layout.format.block_q}, layout.positions);
    std::int64_t covered = 0;
    const std::int64_t* begin = layout.row_begin.data() + group * (layout.row_blocks + 1) + r;
    for (std::int64_t e = begin[0]; e < begin[1]; ++e) {
      const BlockEntry& entry = layout.entries[static_cast<std::size_t>(e)];
      require(entry.key_start >= covered, "entries ascend without overlap");
      check_entry(layout, entry, {inside.begin - first, inside.end - first});
      covered = entry.key_start + layout.format.block_kv;
    }
  }
}

void validate(const RowLayout& layout) {
  check_groups(layout.group_of, layout.groups, layout.extent);
  check_rows(layout.row_begin, layout.extent.queries, layout.groups, layout.intervals);
  for (std::int64_t row = 0; row + 1 < std::ssize(layout.row_begin); ++row) {
    std::int64_t last = -1;
    for (std::int64_t i = layout.row_begin[static_cast<std::size_t>(row)];
         i < layout.row_begin[static_cast<std::size_t>(row + 1)]; ++i) {
      const RowLayout::Interval& interval = layout.intervals[static_cast<std::size_t>(i)];
      require(interval.begin > last && interval.begin < interval.end && interval.end <= layout.extent.keys,
              "intervals ascend, apart from each other, inside the keys");
      last = interval.end;
    }
  }
}

}  // namespace stof
