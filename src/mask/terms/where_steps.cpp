// SPDX-License-Identifier: Apache-2.0
// The steps of where(): recorded from a lambda, checked, printed, specialised.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "src/mask/argument.h"
#include "src/mask/expression.h"

namespace stof {
namespace {

struct OpText {
  std::string_view text;
  int strength;  // larger binds tighter: C++ precedence, but for comparisons, which are alike
};

constexpr int kComparison = 3, kUnary = 6, kPrimary = 7;

OpText text_of(WhereOp op) {
  switch (op) {
    case WhereOp::bit_or: return {"|", 1};
    case WhereOp::bit_and: return {"&", 2};
    case WhereOp::equal: return {"==", kComparison};
    case WhereOp::not_equal: return {"!=", kComparison};
    case WhereOp::less: return {"<", kComparison};
    case WhereOp::less_equal: return {"<=", kComparison};
    case WhereOp::greater: return {">", kComparison};
    case WhereOp::greater_equal: return {">=", kComparison};
    case WhereOp::add: return {"+", 4};
    case WhereOp::subtract: return {"-", 4};
    case WhereOp::multiply: return {"*", 5};
    case WhereOp::divide: return {"/", 5};
    case WhereOp::remainder: return {"%", 5};
    case WhereOp::negate: return {"-", kUnary};
    case WhereOp::logical_not: return {"!", kUnary};
    case WhereOp::absolute: return {"abs", kPrimary};
    case WhereOp::least: return {"min", kPrimary};
    case WhereOp::greatest: return {"max", kPrimary};
    case WhereOp::item: return {"b", kPrimary};
    case WhereOp::head: return {"h", kPrimary};
    case WhereOp::query: return {"q", kPrimary};
    case WhereOp::key: return {"k", kPrimary};
    case WhereOp::constant: return {"", kPrimary};
  }
  return {"", kPrimary};
}

struct Printed {
  std::string text;
  int strength;
  int levels = 1;  // of the reader: a number or name, and what is around it
  Printed at_least(int wanted) const {
    return strength < wanted ? Printed{fmt::format("({})", text), kPrimary, levels + 1} : *this;
  }
};

Printed print_step(const WhereStep& step, std::vector<Printed>& stack) {
  const auto [text, strength] = text_of(step.op);
  const int operands = operand_count(step.op);
  if (step.op == WhereOp::constant && step.value < 0) return {fmt::format("{}", step.value), kUnary, 2};
  if (step.op == WhereOp::constant) return {fmt::format("{}", step.value), kPrimary};
  if (operands == 0) return {std::string(text), strength};
  Printed last = std::move(stack.back());
  stack.pop_back();
  if (operands == 1 && strength == kPrimary) return {fmt::format("{}({})", text, last.text), strength, last.levels + 1};
  if (operands == 1) {
    last = last.at_least(kUnary);
    return {fmt::format("{}{}", text, last.text), strength, last.levels + 1};
  }
  Printed first = std::move(stack.back());
  stack.pop_back();
  if (strength == kPrimary)
    return {fmt::format("{}({}, {})", text, first.text, last.text), strength, std::max(first.levels, last.levels) + 1};
  first = first.at_least(strength == kComparison ? strength + 1 : strength), last = last.at_least(strength + 1);
  return {fmt::format("{} {} {}", first.text, text, last.text), strength, std::max(first.levels, last.levels)};
}

Printed print_steps(const std::vector<WhereStep>& steps) {
  std::vector<Printed> stack;
  for (const WhereStep& step : steps) {
    Printed printed = print_step(step, stack);
    stack.push_back(std::move(printed));
  }
  return std::move(stack.back());
}

// Refused as it grows: an expression that is joined with itself doubles.
void check_steps(std::size_t count) {
  if (count > kWhereSteps) fail_argument({0}, "where: {} operations; accepted: at most {}", count, kWhereSteps);
}

}  // namespace

std::string print_where(const std::vector<WhereStep>& steps) { return print_steps(steps).text; }

bool can_be_written(const std::vector<WhereStep>& steps) { return print_steps(steps).levels <= kWhereLevels; }

std::string term::Where::print(ArrayNames) const { return fmt::format("where({})", print_where(steps)); }

MaskTraits term::Where::traits() const {
  const auto uses = [&](WhereOp op) {
    return std::any_of(steps.begin(), steps.end(), [&](const WhereStep& step) { return step.op == op; });
  };
  return {.batch = uses(WhereOp::item), .head = uses(WhereOp::head)};
}

void Symbol::refuse(std::uint64_t constant) {
  fail_argument({0}, "where: {} does not fit 64 bits with a sign", constant);
}

Symbol Symbol::truth() const { return is_truth_ ? *this : *this != Symbol(0); }

Symbol apply(WhereOp op, Symbol a) {
  check_steps(a.steps_.size() + 1);
  a.is_truth_ = op == WhereOp::logical_not;
  WhereStep& last = a.steps_.back();
  // A negative constant is one step, whichever way it was written.
  if (op == WhereOp::negate && last.op == WhereOp::constant && last.value != std::numeric_limits<std::int64_t>::min())
    last.value = -last.value;
  else a.steps_.push_back({op});
  return a;
}

Symbol apply(WhereOp op, Symbol a, const Symbol& b) {
  const bool compares = op >= WhereOp::less && op <= WhereOp::not_equal;
  const bool joins = op == WhereOp::bit_and || op == WhereOp::bit_or;
  check_steps(a.steps_.size() + b.steps_.size() + 1);
  a.is_truth_ = compares || (joins && a.is_truth_ && b.is_truth_);
  a.steps_.insert(a.steps_.end(), b.steps_.begin(), b.steps_.end());
  a.steps_.push_back({op});
  return a;
}

Mask make_where(std::vector<WhereStep> steps) {
  int values = 0;
  for (const WhereStep& step : steps) {
    values += 1 - operand_count(step.op);
    if (values > kWhereStack)
      fail_argument({0}, "where: more than {} values wait for their operators; use fewer parentheses", kWhereStack);
  }
  if (!can_be_written(steps))
    fail_argument({0}, "where: operations inside each other's operands on more than {} levels", kWhereLevels);
  return make_mask(term::Where{std::move(steps)});
}

Mask where(const Symbol& expression) { return make_where(expression.steps()); }

namespace {

// q % n == k % n, and !=, look at q - k alone, which they do not show.
void compare_by_difference(std::vector<WhereStep>& steps) {
  constexpr std::size_t kSteps = 7;
  if (steps.size() < kSteps) return;
  const WhereStep* const s = steps.data() + steps.size() - kSteps;
  const bool remainders = s[2].op == WhereOp::remainder && s[5].op == WhereOp::remainder &&
                          s[1].op == WhereOp::constant && s[1] == s[4] && s[1].value != 0;
  const bool opposed =
      (s[0].op == WhereOp::query && s[3].op == WhereOp::key) || (s[0].op == WhereOp::key && s[3].op == WhereOp::query);
  const WhereOp op = s[6].op;
  if (!remainders || !opposed || (op != WhereOp::equal && op != WhereOp::not_equal)) return;
  const std::array<WhereStep, kSteps> difference{
      {s[0], s[3], {WhereOp::subtract}, s[1], {WhereOp::remainder}, {WhereOp::constant, 0}, {op}}};
  std::copy(difference.begin(), difference.end(), steps.end() - kSteps);
}

// Puts a step behind others, with what is constant computed; a step that would fail stays.
void append_folded(std::vector<WhereStep>& steps, WhereStep step) {
  const auto constant = [&](std::size_t from_end) {
    return steps.size() >= from_end && steps[steps.size() - from_end].op == WhereOp::constant;
  };
  const auto operands = static_cast<std::size_t>(operand_count(step.op));
  // In postfix order the two operands are constants exactly when the last two steps are.
  if (operands > 0 && constant(1) && (operands == 1 || constant(2))) {
    const std::int64_t last = steps.back().value, first = steps[steps.size() - operands].value;
    const WhereResult folded = operands == 1 ? compute(step.op, last) : compute(step.op, first, last);
    if (!folded.failure) {
      steps.resize(steps.size() - operands);
      step = {WhereOp::constant, folded.value};
    }
  }
  steps.push_back(step);
  compare_by_difference(steps);
}

}  // namespace

std::vector<WhereStep> simplify(const std::vector<WhereStep>& steps) {
  std::vector<WhereStep> result;
  for (const WhereStep& step : steps) append_folded(result, step);
  return result;
}

std::vector<WhereStep> specialise(const std::vector<WhereStep>& steps, std::int64_t item, std::int64_t head) {
  std::vector<WhereStep> result;
  for (const WhereStep& step : steps)
    append_folded(result, step.op == WhereOp::item   ? WhereStep{WhereOp::constant, item}
                          : step.op == WhereOp::head ? WhereStep{WhereOp::constant, head}
                                                     : step);
  return result;
}

bool only_difference(const std::vector<WhereStep>& steps) {
  enum class Sees { nothing, query, key, difference, both };
  std::vector<Sees> stack;
  for (const WhereStep& step : steps) {
    const int operands = operand_count(step.op);
    if (operands == 0) {
      stack.push_back(step.op == WhereOp::query ? Sees::query : step.op == WhereOp::key ? Sees::key : Sees::nothing);
      continue;
    }
    if (operands == 1) {  // -q - k is no difference
      if (stack.back() == Sees::query || stack.back() == Sees::key) stack.back() = Sees::both;
      continue;
    }
    const Sees b = stack.back(), a = stack[stack.size() - 2];
    stack.pop_back();
    const bool compares = step.op >= WhereOp::less && step.op <= WhereOp::not_equal;
    const bool opposed = (a == Sees::query && b == Sees::key) || (a == Sees::key && b == Sees::query);
    const auto plain = [](Sees x) { return x == Sees::nothing || x == Sees::difference; };
    if (opposed && (compares || step.op == WhereOp::subtract)) stack.back() = Sees::difference;
    else if (plain(a) && plain(b)) stack.back() = std::max(a, b);
    else stack.back() = Sees::both;
  }
  return stack.back() == Sees::nothing || stack.back() == Sees::difference;
}

}  // namespace stof
