// SPDX-License-Identifier: Apache-2.0
#include "src/layout/band_widths.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "src/mask/cell_scan.h"

namespace stof {
namespace {

constexpr std::int64_t kPart = 64, kStep = 8;

// The keys that some scanned row uses, from the first to the last.
Range keys_used(const CellScan& scan) {
  if (scan.runs().empty()) return {};
  const CellRun &first = scan.runs().front(), &last = scan.runs().back();
  Range keys{scan.keys_of(first).begin, scan.keys_of(last).end};
  if (!first.full) keys.begin += std::countr_zero(first.columns);
  if (!last.full) keys.end = scan.keys_of(last).begin + 64 - std::countl_zero(last.columns);
  return keys;
}

// Of all 64-row parts of a group, aligned to positions; parts before `first` do not exist.
std::vector<Range> keys_of_parts(CellScan& scan, const MaskExtent& extent, int group) {
  std::vector<Range> parts;
  const Range positions{extent.offset(), extent.keys};
  for (std::int64_t at = floor_div(positions.begin, kPart) * kPart; at < positions.end; at += kPart) {
    const Range rows = intersect({at, at + kPart}, positions);
    scan.scan(group, {rows.begin - positions.begin, rows.end - positions.begin});
    parts.push_back(keys_used(scan));
  }
  return parts;
}

// first: the number of the first part, counted from position 0.
std::int64_t widest(const std::vector<Range>& keys, std::int64_t first, std::int64_t parts) {
  std::int64_t widest = 0;
  for (std::size_t i = 0; i < keys.size();) {
    constexpr std::int64_t kNone = std::int64_t{1} << 40;
    std::int64_t begin = kNone, end = -kNone;
    do {
      const std::int64_t moved = kPart * (first + static_cast<std::int64_t>(i) -
                                          floor_div(first + static_cast<std::int64_t>(i), parts) * parts);
      if (!keys[i].empty()) {
        begin = std::min(begin, keys[i].begin - moved);
        end = std::max(end, keys[i].end - moved);
      }
      ++i;
    } while (i < keys.size() && (first + static_cast<std::int64_t>(i)) % parts != 0);
    if (begin < kNone) widest = std::max(widest, end - floor_div(begin, kStep) * kStep);
  }
  return widest;
}

}  // namespace

BandWidths measure_bands(const BoundMask& mask, const MaskStats& stats) {
  const auto tiles = std::find_if(stats.blocks.begin(), stats.blocks.end(),
                                  [](const BlockStats& b) { return b.block_q == kPart && b.block_kv == 64; });
  BandWidths widths;
  if (tiles == stats.blocks.end() || tiles->heaviest > BandWidths::kMostBandTiles) return widths;
  widths.measured = true;
  CellScan scan(mask, 64);
  const std::int64_t first = floor_div(mask.extent().offset(), kPart);
  for (int group = 0; group < mask.groups(); ++group) {
    const std::vector<Range> keys = keys_of_parts(scan, mask.extent(), group);
    for (std::size_t i = 0; i < BandWidths::kParts; ++i)
      widths.keys[i] = std::max(widths.keys[i], widest(keys, first, static_cast<std::int64_t>(i) + 1));
  }
  return widths;
}

}  // namespace stof
