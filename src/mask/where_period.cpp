// SPDX-License-Identifier: Apache-2.0
#include "src/mask/where_period.h"

#include <array>
#include <cstdlib>
#include <numeric>

#include "src/mask/terms/where.h"

namespace stof {
namespace {

constexpr std::int64_t kMostAdvance = std::int64_t{1} << 40;  // products with a constant that small fit
constexpr std::int64_t kMostFactor = std::int64_t{1} << 20;

// What is known of a value: by how much it is more at (q + n, k + n), and its value where it is a constant.
struct Known {
  std::optional<std::int64_t> advance = {}, constant = {};
  bool stays() const { return advance == 0; }
};

Known staying_if(bool stays) { return {.advance = stays ? std::optional<std::int64_t>(0) : std::nullopt}; }

bool within(std::int64_t value, std::int64_t most) { return value >= -most && value <= most; }

Known advancing(std::int64_t advance) { return within(advance, kMostAdvance) ? Known{.advance = advance} : Known{}; }

// Follows an expression with one n; says by which factor n must grow for a divisor to divide what it is applied to.
class Follower {
 public:
  explicit Follower(std::int64_t n) : n_(n) {}
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
    switch (step.op) {
      case WhereOp::query:
      case WhereOp::key: return {.advance = n_};
      case WhereOp::constant: return {.advance = 0, .constant = step.value};
      default: return {.advance = 0};
    }
  }

  static Known change(WhereOp op, const Known& a) {
    if (op == WhereOp::negate && a.advance) return {.advance = -*a.advance};
    return staying_if(a.stays());
  }

  Known join(WhereOp op, const Known& a, const Known& b) {
    if (!a.advance || !b.advance) return {};
    switch (op) {
      case WhereOp::add: return advancing(*a.advance + *b.advance);
      case WhereOp::subtract: return advancing(*a.advance - *b.advance);
      case WhereOp::multiply: return product(a, b);
      case WhereOp::divide:
      case WhereOp::remainder: return divided(op, a, b);
      case WhereOp::least:
      case WhereOp::greatest: return a.advance == b.advance ? advancing(*a.advance) : Known{};
      case WhereOp::bit_and:
      case WhereOp::bit_or: return staying_if(a.stays() && b.stays());
      default: return staying_if(a.advance == b.advance);  // comparisons
    }
  }

  static Known product(const Known& a, const Known& b) {
    if (a.stays() && b.stays()) return {.advance = 0};
    const Known &factor = a.constant ? a : b, &other = a.constant ? b : a;
    if (!factor.constant || !within(*factor.constant, kMostFactor)) return {};
    return advancing(*factor.constant * *other.advance);
  }

  // Rounding down, what is n * t more has a quotient by n that is t more, and the same remainder.
  Known divided(WhereOp op, const Known& a, const Known& b) {
    if (a.stays() && b.stays()) return {.advance = 0};
    if (!b.constant || *b.constant == 0 || !within(*b.constant, kMostFactor)) return {};
    if (*a.advance % *b.constant != 0) {
      factor_ = std::abs(*b.constant) / std::gcd(*a.advance, *b.constant);
      return {};
    }
    return {.advance = op == WhereOp::divide ? *a.advance / *b.constant : 0};
  }

  std::int64_t n_, factor_ = 1;
};

}  // namespace

std::int64_t where_period(const std::vector<WhereStep>& steps) {
  for (std::int64_t n = 1; n <= kMostPeriod;) {
    Follower follower(n);
    const Known whole = follower.follow(steps);
    if (whole.advance) return whole.stays() ? n : 0;
    if (follower.factor() == 1) return 0;
    n *= follower.factor();
  }
  return 0;
}

std::optional<std::int64_t> DiagonalPeriod::place_of(Range positions) const {
  constexpr std::int64_t kLeastAlike = 4, kMostPlaces = 64;
  if (length == 0) return std::nullopt;
  const std::int64_t places = length / std::gcd(length, positions.size());  // of ranges as long
  if (places > kMostPlaces || queries < kLeastAlike * places * positions.size()) return std::nullopt;
  return 1 + positions.begin - floor_div(positions.begin, length) * length;
}

}  // namespace stof
