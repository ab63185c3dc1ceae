// SPDX-License-Identifier: Apache-2.0
#include "src/mask/cell_scan.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/mask/row_bits.h"

namespace stof {
namespace {

constexpr std::int64_t kCellsAtOnce = 8;
constexpr std::int64_t kStoredRows = 64;  // and keys, of an array's cells
// 1 GiB: of 64 rows whose cells are partial in all of 2^27 keys.
constexpr std::size_t kMostWords = std::size_t{1} << 27;
// More are not told from one another again: a mask has as many where it is cut everywhere.
constexpr std::size_t kMostPatterns = std::size_t{1} << 20;

}  // namespace

CellScan::CellScan(const BoundMask& mask, std::int64_t cell_keys)
    : mask_(mask),
      cell_keys_(cell_keys),
      words_per_row_(words_for(cell_keys)),
      cells_(ceil_div(mask.extent().keys, cell_keys)) {}

std::size_t CellScan::DiagonalHash::operator()(const Diagonal& diagonal) const {
  const auto place = static_cast<std::uint64_t>(diagonal.name.place);
  return splitmix64(static_cast<std::uint64_t>(diagonal.difference) ^
                    splitmix64(diagonal.name.leaves ^ splitmix64(place)));
}

void CellScan::scan(int group, Range rows) {
  if (is_shifted(group, rows)) {
    rows_ = rows;
    shift();
    return find_empty_rows();
  }
  if (group != group_ || rows.size() > band_rows_) {
    patterns_.clear();
    pattern_words_.clear();
    band_rows_ = rows.size();
  }
  stores_cells_ = mask_.stores_cells(group);
  group_ = group;
  rows_ = rows;
  runs_.clear();
  words_.clear();
  if (!rows.empty() && cells_ > 0) {
    mask_.outline(group, rows, cell_keys_, outline_);
    for (const Outline::Run& run : outline_.runs())
      if (run.kind == BlockKind::full) add_full(run.cells);
      else settle(run.cells);
  }
  find_empty_rows();
}

// Whether the band is the one before, a cell further on, in all that position - key alone decides.
bool CellScan::is_shifted(int group, Range rows) const {
  if (group != group_ || rows.empty() || rows.size() != rows_.size() || rows.size() != band_rows_ ||
      rows.begin != rows_.begin + cell_keys_ || cells_ == 0 || !mask_.looks_at_differences_alone(group))
    return false;
  // Bits that no pattern has were those of the band before alone; so are a cut-off cell's, which does not move.
  const std::int64_t whole = mask_.extent().keys / cell_keys_;
  return std::none_of(runs_.begin(), runs_.end(), [whole](const CellRun& run) {
    return !run.full && run.begin < whole && run.pattern == CellRun::kNoPattern;
  });
}

// What was cell i is cell i + 1. The first one has nobody before it, and one that the keys cut off is not like others.
void CellScan::shift() {
  std::swap(runs_, earlier_);
  runs_.clear();
  words_.clear();
  const std::int64_t whole = mask_.extent().keys / cell_keys_;
  look_at(0);
  for (const CellRun& run : earlier_) {
    const Range cells = {run.begin + 1, std::min(run.end + 1, whole)};
    if (cells.empty()) break;
    if (run.full) add_full(cells);
    else decide(cells.begin, run);
  }
  if (whole > 0 && whole < cells_) look_at(whole);
}

void CellScan::look_at(std::int64_t cell) {
  const BlockKind kind = mask_.classify(group_, rows_, {cell * cell_keys_, (cell + 1) * cell_keys_});
  if (kind == BlockKind::partial) settle({cell, cell + 1});
  else if (kind == BlockKind::full) add_full({cell, cell + 1});
}

void CellScan::add_full(Range cells) {
  if (!runs_.empty() && runs_.back().full && runs_.back().end == cells.begin) runs_.back().end = cells.end;
  else runs_.push_back({.begin = cells.begin, .end = cells.end, .full = true});
}

// Before more of them are made: a band as wide as positions can be has gigabytes.
void CellScan::check_bits() const {
  if (words_.size() + pattern_words_.size() > kMostWords)
    fail(ErrorKind::unsupported,
         "mask: {} rows of {} keys have more than {} MiB of partial cells; use fewer keys or a mask of wider intervals",
         rows_.size(), mask_.extent().keys, kMostWords * sizeof(std::uint64_t) >> 20);
}

// Neighbours without a pattern are decided by bits that are fetched together.
void CellScan::settle(Range cells) {
  if (stores_cells_) return settle_stored(cells);
  Range waiting = {cells.begin, cells.begin};
  for (std::int64_t cell = cells.begin; cell < cells.end; ++cell) {
    if (const Pattern* const known = pattern_of(cell)) {
      settle_together(waiting);
      waiting = {cell + 1, cell + 1};
      decide(cell, {.pattern = known->number, .first_word = known->first_word, .allowed = known->allowed});
      continue;
    }
    waiting.end = cell + 1;
    if (waiting.size() < kCellsAtOnce) continue;
    settle_together(waiting);
    waiting.begin = waiting.end;
  }
  settle_together(waiting);
}

// Of a mask that looks at position - key alone, whole cells on one diagonal are alike: the first one's bits serve.
const CellScan::Pattern* CellScan::pattern_of(std::int64_t cell) {
  const Range keys = {cell * cell_keys_, (cell + 1) * cell_keys_};
  if (rows_.size() != band_rows_ || keys.end > mask_.extent().keys) return nullptr;
  const std::optional<DiagonalName> name = mask_.name_along_diagonal(group_, rows_, keys);
  if (!name) return nullptr;
  const Diagonal diagonal{keys.begin - rows_.begin, *name};
  if (const auto known = patterns_.find(diagonal); known != patterns_.end()) return &known->second;
  if (patterns_.size() == kMostPatterns) return nullptr;
  check_bits();
  Pattern pattern{.first_word = pattern_words_.size(), .allowed = 0, .number = static_cast<int>(patterns_.size())};
  pattern_words_.resize(pattern.first_word + static_cast<std::size_t>(rows_.size() * words_per_row_));
  const std::span<std::uint64_t> words = std::span(pattern_words_).subspan(pattern.first_word);
  mask_.tile_bits(group_, rows_, keys, words);
  for (const std::uint64_t word : words) pattern.allowed += std::popcount(word);
  return &patterns_.emplace(diagonal, pattern).first->second;
}

void CellScan::settle_alone(std::int64_t cell) {
  check_bits();
  const std::size_t first = words_.size();
  words_.resize(first + static_cast<std::size_t>(rows_.size() * words_per_row_));
  clipped_tile_bits(mask_, group_, rows_, {cell * cell_keys_, (cell + 1) * cell_keys_},
                    std::span(words_).subspan(first));
  decide_by_words(cell, first);
}

// What an array has counted is not counted again, and a band of one row of its cells is not copied either.
void CellScan::settle_stored(Range cells) {
  const bool whole = rows_.size() % kStoredRows == 0 || rows_.end == mask_.extent().queries;
  const bool as_stored =
      whole && cell_keys_ == kStoredRows && mask_.stored_cell(group_, rows_.begin, 0).words != nullptr;
  for (std::int64_t cell = cells.begin; cell < cells.end; ++cell) {
    if (!as_stored) {
      settle_alone(cell);
      continue;
    }
    check_bits();
    CellRun partial{.first_word = words_.size()};
    for (std::int64_t row = rows_.begin; row < rows_.end; row += kStoredRows) {
      const StoredCell stored = mask_.stored_cell(group_, row, cell * cell_keys_);
      partial.allowed += stored.allowed;
      if (rows_.size() <= kStoredRows) partial.stored = stored.words;
      else words_.insert(words_.end(), stored.words, stored.words + std::min(kStoredRows, rows_.end - row));
    }
    decide_appended(cell, partial);
  }
}

void CellScan::settle_together(Range cells) {
  if (cells.size() <= 1 || cell_keys_ % 64 != 0) {
    for (std::int64_t cell = cells.begin; cell < cells.end; ++cell) settle_alone(cell);
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
    decide_by_words(cells.begin + static_cast<std::int64_t>(c), first);
  }
}

// By the bits that were just appended, which only a partial cell keeps.
void CellScan::decide_by_words(std::int64_t cell, std::size_t first_word) {
  std::int64_t allowed = 0;
  for (std::size_t w = first_word; w < words_.size(); ++w) allowed += std::popcount(words_[w]);
  decide_appended(cell, {.first_word = first_word, .allowed = allowed});
}

void CellScan::decide_appended(std::int64_t cell, const CellRun& partial) {
  const std::size_t runs = runs_.size();
  decide(cell, partial);
  if (runs == runs_.size() || runs_.back().full) words_.resize(partial.first_word);
}

// Full, empty or partial, by the pairs allowed in it.
void CellScan::decide(std::int64_t cell, const CellRun& partial) {
  const Range keys = intersect({cell * cell_keys_, (cell + 1) * cell_keys_}, {0, mask_.extent().keys});
  if (partial.allowed == 0) return;
  if (partial.allowed == rows_.size() * keys.size()) return add_full({cell, cell + 1});
  runs_.push_back(partial);
  runs_.back().begin = cell, runs_.back().end = cell + 1;
}

std::span<const std::uint64_t> CellScan::bits(const CellRun& run) const {
  const std::vector<std::uint64_t>& words = run.pattern == CellRun::kNoPattern ? words_ : pattern_words_;
  return {run.stored != nullptr ? run.stored : words.data() + run.first_word,
          static_cast<std::size_t>(rows_.size() * words_per_row_)};
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
  empty_row_count_ = any_full ? 0 : rows_.size();
  for (const CellRun& run : runs_) {
    if (empty_row_count_ == 0) return;
    const std::uint64_t* word = bits(run).data();
    for (std::uint8_t& empty : empty_rows_)
      for (std::int64_t w = 0; w < words_per_row_; ++w)
        if (*word++ != 0) empty_row_count_ -= std::exchange(empty, std::uint8_t{0});
  }
}

void clipped_tile_bits(const BoundMask& mask, int group, Range rows, Range keys, std::span<std::uint64_t> words) {
  const Range inside = intersect(keys, {0, mask.extent().keys});
  const std::int64_t stride = words_for(keys.size()), clipped = words_for(inside.size());
  if (inside == keys || clipped == stride) return mask.tile_bits(group, rows, inside, words);
  std::fill(words.begin(), words.end(), 0);
  for (std::int64_t row = rows.begin; row < rows.end && clipped > 0; ++row)
    mask.row_bits(group, row, inside, words.subspan(static_cast<std::size_t>((row - rows.begin) * stride)));
}

}  // namespace stof
