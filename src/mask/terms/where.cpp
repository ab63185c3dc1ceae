// SPDX-License-Identifier: Apache-2.0
// Evaluation of where(): one element with every check, or 64 keys at a time where nothing can go wrong.
#include "src/mask/terms/where.h"

#include <algorithm>
#include <array>
#include <limits>

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

// 64 consecutive keys of one row, in 32-bit integers; the caller knows that every value fits.
using Lanes = std::array<std::int32_t, 64>;

template <class Join>
void join(Lanes& a, const Lanes& b, Join operation) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = operation(a[i], b[i]);
}

// The quotient of 32-bit integers is exact after truncation of the double quotient, and doubles divide in vectors.
std::int32_t floor_quotient(std::int32_t a, std::int32_t b) {
  const auto quotient = static_cast<std::int32_t>(static_cast<double>(a) / static_cast<double>(b));
  return quotient - static_cast<std::int32_t>((quotient * b != a) & ((a ^ b) < 0));
}

void apply_lanes(WhereOp op, Lanes& a) {
  switch (op) {
    case WhereOp::negate: return join(a, a, [](auto x, auto) { return -x; });
    case WhereOp::absolute: return join(a, a, [](auto x, auto) { return x < 0 ? -x : x; });
    default: return join(a, a, [](auto x, auto) { return static_cast<std::int32_t>(x == 0); });
  }
}

void apply_lanes(WhereOp op, Lanes& a, const Lanes& b) {
  switch (op) {
    case WhereOp::add: return join(a, b, [](auto x, auto y) { return x + y; });
    case WhereOp::subtract: return join(a, b, [](auto x, auto y) { return x - y; });
    case WhereOp::multiply: return join(a, b, [](auto x, auto y) { return x * y; });
    case WhereOp::divide: return join(a, b, [](auto x, auto y) { return floor_quotient(x, y); });
    case WhereOp::remainder: return join(a, b, [](auto x, auto y) { return x - floor_quotient(x, y) * y; });
    case WhereOp::least: return join(a, b, [](auto x, auto y) { return x < y ? x : y; });
    case WhereOp::greatest: return join(a, b, [](auto x, auto y) { return x > y ? x : y; });
    case WhereOp::less: return join(a, b, [](auto x, auto y) { return static_cast<std::int32_t>(x < y); });
    case WhereOp::less_equal: return join(a, b, [](auto x, auto y) { return static_cast<std::int32_t>(x <= y); });
    case WhereOp::greater: return join(a, b, [](auto x, auto y) { return static_cast<std::int32_t>(x > y); });
    case WhereOp::greater_equal: return join(a, b, [](auto x, auto y) { return static_cast<std::int32_t>(x >= y); });
    case WhereOp::equal: return join(a, b, [](auto x, auto y) { return static_cast<std::int32_t>(x == y); });
    case WhereOp::not_equal: return join(a, b, [](auto x, auto y) { return static_cast<std::int32_t>(x != y); });
    case WhereOp::bit_and: return join(a, b, [](auto x, auto y) { return x & y; });
    default: return join(a, b, [](auto x, auto y) { return x | y; });
  }
}

std::uint64_t word_at(const std::vector<WhereStep>& steps, std::int64_t p, std::int64_t key) {
  std::array<Lanes, kWhereStack> stack;
  std::size_t top = 0;  // values on the stack
  for (const WhereStep& step : steps) {
    switch (operand_count(step.op)) {
      case 0: {
        const bool is_key = step.op == WhereOp::key;
        const std::int64_t first = is_key ? key : step.op == WhereOp::query ? p : step.value;
        for (std::size_t i = 0; i < 64; ++i)
          stack[top][i] = static_cast<std::int32_t>(first) + (is_key ? static_cast<std::int32_t>(i) : 0);
        ++top;
        break;
      }
      case 1: apply_lanes(step.op, stack[top - 1]); break;
      default: apply_lanes(step.op, stack[top - 2], stack[top - 1]); --top;
    }
  }
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < 64; ++i) word |= static_cast<std::uint64_t>(stack[0][i] != 0) << i;
  return word;
}

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
  narrow_ = !bounds.may_fail && bounds.widest.low >= -kNarrow && bounds.widest.high <= kNarrow;
  if (!narrow_ || !diagonal) return;
  for (std::int64_t key = 0; key < differences; key += 64) diagonal_.push_back(word_at(steps_, keys_ - 1, key));
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

void Where::fill(std::int64_t p, RowBits row) const {
  const Range keys = row.keys();
  if (!narrow_) {
    for (std::int64_t key = keys.begin; key < keys.end; ++key)
      if (allows(p, key)) row.allow(key);
    return;
  }
  std::uint64_t* out = row.words();
  if (!diagonal_.empty()) {
    const std::int64_t shift = keys_ - 1 - p;
    return copy_bits(diagonal_.data(), static_cast<std::int64_t>(diagonal_.size()),
                     {keys.begin + shift, keys.end + shift}, out);
  }
  for (std::int64_t key = keys.begin; key < keys.end; key += 64) *out++ = word_at(steps_, p, key);
  if (const std::int64_t rest = keys.size() & 63; rest != 0) out[-1] &= ~(~std::uint64_t{0} << rest);
}

}  // namespace bound
}  // namespace stof
