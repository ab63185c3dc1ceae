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
namespace {

// The first of some rows, for the others: as many at a time as there are already.
void repeat(std::uint64_t* first, std::int64_t words, std::int64_t rows) {
  if (words == 1) return void(std::fill_n(first, rows, *first));
  for (std::int64_t done = 1; done < rows; done *= 2)
    std::copy_n(first, std::min(done, rows - done) * words, first + done * words);
}

}  // namespace

SameDocument::SameDocument(std::vector<std::int64_t> begins, std::vector<std::int64_t> ids, std::int64_t keys)
    : begins_(std::move(begins)), ids_(std::move(ids)) {
  begins_.push_back(keys);
  by_id_.resize(ids_.size());
  std::iota(by_id_.begin(), by_id_.end(), std::size_t{0});
  std::stable_sort(by_id_.begin(), by_id_.end(), [&](std::size_t a, std::size_t b) { return ids_[a] < ids_[b]; });
  places_of_id_.resize(ids_.size());
  for (std::size_t first = 0, end = 0; first < by_id_.size(); first = end) {
    while (end < by_id_.size() && ids_[by_id_[end]] == ids_[by_id_[first]]) ++end;
    for (std::size_t i = first; i < end; ++i) places_of_id_[by_id_[i]] = {first, end};
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

std::span<const std::size_t> SameDocument::runs_like(std::size_t index) const {
  const auto [begin, end] = places_of_id_[index];
  return std::span(by_id_).subspan(begin, end - begin);
}

bool SameDocument::outline(const CellGrid& grid, Range cells, Outline& out) const {
  const Range known = intersect(grid.positions, {0, begins_.back()});
  if (known.empty()) return true;
  const std::size_t first = run_of(known.begin), end = run_of(known.end - 1) + 1;
  const bool one = end - first == 1;
  for (std::size_t r = first; !one && r < end; ++r)
    if (ids_[r] >= 0 && runs_like(r).size() > 1) return false;
  const bool whole = one && known == grid.positions;  // else some row of a cell has none of its keys
  Range left = cells;
  for (std::size_t r = first; r < end; ++r) {
    if (ids_[r] < 0) continue;
    for (const std::size_t like : runs_like(r)) {
      const Range touched = grid.touched(run(like));
      out.add(left, touched, whole ? grid.inside(run(like)) : Range{});
      left.begin = std::max(left.begin, touched.end);  // the last cell may be the next run's, too
    }
  }
  return true;
}

void SameDocument::fill(const TileBits& tile) const {
  std::fill_n(tile.words, tile.word_count(), 0);
  const Range known = intersect(tile.positions, {0, begins_.back()});
  if (known.empty()) return;
  const std::int64_t words = tile.words_per_row();
  for (std::size_t r = run_of(known.begin); r < ids_.size() && begins_[r] < known.end; ++r) {
    if (ids_[r] < 0) continue;
    const Range rows = intersect(run(r), known);
    const RowBits first = tile.row(rows.begin);
    const std::span<const std::size_t> like = runs_like(r);
    auto it = std::partition_point(like.begin(), like.end(),
                                   [&](std::size_t other) { return run(other).end <= tile.keys.begin; });
    for (; it != like.end() && run(*it).begin < tile.keys.end; ++it) first.allow(run(*it));
    repeat(first.words(), words, rows.size());
  }
}

}  // namespace stof::bound
