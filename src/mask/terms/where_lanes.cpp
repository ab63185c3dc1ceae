// SPDX-License-Identifier: Apache-2.0
#include "src/mask/terms/where_lanes.h"

#include <algorithm>
#include <array>
#include <memory>

#include "src/mask/terms/where.h"
#include "src/mask/terms/where_values.h"

namespace stof::bound {
namespace {

constexpr std::size_t kKeys = 64;
// Rows for 64 keys each that are computed together, one behind the other.
constexpr std::size_t kRowsAtOnce = 8, kValues = kKeys * kRowsAtOnce;

std::size_t most_kept(const std::vector<WhereStep>& steps) {
  std::size_t kept = 0, most = 1;
  for (const WhereStep& step : steps) {
    kept += 1 - static_cast<std::size_t>(operand_count(step.op));
    most = std::max(most, kept);
  }
  return most;
}

// Of a tile, at most kKeys: which rows are computed, since those of equal values, as those of a block are, have equal
// bits; and of each part their values, kKeys times each.
struct Rows {
  std::vector<std::int64_t> first = {};  // of those with the same values
  std::int64_t end = 0;
  std::unique_ptr<std::int32_t[]> values = {};  // [parts][first.size()][kKeys]
};

class Filling {
 public:
  explicit Filling(const WhereLanes& lanes)
      : lanes_(lanes),
        memory_(std::make_unique_for_overwrite<std::int32_t[]>(lanes.most_kept() * kValues)),
        of_keys_(std::make_unique_for_overwrite<std::int32_t[]>(lanes.key_parts().size() * kValues)) {}

  // Of positions that are at most kKeys.
  void fill(const TileBits& tile) {
    const std::int64_t words = tile.words_per_row(), rest = tile.keys.size() & 63;
    look_at_rows(tile.positions);
    for (std::int64_t w = 0; w < words; ++w) {
      look_at_keys(tile.keys.begin + 64 * w);
      compute_words(tile.words + w, words);
    }
    if (rest == 0) return;
    const std::uint64_t wanted = ~(~std::uint64_t{0} << rest);
    for (std::int64_t row = 0; row < rows_.end; ++row) tile.words[(row + 1) * words - 1] &= wanted;
  }

 private:
  // `count` values; operand(step) is where they lie.
  template <class Operand>
  const std::int32_t* evaluate(const std::vector<WhereStep>& steps, std::size_t count, const Operand& operand) {
    std::array<const std::int32_t*, kWhereStack> stack;
    std::size_t kept = 0;
    operations_.clear();
    for (const WhereStep& step : steps) {
      const auto operands = static_cast<std::size_t>(operand_count(step.op));
      kept -= operands;
      std::int32_t* const out = memory_.get() + kept * kValues;
      if (operands > 0) operations_.push_back({step.op, stack[kept], stack[kept + operands - 1], out});
      stack[kept++] = operands > 0 ? out : operand(step);
    }
    apply_where(operations_, count);
    return stack[0];
  }

  // Of 64 neighbours, which are positions or keys, from the first to the last and that one again.
  const std::int32_t* evaluate_part(const WhereLanes::Part& part, std::int64_t first, std::int64_t last) {
    for (std::size_t i = 0; i < kKeys; ++i)
      neighbours_[i] = static_cast<std::int32_t>(std::min(first + static_cast<std::int64_t>(i), last));
    return evaluate(part, kKeys, [&](const WhereStep& step) -> const std::int32_t* {
      if (step.op != WhereOp::constant) return neighbours_.data();
      return lanes_.constants().data() + static_cast<std::size_t>(step.value) * kKeys;
    });
  }

  void look_at_rows(Range positions) {
    const std::size_t parts = lanes_.row_parts().size();
    of_parts_.clear();
    for (const WhereLanes::Part& part : lanes_.row_parts()) {
      const std::int32_t* const values = evaluate_part(part, positions.begin, positions.end - 1);
      of_parts_.insert(of_parts_.end(), values, values + kKeys);
    }
    rows_.first.assign(1, 0);
    rows_.end = positions.size();
    for (std::int64_t row = 1; row < rows_.end; ++row)
      if (is_new(static_cast<std::size_t>(row))) rows_.first.push_back(row);
    rows_.values = std::make_unique_for_overwrite<std::int32_t[]>(of_parts_.size() * rows_.first.size());
    std::int32_t* out = rows_.values.get();
    for (std::size_t part = 0; part < parts; ++part)
      for (const std::int64_t row : rows_.first)
        out = std::fill_n(out, kKeys, of_parts_[part * kKeys + static_cast<std::size_t>(row)]);
  }
  bool is_new(std::size_t row) const {
    for (std::size_t i = row; i < of_parts_.size(); i += kKeys)
      if (of_parts_[i] != of_parts_[i - 1]) return true;
    return false;
  }

  void look_at_keys(std::int64_t first) {
    std::int32_t* out = of_keys_.get();
    for (const WhereLanes::Part& part : lanes_.key_parts()) {
      const std::int32_t* const values = evaluate_part(part, first, first + 63);
      const std::size_t copies = std::min(kRowsAtOnce, rows_.first.size());
      for (std::size_t row = 0; row < copies; ++row) std::copy_n(values, kKeys, out + row * kKeys);
      out += kValues;
    }
  }

  // A word of each row, `stride` words away from that of the row before.
  void compute_words(std::uint64_t* words, std::int64_t stride) {
    const std::size_t computed = rows_.first.size();
    for (std::size_t begin = 0; begin < computed; begin += kRowsAtOnce) {
      const std::size_t end = std::min(begin + kRowsAtOnce, computed), count = (end - begin) * kKeys;
      const std::int32_t* const values =
          evaluate(lanes_.steps(), count, [&](const WhereStep& step) -> const std::int32_t* {
            const auto part = static_cast<std::size_t>(step.value);
            if (step.op == WhereOp::key) return of_keys_.get() + part * kValues;
            return rows_.values.get() + (part * computed + begin) * kKeys;
          });
      std::array<std::uint64_t, kRowsAtOnce> bits;
      where_bits(values, count, bits.data());
      for (std::size_t i = begin; i < end; ++i) {
        const std::int64_t next = i + 1 < computed ? rows_.first[i + 1] : rows_.end;
        for (std::int64_t row = rows_.first[i]; row < next; ++row) words[row * stride] = bits[i - begin];
      }
    }
  }

  const WhereLanes& lanes_;
  std::unique_ptr<std::int32_t[]> memory_;   // of values that are kept, kValues each
  std::unique_ptr<std::int32_t[]> of_keys_;  // of each part kRowsAtOnce times
  std::vector<std::int32_t> of_parts_ = {};  // of rows, kKeys each
  std::array<std::int32_t, kKeys> neighbours_ = {};
  std::vector<WhereOperation> operations_ = {};
  Rows rows_ = {};
};

}  // namespace

WhereLanes::WhereLanes(const std::vector<WhereStep>& steps) {
  struct Value {
    std::size_t first;  // of its steps, the last of which is its operation
    bool query, key;    // whether it looks at them
  };
  std::vector<Value> values, stack;  // values: of each step
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Value value{i, steps[i].op == WhereOp::query, steps[i].op == WhereOp::key};
    for (int operands = operand_count(steps[i].op); operands > 0; --operands) {
      const Value& last = stack.back();
      value = {last.first, value.query || last.query, value.key || last.key};
      stack.pop_back();
    }
    stack.push_back(value);
    values.push_back(value);
  }
  // From the last operation inwards, so that parts are as large as they can be.
  for (std::size_t i = steps.size(); i-- > 0;) {
    const auto [first, query, key] = values[i];
    if (query && key) {
      steps_.push_back(steps[i]);
      continue;
    }
    auto& parts = key ? key_parts_ : row_parts_;
    steps_.push_back({key ? WhereOp::key : WhereOp::query, static_cast<std::int64_t>(parts.size())});
    parts.push_back(part_of(steps, first, i));
    i = first;
  }
  std::reverse(steps_.begin(), steps_.end());
  most_kept_ = std::max(most_kept_, bound::most_kept(steps_));
}

WhereLanes::Part WhereLanes::part_of(const std::vector<WhereStep>& steps, std::size_t first, std::size_t last) {
  Part part(steps.begin() + static_cast<std::ptrdiff_t>(first), steps.begin() + static_cast<std::ptrdiff_t>(last) + 1);
  for (WhereStep& step : part) {
    if (step.op != WhereOp::constant) continue;
    const std::size_t number = constants_.size() / kKeys;
    constants_.insert(constants_.end(), kKeys, static_cast<std::int32_t>(step.value));
    step.value = static_cast<std::int64_t>(number);
  }
  most_kept_ = std::max(most_kept_, bound::most_kept(part));
  return part;
}

void WhereLanes::fill(const TileBits& tile) const {
  constexpr auto kRows = static_cast<std::int64_t>(kKeys);
  Filling filling(*this);
  for (std::int64_t begin = tile.positions.begin; begin < tile.positions.end; begin += kRows)
    filling.fill({.positions = {begin, std::min(begin + kRows, tile.positions.end)},
                  .keys = tile.keys,
                  .words = tile.words + (begin - tile.positions.begin) * tile.words_per_row()});
}

}  // namespace stof::bound
