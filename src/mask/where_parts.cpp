// SPDX-License-Identifier: Apache-2.0
#include "src/mask/where_parts.h"

#include <algorithm>
#include <cstddef>

#include "src/mask/terms/where.h"

namespace stof {
namespace {

struct Value {
  std::size_t first;  // of its steps
  bool truth;         // 0 or 1, whatever q and k are
};

bool is_truth(const WhereStep& step, bool of_truths) {
  switch (step.op) {
    case WhereOp::constant: return step.value == 0 || step.value == 1;
    case WhereOp::logical_not: return true;
    case WhereOp::multiply:
    case WhereOp::least:
    case WhereOp::greatest:
    case WhereOp::bit_and:
    case WhereOp::bit_or: return of_truths;
    default: return step.op >= WhereOp::less && step.op <= WhereOp::not_equal;
  }
}

// What each step computes.
std::vector<Value> values_of(const std::vector<WhereStep>& steps) {
  std::vector<Value> values, stack;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Value value{i, true};
    for (int operands = operand_count(steps[i].op); operands > 0; --operands) {
      value = {stack.back().first, value.truth && stack.back().truth};
      stack.pop_back();
    }
    value.truth = is_truth(steps[i], value.truth);
    stack.push_back(value);
    values.push_back(value);
  }
  return values;
}

}  // namespace

// The bits of two numbers have one in common only where the numbers are truths.
WhereParts where_parts(const std::vector<WhereStep>& steps) {
  const std::vector<Value> values = values_of(steps);
  WhereParts whole{.op = steps.back().op, .parts = {}};
  std::vector<std::size_t> open = {steps.size() - 1};  // last steps of parts
  while (!open.empty()) {
    const std::size_t last = open.back(), first = values[last].first;
    open.pop_back();
    const bool joins = whole.op == WhereOp::bit_or || (whole.op == WhereOp::bit_and && values[last].truth);
    if (joins && steps[last].op == whole.op) {
      open.push_back(last - 1);
      open.push_back(values[last - 1].first - 1);
      continue;
    }
    whole.parts.emplace_back(steps.begin() + static_cast<std::ptrdiff_t>(first),
                             steps.begin() + static_cast<std::ptrdiff_t>(last) + 1);
  }
  return whole;
}

}  // namespace stof
