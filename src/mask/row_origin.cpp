// SPDX-License-Identifier: Apache-2.0
#include "src/mask/row_origin.h"

#include <algorithm>
#include <array>

namespace stof {
namespace {

constexpr std::array<std::int64_t, 7> kHeights = {8, 16, 32, 64, 128, 192, 256};

bool is_fewest_blocks(const MaskExtent& extent, std::int64_t origin) {
  return std::ranges::all_of(kHeights, [&](std::int64_t height) {
    const std::int64_t first = origin + floor_div(extent.offset() - origin, height) * height;
    return ceil_div(extent.keys - first, height) == ceil_div(extent.queries, height);
  });
}

}  // namespace

std::int64_t row_origin(const MaskExtent& extent, RowOrigin origin) {
  if (origin == RowOrigin::zero) return 0;
  constexpr std::int64_t kKeyStep = 8;  // of where tiles of keys may begin: in step with it a window has fewest
  const std::int64_t in_step = floor_div(extent.offset(), kKeyStep) * kKeyStep;
  return is_fewest_blocks(extent, in_step) ? in_step : extent.offset();
}

std::int64_t row_block_at(const MaskExtent& extent, RowOrigin origin, std::int64_t height, std::int64_t position) {
  const std::int64_t zero = row_origin(extent, origin);
  return zero + floor_div(position - zero, height) * height;
}

bool first_row_saves_blocks(const MaskExtent& extent) {
  constexpr std::int64_t kMostQueries = 2048;  // of more, one block more is little
  return extent.queries > 0 && extent.queries <= kMostQueries && !is_fewest_blocks(extent, 0);
}

}  // namespace stof
