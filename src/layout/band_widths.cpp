// SPDX-License-Identifier: Apache-2.0
#include "src/layout/band_widths.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "src/mask/mask_bands.h"

namespace stof {
namespace {

constexpr std::int64_t kPart = MaskBands::kRows, kStep = 8;

// The keys that some row of the band uses, from the first to the last, of so many.
Range keys_used(const MaskBand& band, std::int64_t keys) {
  if (band.runs.empty()) return {};
  const BandRun &first = band.runs.front(), &last = band.runs.back();
  Range used{first.keys(MaskBands::kKeys, keys).begin, last.keys(MaskBands::kKeys, keys).end};
  if (!first.full) used.begin += std::countr_zero(first.columns);
  if (!last.full) used.end = last.end * MaskBands::kKeys - std::countl_zero(last.columns);
  return used;
}

// first: the number of the first part, counted from where row-blocks are.
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

BandWidths measure_bands(const MaskBands& bands, const MaskStats& stats) {
  const auto tiles = std::find_if(stats.blocks.begin(), stats.blocks.end(),
                                  [](const BlockStats& b) { return b.block_q == kPart && b.block_kv == 64; });
  BandWidths widths;
  if (tiles == stats.blocks.end() || tiles->heaviest > BandWidths::kMostBandTiles) return widths;
  widths.measured = true;
  const MaskExtent& extent = bands.mask().extent();
  std::vector<std::vector<Range>> keys(static_cast<std::size_t>(bands.mask().groups()));  // of all parts of a group
  bands.for_each([&](const MaskBand& band) {
    keys[static_cast<std::size_t>(band.group)].push_back(keys_used(band, extent.keys));
  });
  const std::int64_t first = floor_div(extent.offset() - row_origin(extent, bands.origin()), kPart);
  for (const std::vector<Range>& of_group : keys)
    for (std::size_t i = 0; i < BandWidths::kParts; ++i)
      widths.keys[i] = std::max(widths.keys[i], widest(of_group, first, static_cast<std::int64_t>(i) + 1));
  return widths;
}

}  // namespace stof
