// SPDX-License-Identifier: Apache-2.0
// A mask asked element by element through BoundMask, and one written down in the test, side by side.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "src/mask/bind.h"

namespace stof {

// May position p of head h in item b attend to key j?
using Definition = std::function<bool(std::int64_t b, std::int64_t h, std::int64_t p, std::int64_t j)>;

// Every rectangle question agrees with allows(): bits exactly, empty and full never wrongly.
inline void expect_consistent(const BoundMask& mask, int group, Range rows, Range keys) {
  const std::int64_t stride = (keys.size() + 63) / 64;
  std::vector<std::uint64_t> words(static_cast<std::size_t>(rows.size() * stride), 0xAAAAAAAAAAAAAAAA);
  mask.tile_bits(group, rows, keys, words);
  std::int64_t allowed = 0;
  for (std::int64_t i = rows.begin; i < rows.end; ++i)
    for (std::int64_t bit = 0; bit < stride * 64; ++bit) {
      const std::uint64_t word = words[static_cast<std::size_t>((i - rows.begin) * stride + bit / 64)];
      const bool expected = bit < keys.size() && mask.allows(group, i, keys.begin + bit);
      ASSERT_EQ(word >> (bit % 64) & 1, expected) << "row " << i << " key " << keys.begin + bit;
      allowed += expected ? 1 : 0;
    }
  const BlockKind kind = mask.classify(group, rows, keys);
  if (kind == BlockKind::empty) {
    ASSERT_EQ(allowed, 0);
  } else if (kind == BlockKind::full) {
    ASSERT_EQ(allowed, rows.size() * keys.size());
  }
}

// Rectangles of all sizes, some reaching past the keys.
inline void expect_consistent(const Mask& mask, const MaskExtent& extent, unsigned seed, int rectangles) {
  const BoundMask bound(mask, extent);
  std::mt19937 random(seed);
  const auto below = [&](std::int64_t count) {
    return std::uniform_int_distribution<std::int64_t>(0, count - 1)(random);
  };
  const auto range = [&](std::int64_t count) {
    const std::int64_t size = 1 + below(below(3) == 0 ? count : std::min<std::int64_t>(count, 9));
    const std::int64_t begin = below(count - size + 1);
    return Range{begin, begin + size};
  };
  for (int n = 0; n < rectangles; ++n) {
    const int group = static_cast<int>(below(bound.groups()));
    const Range rows = range(extent.queries);
    Range keys = range(extent.keys);
    if (below(10) == 0) keys.end += below(70);
    if (below(10) == 0) keys.begin -= below(70);
    SCOPED_TRACE(fmt::format("{} of {}x{}: rows [{}, {}) keys [{}, {})", mask.text(), extent.queries, extent.keys,
                             rows.begin, rows.end, keys.begin, keys.end));
    expect_consistent(bound, group, rows, keys);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

inline void expect_definition(const Mask& mask, const MaskExtent& extent, const Definition& allows) {
  const BoundMask bound(mask, extent);
  for (std::int64_t b = 0; b < extent.batch; ++b)
    for (std::int64_t h = 0; h < extent.heads; ++h)
      for (std::int64_t i = 0; i < extent.queries; ++i)
        for (std::int64_t j = 0; j < extent.keys; ++j) {
          const std::int64_t p = i + extent.keys - extent.queries;
          ASSERT_EQ(bound.allows(bound.group_of(b, h), i, j), allows(b, h, p, j))
              << mask.text() << " b=" << b << " h=" << h << " p=" << p << " j=" << j;
        }
  expect_consistent(mask, extent, 1, 200);
}

// Decode, square, and more queries than keys, so that positions start before the first key.
inline void expect_definition_everywhere(const Mask& mask, const Definition& allows) {
  expect_definition(mask, {.queries = 7, .keys = 40}, allows);
  expect_definition(mask, {.queries = 70, .keys = 70}, allows);
  expect_definition(mask, {.queries = 50, .keys = 33}, allows);
}

}  // namespace stof
