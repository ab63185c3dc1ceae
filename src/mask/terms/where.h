// SPDX-License-Identifier: Apache-2.0
// where(): an integer expression over (b, h, q, k); allowed where it is not zero.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "src/mask/array_names.h"
#include "src/mask/outline.h"
#include "src/mask/range.h"
#include "src/mask/row_bits.h"
#include "src/mask/terms/where_lanes.h"
#include "src/mask/traits.h"
#include "src/mask/where_period.h"
#include "stof/where.h"

namespace stof::term {

struct Where {
  std::vector<WhereStep> steps;  // postfix; checked by make_where
  std::string print(ArrayNames) const;
  MaskTraits traits() const;
};

}  // namespace stof::term

namespace stof {

// Values that an expression keeps at once, and steps it takes, at most.
inline constexpr int kWhereStack = 64;
inline constexpr std::size_t kWhereSteps = 4096;
// Of parentheses, signs and calls inside each other in its text, and a name or number in them.
inline constexpr int kWhereLevels = 256;

constexpr int operand_count(WhereOp op) {
  if (op <= WhereOp::key) return 0;
  return op <= WhereOp::logical_not ? 1 : 2;
}
Mask make_where(std::vector<WhereStep> steps);
// Text of well-formed steps, with the parentheses that C++ needs.
std::string print_where(const std::vector<WhereStep>& steps);
// Whether there is a text that parse() reads.
bool can_be_written(const std::vector<WhereStep>& steps);
// The steps for one item and head, with what is constant computed; steps that would fail stay.
std::vector<WhereStep> specialise(const std::vector<WhereStep>& steps, std::int64_t item, std::int64_t head);
// The same for every item and head.
std::vector<WhereStep> simplify(const std::vector<WhereStep>& steps);
// q and k matter only as q - k.
bool only_difference(const std::vector<WhereStep>& steps);

// Operations on integers; the exceptional result is a name: "division by zero" or "overflow".
struct WhereResult {
  std::int64_t value = 0;
  const char* failure = nullptr;
};
WhereResult compute(WhereOp op, std::int64_t a);
WhereResult compute(WhereOp op, std::int64_t a, std::int64_t b);

// All values of an expression over a rectangle lie in [low, high], unless computing one of them may fail.
struct WhereInterval {
  std::int64_t low, high;
};
struct WhereBounds {
  WhereInterval result = {};
  WhereInterval widest = {};  // holds every intermediate value as well
  bool may_fail = false;
};
WhereBounds bounds_of(const std::vector<WhereStep>& steps, Range positions, Range keys);

}  // namespace stof

namespace stof::bound {

class Where {
 public:
  Where(const term::Where& term, std::int64_t item, std::int64_t head, const MaskExtent& extent);

  // Throws invalid_argument, naming the place, when a division by zero or an overflow is met.
  bool allows(std::int64_t p, std::int64_t key) const;
  BlockKind classify(Range positions, Range keys) const;
  void fill(const TileBits& tile) const;
  // Of cells that repeat the first ones are asked, the others are like them. False: nothing is known, or they are few.
  bool outline(const CellGrid& grid, Range cells, Outline& out) const;
  bool only_difference() const { return only_difference_; }
  bool narrow() const { return narrow_; }
  const WherePeriods& periods() const { return periods_; }

 private:
  void copy_row(std::int64_t p, RowBits row) const;
  void fill_one_by_one(const TileBits& tile) const;

  std::vector<WhereStep> steps_;
  std::string text_;  // of the whole term, for errors
  bool only_difference_ = false;
  bool narrow_ = false;  // nothing can fail and every value fits 32 bits
  WherePeriods periods_;
  WhereLanes lanes_;  // where it is narrow
  // For an expression of q - k that cannot fail, the bits of every difference: that of (p, key) is key - p + keys - 1.
  std::vector<std::uint64_t> diagonal_;
  std::int64_t keys_ = 0;
};

}  // namespace stof::bound
