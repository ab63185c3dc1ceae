// SPDX-License-Identifier: Apache-2.0
// Mask to RowLayout: the allowed keys of each row as intervals.
#include <algorithm>
#include <bit>

#include "src/base/error.h"
#include "src/layout/groups.h"
#include "src/layout/pack.h"
#include "src/mask/cell_scan.h"

namespace stof {
namespace {

constexpr std::int64_t kBand = 64;  // rows scanned together
constexpr std::int64_t kCell = 64;
constexpr std::size_t kMostIntervals = std::size_t{1} << 30;

using Interval = RowLayout::Interval;

void append(std::vector<Interval>& row, std::int64_t begin, std::int64_t end) {
  if (!row.empty() && row.back().end == begin) row.back().end = static_cast<std::int32_t>(end);
  else row.push_back({.begin = static_cast<std::int32_t>(begin), .end = static_cast<std::int32_t>(end)});
}

void append_bits(std::vector<Interval>& row, std::int64_t key, std::uint64_t word) {
  while (word != 0) {
    const int skip = std::countr_zero(word);
    const int run = std::countr_one(word >> skip);
    append(row, key + skip, key + skip + run);
    if (skip + run == 64) return;
    word &= ~std::uint64_t{0} << (skip + run);
  }
}

// With `more` intervals.
void check_size(const RowLayout& layout, std::size_t more, std::uint64_t most_bytes) {
  const std::size_t intervals = layout.intervals.size() + more;
  if (intervals > kMostIntervals)
    fail(ErrorKind::unsupported, "the layout has more than {} intervals; use the block-wise layout", kMostIntervals);
  if (intervals * sizeof(Interval) + layout.row_begin.size() * sizeof(layout.row_begin[0]) > most_bytes)
    fail(ErrorKind::unsupported, "the layout takes more than {} bytes; use the block-wise layout", most_bytes);
}

void pack_group(const BoundMask& mask, int group, std::uint64_t most_bytes, RowLayout& layout) {
  CellScan scan(mask, kCell);
  std::vector<Interval> row;
  for (std::int64_t first = 0; first < mask.extent().queries; first += kBand) {
    const Range rows = {first, std::min(first + kBand, mask.extent().queries)};
    scan.scan(group, rows);
    for (std::int64_t r = 0; r < rows.size(); ++r) {
      row.clear();
      for (const CellRun& run : scan.runs()) {
        const Range keys = scan.keys_of(run);
        if (run.full) append(row, keys.begin, keys.end);
        else append_bits(row, keys.begin, scan.bits(run)[static_cast<std::size_t>(r)]);
      }
      layout.row_begin.push_back(static_cast<std::int64_t>(layout.intervals.size()));
      check_size(layout, row.size(), most_bytes);
      layout.intervals.insert(layout.intervals.end(), row.begin(), row.end());
    }
  }
  layout.row_begin.push_back(static_cast<std::int64_t>(layout.intervals.size()));
}

}  // namespace

RowLayout pack_rows(const BoundMask& mask, std::uint64_t most_bytes) {
  const MaskExtent& extent = mask.extent();
  if (extent.keys > (std::int64_t{1} << 30) || extent.queries > (std::int64_t{1} << 30))
    fail(ErrorKind::unsupported, "a layout of {} queries and {} keys; at most 2^30 of each are packed", extent.queries,
         extent.keys);
  RowLayout layout{.extent = extent, .positions = {extent.offset(), extent.keys}};
  Groups groups(mask);
  for (int group = 0; group < mask.groups(); ++group) {
    pack_group(mask, group, most_bytes, layout);
    groups.place(group, layout.groups++);
  }
  layout.group_of = groups.of_each_head();
  return layout;
}

}  // namespace stof
