// SPDX-License-Identifier: Apache-2.0
#include "src/mask/cell_scan.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/base/interrupt.h"
#include "src/mask/row_bits.h"

namespace stof {
namespace {

constexpr std::int64_t kCellsAtOnce = 8;
constexpr std::int64_t kStoredRows = 64;  // and keys, of an array's cells
// After so many cells without a name one of a few is asked for it.
constexpr std::int64_t kMostNameless = 64, kAskedAgain = 8;
// 1 GiB: of 64 rows whose cells are partial in all of 2^27 keys.
constexpr std::size_t kMostWords = std::size_t{1} << 27;
// More are not told from one another again: a mask has as many where it is cut everywhere.
constexpr std::size_t kMostPatterns = std::size_t{1} << 20;
constexpr std::size_t kMostKeptRuns = std::size_t{1} << 20;  // 48 MiB

// Takes the rows that have a bit out of `empty`. Most cells are a word wide: all rows of them at once.
void take_out(std::span<const std::uint64_t> words, std::size_t words_per_row, std::span<std::uint8_t> empty) {
  if (words_per_row == 1) {
    for (std::size_t row = 0; row < empty.size(); ++row) empty[row] &= static_cast<std::uint8_t>(words[row] == 0);
    return;
  }
  for (std::size_t row = 0; row < empty.size(); ++row)
    for (const std::uint64_t word : words.subspan(row * words_per_row, words_per_row))
      empty[row] &= static_cast<std::uint8_t>(word == 0);
}

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

std::size_t CellScan::BandKeyHash::operator()(const BandKey& key) const {
  const auto behind = static_cast<std::uint64_t>(key.name.behind), in_cell = static_cast<std::uint64_t>(key.in_cell);
  return splitmix64(static_cast<std::uint64_t>(key.name.place) ^ splitmix64(in_cell ^ splitmix64(behind)));
}

void CellScan::scan(int group, Range rows) {
  check_interrupt();
  if (group != group_ || rows.size() > band_rows_) forget(rows.size());
  if (kept_runs_ > kMostKeptRuns && bands_.size() > 1) forget_bands();
  stores_cells_ = mask_.stores_cells(group);
  group_ = group;
  rows_ = rows;
  words_.clear();
  const std::optional<std::int64_t> further = find_band();
  tail_ = std::nullopt;
  stayed_ = further == 0 && mask_.extent().keys % cell_keys_ == 0;
  if (stayed_) return;
  kept_runs_ -= band_->runs.size();
  bool every_row_allows = band_->empty_row_count == 0;
  if (further) every_row_allows &= shift(*further);
  else outline();
  if (further && every_row_allows) no_empty_rows();
  else find_empty_rows();
  kept_runs_ += band_->runs.size();
}

void CellScan::forget(std::int64_t band_rows) {
  forget_bands();
  patterns_.clear();
  pattern_words_.clear();
  nameless_ = 0;
  band_rows_ = band_rows;
}

void CellScan::forget_bands() {
  bands_.clear();
  band_ = &unnamed_;
  kept_runs_ = unnamed_.runs.size();
}

// Takes the band of the rows' name; returns how many cells they are further on than its rows were, where it repeats.
std::optional<std::int64_t> CellScan::find_band() {
  band_ = &unnamed_;
  if (rows_.empty() || rows_.size() != band_rows_ || cells_ == 0) return std::nullopt;
  const std::optional<NamedBand> named = mask_.named_band(group_, rows_);
  if (!named) return std::nullopt;
  band_ = &bands_[{named->name, named->origin - floor_div(named->origin, cell_keys_) * cell_keys_}];
  const std::int64_t further = (named->origin - band_->origin) / cell_keys_;
  band_->origin = named->origin;
  return band_->repeats && further >= 0 ? std::optional(further) : std::nullopt;
}

// What was cell i is cell i + further. The first ones have nobody before them, and one that the keys cut off is not
// like others. Returns whether all cells of before are there.
bool CellScan::shift(std::int64_t further) {
  std::vector<CellRun>& runs = band_->runs;
  std::swap(runs, earlier_);
  runs.clear();
  const std::int64_t whole = mask_.extent().keys / cell_keys_;
  look_at({0, std::min(further, whole)});
  const std::size_t before = runs.size();
  const bool apart = before == 0 || earlier_.empty() || !runs.back().full || !earlier_.front().full;
  bool all = true;
  for (const CellRun& run : earlier_) {
    const Range cells = {run.begin + further, std::min(run.end + further, whole)};
    all = cells.size() == run.end - run.begin;
    if (cells.empty()) break;
    if (run.full) {
      add_full(cells);
      continue;
    }
    runs.push_back(run);
    runs.back().begin = cells.begin, runs.back().end = cells.end;
  }
  look_at({whole, cells_});
  // A cut-off cell with a key was a whole one with a key, which is not there now.
  if (all && before > 0 && apart) tail_ = {before, {band_->alike.number, band_->alike.cells + further}};
  if (all && before == 0) band_->alike.cells += further;
  else band_->alike = {numbers_++};
  return all;
}

void CellScan::outline() {
  band_->runs.clear();
  band_->repeats = true;
  band_->alike = {numbers_++};
  if (rows_.empty() || cells_ == 0) return;
  mask_.outline(group_, rows_, cell_keys_, outline_);
  for (const Outline::Run& run : outline_.runs())
    if (run.kind == BlockKind::full) add_full(run.cells);
    else settle(run.cells);
}

// Cells that nearly always are a few, or empty: a partial range is halved.
void CellScan::look_at(Range cells) {
  if (cells.empty()) return;
  const BlockKind kind = mask_.classify(group_, rows_, {cells.begin * cell_keys_, cells.end * cell_keys_});
  if (kind == BlockKind::empty) return;
  if (kind == BlockKind::full) return add_full(cells);
  if (cells.size() == 1) return settle(cells);
  const std::int64_t middle = cells.begin + cells.size() / 2;
  look_at({cells.begin, middle});
  look_at({middle, cells.end});
}

void CellScan::add_full(Range cells) {
  std::vector<CellRun>& runs = band_->runs;
  if (!runs.empty() && runs.back().full && runs.back().end == cells.begin) runs.back().end = cells.end;
  else runs.push_back({.begin = cells.begin, .end = cells.end, .full = true});
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
    if (const CellRun* const known = pattern_of(cell)) {
      settle_together(waiting);
      waiting = {cell + 1, cell + 1};
      decide(cell, *known);
      continue;
    }
    waiting.end = cell + 1;
    if (waiting.size() < kCellsAtOnce) continue;
    settle_together(waiting);
    waiting.begin = waiting.end;
  }
  settle_together(waiting);
}

// Whole cells of one name and one difference, or one rest of it, are alike: the first one's bits serve.
const CellRun* CellScan::pattern_of(std::int64_t cell) {
  const Range keys = {cell * cell_keys_, (cell + 1) * cell_keys_};
  if (rows_.size() != band_rows_ || keys.end > mask_.extent().keys) return nullptr;
  if (nameless_ > kMostNameless && ++nameless_ % kAskedAgain != 0) return nullptr;
  const std::optional<DiagonalName> name = mask_.name_along_diagonal(group_, rows_, keys);
  nameless_ = name ? 0 : nameless_ + 1;
  if (!name) return nullptr;
  Diagonal diagonal{keys.begin - rows_.begin, *name};
  if (name->keys > 0) diagonal.difference -= floor_div(diagonal.difference, name->keys) * name->keys;
  if (const auto known = patterns_.find(diagonal); known != patterns_.end()) return &known->second;
  if (patterns_.size() == kMostPatterns) return nullptr;
  check_bits();
  const std::size_t first = pattern_words_.size();
  pattern_words_.resize(first + static_cast<std::size_t>(rows_.size() * words_per_row_));
  const std::span<std::uint64_t> words = std::span(pattern_words_).subspan(first);
  mask_.tile_bits(group_, rows_, keys, words);
  CellRun pattern = counted(words);
  pattern.pattern = static_cast<int>(patterns_.size());
  pattern.first_word = first;
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
      partial.columns |= stored.columns;
      if (rows_.size() <= kStoredRows) partial.stored = stored.words;
      else words_.insert(words_.end(), stored.words, stored.words + std::min(kStoredRows, rows_.end - row));
    }
    decide_appended(cell, partial);
  }
}

void CellScan::settle_together(Range cells) {
  check_interrupt();  // a band of very many keys takes long, too
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
  CellRun partial = counted(std::span(words_).subspan(first_word));
  partial.first_word = first_word;
  decide_appended(cell, partial);
}

void CellScan::decide_appended(std::int64_t cell, const CellRun& partial) {
  const std::size_t runs = band_->runs.size();
  decide(cell, partial);
  if (runs == band_->runs.size() || band_->runs.back().full) words_.resize(partial.first_word);
  else if ((cell + 1) * cell_keys_ <= mask_.extent().keys) band_->repeats = false;
}

CellRun CellScan::counted(std::span<const std::uint64_t> words) const {
  CellRun cell;
  for (const std::uint64_t word : words) {
    cell.allowed += std::popcount(word);
    cell.columns |= word;
  }
  if (words_per_row_ > 1) cell.columns = 0;
  return cell;
}

// Full, empty or partial, by the pairs allowed in it.
void CellScan::decide(std::int64_t cell, const CellRun& partial) {
  const Range keys = intersect({cell * cell_keys_, (cell + 1) * cell_keys_}, {0, mask_.extent().keys});
  if (partial.allowed == 0) return;
  if (partial.allowed == rows_.size() * keys.size()) return add_full({cell, cell + 1});
  band_->runs.push_back(partial);
  band_->runs.back().begin = cell, band_->runs.back().end = cell + 1;
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
  for (const CellRun& run : runs()) pairs += run.full ? keys_of(run).size() * rows_.size() : run.allowed;
  return pairs;
}

void CellScan::no_empty_rows() {
  band_->empty_rows.assign(static_cast<std::size_t>(rows_.size()), 0);
  band_->empty_row_count = 0;
}

void CellScan::find_empty_rows() {
  if (std::any_of(runs().begin(), runs().end(), [](const CellRun& run) { return run.full; })) return no_empty_rows();
  std::vector<std::uint8_t>& empty = band_->empty_rows;
  empty.assign(static_cast<std::size_t>(rows_.size()), 1);
  band_->empty_row_count = rows_.size();
  looked_at_.resize(patterns_.size(), looks_++);
  // From the end: where rows see themselves at last, all of them see a key of the last cell.
  for (std::size_t i = runs().size(); i-- > 0 && band_->empty_row_count > 0;) {
    const CellRun& run = runs()[i];
    if (run.pattern != CellRun::kNoPattern &&
        std::exchange(looked_at_[static_cast<std::size_t>(run.pattern)], looks_) == looks_)
      continue;
    take_out(bits(run), static_cast<std::size_t>(words_per_row_), empty);
    band_->empty_row_count = std::accumulate(empty.begin(), empty.end(), std::int64_t{0});
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
