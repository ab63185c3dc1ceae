// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cpu/attention/rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/cpu/row_attention.h"
#include "src/backend/cpu/attention/cost.h"
#include "src/backend/cpu/attention/work_list.h"

namespace stof::cpu {
namespace {

struct ArrangedRows {
  std::vector<int> group_of;
  std::int64_t heads = 1, rows = 0, first_position = 0;
  std::vector<std::int64_t> row_begin;    // [groups][rows + 1] into intervals
  std::vector<std::int64_t> keys_before;  // the same, of keys
  std::vector<KeyInterval> intervals;
  mutable ScratchPool scratch{0};  // the kernel needs none
};

// Rows of one piece: enough to pay for taking it, few enough to share out.
constexpr std::int64_t kRowsPerPiece = 16;

void add_pieces(const ArrangedRows& layout, const AttentionItem& item, std::int64_t head, const AttentionCall& call,
                std::vector<Piece>& pieces) {
  const std::int64_t shift = item.keys == 0 ? 0 : item.keys - item.queries - layout.first_position;
  const std::int64_t group = layout.group_of[static_cast<std::size_t>(item.index * layout.heads + head)];
  for (std::int64_t row = 0; row < item.queries; row += kRowsPerPiece) {
    Piece piece{.item = &item, .head = head, .row = row};
    piece.rows = std::min(kRowsPerPiece, item.queries - row);
    piece.begin = group * (layout.rows + 1) + shift + row;  // into row_begin
    const auto first = layout.keys_before.begin() + piece.begin;
    const double keys = item.keys > 0 ? static_cast<double>(first[piece.rows] - first[0]) : 0;
    piece.cost_ns = row_ns(row_work(static_cast<double>(piece.rows), keys, call.head_dim), call.dtype);
    pieces.push_back(piece);
  }
}

}  // namespace

Refusal rows_refuse(const AttentionProblem&, const DeviceCaps&) { return std::nullopt; }

std::vector<AttentionPlan> row_candidates(const AttentionProblem& problem, const DeviceCaps& caps) {
  AttentionPlan plan;
  plan.kernel = kRowAttention;
  plan.layout = LayoutKind::row;
  plan.predicted_us = predict_rows(problem, caps);
  plan.reason = fmt::format("{:.1f} allowed keys a row, and nothing else is read",
                            problem.stats.density * static_cast<double>(problem.stats.extent.keys));
  return {plan};
}

ArrangedMask arrange_rows(const AttentionPlan&, PackedMask mask, const Device&) {
  RowLayout& layout = mask.rows;
  auto arranged = std::make_shared<ArrangedRows>();
  arranged->group_of = std::move(layout.group_of);
  arranged->heads = layout.extent.heads;
  arranged->rows = layout.extent.queries;
  arranged->first_position = layout.positions.begin;
  arranged->row_begin = std::move(layout.row_begin);
  std::vector<std::int64_t> keys_before(layout.intervals.size() + 1);
  for (std::size_t i = 0; i < layout.intervals.size(); ++i) {
    const RowLayout::Interval& interval = layout.intervals[i];
    arranged->intervals.push_back({interval.begin, interval.end});
    keys_before[i + 1] = keys_before[i] + interval.end - interval.begin;
  }
  for (const std::int64_t begin : arranged->row_begin)
    arranged->keys_before.push_back(keys_before[static_cast<std::size_t>(begin)]);
  return arranged;
}

void run_rows(const AttentionPlan&, const ArrangedMask& mask, const AttentionCall& call, const Device& device) {
  const auto& layout = *static_cast<const ArrangedRows*>(mask.get());
  std::vector<Piece> pieces;
  for (const AttentionItem& item : call.items)
    for (std::int64_t head = 0; head < call.heads; ++head) add_pieces(layout, item, head, call, pieces);
  const AttentionNumbers numbers = numbers_of(call);
  constexpr std::int64_t kNoKeys[kRowsPerPiece + 1] = {};
  spread(pieces, device.caps.cores, layout.scratch, [&](const Piece& piece, void*) {
    row_attention(numbers, {.head = head_of(call, piece),
                            .intervals = layout.intervals.data(),
                            .row_begin = piece.item->keys == 0 ? kNoKeys : layout.row_begin.data() + piece.begin,
                            .row = piece.row,
                            .rows = static_cast<int>(piece.rows)});
  });
}

}  // namespace stof::cpu
