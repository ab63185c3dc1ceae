// SPDX-License-Identifier: Apache-2.0
#include "src/mask/terms/tree.h"

#include <fmt/ranges.h>

namespace stof::term {

std::string Tree::print(ArrayNames) const { return fmt::format("tree([{}])", fmt::join(parents, ",")); }

}  // namespace stof::term

namespace stof::bound {

Ancestors::Ancestors(const std::vector<std::int64_t>& parents)
    : parents_(parents), numbers_(parents.size()), sizes_(parents.size(), 1), chain_(parents.size()) {
  const std::size_t count = parents.size();
  const auto parent = [&](std::size_t i) { return static_cast<std::size_t>(parents[i]); };
  for (std::size_t i = count; i-- > 0;)
    if (parents[i] >= 0) sizes_[parent(i)] += sizes_[i];
  // free[i]: the next number for a child of i. Parents come before children, so one pass numbers all.
  std::vector<std::int64_t> free(count), ends(count);
  std::int64_t free_root = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t& next = parents[i] >= 0 ? free[parent(i)] : free_root;
    numbers_[i] = next;
    next += sizes_[i];
    free[i] = numbers_[i] + 1;
    ends[i] = numbers_[i] + sizes_[i];
    const bool continues = i > 0 && parents[i] == static_cast<std::int64_t>(i) - 1;
    chain_[i] = continues ? chain_[i - 1] : static_cast<std::int64_t>(i);
  }
  number_range_ = RangeExtremes(numbers_, numbers_);
  descendant_range_ = RangeExtremes(numbers_, std::move(ends));
}

BlockKind Ancestors::classify(Range positions, Range keys) const {
  const std::int64_t last = keys.end - 1;
  if (keys.begin >= positions.end) return BlockKind::empty;             // an ancestor comes earlier
  const Range known = intersect(positions, {0, std::ssize(parents_)});  // not empty: keys begin at 0 or later
  const RangeExtremes::Extremes numbers = number_range_.of(known), reached = descendant_range_.of(keys);
  if (numbers.high < reached.low || numbers.low >= reached.high) return BlockKind::empty;
  // All keys are ancestors of one position only as a chain, and then of every descendant of the last one.
  const Range below = descendants(last);
  const bool full = known == positions && chain_[static_cast<std::size_t>(last)] <= keys.begin &&
                    below.contains(numbers.low) && below.contains(numbers.high);
  return full ? BlockKind::full : BlockKind::partial;
}

void Ancestors::fill(std::int64_t p, RowBits row) const {
  for (std::int64_t i = p; i >= row.keys().begin;) {  // no such i is -1: keys begin at 0 or later
    const std::int64_t first = chain_[static_cast<std::size_t>(i)];
    row.allow(Range{first, i + 1});
    i = parents_[static_cast<std::size_t>(first)];
  }
}

}  // namespace stof::bound
