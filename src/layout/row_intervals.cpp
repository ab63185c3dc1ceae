// SPDX-License-Identifier: Apache-2.0
#include "src/layout/row_intervals.h"

#include <algorithm>
#include <bit>

#include "src/mask/cell_scan.h"

namespace stof {
namespace {

constexpr std::int64_t kBand = 64;  // rows scanned together
constexpr std::int64_t kCell = 64;

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

}  // namespace

bool scan_intervals(const BoundMask& mask, int group, const VisitIntervals& visit) {
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
      if (!visit(row)) return false;
    }
  }
  return true;
}

}  // namespace stof
