// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cpu/attention/rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/cpu/row_attention.h"
#include "src/backend/cpu/attention/cost.h"
#include "src/backend/cpu/attention/trees.h"
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

// Lists of 512 MiB, which take longer to make than a call that reads them.
constexpr double kMostIntervals = 1 << 26;
constexpr double kMostRows = 1 << 26;  // each with where its list begins, and the keys before it: 1 GiB

// Intervals of all lists: of a row in a partial block at most every other key, and full blocks in one run between
// partial ones.
double likely_intervals(const MaskStats& stats) {
  const BlockStats& blocks = stats.blocks.front();
  const double area = static_cast<double>(blocks.block_q) * blocks.block_kv;
  double in_partial = 0, of_full = 0, full_pairs = 0;
  for (const BlockStats::Bin& bin : blocks.row_blocks) {
    const double row_blocks = static_cast<double>(bin.count);
    in_partial += row_blocks * bin.partial * area / 2;
    of_full += row_blocks * std::min(bin.full, bin.partial + 1) * blocks.block_q;
    full_pairs += row_blocks * bin.full * area;
  }
  const double partial_pairs = std::max(0.0, stats.allowed_pairs - full_pairs);
  const double masks = static_cast<double>(stats.extent.batch * stats.extent.heads);
  return (std::min(in_partial, partial_pairs) + of_full) * stats.groups / masks;
}

void add_pieces(const ArrangedRows& layout, const AttentionItem& item, std::int64_t head, const AttentionCall& call,
                std::pmr::vector<Piece>& pieces) {
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

Refusal rows_refuse(const AttentionProblem& problem, const DeviceCaps&) {
  if (problem.from_table) return "it takes intervals of keys; a table is packed in blocks";
  const double rows = static_cast<double>(problem.stats.extent.queries) * problem.stats.groups;
  if (rows > kMostRows)
    return fmt::format("its lists would be of {:.0f} rows; accepted: at most {:.0f}", rows, kMostRows);
  const double intervals = likely_intervals(problem.stats);
  if (intervals <= kMostIntervals) return std::nullopt;
  return fmt::format("its lists would have up to {:.0f} intervals of keys; accepted: at most {:.0f}", intervals,
                     kMostIntervals);
}

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
  arranged->intervals.reserve(layout.intervals.size());
  arranged->keys_before.reserve(arranged->row_begin.size());
  std::int64_t keys = 0;
  auto interval = layout.intervals.begin();
  for (const std::int64_t begin : arranged->row_begin) {  // ascending; the last is the number of intervals
    for (; interval != layout.intervals.begin() + begin; ++interval) {
      arranged->intervals.push_back({interval->begin, interval->end});
      keys += interval->end - interval->begin;
    }
    arranged->keys_before.push_back(keys);
  }
  return arranged;
}

void run_rows(const AttentionPlan&, const ArrangedMask& mask, const AttentionCall& call, const Device& device) {
  const auto& layout = *static_cast<const ArrangedRows*>(mask.get());
  std::pmr::vector<Piece> pieces(call.memory);
  for (const AttentionItem& item : call.items)
    for (std::int64_t head = 0; head < call.heads; ++head) add_pieces(layout, item, head, call, pieces);
  const AttentionNumbers numbers = numbers_of(call, device.caps);
  constexpr std::int64_t kNoKeys[kRowsPerPiece + 1] = {};
  spread(pieces, {.cores = device.caps.cores}, layout.scratch, [&](const Piece& piece, const Piece*, void*) {
    row_attention(numbers, {.head = head_of(call, piece),
                            .intervals = layout.intervals.data(),
                            .row_begin = piece.item->keys == 0 ? kNoKeys : layout.row_begin.data() + piece.begin,
                            .row = piece.row,
                            .rows = static_cast<int>(piece.rows),
                            .tree = tree_of(call, *piece.item)});
  });
}

}  // namespace stof::cpu
