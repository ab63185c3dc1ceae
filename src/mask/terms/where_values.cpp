// SPDX-License-Identifier: Apache-2.0
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/mask/terms/where_values.cpp"
#include "src/mask/terms/where_values.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace stof::bound::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<std::int32_t, 64>;
using Vector = hn::Vec<Tag>;

template <class Operation>
void change(const std::int32_t* a, std::size_t count, std::int32_t* out, Operation operation) {
  const Tag tag;
  for (std::size_t i = 0; i < count; i += hn::Lanes(tag)) hn::StoreU(operation(hn::LoadU(tag, a + i)), tag, out + i);
}

template <class Operation>
void join(const std::int32_t* a, const std::int32_t* b, std::size_t count, std::int32_t* out, Operation operation) {
  const Tag tag;
  for (std::size_t i = 0; i < count; i += hn::Lanes(tag))
    hn::StoreU(operation(hn::LoadU(tag, a + i), hn::LoadU(tag, b + i)), tag, out + i);
}

// 1 where `test` holds, else 0.
template <class Test>
void compare(const std::int32_t* a, const std::int32_t* b, std::size_t count, std::int32_t* out, Test test) {
  const Vector one = hn::Set(Tag(), 1);
  join(a, b, count, out, [&](Vector x, Vector y) { return hn::IfThenElseZero(test(x, y), one); });
}

// Quotients of 32-bit integers that are not whole are farther from the next whole number than doubles are apart there.
template <class Finish>
void divide_each(const std::int32_t* a, const std::int32_t* b, std::size_t count, std::int32_t* out, Finish finish) {
  const hn::CappedTag<double, 32> wide;
  const hn::Rebind<std::int32_t, decltype(wide)> tag;
  for (std::size_t i = 0; i < count; i += hn::Lanes(wide)) {
    const auto x = hn::LoadU(tag, a + i), y = hn::LoadU(tag, b + i);
    const auto quotient = hn::Floor(hn::Div(hn::PromoteTo(wide, x), hn::PromoteTo(wide, y)));
    hn::StoreU(finish(x, y, hn::DemoteTo(tag, quotient)), tag, out + i);
  }
}

// By its reciprocal, which may be one off where the quotient is nearly whole: what is left tells.
template <class Finish>
void divide_all(const std::int32_t* a, std::int32_t divisor, std::size_t count, std::int32_t* out, Finish finish) {
  const hn::CappedTag<double, 32> wide;
  const hn::Rebind<std::int32_t, decltype(wide)> tag;
  const auto reciprocal = hn::Set(wide, 1 / static_cast<double>(divisor));
  const auto y = hn::Set(tag, divisor), zero = hn::Zero(tag), one = hn::Set(tag, 1);
  for (std::size_t i = 0; i < count; i += hn::Lanes(wide)) {
    const auto x = hn::LoadU(tag, a + i);
    auto quotient = hn::DemoteTo(tag, hn::Floor(hn::Mul(hn::PromoteTo(wide, x), reciprocal)));
    auto left = hn::Sub(x, hn::Mul(quotient, y));
    if (divisor < 0) left = hn::Neg(left);  // of what is below 0 and up to it
    quotient = hn::Sub(quotient, hn::IfThenElseZero(hn::Lt(left, zero), one));
    quotient = hn::Add(quotient, hn::IfThenElseZero(hn::Not(hn::Lt(left, hn::Abs(y))), one));
    hn::StoreU(finish(x, y, quotient), tag, out + i);
  }
}

// Rounded towards minus infinity.
template <class Finish>
void divide(const std::int32_t* a, const std::int32_t* b, std::size_t count, std::int32_t* out, Finish finish) {
  const Tag tag;
  const Vector first = hn::Set(tag, b[0]);
  std::size_t alike = 0;
  while (alike < count && hn::AllTrue(tag, hn::Eq(hn::LoadU(tag, b + alike), first))) alike += hn::Lanes(tag);
  if (alike >= count) divide_all(a, b[0], count, out, finish);
  else divide_each(a, b, count, out, finish);
}

void change_by(WhereOp op, const std::int32_t* a, std::size_t count, std::int32_t* out) {
  const Tag tag;
  const Vector zero = hn::Zero(tag), one = hn::Set(tag, 1);
  switch (op) {
    case WhereOp::negate: return change(a, count, out, [](Vector x) { return hn::Neg(x); });
    case WhereOp::absolute: return change(a, count, out, [](Vector x) { return hn::Abs(x); });
    default: return change(a, count, out, [&](Vector x) { return hn::IfThenElseZero(hn::Eq(x, zero), one); });
  }
}

void apply_one(const WhereOperation& operation, std::size_t count) {
  const auto& [op, a, b, out] = operation;
  switch (op) {
    case WhereOp::add: return join(a, b, count, out, [](Vector x, Vector y) { return hn::Add(x, y); });
    case WhereOp::subtract: return join(a, b, count, out, [](Vector x, Vector y) { return hn::Sub(x, y); });
    case WhereOp::multiply: return join(a, b, count, out, [](Vector x, Vector y) { return hn::Mul(x, y); });
    case WhereOp::divide: return divide(a, b, count, out, [](auto, auto, auto quotient) { return quotient; });
    case WhereOp::remainder:
      return divide(a, b, count, out, [](auto x, auto y, auto quotient) { return hn::Sub(x, hn::Mul(quotient, y)); });
    case WhereOp::least: return join(a, b, count, out, [](Vector x, Vector y) { return hn::Min(x, y); });
    case WhereOp::greatest: return join(a, b, count, out, [](Vector x, Vector y) { return hn::Max(x, y); });
    case WhereOp::less: return compare(a, b, count, out, [](Vector x, Vector y) { return hn::Lt(x, y); });
    case WhereOp::less_equal:
      return compare(a, b, count, out, [](Vector x, Vector y) { return hn::Not(hn::Lt(y, x)); });
    case WhereOp::greater: return compare(a, b, count, out, [](Vector x, Vector y) { return hn::Gt(x, y); });
    case WhereOp::greater_equal:
      return compare(a, b, count, out, [](Vector x, Vector y) { return hn::Not(hn::Lt(x, y)); });
    case WhereOp::equal: return compare(a, b, count, out, [](Vector x, Vector y) { return hn::Eq(x, y); });
    case WhereOp::not_equal: return compare(a, b, count, out, [](Vector x, Vector y) { return hn::Ne(x, y); });
    case WhereOp::bit_and: return join(a, b, count, out, [](Vector x, Vector y) { return hn::And(x, y); });
    case WhereOp::bit_or: return join(a, b, count, out, [](Vector x, Vector y) { return hn::Or(x, y); });
    default: return change_by(op, a, count, out);
  }
}

void apply(const WhereOperation* operations, std::size_t number, std::size_t count) {
  for (std::size_t i = 0; i < number; ++i) apply_one(operations[i], count);
}

void bits_of(const std::int32_t* values, std::size_t count, std::uint64_t* words) {
  const Tag tag;
  const Vector zero = hn::Zero(tag);
  for (std::size_t word = 0; word < count / 64; ++word) {
    words[word] = 0;
    for (std::size_t i = 0; i < 64; i += hn::Lanes(tag)) {
      std::uint8_t bytes[8] = {};
      hn::StoreMaskBits(tag, hn::Ne(hn::LoadU(tag, values + 64 * word + i), zero), bytes);
      std::uint64_t bits = 0;
      std::memcpy(&bits, bytes, sizeof bits);
      words[word] |= bits << i;
    }
  }
}

}  // namespace stof::bound::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stof::bound {

HWY_EXPORT(apply);
HWY_EXPORT(bits_of);

void apply_where(std::span<const WhereOperation> operations, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(apply)(operations.data(), operations.size(), count);
}

void where_bits(const std::int32_t* values, std::size_t count, std::uint64_t* words) {
  HWY_DYNAMIC_DISPATCH(bits_of)(values, count, words);
}

}  // namespace stof::bound
#endif
