// SPDX-License-Identifier: Apache-2.0
// Text to the steps of where(): C++ precedence, one function per level, but for comparisons, which are one.
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "src/base/error.h"
#include "src/mask/expression.h"
#include "src/mask/text/arguments.h"
#include "src/mask/text/hints.h"

namespace stof {
namespace {

struct Operator {
  std::string_view text;
  WhereOp op;
};

// Longer spellings first where one begins with the other.
constexpr Operator kOr[] = {{"|", WhereOp::bit_or}};
constexpr Operator kAnd[] = {{"&", WhereOp::bit_and}};
constexpr Operator kCompare[] = {{"==", WhereOp::equal},      {"!=", WhereOp::not_equal},
                                 {"<=", WhereOp::less_equal}, {">=", WhereOp::greater_equal},
                                 {"<", WhereOp::less},        {">", WhereOp::greater}};
constexpr Operator kSum[] = {{"+", WhereOp::add}, {"-", WhereOp::subtract}};
constexpr Operator kProduct[] = {{"*", WhereOp::multiply}, {"/", WhereOp::divide}, {"%", WhereOp::remainder}};
constexpr std::array<std::span<const Operator>, 5> kLevels = {kOr, kAnd, kCompare, kSum, kProduct};

class WhereReader {
 public:
  explicit WhereReader(Cursor& cursor) : cursor_(cursor), base_(cursor.depth()) {}

  Symbol expression() { return level(0); }

 private:
  Symbol level(std::size_t index) {
    if (index == kLevels.size()) return unary();
    Symbol value = level(index + 1);
    while (const std::optional<WhereOp> op = eat_operator(kLevels[index])) {
      value = apply(*op, std::move(value), level(index + 1));
      if (kLevels[index].data() == kCompare) refuse_comparison();
    }
    return value;
  }

  // a < b < c would compare the truth of a < b, 0 or 1, with c.
  void refuse_comparison() {
    for (const Operator& next : kCompare)
      if (Cursor ahead = cursor_; ahead.eat(next.text))
        cursor_.fail_here("'a < b < c' is written 'a < b & b < c' in where(EXPR), or with parentheses");
  }

  std::optional<WhereOp> eat_operator(std::span<const Operator> operators) {
    for (const char twice : {'&', '|'})
      if (Cursor ahead = cursor_; ahead.eat(std::string(2, twice)))
        cursor_.fail_here(fmt::format("'{0}{0}' is written '{0}' in where(EXPR)", twice));
    for (const Operator& candidate : operators)
      if (cursor_.eat(candidate.text)) return candidate.op;
    refuse_other_operators(cursor_);
    return {};
  }

  Symbol unary() {
    const Cursor::Nested nested(cursor_, kWhereLevels, base_);
    const std::size_t place = cursor_.place();
    if (cursor_.eat("-")) {
      const std::optional<std::int64_t> number = cursor_.integer(place);  // with its sign, which -2^63 needs
      return number ? Symbol(*number) : apply(WhereOp::negate, unary());
    }
    if (cursor_.eat("!")) return apply(WhereOp::logical_not, unary());
    if (!cursor_.eat("(")) return primary();
    Symbol value = expression();
    close();
    return value;
  }

  void close() {
    if (!cursor_.eat(")"))
      cursor_.fail_here(fmt::format("expected an operator or ')' in where(EXPR); got {}", cursor_.got()));
  }

  Symbol primary() {
    refuse_other_operators(cursor_);
    const std::size_t place = cursor_.place();
    if (const std::optional<std::int64_t> number = cursor_.integer()) return Symbol(*number);
    const std::string_view name = cursor_.word();
    if (name == "b") return Symbol(WhereOp::item);
    if (name == "h") return Symbol(WhereOp::head);
    if (name == "q") return Symbol(WhereOp::query);
    if (name == "k") return Symbol(WhereOp::key);
    if (name == "abs") return call_of_one(WhereOp::absolute);
    if (name == "min") return call_of_two(WhereOp::least);
    if (name == "max") return call_of_two(WhereOp::greatest);
    if (name.empty())
      cursor_.fail_here(fmt::format("expected a number, b, h, q, k, abs, min, max, -, ! or '(' in where(EXPR); got {}",
                                    cursor_.got()));
    constexpr std::string_view kNames[] = {"b", "h", "q", "k", "abs", "min", "max"};
    cursor_.fail_at(place, fmt::format("unknown name '{}'{} in where(EXPR); accepted: b, h, q, k, abs, min, max", name,
                                       nearest_name(name, kNames)));
  }

  Symbol call_of_one(WhereOp op) {
    cursor_.expect('(', "in where(EXPR)");
    Symbol value = expression();
    close();
    return apply(op, std::move(value));
  }

  Symbol call_of_two(WhereOp op) {
    cursor_.expect('(', "in where(EXPR)");
    const Symbol first = expression();
    cursor_.expect(',', "in where(EXPR)");
    const Symbol second = expression();
    close();
    return apply(op, first, second);
  }

  Cursor& cursor_;
  const int base_;  // levels around where()
};

}  // namespace

Mask read_where(Cursor& cursor) {
  const Symbol expression = WhereReader(cursor).expression();
  if (cursor.peek() != ')')
    cursor.fail_here(fmt::format("expected an operator or ')' in where(EXPR); got {}", cursor.got()));
  return where(expression);
}

Mask where(std::string_view expression) {
  Cursor cursor(expression);
  const Symbol symbol = WhereReader(cursor).expression();
  if (!cursor.at_end()) cursor.fail_here(fmt::format("expected an operator or the end; got {}", cursor.got()));
  return where(symbol);
}

}  // namespace stof
