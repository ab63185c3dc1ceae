// SPDX-License-Identifier: Apache-2.0
// Masks that allow each row a prefix of the keys and one range of them: a kernel needs no list of tiles for these.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/mask/bind.h"

namespace stof {

// Keys [0, prefix_end) and [begin, end), with prefix_end <= begin. A row without keys has zeros, and one of a single
// range no prefix.
struct RowSpan {
  std::int32_t prefix_end = 0, begin = 0, end = 0;
  friend bool operator==(const RowSpan&, const RowSpan&) = default;
};

// Of every row of the extent. Nothing where heads or items have masks of their own, and where a row is allowed more.
std::optional<std::vector<RowSpan>> row_spans(const BoundMask& mask);

// The same of all rows at once: a row at a position is allowed keys [0, prefix_end) and [position + begin,
// position + end), of those that there are.
struct SpanRule {
  static constexpr std::int32_t kNoBound = 1 << 29;  // further than any key
  std::int32_t prefix_end = 0, begin = -kNoBound, end = kNoBound;
  friend bool operator==(const SpanRule&, const SpanRule&) = default;
};

// Of spans of rows at consecutive positions from `first_position` on; nothing where no rule gives them.
std::optional<SpanRule> span_rule(std::span<const RowSpan> rows, std::int64_t first_position, std::int64_t keys);

// Of spans of rows from position 0 on, each as the last one of a text that ends with it.
std::optional<SpanRule> last_row_rule(std::span<const RowSpan> rows);

}  // namespace stof
