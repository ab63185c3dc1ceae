// SPDX-License-Identifier: Apache-2.0
// Mask to RowLayout: the allowed keys of each row as intervals.
#include "src/base/error.h"
#include "src/layout/groups.h"
#include "src/layout/pack.h"
#include "src/layout/row_intervals.h"

namespace stof {
namespace {

constexpr std::size_t kMostIntervals = std::size_t{1} << 30;

using Interval = RowLayout::Interval;

// With `more` intervals.
void check_size(const RowLayout& layout, std::size_t more, std::uint64_t most_bytes) {
  const std::size_t intervals = layout.intervals.size() + more;
  if (intervals > kMostIntervals)
    fail(ErrorKind::unsupported, "the layout has more than {} intervals; use the block-wise layout", kMostIntervals);
  if (intervals * sizeof(Interval) + layout.row_begin.size() * sizeof(layout.row_begin[0]) > most_bytes)
    fail(ErrorKind::unsupported, "the layout takes more than {} bytes; use the block-wise layout", most_bytes);
}

void pack_group(const BoundMask& mask, int group, std::uint64_t most_bytes, RowLayout& layout) {
  scan_intervals(mask, group, [&](std::span<const Interval> row) {
    layout.row_begin.push_back(static_cast<std::int64_t>(layout.intervals.size()));
    check_size(layout, row.size(), most_bytes);
    layout.intervals.insert(layout.intervals.end(), row.begin(), row.end());
    return true;
  });
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
