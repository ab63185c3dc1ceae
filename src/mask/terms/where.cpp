// SPDX-License-Identifier: Apache-2.0
// Evaluation of where(): one element with every check, or many at a time where nothing can go wrong.
#include "src/mask/terms/where.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "src/base/error.h"

namespace stof {

WhereResult compute(WhereOp op, std::int64_t a) {
  const bool least = a == std::numeric_limits<std::int64_t>::min();
  switch (op) {
    case WhereOp::negate: return least ? WhereResult{0, "overflow"} : WhereResult{-a};
    case WhereOp::absolute: return least ? WhereResult{0, "overflow"} : WhereResult{a < 0 ? -a : a};
    default: return {a == 0 ? 1 : 0};
  }
}

WhereResult compute(WhereOp op, std::int64_t a, std::int64_t b) {
  std::int64_t value = 0;
  const auto checked = [&](bool overflows) { return overflows ? WhereResult{0, "overflow"} : WhereResult{value}; };
  switch (op) {
    case WhereOp::add: return checked(__builtin_add_overflow(a, b, &value));
    case WhereOp::subtract: return checked(__builtin_sub_overflow(a, b, &value));
    case WhereOp::multiply: return checked(__builtin_mul_overflow(a, b, &value));
    case WhereOp::divide:
    case WhereOp::remainder: {
      if (b == 0) return {0, "division by zero"};
      if (b == -1) return op == WhereOp::remainder ? WhereResult{0} : compute(WhereOp::negate, a);
      const std::int64_t rest = a % b, away = rest != 0 && (rest < 0) != (b < 0) ? 1 : 0;
      return {op == WhereOp::divide ? a / b - away : rest + away * b};
    }
    case WhereOp::least: return {std::min(a, b)};
    case WhereOp::greatest: return {std::max(a, b)};
    case WhereOp::less: return {a < b};
    case WhereOp::less_equal: return {a <= b};
    case WhereOp::greater: return {a > b};
    case WhereOp::greater_equal: return {a >= b};
    case WhereOp::equal: return {a == b};
    case WhereOp::not_equal: return {a != b};
    case WhereOp::bit_and: return {a & b};
    default: return {a | b};
  }
}

namespace bound {
namespace {

// Beyond this the table of differences would take more than 2 MiB.
constexpr std::int64_t kMostDifferences = std::int64_t{1} << 24;

}  // namespace

Where::Where(const term::Where& term, std::int64_t item, std::int64_t head, const MaskExtent& extent)
    : steps_(specialise(term.steps, item, head)),
      text_(term.print(ArrayNames::display)),
      only_difference_(stof::only_difference(steps_)),
      keys_(extent.keys) {
  if (extent.queries == 0 || extent.keys == 0) return;
  const std::int64_t differences = extent.queries + extent.keys - 1;
  const bool diagonal = differences <= kMostDifferences && only_difference_;
  // The last word of a row reaches up to 63 keys past the last one; the differences are those to the last position.
  const Range reached = {0, (diagonal ? differences : extent.keys) + 64};
  const WhereBounds bounds = bounds_of(steps_, {extent.offset(), extent.keys}, reached);
  constexpr std::int64_t kNarrow = std::int64_t{1} << 30;  // quotient * divisor then fits as well
  if (bounds.may_fail) return;
  narrow_ = bounds.widest.low >= -kNarrow && bounds.widest.high <= kNarrow;
  if (narrow_) lanes_ = WhereLanes(steps_);
  periods_ = where_periods(steps_, extent.queries);
  if (!diagonal) return;
  std::vector<std::uint64_t> of_differences(static_cast<std::size_t>(words_for(differences)));
  fill({.positions = {keys_ - 1, keys_}, .keys = {0, differences}, .words = of_differences.data()});
  diagonal_ = std::move(of_differences);
}

bool Where::allows(std::int64_t p, std::int64_t key) const {
  std::array<std::int64_t, kWhereStack> stack;
  std::size_t top = 0;
  for (const WhereStep& step : steps_) {
    WhereResult result{step.op == WhereOp::query ? p : step.op == WhereOp::key ? key : step.value};
    switch (operand_count(step.op)) {
      case 0: break;
      case 1: result = compute(step.op, stack[--top]); break;
      default: top -= 2; result = compute(step.op, stack[top], stack[top + 1]);
    }
    if (result.failure) fail(ErrorKind::invalid_argument, "{}: {} at q = {}, k = {}", text_, result.failure, p, key);
    stack[top++] = result.value;
  }
  return stack[0] != 0;
}

BlockKind Where::classify(Range positions, Range keys) const {
  const WhereBounds bounds = bounds_of(steps_, positions, keys);
  if (bounds.may_fail) return BlockKind::partial;
  if (bounds.result.low > 0 || bounds.result.high < 0) return BlockKind::full;
  return bounds.result.low == 0 && bounds.result.high == 0 ? BlockKind::empty : BlockKind::partial;
}

bool Where::outline(const CellGrid& grid, Range cells, Outline& out) const {
  if (periods_.keys == 0) return false;
  const std::int64_t every = periods_.keys / std::gcd(periods_.keys, grid.cell_keys);
  if (cells.size() < 4 * every) return false;
  const BlockKind whole = classify(grid.positions, grid.keys_of(cells));
  std::vector<BlockKind> kinds(static_cast<std::size_t>(every), whole);
  if (whole == BlockKind::partial)
    for (std::int64_t i = 0; i < every; ++i)
      kinds[static_cast<std::size_t>(i)] =
          classify(grid.positions, grid.keys_of({cells.begin + i, cells.begin + i + 1}));
  if (std::ranges::all_of(kinds, [&](BlockKind kind) { return kind == kinds[0]; })) {
    out.add(cells, kinds[0]);
    return true;
  }
  for (std::int64_t begin = cells.begin; begin < cells.end; begin += every)
    for (std::int64_t cell = begin; cell < std::min(begin + every, cells.end); ++cell)
      out.add({cell, cell + 1}, kinds[static_cast<std::size_t>(cell - begin)]);
  return true;
}

void Where::fill(const TileBits& tile) const {
  if (!diagonal_.empty()) {
    for (std::int64_t p = tile.positions.begin; p < tile.positions.end; ++p) copy_row(p, tile.row(p));
    return;
  }
  // Rows that repeat are computed once.
  const std::int64_t rows = tile.positions.size(), words = tile.words_per_row();
  const std::int64_t first = periods_.rows.length > 0 ? std::min(periods_.rows.length, rows) : rows;
  TileBits computed = tile;
  computed.positions.end = tile.positions.begin + first;
  if (narrow_) lanes_.fill(computed);
  else fill_one_by_one(computed);
  for (std::int64_t w = first * words; w < rows * words; ++w) tile.words[w] = tile.words[w - first * words];
}

void Where::copy_row(std::int64_t p, RowBits row) const {
  const Range keys = row.keys();
  const std::int64_t shift = keys_ - 1 - p;
  copy_bits(diagonal_.data(), static_cast<std::int64_t>(diagonal_.size()), {keys.begin + shift, keys.end + shift},
            row.words());
}

void Where::fill_one_by_one(const TileBits& tile) const {
  for (std::int64_t p = tile.positions.begin; p < tile.positions.end; ++p) {
    RowBits row = tile.row(p);
    std::fill_n(row.words(), words_for(tile.keys.size()), 0);
    for (std::int64_t key = tile.keys.begin; key < tile.keys.end; ++key)
      if (allows(p, key)) row.allow(key);
  }
}

}  // namespace bound
}  // namespace stof
