// SPDX-License-Identifier: Apache-2.0
#include "src/mask/where_period.h"

#include <array>
#include <bit>
#include <cstdlib>
#include <numeric>

#include "src/mask/terms/where.h"

namespace stof {
namespace {

constexpr std::int64_t kMostAdvance = std::int64_t{1} << 40;  // products with a constant that small fit
constexpr std::int64_t kMostFactor = std::int64_t{1} << 20;

bool within(std::int64_t value, std::int64_t most) { return value >= -most && value <= most; }

// What is known of a value: by how much it is more further on, what divides that, and its value where it is a constant.
struct Known {
  std::optional<std::int64_t> advance = {};
  std::int64_t divisor = 1;  // 0: it stays
  std::optional<std::int64_t> constant = {};
  bool stays() const { return divisor == 0; }
};

Known staying_if(bool stays) { return stays ? Known{.advance = 0, .divisor = 0} : Known{}; }

Known advancing(std::int64_t advance) {
  return within(advance, kMostAdvance) ? Known{.advance = advance, .divisor = std::abs(advance)} : Known{};
}

Known advancing_by_multiple(std::int64_t divisor) {
  return divisor == 0 ? staying_if(true) : Known{.divisor = divisor};
}

// Follows an expression with one n; says by which factor n must grow for a divisor to divide what it is applied to.
class Follower {
 public:
  Follower(std::int64_t query, std::int64_t key) : query_(query), key_(key) {}
  std::int64_t factor() const { return factor_; }

  Known follow(const std::vector<WhereStep>& steps) {
    std::array<Known, kWhereStack> stack;
    std::size_t top = 0;
    for (const WhereStep& step : steps) {
      switch (operand_count(step.op)) {
        case 0: stack[top++] = value_of(step); break;
        case 1: stack[top - 1] = change(step.op, stack[top - 1]); break;
        default: --top; stack[top - 1] = join(step.op, stack[top - 1], stack[top]);
      }
    }
    return stack[0];
  }

 private:
  Known value_of(const WhereStep& step) const {
    Known value = advancing(step.op == WhereOp::query ? query_ : step.op == WhereOp::key ? key_ : 0);
    if (step.op == WhereOp::constant) value.constant = step.value;
    return value;
  }

  static Known change(WhereOp op, const Known& a) {
    if (op != WhereOp::negate) return staying_if(a.stays());
    return a.advance ? advancing(-*a.advance) : advancing_by_multiple(a.divisor);
  }

  Known join(WhereOp op, const Known& a, const Known& b) {
    switch (op) {
      case WhereOp::add: return sum(a, b, 1);
      case WhereOp::subtract: return sum(a, b, -1);
      case WhereOp::multiply: return a.constant ? multiple(b, *a.constant) : product(a, b);
      case WhereOp::divide:
      case WhereOp::remainder: return divided(op, a, b);
      case WhereOp::least:
      case WhereOp::greatest: return a.advance && a.advance == b.advance ? advancing(*a.advance) : Known{};
      case WhereOp::bit_and: return a.constant ? masked(b, a) : masked(a, b);
      case WhereOp::bit_or: return staying_if(a.stays() && b.stays());
      default: return staying_if(a.advance && a.advance == b.advance);  // comparisons
    }
  }

  static Known sum(const Known& a, const Known& b, std::int64_t sign) {
    if (a.advance && b.advance) return advancing(*a.advance + sign * *b.advance);
    return advancing_by_multiple(std::gcd(a.divisor, b.divisor));
  }

  static Known multiple(const Known& a, std::int64_t factor) {
    if (!within(factor, kMostFactor)) return advancing_by_multiple(a.divisor);
    if (a.advance) return advancing(factor * *a.advance);
    const std::int64_t divisor = std::abs(factor) * a.divisor;
    return advancing_by_multiple(divisor <= kMostAdvance ? divisor : a.divisor);
  }

  // (a + s) (b + t) is a b and what s or t divides.
  static Known product(const Known& a, const Known& b) {
    return b.constant ? multiple(a, *b.constant) : advancing_by_multiple(std::gcd(a.divisor, b.divisor));
  }

  // Rounding down, what is n * t more has a quotient by n that is t more, and the same remainder.
  Known divided(WhereOp op, const Known& a, const Known& b) {
    if (a.stays() && b.stays()) return staying_if(true);
    if (!b.constant || !divides(*b.constant, a)) return {};
    if (op == WhereOp::remainder) return staying_if(true);
    return a.advance ? advancing(*a.advance / *b.constant) : advancing_by_multiple(a.divisor / std::abs(*b.constant));
  }

  // The bits of what is not negative are those of a remainder.
  Known masked(const Known& a, const Known& mask) {
    if (a.stays() && mask.stays()) return staying_if(true);
    if (!mask.constant || *mask.constant < 0 || *mask.constant > kMostFactor) return {};
    return staying_if(divides(std::int64_t{1} << std::bit_width(static_cast<std::uint64_t>(*mask.constant)), a));
  }

  bool divides(std::int64_t divisor, const Known& a) {
    if (divisor == 0 || !within(divisor, kMostFactor)) return false;
    if (a.divisor % divisor == 0) return true;
    // What follows on the first failure is known of nothing: it would ask for more than it needs.
    if (factor_ == 1) factor_ = std::abs(divisor) / std::gcd(a.divisor, divisor);
    return false;
  }

  std::int64_t query_, key_, factor_ = 1;
};

}  // namespace

std::int64_t where_period(const std::vector<WhereStep>& steps, Along along) {
  for (std::int64_t n = 1; n <= kMostPeriod;) {
    Follower follower(along == Along::keys ? 0 : n, along == Along::rows ? 0 : n);
    if (follower.follow(steps).stays()) return n;
    if (follower.factor() == 1) return 0;
    n *= follower.factor();
  }
  return 0;
}

std::int64_t Period::places(std::int64_t positions) const { return length / std::gcd(length, positions); }

std::optional<std::int64_t> Period::place_of(Range positions) const {
  constexpr std::int64_t kLeastAlike = 4, kMostPlaces = 64;
  if (length == 0) return std::nullopt;
  const std::int64_t count = places(positions.size());
  if (count > kMostPlaces || queries < kLeastAlike * count * positions.size()) return std::nullopt;
  return 1 + positions.begin - floor_div(positions.begin, length) * length;
}

WherePeriods where_periods(const std::vector<WhereStep>& steps, std::int64_t queries) {
  return {.diagonal = {where_period(steps, Along::diagonal), queries},
          .rows = {where_period(steps, Along::rows), queries},
          .keys = where_period(steps, Along::keys)};
}

}  // namespace stof
