// SPDX-License-Identifier: Apache-2.0
#include "src/layout/row_spans.h"

#include "src/layout/row_intervals.h"

namespace stof {

std::optional<std::vector<RowSpan>> row_spans(const BoundMask& mask) {
  if (mask.groups() != 1) return std::nullopt;
  std::vector<RowSpan> spans;
  spans.reserve(static_cast<std::size_t>(mask.extent().queries));
  const bool all = scan_intervals(mask, 0, [&](std::span<const RowLayout::Interval> row) {
    const bool has_prefix = row.size() == 2 && row[0].begin == 0;
    if (row.size() > 1 && !has_prefix) return false;
    RowSpan& span = spans.emplace_back();
    if (has_prefix) span.prefix_end = row[0].end;
    if (!row.empty()) span.begin = row.back().begin, span.end = row.back().end;
    return true;
  });
  if (!all) return std::nullopt;
  return spans;
}

}  // namespace stof
