// SPDX-License-Identifier: Apache-2.0
#include "src/codegen/emit_where.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

namespace stof {
namespace {

bool uses(const std::vector<WhereStep>& steps, WhereOp op) {
  return std::any_of(steps.begin(), steps.end(), [op](const WhereStep& step) { return step.op == op; });
}

// Why values cannot be computed in 32 bits for this item and head; empty when they can.
std::string misfit(const std::vector<WhereStep>& steps, const MaskExtent& extent, std::int64_t item,
                   std::int64_t head) {
  std::vector<WhereStep> placed = steps;
  for (WhereStep& step : placed) {
    if (step.op == WhereOp::item) step = {WhereOp::constant, item};
    if (step.op == WhereOp::head) step = {WhereOp::constant, head};
  }
  const WhereBounds bounds = bounds_of(placed, {extent.offset(), extent.keys}, {0, extent.keys});
  if (bounds.may_fail) return "where() may divide by zero or overflow";
  const auto fits = [](std::int64_t value) {
    return value > std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max();
  };
  if (!fits(bounds.widest.low) || !fits(bounds.widest.high)) return "where() computes numbers beyond 32 bits";
  return {};
}

std::string misfit(const std::vector<WhereStep>& steps, const MaskExtent& extent) {
  const std::int64_t items = uses(steps, WhereOp::item) ? extent.batch : 1;
  const std::int64_t heads = uses(steps, WhereOp::head) ? extent.heads : 1;
  for (std::int64_t item = 0; item < items; ++item)
    for (std::int64_t head = 0; head < heads; ++head)
      if (std::string why_not = misfit(steps, extent, item, head); !why_not.empty()) return why_not;
  return {};
}

// How an operation is written with its operands {0} and {1}.
std::string_view format_of(WhereOp op) {
  switch (op) {
    case WhereOp::constant: return "$";
    case WhereOp::item: return "b";
    case WhereOp::head: return "h";
    case WhereOp::query: return "q";
    case WhereOp::key: return "k";
    case WhereOp::negate: return "(-{0})";
    case WhereOp::absolute: return "absolute({0})";
    case WhereOp::logical_not: return "int({0} == 0)";
    case WhereOp::multiply: return "({0} * {1})";
    case WhereOp::divide: return "divide({0}, {1})";
    case WhereOp::remainder: return "remainder({0}, {1})";
    case WhereOp::add: return "({0} + {1})";
    case WhereOp::subtract: return "({0} - {1})";
    case WhereOp::least: return "least({0}, {1})";
    case WhereOp::greatest: return "greatest({0}, {1})";
    case WhereOp::less: return "int({0} < {1})";
    case WhereOp::less_equal: return "int({0} <= {1})";
    case WhereOp::greater: return "int({0} > {1})";
    case WhereOp::greater_equal: return "int({0} >= {1})";
    case WhereOp::equal: return "int({0} == {1})";
    case WhereOp::not_equal: return "int({0} != {1})";
    case WhereOp::bit_and: return "({0} & {1})";
    case WhereOp::bit_or: return "({0} | {1})";
  }
  return {};
}

}  // namespace

EmittedWhere emit_where(const term::Where& term, const MaskExtent& extent) {
  EmittedWhere emitted;
  emitted.refusal = misfit(term.steps, extent);
  if (!emitted.refusal.empty()) return emitted;
  std::vector<std::string> stack;
  for (const WhereStep& step : term.steps) {
    if (step.op == WhereOp::constant) emitted.parameters.push_back(static_cast<std::int32_t>(step.value));
    std::string operands[2];
    for (int i = operand_count(step.op); i-- > 0;) {
      operands[i] = std::move(stack.back());
      stack.pop_back();
    }
    stack.push_back(fmt::format(fmt::runtime(format_of(step.op)), operands[0], operands[1]));
  }
  emitted.text = fmt::format("({} != 0)", stack.back());
  return emitted;
}

}  // namespace stof
