// SPDX-License-Identifier: Apache-2.0
#include "src/mask/where_residues.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <span>

#include "src/mask/divisors.h"
#include "src/mask/terms/where.h"

namespace stof {
namespace {

// query * q + key * k + constant
struct Linear {
  static constexpr std::int64_t kMost = std::int64_t{1} << 20;  // of each: sums and products of two fit
  std::int64_t query = 0, key = 0, constant = 0;
  bool is_constant() const { return query == 0 && key == 0; }
  bool is_small() const { return std::max({std::abs(query), std::abs(key), std::abs(constant)}) <= kMost; }
};

// What is known of a value of the expression. Divisors are as where_divisor gives them.
struct Known {
  std::optional<Linear> linear = {};
  std::int64_t if_not_zero = 1, if_zero = 1;
  bool is(std::int64_t value) const { return linear && linear->is_constant() && linear->constant == value; }
};

Known known(const Linear& linear) {
  Known value{.linear = linear.is_small() ? std::optional(linear) : std::nullopt};
  const auto [query, key, constant] = linear;
  if (linear.is_constant()) (constant == 0 ? value.if_not_zero : value.if_zero) = 0;
  else if (query == -key) value.if_zero = constant % query == 0 ? std::abs(constant / query) : 0;
  return value;
}

Known inverse(const Known& a) { return {.if_not_zero = a.if_zero, .if_zero = a.if_not_zero}; }

Known remainder(const Known& a, const Known& b) {
  if (!a.linear || !b.linear || !b.linear->is_constant() || b.linear->constant == 0) return {};
  const std::int64_t n = std::abs(b.linear->constant);
  const bool of_difference = a.linear->query == -a.linear->key && a.linear->constant % n == 0;
  return of_difference ? Known{.if_zero = n / std::gcd(a.linear->query, n)} : Known{};
}

Known sum(const Known& a, const Known& b, std::int64_t sign) {
  if (!a.linear || !b.linear) return {};
  return known({a.linear->query + sign * b.linear->query, a.linear->key + sign * b.linear->key,
                a.linear->constant + sign * b.linear->constant});
}

Known product(const Known& a, const Known& b) {
  if (a.linear && b.linear && a.linear->is_constant()) {
    const std::int64_t factor = a.linear->constant;
    return known({factor * b.linear->query, factor * b.linear->key, factor * b.linear->constant});
  }
  if (b.linear && b.linear->is_constant() && a.linear) return product(b, a);
  return {.if_not_zero = common_multiple(a.if_not_zero, b.if_not_zero), .if_zero = std::gcd(a.if_zero, b.if_zero)};
}

Known equality(const Known& a, const Known& b) {
  if (a.linear && b.linear) return inverse(sum(a, b, -1));
  if (b.is(0)) return inverse(a);
  return a.is(0) ? inverse(b) : Known{};
}

Known change(WhereOp op, const Known& a) {
  switch (op) {
    case WhereOp::negate: return a.linear ? sum({.linear = Linear{}}, a, -1) : a;
    case WhereOp::absolute: return {.if_not_zero = a.if_not_zero, .if_zero = a.if_zero};
    default: return inverse(a);
  }
}

Known join(WhereOp op, const Known& a, const Known& b) {
  switch (op) {
    case WhereOp::add: return sum(a, b, 1);
    case WhereOp::subtract: return sum(a, b, -1);
    case WhereOp::multiply: return product(a, b);
    case WhereOp::remainder: return remainder(a, b);
    case WhereOp::equal: return equality(a, b);
    case WhereOp::not_equal: return inverse(equality(a, b));
    case WhereOp::bit_and: return {.if_not_zero = common_multiple(a.if_not_zero, b.if_not_zero)};
    case WhereOp::bit_or:
      return {.if_not_zero = std::gcd(a.if_not_zero, b.if_not_zero), .if_zero = common_multiple(a.if_zero, b.if_zero)};
    default: return {};
  }
}

Known value_of(const WhereStep& step) {
  switch (step.op) {
    case WhereOp::constant: {
      const bool fits = step.value >= -Linear::kMost && step.value <= Linear::kMost;
      return fits ? known({0, 0, step.value}) : Known{};
    }
    case WhereOp::query: return known({1, 0, 0});
    case WhereOp::key: return known({0, 1, 0});
    default: return {};
  }
}

// Whether the steps end in q - k or k - q.
bool end_in_difference(std::span<const WhereStep> steps) {
  if (steps.size() < 3 || steps.back().op != WhereOp::subtract) return false;
  const WhereOp a = steps[steps.size() - 3].op, b = steps[steps.size() - 2].op;
  return (a == WhereOp::query && b == WhereOp::key) || (a == WhereOp::key && b == WhereOp::query);
}

// (q - k) * n % m, where m divides n, is 0.
void drop_whole_multiple(std::vector<WhereStep>& steps, std::int64_t n) {
  constexpr std::size_t kSteps = 7;
  const std::size_t count = steps.size();
  if (count < kSteps || steps[count - 3].op != WhereOp::multiply || steps[count - 2].op != WhereOp::constant) return;
  const std::int64_t m = steps[count - 2].value;
  if (m == 0 || n % m != 0 || !end_in_difference(std::span(steps).first(count - 4))) return;
  steps.resize(count - kSteps);
  steps.push_back({WhereOp::constant, 0});
}

}  // namespace

std::int64_t where_divisor(const std::vector<WhereStep>& steps) {
  std::array<Known, kWhereStack> stack;
  std::size_t top = 0;
  for (const WhereStep& step : simplify(steps)) {
    switch (operand_count(step.op)) {
      case 0: stack[top++] = value_of(step); break;
      case 1: stack[top - 1] = change(step.op, stack[top - 1]); break;
      default: --top; stack[top - 1] = join(step.op, stack[top - 1], stack[top]);
    }
  }
  return stack[0].if_not_zero;
}

std::optional<std::vector<WhereStep>> where_of_class(const std::vector<WhereStep>& steps, std::int64_t n) {
  const std::vector<WhereStep> whole = simplify(steps);
  const auto is_item = [](const WhereStep& step) { return step.op == WhereOp::item; };
  if (!only_difference(whole) || std::any_of(whole.begin(), whole.end(), is_item)) return std::nullopt;
  std::vector<WhereStep> of_class;
  for (const WhereStep& step : whole) {  // comparisons of q and k are those of their multiples
    of_class.push_back(step);
    if (end_in_difference(of_class)) of_class.insert(of_class.end(), {{WhereOp::constant, n}, {WhereOp::multiply}});
    if (step.op == WhereOp::remainder) drop_whole_multiple(of_class, n);
  }
  std::vector<WhereStep> steps_of_class = simplify(of_class);
  if (!can_be_written(steps_of_class)) return std::nullopt;  // what text cannot say, a mask cannot have
  return steps_of_class;
}

}  // namespace stof
