// SPDX-License-Identifier: Apache-2.0
#include "src/attention/live_share.h"

#include <algorithm>
#include <array>
#include <vector>

namespace stof {
namespace {

constexpr std::int64_t kBlock = 64;
constexpr std::int64_t kRowBlocks = 8, kBlocksEach = 8;  // of the sample

// Partial blocks of one row-block, left to right; only partial ranges are looked into.
void find_partial(const BoundMask& mask, int group, Range rows, Range keys, std::vector<std::int64_t>& found) {
  if (found.size() >= 1024 || mask.classify(group, rows, keys) != BlockKind::partial) return;
  if (keys.size() <= kBlock) {
    found.push_back(keys.begin);
    return;
  }
  const std::int64_t middle = keys.begin + (keys.size() / kBlock + 1) / 2 * kBlock;
  find_partial(mask, group, rows, {keys.begin, middle}, found);
  find_partial(mask, group, rows, {middle, keys.end}, found);
}

// Bit i: an allowed pair among keys [8 i, 8 i + 8) of the rows.
unsigned live_cells(std::span<const std::uint64_t> rows) {
  std::uint64_t any = 0;
  for (const std::uint64_t row : rows) any |= row;
  unsigned cells = 0;
  for (int i = 0; i < 8; ++i)
    if (((any >> (8 * i)) & 0xFF) != 0) cells |= 1u << i;
  return cells;
}

double live_share(const BoundMask& mask, int group, Range rows, Range keys) {
  std::array<std::uint64_t, kBlock> bits{};
  mask.tile_bits(group, rows, keys, std::span(bits).first(static_cast<std::size_t>(rows.size())));
  int scores = 0, values = 0;
  for (std::size_t row = 0; row < kBlock; row += 32)
    scores += 4 * __builtin_popcount(live_cells(std::span(bits).subspan(row, 32)));
  for (std::size_t row = 0; row < kBlock; row += 8)
    values += __builtin_popcount(live_cells(std::span(bits).subspan(row, 8)));
  return (scores + values) / 128.0;
}

}  // namespace

double partial_live_share(const BoundMask& mask) {
  const MaskExtent& extent = mask.extent();
  const std::int64_t row_blocks = (extent.queries + kBlock - 1) / kBlock;
  double sum = 0;
  int count = 0;
  for (std::int64_t i = 0; i < std::min(kRowBlocks, row_blocks); ++i) {
    // Spread over the rows, and over the groups as far as they go.
    const std::int64_t block = (2 * i + 1) * row_blocks / (2 * std::min(kRowBlocks, row_blocks));
    const int group = static_cast<int>(i % mask.groups());
    const Range rows{block * kBlock, std::min(extent.queries, (block + 1) * kBlock)};
    std::vector<std::int64_t> found;
    find_partial(mask, group, rows, {0, extent.keys}, found);
    const auto step = static_cast<std::int64_t>(found.size()) / kBlocksEach + 1;
    for (std::size_t at = 0; at < found.size(); at += static_cast<std::size_t>(step), ++count)
      sum += live_share(mask, group, rows, {found[at], found[at] + kBlock});
  }
  return count == 0 ? 1 : sum / count;
}

}  // namespace stof
