// SPDX-License-Identifier: Apache-2.0
#include "src/mask/terms/where_lanes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "src/mask/terms/where.h"

namespace stof::bound {
namespace {

using Lanes = std::array<std::int32_t, 64>;
using Scratch = std::array<Lanes, kWhereStack>;

template <class Join>
void join(const Lanes& a, const Lanes& b, Lanes& out, Join operation) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = operation(a[i], b[i]);
}

// The quotient of 32-bit integers is exact after truncation of the double quotient, and doubles divide in vectors.
std::int32_t floor_quotient(std::int32_t a, std::int32_t b) {
  const auto quotient = static_cast<std::int32_t>(static_cast<double>(a) / static_cast<double>(b));
  return quotient - static_cast<std::int32_t>((quotient * b != a) & ((a ^ b) < 0));
}

void apply(WhereOp op, const Lanes& a, Lanes& out) {
  switch (op) {
    case WhereOp::negate: return join(a, a, out, [](auto x, auto) { return -x; });
    case WhereOp::absolute: return join(a, a, out, [](auto x, auto) { return x < 0 ? -x : x; });
    default: return join(a, a, out, [](auto x, auto) { return static_cast<std::int32_t>(x == 0); });
  }
}

void apply(WhereOp op, const Lanes& a, const Lanes& b, Lanes& out) {
  using Int = std::int32_t;
  switch (op) {
    case WhereOp::add: return join(a, b, out, [](Int x, Int y) { return x + y; });
    case WhereOp::subtract: return join(a, b, out, [](Int x, Int y) { return x - y; });
    case WhereOp::multiply: return join(a, b, out, [](Int x, Int y) { return x * y; });
    case WhereOp::divide: return join(a, b, out, [](Int x, Int y) { return floor_quotient(x, y); });
    case WhereOp::remainder: return join(a, b, out, [](Int x, Int y) { return x - floor_quotient(x, y) * y; });
    case WhereOp::least: return join(a, b, out, [](Int x, Int y) { return x < y ? x : y; });
    case WhereOp::greatest: return join(a, b, out, [](Int x, Int y) { return x > y ? x : y; });
    case WhereOp::less: return join(a, b, out, [](Int x, Int y) { return Int{x < y}; });
    case WhereOp::less_equal: return join(a, b, out, [](Int x, Int y) { return Int{x <= y}; });
    case WhereOp::greater: return join(a, b, out, [](Int x, Int y) { return Int{x > y}; });
    case WhereOp::greater_equal: return join(a, b, out, [](Int x, Int y) { return Int{x >= y}; });
    case WhereOp::equal: return join(a, b, out, [](Int x, Int y) { return Int{x == y}; });
    case WhereOp::not_equal: return join(a, b, out, [](Int x, Int y) { return Int{x != y}; });
    case WhereOp::bit_and: return join(a, b, out, [](Int x, Int y) { return x & y; });
    default: return join(a, b, out, [](Int x, Int y) { return x | y; });
  }
}

// load(step, place) gives an operand where it lies, or writes it to the place.
template <class Load>
const Lanes& evaluate(const std::vector<WhereStep>& steps, Scratch& scratch, const Load& load) {
  std::array<const Lanes*, kWhereStack> stack;
  std::size_t top = 0;  // values on the stack
  const Lanes* value = scratch.data();
  for (const WhereStep& step : steps) {
    const auto operands = static_cast<std::size_t>(operand_count(step.op));
    Lanes& out = scratch[top - operands];
    value = &out;
    if (operands == 0) value = &load(step, out);
    else if (operands == 1) apply(step.op, *stack[top - 1], out);
    else apply(step.op, *stack[top - 2], *stack[top - 1], out);
    top += 1 - operands;
    stack[top - 1] = value;
  }
  return *value;
}

const Lanes& spread(std::int64_t value, Lanes& out) {
  out.fill(static_cast<std::int32_t>(value));
  return out;
}

void compute_keys(const std::vector<WhereStep>& steps, std::int64_t first_key, Scratch& scratch, Lanes& out) {
  out = evaluate(steps, scratch, [first_key](const WhereStep& step, Lanes& place) -> const Lanes& {
    if (step.op != WhereOp::key) return spread(step.value, place);
    for (std::size_t i = 0; i < place.size(); ++i)
      place[i] = static_cast<std::int32_t>(first_key) + static_cast<std::int32_t>(i);
    return place;
  });
}

std::int64_t compute_row(const std::vector<WhereStep>& steps, std::int64_t p) {
  std::array<std::int64_t, kWhereStack> stack;
  std::size_t top = 0;
  for (const WhereStep& step : steps) {
    const auto operands = static_cast<std::size_t>(operand_count(step.op));
    top -= operands;
    stack[top] = operands == 0   ? step.op == WhereOp::query ? p : step.value
                 : operands == 1 ? compute(step.op, stack[top]).value
                                 : compute(step.op, stack[top], stack[top + 1]).value;
    ++top;
  }
  return stack[0];
}

// Bit i is set where value i is not zero.
std::uint64_t bits_of(const Lanes& values) {
  std::array<std::uint8_t, 64> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(values[i] != 0);
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, bytes.data() + i, 8);
    word |= (eight * 0x0102040810204080ull) >> 56 << i;  // byte j to bit 56 + j; nothing else reaches those
  }
  return word;
}

}  // namespace

WhereLanes::WhereLanes(const std::vector<WhereStep>& steps) {
  struct Value {
    std::size_t first;  // of its steps, the last of which is its operation
    bool query, key;    // whether it looks at them
  };
  std::vector<Value> values, stack;  // values: of each step
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Value value{i, steps[i].op == WhereOp::query, steps[i].op == WhereOp::key};
    for (int operands = operand_count(steps[i].op); operands > 0; --operands) {
      const Value& last = stack.back();
      value = {last.first, value.query || last.query, value.key || last.key};
      stack.pop_back();
    }
    stack.push_back(value);
    values.push_back(value);
  }
  // From the last operation inwards, so that parts are as large as they can be.
  for (std::size_t i = steps.size(); i-- > 0;) {
    const auto [first, query, key] = values[i];
    if (query && key) {
      steps_.push_back(steps[i]);
      continue;
    }
    auto& parts = key ? key_parts_ : row_parts_;
    steps_.push_back({key ? WhereOp::key : WhereOp::query, static_cast<std::int64_t>(parts.size())});
    parts.emplace_back(steps.begin() + static_cast<std::ptrdiff_t>(first),
                       steps.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    i = first;
  }
  std::reverse(steps_.begin(), steps_.end());
}

void WhereLanes::fill(const TileBits& tile) const {
  const auto parts = row_parts_.size();
  std::vector<std::int64_t> of_rows;  // [rows][parts]
  of_rows.reserve(static_cast<std::size_t>(tile.positions.size()) * parts);
  for (std::int64_t p = tile.positions.begin; p < tile.positions.end; ++p)
    for (const std::vector<WhereStep>& part : row_parts_) of_rows.push_back(compute_row(part, p));
  std::vector<Lanes> of_keys(key_parts_.size());
  Scratch scratch;
  const std::int64_t words = tile.words_per_row(), rest = tile.keys.size() & 63;
  for (std::int64_t w = 0; w < words; ++w) {
    for (std::size_t part = 0; part < of_keys.size(); ++part)
      compute_keys(key_parts_[part], tile.keys.begin + 64 * w, scratch, of_keys[part]);
    const std::uint64_t wanted = w + 1 == words && rest != 0 ? ~(~std::uint64_t{0} << rest) : ~std::uint64_t{0};
    std::span<const std::int64_t> known;  // the row whose bits `word` has
    std::uint64_t word = 0;
    for (std::int64_t row = 0; row < tile.positions.size(); ++row) {
      const auto of_row = std::span(of_rows).subspan(static_cast<std::size_t>(row) * parts, parts);
      // Rows of equal values, as those of a block are, have equal bits.
      if (row == 0 || !std::ranges::equal(of_row, known)) {
        const auto load = [&](const WhereStep& step, Lanes& place) -> const Lanes& {
          const auto part = static_cast<std::size_t>(step.value);
          return step.op == WhereOp::key ? of_keys[part] : spread(of_row[part], place);
        };
        word = bits_of(evaluate(steps_, scratch, load)) & wanted;
        known = of_row;
      }
      tile.words[row * words + w] = word;
    }
  }
}

}  // namespace stof::bound
