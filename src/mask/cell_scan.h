// SPDX-License-Identifier: Apache-2.0
// One band of rows, cut into cells of keys and settled exactly: which cells are full, which partial and with which
// bits. Statistics and packing are both made from it; the cost follows the boundary of the mask, not its area.
#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "src/mask/bind.h"

namespace stof {

// Cells [begin, end), all full, or one partial cell. Cells between runs are empty.
struct CellRun {
  std::int64_t begin = 0, end = 0;
  bool full = false;
  // Of a partial cell: those with the same number are alike, in this band and in others of the group with as many rows,
  // scanned by the same object. kNoPattern: nothing is known of others.
  int pattern = kNoPattern;
  std::size_t first_word = 0;             // of a partial cell's bits
  const std::uint64_t* stored = nullptr;  // they are the mask's own, and here
  std::int64_t allowed = 0;               // pairs in a partial cell
  static constexpr int kNoPattern = -1;
};

class CellScan {
 public:
  // Cells are [c * cell_keys, (c + 1) * cell_keys), the last one cut off at the extent.
  CellScan(const BoundMask& mask, std::int64_t cell_keys);

  // Scans rows [rows.begin, rows.end) of one group; replaces the result of the scan before.
  void scan(int group, Range rows);

  std::span<const CellRun> runs() const { return runs_; }  // ascending
  // [rows][words_per_row()] of a partial run; bits past the extent are 0.
  std::span<const std::uint64_t> bits(const CellRun& run) const;
  std::int64_t words_per_row() const { return words_per_row_; }
  Range keys_of(const CellRun& run) const;
  std::int64_t allowed_pairs() const;
  // Rows without an allowed key, one flag for each scanned row.
  std::span<const std::uint8_t> empty_rows() const { return empty_rows_; }
  std::int64_t empty_row_count() const { return empty_row_count_; }

 private:
  // What decides the bits of whole cells of a mask that looks, there, at position - key alone.
  struct Diagonal {
    std::int64_t difference;  // first key - first row
    DiagonalName name;
    friend bool operator==(const Diagonal&, const Diagonal&) = default;
  };
  struct DiagonalHash {
    std::size_t operator()(const Diagonal& diagonal) const;
  };
  struct Pattern {
    std::size_t first_word;  // of pattern_words_
    std::int64_t allowed;
    int number;
  };

  bool is_shifted(int group, Range rows) const;
  void shift();
  void look_at(std::int64_t cell);
  void settle(Range cells);  // each by its bits
  void settle_together(Range cells);
  void settle_alone(std::int64_t cell);
  void settle_stored(Range cells);
  const Pattern* pattern_of(std::int64_t cell);
  void decide(std::int64_t cell, const CellRun& partial);
  void decide_by_words(std::int64_t cell, std::size_t first_word);
  void decide_appended(std::int64_t cell, const CellRun& partial);
  void add_full(Range cells);
  void find_empty_rows();
  void check_bits() const;

  const BoundMask& mask_;
  std::int64_t cell_keys_, words_per_row_, cells_;
  int group_ = -1;
  Range rows_;
  Outline outline_;
  std::vector<CellRun> runs_, earlier_;  // earlier_: those of the band that is shifted
  std::vector<std::uint64_t> words_;
  std::vector<std::uint64_t> wide_;  // the bits of neighbouring partial cells, row by row
  std::vector<std::uint8_t> empty_rows_;
  std::int64_t empty_row_count_ = 0;
  bool stores_cells_ = false;
  std::int64_t band_rows_ = 0;  // rows of the bands whose cells are remembered
  std::unordered_map<Diagonal, Pattern, DiagonalHash> patterns_;
  std::vector<std::uint64_t> pattern_words_;
};

// tile_bits() for keys that may reach past the extent, into [rows][words_for(keys.size())] words.
void clipped_tile_bits(const BoundMask& mask, int group, Range rows, Range keys, std::span<std::uint64_t> words);

}  // namespace stof
