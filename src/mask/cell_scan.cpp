// SPDX-License-Identifier: Apache-2.0
#include "src/mask/cell_scan.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "src/base/error.h"
#include "src/mask/row_bits.h"

namespace stof {
namespace {

constexpr std::int64_t kCellsAtOnce = 8;
// 1 GiB: of 64 rows whose cells are partial in all of 2^27 keys.
constexpr std::size_t kMostWords = std::size_t{1} << 27;

}  // namespace

CellScan::CellScan(const BoundMask& mask, std::int64_t cell_keys)
    : mask_(mask),
      cell_keys_(cell_keys),
      words_per_row_(words_for(cell_keys)),
      cells_(ceil_div(mask.extent().keys, cell_keys)) {}

void CellScan::scan(int group, Range rows) {
  if (group != group_ || rows.size() > band_rows_) {
    diagonals_.clear();
    diagonal_words_.clear();
    band_rows_ = rows.size();
  }
  same_along_diagonals_ = mask_.depends_only_on_difference(group);
  stores_cells_ = mask_.stores_cells(group);
  group_ = group;
  rows_ = rows;
  runs_.clear();
  words_.clear();
  if (!rows.empty() && cells_ > 0) visit({0, cells_});
  find_empty_rows();
}

BlockKind CellScan::classify(Range cells) const {
  return mask_.classify(group_, rows_,
                        {cells.begin * cell_keys_, std::min(cells.end * cell_keys_, mask_.extent().keys)});
}

// Halves a partial range until a few cells are left, each of which is asked; neighbours that stay partial are decided
// by their bits, fetched together.
void CellScan::visit(Range cells) {
  const BlockKind kind = classify(cells);
  if (kind == BlockKind::empty) return;
  if (kind == BlockKind::full) return add_full(cells);
  if (cells.size() <= kCellsAtOnce) return visit_each(cells);
  // Halves of a power of two, so that ranges nest the same way for every band of rows.
  const auto half = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(cells.size())) / 2);
  visit({cells.begin, cells.begin + half});
  visit({cells.begin + half, cells.end});
}

void CellScan::visit_each(Range cells) {
  Range partial = {cells.begin, cells.begin};
  for (std::int64_t cell = cells.begin; cell < cells.end; ++cell) {
    const BlockKind kind = classify({cell, cell + 1});
    if (kind == BlockKind::partial && same_along_diagonals_) {
      if (!settle_as_before(cell)) settle(cell);
      continue;
    }
    if (kind == BlockKind::partial) {
      if (partial.empty()) partial.begin = cell;
      partial.end = cell + 1;
      continue;
    }
    settle(partial);
    partial = {cell + 1, cell + 1};
    if (kind == BlockKind::full) add_full({cell, cell + 1});
  }
  settle(partial);
}

void CellScan::add_full(Range cells) {
  if (!runs_.empty() && runs_.back().full && runs_.back().end == cells.begin) runs_.back().end = cells.end;
  else runs_.push_back({.begin = cells.begin, .end = cells.end, .full = true});
}

// Before more of them are made: a band as wide as positions can be has gigabytes.
void CellScan::check_bits() const {
  if (words_.size() + diagonal_words_.size() > kMostWords)
    fail(ErrorKind::unsupported,
         "mask: {} rows of {} keys have more than {} MiB of partial cells; use fewer keys or a mask of wider intervals",
         rows_.size(), mask_.extent().keys, kMostWords * sizeof(std::uint64_t) >> 20);
}

void CellScan::settle(std::int64_t cell) {
  check_bits();
  const std::size_t first = words_.size();
  words_.resize(first + static_cast<std::size_t>(rows_.size() * words_per_row_));
  clipped_tile_bits(mask_, group_, rows_, {cell * cell_keys_, (cell + 1) * cell_keys_},
                    std::span(words_).subspan(first));
  decide(cell, first);
}

void CellScan::settle(Range cells) {
  if (cells.size() <= 1 || cell_keys_ % 64 != 0 || stores_cells_) {
    for (std::int64_t cell = cells.begin; cell < cells.end; ++cell) settle(cell);
    return;
  }
  check_bits();
  const auto per_cell = static_cast<std::size_t>(rows_.size() * words_per_row_);
  const auto count = static_cast<std::size_t>(cells.size());
  const auto word_count = static_cast<std::size_t>(words_per_row_);
  const Range keys = {cells.begin * cell_keys_, cells.end * cell_keys_};
  wide_.resize(count * per_cell);
  clipped_tile_bits(mask_, group_, rows_, keys, wide_);
  for (std::size_t c = 0; c < count; ++c) {
    const std::size_t first = words_.size();
    words_.resize(first + per_cell);
    const std::uint64_t* from = wide_.data() + c * word_count;
    std::uint64_t* to = words_.data() + first;
    for (std::int64_t row = 0; row < rows_.size(); ++row, from += count * word_count, to += word_count)
      for (std::size_t w = 0; w < word_count; ++w) to[w] = from[w];
    decide(cells.begin + static_cast<std::int64_t>(c), first);
  }
}

// Of a mask that looks at position - key alone, whole cells on one diagonal are alike: the first one's bits serve.
bool CellScan::settle_as_before(std::int64_t cell) {
  if (!same_along_diagonals_ || rows_.size() != band_rows_ || (cell + 1) * cell_keys_ > mask_.extent().keys)
    return false;
  check_bits();
  const auto [it, added] = diagonals_.try_emplace(cell * cell_keys_ - rows_.begin, diagonal_words_.size());
  const auto per_cell = static_cast<std::size_t>(rows_.size() * words_per_row_);
  if (added) {
    diagonal_words_.resize(diagonal_words_.size() + per_cell);
    mask_.tile_bits(group_, rows_, {cell * cell_keys_, (cell + 1) * cell_keys_},
                    std::span(diagonal_words_).subspan(it->second, per_cell));
  }
  const std::size_t first = words_.size();
  const auto* bits = diagonal_words_.data() + it->second;
  words_.insert(words_.end(), bits, bits + per_cell);
  decide(cell, first);
  return true;
}

// Full, empty or partial, by the bits that were just appended.
void CellScan::decide(std::int64_t cell, std::size_t first_word) {
  std::int64_t allowed = 0;
  for (std::size_t w = first_word; w < words_.size(); ++w) allowed += std::popcount(words_[w]);
  const Range keys = intersect({cell * cell_keys_, (cell + 1) * cell_keys_}, {0, mask_.extent().keys});
  if (allowed > 0 && allowed < rows_.size() * keys.size()) {
    runs_.push_back({.begin = cell, .end = cell + 1, .first_word = first_word, .allowed = allowed});
    return;
  }
  words_.resize(first_word);
  if (allowed > 0) add_full({cell, cell + 1});
}

std::span<const std::uint64_t> CellScan::bits(const CellRun& run) const {
  return {words_.data() + run.first_word, static_cast<std::size_t>(rows_.size() * words_per_row_)};
}

Range CellScan::keys_of(const CellRun& run) const {
  return {run.begin * cell_keys_, std::min(run.end * cell_keys_, mask_.extent().keys)};
}

std::int64_t CellScan::allowed_pairs() const {
  std::int64_t pairs = 0;
  for (const CellRun& run : runs_) pairs += run.full ? keys_of(run).size() * rows_.size() : run.allowed;
  return pairs;
}

void CellScan::find_empty_rows() {
  const bool any_full = std::any_of(runs_.begin(), runs_.end(), [](const CellRun& run) { return run.full; });
  empty_rows_.assign(static_cast<std::size_t>(rows_.size()), any_full ? 0 : 1);
  std::int64_t empty_count = any_full ? 0 : rows_.size();
  for (const CellRun& run : runs_) {
    if (empty_count == 0) return;
    const std::uint64_t* word = bits(run).data();
    for (std::uint8_t& empty : empty_rows_)
      for (std::int64_t w = 0; w < words_per_row_; ++w)
        if (*word++ != 0) empty_count -= std::exchange(empty, std::uint8_t{0});
  }
}

std::int64_t CellScan::empty_row_count() const { return std::count(empty_rows_.begin(), empty_rows_.end(), 1); }

void clipped_tile_bits(const BoundMask& mask, int group, Range rows, Range keys, std::span<std::uint64_t> words) {
  const Range inside = intersect(keys, {0, mask.extent().keys});
  const std::int64_t stride = words_for(keys.size()), clipped = words_for(inside.size());
  if (inside == keys || clipped == stride) return mask.tile_bits(group, rows, inside, words);
  std::fill(words.begin(), words.end(), 0);
  for (std::int64_t row = rows.begin; row < rows.end && clipped > 0; ++row)
    mask.row_bits(group, row, inside, words.subspan(static_cast<std::size_t>((row - rows.begin) * stride)));
}

}  // namespace stof
