// SPDX-License-Identifier: Apache-2.0
#include "src/mask/terms/combine.h"

#include <fmt/format.h>

#include "src/base/error.h"
#include "src/mask/expression.h"

namespace stof::term {
namespace {

// Binding strength as in the grammar: | binds least, then &, then everything else.
int strength(const Mask& mask) {
  if (std::holds_alternative<Or>(mask.node().term)) return 0;
  return std::holds_alternative<And>(mask.node().term) ? 1 : 2;
}

std::string print_inside(const Mask& mask, int at_least, ArrayNames names) {
  std::string text = stof::print(mask, names);
  return strength(mask) < at_least ? fmt::format("({})", text) : text;
}

std::string print_joined(const std::vector<Mask>& masks, std::string_view between, int at_least, ArrayNames names) {
  std::string text;
  for (const Mask& mask : masks) {
    if (!text.empty()) text += between;
    text += print_inside(mask, at_least, names);
  }
  return text;
}

std::string print_range(const Selection& selection) {
  return selection.first == selection.last ? fmt::format("{}", selection.first)
                                           : fmt::format("{}-{}", selection.first, selection.last);
}

}  // namespace

std::string And::print(ArrayNames names) const { return print_joined(masks, " & ", 1, names); }

std::string Or::print(ArrayNames names) const { return print_joined(masks, " | ", 0, names); }

std::string Not::print(ArrayNames names) const { return fmt::format("!{}", print_inside(mask, 2, names)); }

std::string Select::print(ArrayNames names) const {
  std::string text = fmt::format("{}(", name());
  for (const Selection& selection : selections)
    text += fmt::format("{}{}: {}", &selection == selections.data() ? "" : ", ", print_range(selection),
                        stof::print(selection.mask, names));
  if (otherwise) text += fmt::format("{}*: {}", selections.empty() ? "" : ", ", stof::print(*otherwise, names));
  return text + ")";
}

void Select::check(std::int64_t count) const {
  const std::string_view index = by == SelectBy::head ? "head" : "item";
  std::int64_t next = 0;
  for (const Selection& selection : selections) {
    if (selection.last >= count)
      fail(ErrorKind::invalid_argument, "{}: {} selects {} {}; accepted: 0 to {}", name(), print_range(selection),
           index, selection.last, count - 1);
    if (selection.first > next && !otherwise) break;
    next = selection.last + 1;
  }
  if (next < count && !otherwise)
    fail(ErrorKind::invalid_argument, "{}: no mask for {} {}; every one of 0 to {} needs a mask, or give '*: MASK'",
         name(), index, next, count - 1);
}

const Mask& Select::at(std::int64_t index) const {
  for (const Selection& selection : selections)
    if (selection.first <= index && index <= selection.last) return selection.mask;
  return *otherwise;
}

}  // namespace stof::term
