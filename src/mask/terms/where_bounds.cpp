// SPDX-License-Identifier: Apache-2.0
// Interval arithmetic for where(): bounds of an expression over a rectangle of positions and keys.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "src/mask/terms/where.h"

namespace stof {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

struct Bounds {
  WhereInterval interval;
  bool may_fail = false;
};

constexpr Bounds kAnything{{kLeast, kMost}, true};

Bounds truth(bool always, bool never) { return {{always ? 1 : 0, never ? 0 : 1}}; }

bool single(WhereInterval a) { return a.low == a.high; }

// For operations whose extremes lie at corners of the operands' intervals.
Bounds corners(WhereOp op, WhereInterval a, WhereInterval b) {
  Bounds bounds{{kMost, kLeast}};
  for (const std::int64_t x : {a.low, a.high}) {
    for (const std::int64_t y : {b.low, b.high}) {
      const WhereResult result = compute(op, x, y);
      if (result.failure) return kAnything;
      bounds.interval = {std::min(bounds.interval.low, result.value), std::max(bounds.interval.high, result.value)};
      if (single(b)) break;
    }
    if (single(a)) break;
  }
  return bounds;
}

// Of operations that grow with both operands, or where the second one is turned around.
Bounds sum(WhereInterval a, WhereInterval b) {
  WhereInterval of = {};
  const bool low = __builtin_add_overflow(a.low, b.low, &of.low),
             high = __builtin_add_overflow(a.high, b.high, &of.high);
  return low || high ? kAnything : Bounds{of};
}

Bounds difference(WhereInterval a, WhereInterval b) {
  WhereInterval of = {};
  const bool low = __builtin_sub_overflow(a.low, b.high, &of.low),
             high = __builtin_sub_overflow(a.high, b.low, &of.high);
  return low || high ? kAnything : Bounds{of};
}

Bounds divide(WhereInterval a, WhereInterval b) {
  if (b.low <= 0 && b.high >= 0) return kAnything;
  return corners(WhereOp::divide, a, b);
}

Bounds remainder(WhereInterval a, WhereInterval b) {
  if (b.low <= 0 && b.high >= 0) return kAnything;
  if (single(b)) {
    const WhereResult low = compute(WhereOp::divide, a.low, b.low), high = compute(WhereOp::divide, a.high, b.low);
    if (!low.failure && !high.failure && low.value == high.value)
      return corners(WhereOp::remainder, a, b);  // no wrap in between
  }
  if (b.low > 0 && a.low >= 0) return {{a.high < b.low ? a.low : 0, std::min(a.high, b.high - 1)}};
  return b.low > 0 ? Bounds{{0, b.high - 1}} : Bounds{{b.low + 1, 0}};
}

Bounds bitwise(WhereOp op, WhereInterval a, WhereInterval b) {
  if (single(a) && single(b)) return corners(op, a, b);
  if (a.low < 0 || b.low < 0) return {{kLeast, kMost}};
  if (op == WhereOp::bit_and) {
    const bool both_bits = a.high <= 1 && b.high <= 1;
    return {{both_bits ? a.low & b.low : 0, std::min(a.high, b.high)}};
  }
  const auto bits = std::bit_width(static_cast<std::uint64_t>(a.high | b.high));
  return {{std::max(a.low, b.low), static_cast<std::int64_t>((std::uint64_t{1} << bits) - 1)}};
}

Bounds join(WhereOp op, WhereInterval a, WhereInterval b) {
  switch (op) {
    case WhereOp::add: return sum(a, b);
    case WhereOp::subtract: return difference(a, b);
    case WhereOp::least: return {{std::min(a.low, b.low), std::min(a.high, b.high)}};
    case WhereOp::greatest: return {{std::max(a.low, b.low), std::max(a.high, b.high)}};
    case WhereOp::divide: return divide(a, b);
    case WhereOp::remainder: return remainder(a, b);
    case WhereOp::less: return truth(a.high < b.low, a.low >= b.high);
    case WhereOp::less_equal: return truth(a.high <= b.low, a.low > b.high);
    case WhereOp::greater: return truth(a.low > b.high, a.high <= b.low);
    case WhereOp::greater_equal: return truth(a.low >= b.high, a.high < b.low);
    case WhereOp::equal: return truth(single(a) && single(b) && a.low == b.low, a.high < b.low || b.high < a.low);
    case WhereOp::not_equal: return truth(a.high < b.low || b.high < a.low, single(a) && single(b) && a.low == b.low);
    case WhereOp::bit_and:
    case WhereOp::bit_or: return bitwise(op, a, b);
    default: return corners(op, a, b);
  }
}

Bounds change(WhereOp op, WhereInterval a) {
  const bool has_zero = a.low <= 0 && a.high >= 0;
  switch (op) {
    case WhereOp::negate: return a.low == kLeast ? kAnything : Bounds{{-a.high, -a.low}};
    case WhereOp::absolute:
      if (a.low == kLeast) return kAnything;
      if (has_zero) return {{0, std::max(-a.low, a.high)}};
      return a.low > 0 ? Bounds{a} : Bounds{{-a.high, -a.low}};
    default: return truth(a.low == 0 && a.high == 0, !has_zero);
  }
}

}  // namespace

WhereBounds bounds_of(const std::vector<WhereStep>& steps, Range positions, Range keys) {
  std::array<WhereInterval, kWhereStack> stack;
  std::size_t top = 0;
  WhereBounds all;
  for (const WhereStep& step : steps) {
    Bounds bounds = {};
    switch (operand_count(step.op)) {
      case 0:
        bounds.interval = step.op == WhereOp::query ? WhereInterval{positions.begin, positions.end - 1}
                          : step.op == WhereOp::key ? WhereInterval{keys.begin, keys.end - 1}
                                                    : WhereInterval{step.value, step.value};
        break;
      case 1: bounds = change(step.op, stack[--top]); break;
      default: top -= 2; bounds = join(step.op, stack[top], stack[top + 1]);
    }
    all.may_fail = all.may_fail || bounds.may_fail;
    all.widest = {std::min(all.widest.low, bounds.interval.low), std::max(all.widest.high, bounds.interval.high)};
    stack[top++] = bounds.interval;
  }
  all.result = stack[0];
  return all;
}

}  // namespace stof
