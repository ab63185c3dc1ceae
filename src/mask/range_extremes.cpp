// SPDX-License-Identifier: Apache-2.0
#include "src/mask/range_extremes.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace stof {
namespace {

RangeExtremes::Extremes join(RangeExtremes::Extremes a, RangeExtremes::Extremes b) {
  return {.low = std::min(a.low, b.low), .high = std::max(a.high, b.high)};
}

}  // namespace

RangeExtremes::RangeExtremes(std::vector<std::int64_t> lows, std::vector<std::int64_t> highs)
    : lows_(std::move(lows)), highs_(std::move(highs)) {
  const auto count = static_cast<std::int64_t>(lows_.size());
  std::vector<Extremes> level;
  for (std::int64_t begin = 0; begin < count; begin += kBlock)
    level.push_back(scan(begin, std::min(begin + kBlock, count)));
  for (std::size_t width = 1; !level.empty(); width *= 2) {
    levels_.push_back(level);
    if (2 * width > levels_[0].size()) break;
    const std::vector<Extremes>& below = levels_.back();
    level.resize(levels_[0].size() - 2 * width + 1);
    for (std::size_t i = 0; i < level.size(); ++i) level[i] = join(below[i], below[i + width]);
  }
}

RangeExtremes::Extremes RangeExtremes::scan(std::int64_t begin, std::int64_t end) const {
  Extremes found{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
  for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
    found = join(found, {lows_[i], highs_[i]});
  return found;
}

RangeExtremes::Extremes RangeExtremes::of(Range range) const {
  const std::int64_t first = ceil_div(range.begin, kBlock), last = range.end / kBlock;  // whole blocks inside
  if (first >= last) return scan(range.begin, range.end);
  const auto count = static_cast<std::size_t>(last - first);
  const auto level = static_cast<std::size_t>(std::bit_width(count) - 1);
  const std::vector<Extremes>& table = levels_[level];
  const Extremes blocks =
      join(table[static_cast<std::size_t>(first)], table[static_cast<std::size_t>(last) - (std::size_t{1} << level)]);
  return join(blocks, join(scan(range.begin, first * kBlock), scan(last * kBlock, range.end)));
}

}  // namespace stof
