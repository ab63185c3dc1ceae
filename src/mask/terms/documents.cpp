// SPDX-License-Identifier: Apache-2.0
#include "src/mask/terms/documents.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace stof::term {

std::string Documents::print(ArrayNames) const { return fmt::format("documents([{}])", fmt::join(starts, ",")); }

std::string DocumentIds::print(ArrayNames names) const {
  return fmt::format("document_ids({})", array->source.print(names));
}

}  // namespace stof::term

namespace stof::bound {

SameDocument::SameDocument(std::vector<std::int64_t> begins, std::vector<std::int64_t> ids, std::int64_t keys)
    : begins_(std::move(begins)), ids_(std::move(ids)) {
  begins_.push_back(keys);
  by_id_.resize(ids_.size());
  std::iota(by_id_.begin(), by_id_.end(), std::size_t{0});
  std::stable_sort(by_id_.begin(), by_id_.end(), [&](std::size_t a, std::size_t b) { return ids_[a] < ids_[b]; });
  first_of_id_.resize(ids_.size());
  for (std::size_t i = 0, first = 0; i < by_id_.size(); ++i) {
    if (ids_[by_id_[i]] != ids_[by_id_[first]]) first = i;
    first_of_id_[by_id_[i]] = first;
  }
  std::vector<std::int64_t> lows = ids_, highs = ids_;
  for (std::int64_t& low : lows)
    if (low < 0) low = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t& high : highs) high = std::max<std::int64_t>(high, -1);
  extremes_ = RangeExtremes(std::move(lows), std::move(highs));
}

std::size_t SameDocument::run_of(std::int64_t position) const {
  return static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end() - 1, position) - begins_.begin()) - 1;
}

bool SameDocument::allows(std::int64_t p, std::int64_t key) const {
  if (p < 0) return false;
  const std::int64_t id = ids_[run_of(p)];
  return id >= 0 && id == ids_[run_of(key)];
}

BlockKind SameDocument::classify(Range positions, Range keys) const {
  const Range known = intersect(positions, {0, begins_.back()});
  if (known.empty()) return BlockKind::empty;
  const std::size_t p0 = run_of(known.begin), p1 = run_of(known.end - 1);
  const std::size_t k0 = run_of(keys.begin), k1 = run_of(keys.end - 1);
  if (p0 == p1 && k0 == k1) {
    if (ids_[p0] < 0 || ids_[p0] != ids_[k0]) return BlockKind::empty;
    return known == positions ? BlockKind::full : BlockKind::partial;
  }
  const auto runs = [](std::size_t first, std::size_t last) {
    return Range{static_cast<std::int64_t>(first), static_cast<std::int64_t>(last) + 1};
  };
  const RangeExtremes::Extremes p = extremes_.of(runs(p0, p1)), k = extremes_.of(runs(k0, k1));
  return p.high < k.low || k.high < p.low ? BlockKind::empty : BlockKind::partial;
}

void SameDocument::fill(std::int64_t p, RowBits row) const {
  if (p < 0) return;
  const std::size_t own = run_of(p);
  if (ids_[own] < 0) return;
  auto it = by_id_.begin() + static_cast<std::ptrdiff_t>(first_of_id_[own]);
  const auto same_end = std::partition_point(it, by_id_.end(), [&](std::size_t r) { return ids_[r] <= ids_[own]; });
  it = std::partition_point(it, same_end, [&](std::size_t r) { return run(r).end <= row.keys().begin; });
  for (; it != same_end && run(*it).begin < row.keys().end; ++it) row.allow(run(*it));
}

}  // namespace stof::bound
