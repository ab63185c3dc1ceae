// SPDX-License-Identifier: Apache-2.0
#include "src/layout/row_spans.h"

#include <algorithm>

#include "src/layout/row_intervals.h"

namespace stof {
namespace {

RowSpan by_rule(const SpanRule& rule, std::int64_t position, std::int64_t keys) {
  const auto within = [&](std::int64_t key) {
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(key, 0, keys));
  };
  const std::int32_t prefix_end = within(rule.prefix_end), begin = within(position + rule.begin),
                     end = within(position + rule.end);
  if (begin >= end) return {.end = prefix_end};
  if (prefix_end >= begin) return {.end = std::max(prefix_end, end)};
  return {.prefix_end = prefix_end, .begin = begin, .end = end};
}

}  // namespace

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

namespace {

// keys_of(position): how many there are of a row there.
template <class KeysOf>
std::optional<SpanRule> rule_of(std::span<const RowSpan> rows, std::int64_t first_position, const KeysOf& keys_of) {
  SpanRule rule;
  const auto for_rows = [&](const auto& visit) {
    std::int64_t position = first_position;
    for (const RowSpan& row : rows) visit(row, position++);
  };
  bool begins = false;
  for_rows([&](const RowSpan& row, std::int64_t position) {
    if (row.begin >= row.end) return;
    const auto begin = static_cast<std::int32_t>(row.begin - position),
               end = static_cast<std::int32_t>(row.end - position);
    if (row.begin > 0) rule.begin = begins ? std::max(rule.begin, begin) : begin, begins = true;
    if (row.end < keys_of(position)) rule.end = std::min(rule.end, end);
    rule.prefix_end = std::max(rule.prefix_end, row.prefix_end);
  });
  // Where a prefix and the range meet, spans have no prefix.
  for_rows([&](const RowSpan& row, std::int64_t position) {
    if (row.begin == 0 && row.end < keys_of(position) && row.end > position + rule.end)
      rule.prefix_end = std::max(rule.prefix_end, row.end);
  });
  bool all = true;
  for_rows([&](const RowSpan& row, std::int64_t position) {
    all = all && by_rule(rule, position, keys_of(position)) == row;
  });
  return all ? std::optional(rule) : std::nullopt;
}

// Of the row's keys those below `keys`.
RowSpan cut(RowSpan row, std::int32_t keys) {
  row.prefix_end = std::min(row.prefix_end, keys), row.end = std::min(row.end, keys);
  if (row.begin < row.end) return row;
  return {.prefix_end = 0, .begin = 0, .end = row.prefix_end};
}

}  // namespace

std::optional<SpanRule> span_rule(std::span<const RowSpan> rows, std::int64_t first_position, std::int64_t keys) {
  return rule_of(rows, first_position, [=](std::int64_t) { return keys; });
}

std::optional<SpanRule> last_row_rule(std::span<const RowSpan> rows) {
  std::vector<RowSpan> last;
  last.reserve(rows.size());
  for (const RowSpan& row : rows) last.push_back(cut(row, static_cast<std::int32_t>(last.size()) + 1));
  return rule_of(last, 0, [](std::int64_t position) { return position + 1; });
}

}  // namespace stof
