// SPDX-License-Identifier: Apache-2.0
// where(): a mask written as an expression over the item b, the head h, the query's position q and the key's position
// k.
//
//   where([](auto b, auto h, auto q, auto k) { return (q - k) % 4 == 0 && q >= k; })
//   where("(q - k) % 4 == 0 & q >= k")
//
// Both make the same mask. The lambda is called once, with symbols; its operators record the expression. Both operands
// of && and || are evaluated, / and % round towards minus infinity, and division by zero is an error of the evaluation.
#pragma once
#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "stof/mask.h"

namespace stof {

enum class WhereOp : std::uint8_t {
  constant,
  item,
  head,
  query,
  key,  // push a value
  negate,
  absolute,
  logical_not,  // change the last value
  multiply,
  divide,
  remainder,
  add,
  subtract,
  least,
  greatest,  // join the last two
  less,
  less_equal,
  greater,
  greater_equal,
  equal,
  not_equal,
  bit_and,
  bit_or,
};

struct WhereStep {
  WhereOp op = WhereOp::constant;
  std::int64_t value = 0;  // of a constant
  friend bool operator==(const WhereStep&, const WhereStep&) = default;
};

// An integer that is not known yet: the steps, in postfix order, that compute it.
class Symbol {
 public:
  // Converts, so that q % 4 is written as it is.
  template <std::integral T>
  Symbol(T constant)  // NOLINT(google-explicit-constructor)
      : Symbol(WhereOp::constant, static_cast<std::int64_t>(constant)) {
    if constexpr (std::is_unsigned_v<T> && sizeof(T) >= sizeof(std::int64_t))
      if (steps_[0].value < 0) refuse(constant);
  }
  explicit Symbol(WhereOp index) : Symbol(index, 0) {}

  const std::vector<WhereStep>& steps() const { return steps_; }
  // One of 0 and 1.
  Symbol truth() const;

  friend Symbol apply(WhereOp op, Symbol a);
  friend Symbol apply(WhereOp op, Symbol a, const Symbol& b);

 private:
  [[noreturn]] static void refuse(std::uint64_t constant);
  Symbol(WhereOp op, std::int64_t value) : steps_{{op, value}}, is_truth_(value == 0 || value == 1) {
    is_truth_ = is_truth_ && op == WhereOp::constant;
  }
  std::vector<WhereStep> steps_;
  bool is_truth_;
};

Symbol apply(WhereOp op, Symbol a);
Symbol apply(WhereOp op, Symbol a, const Symbol& b);

inline Symbol operator-(Symbol a) { return apply(WhereOp::negate, std::move(a)); }
inline Symbol operator!(Symbol a) { return apply(WhereOp::logical_not, std::move(a)); }
inline Symbol abs(Symbol a) { return apply(WhereOp::absolute, std::move(a)); }
inline Symbol min(Symbol a, const Symbol& b) { return apply(WhereOp::least, std::move(a), b); }
inline Symbol max(Symbol a, const Symbol& b) { return apply(WhereOp::greatest, std::move(a), b); }
inline Symbol operator*(Symbol a, const Symbol& b) { return apply(WhereOp::multiply, std::move(a), b); }
inline Symbol operator/(Symbol a, const Symbol& b) { return apply(WhereOp::divide, std::move(a), b); }
inline Symbol operator%(Symbol a, const Symbol& b) { return apply(WhereOp::remainder, std::move(a), b); }
inline Symbol operator+(Symbol a, const Symbol& b) { return apply(WhereOp::add, std::move(a), b); }
inline Symbol operator-(Symbol a, const Symbol& b) { return apply(WhereOp::subtract, std::move(a), b); }
inline Symbol operator<(Symbol a, const Symbol& b) { return apply(WhereOp::less, std::move(a), b); }
inline Symbol operator<=(Symbol a, const Symbol& b) { return apply(WhereOp::less_equal, std::move(a), b); }
inline Symbol operator>(Symbol a, const Symbol& b) { return apply(WhereOp::greater, std::move(a), b); }
inline Symbol operator>=(Symbol a, const Symbol& b) { return apply(WhereOp::greater_equal, std::move(a), b); }
inline Symbol operator==(Symbol a, const Symbol& b) { return apply(WhereOp::equal, std::move(a), b); }
inline Symbol operator!=(Symbol a, const Symbol& b) { return apply(WhereOp::not_equal, std::move(a), b); }
inline Symbol operator&(Symbol a, const Symbol& b) { return apply(WhereOp::bit_and, std::move(a), b); }
inline Symbol operator|(Symbol a, const Symbol& b) { return apply(WhereOp::bit_or, std::move(a), b); }
inline Symbol operator&&(const Symbol& a, const Symbol& b) { return a.truth() & b.truth(); }
inline Symbol operator||(const Symbol& a, const Symbol& b) { return a.truth() | b.truth(); }

Mask where(const Symbol& expression);

template <class Lambda>
requires std::is_invocable_v<Lambda, Symbol, Symbol, Symbol, Symbol> Mask where(Lambda&& lambda) {
  return where(
      Symbol(lambda(Symbol(WhereOp::item), Symbol(WhereOp::head), Symbol(WhereOp::query), Symbol(WhereOp::key))));
}

}  // namespace stof
