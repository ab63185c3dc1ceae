// SPDX-License-Identifier: Apache-2.0
// One band of rows, cut into cells of keys and settled exactly: which cells are full, which partial and with which
// bits. Statistics and packing are both made from it; the cost follows the boundary of the mask, not its area.
#pragma once
#include <cstdint>
#include <optional>
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
  std::uint64_t columns = 0;              // of a partial cell of at most 64 keys: those that some row is allowed
  static constexpr int kNoPattern = -1;
};

// Of scanned bands: those of one number have the same runs, each as many cells further on as the band is.
struct BandAlike {
  int number = 0;
  std::int64_t cells = 0;
};

// The runs of a band from `first_run` on, when they are all those of a band before.
struct BandTail {
  std::size_t first_run = 0;
  BandAlike alike;
};

class CellScan {
 public:
  // Cells are [c * cell_keys, (c + 1) * cell_keys), the last one cut off at the extent.
  CellScan(const BoundMask& mask, std::int64_t cell_keys);
  CellScan(const CellScan&) = delete;
  CellScan& operator=(const CellScan&) = delete;

  // Scans rows [rows.begin, rows.end) of one group; replaces the result of the scan before.
  void scan(int group, Range rows);

  std::span<const CellRun> runs() const { return band_->runs; }  // ascending
  BandAlike alike() const { return band_->alike; }               // among the bands that this object has scanned
  // Of a band unlike those before that has runs in front of an earlier one's.
  const std::optional<BandTail>& tail() const { return tail_; }
  bool stayed() const { return stayed_; }  // of its number, the band scanned before has the same runs where they are
  // [rows][words_per_row()] of a partial run; bits past the extent are 0.
  std::span<const std::uint64_t> bits(const CellRun& run) const;
  std::int64_t words_per_row() const { return words_per_row_; }
  Range keys_of(const CellRun& run) const;
  std::int64_t allowed_pairs() const;
  // Rows without an allowed key, one flag for each scanned row.
  std::span<const std::uint8_t> empty_rows() const { return band_->empty_rows; }
  std::int64_t empty_row_count() const { return band_->empty_row_count; }

 private:
  // What decides the bits of whole cells of a mask that looks, there, at position - key alone, or at places in periods.
  struct Diagonal {
    std::int64_t difference;  // first key - first row, or what it leaves when divided by the name's keys
    DiagonalName name;
    friend bool operator==(const Diagonal&, const Diagonal&) = default;
  };
  struct DiagonalHash {
    std::size_t operator()(const Diagonal& diagonal) const;
  };
  // A band as it was scanned last.
  struct Band {
    std::int64_t origin = 0;
    // Its whole cells are what they are wherever bands of its name begin: bits that no pattern has are another band's
    // by now.
    bool repeats = false;
    BandAlike alike;
    std::vector<CellRun> runs;
    std::vector<std::uint8_t> empty_rows;
    std::int64_t empty_row_count = 0;
  };
  // Bands with the same name whose origins are whole cells apart.
  struct BandKey {
    BandName name;
    std::int64_t in_cell;  // the origin
    friend bool operator==(const BandKey&, const BandKey&) = default;
  };
  struct BandKeyHash {
    std::size_t operator()(const BandKey& key) const;
  };

  void forget(std::int64_t band_rows);
  void forget_bands();
  std::optional<std::int64_t> find_band();
  bool shift(std::int64_t further);
  void outline();
  void look_at(Range cells);
  void settle(Range cells);  // each by its bits
  void settle_together(Range cells);
  void settle_alone(std::int64_t cell);
  void settle_stored(Range cells);
  const CellRun* pattern_of(std::int64_t cell);
  void decide(std::int64_t cell, const CellRun& partial);
  void decide_by_words(std::int64_t cell, std::size_t first_word);
  void decide_appended(std::int64_t cell, const CellRun& partial);
  CellRun counted(std::span<const std::uint64_t> words) const;
  void add_full(Range cells);
  void no_empty_rows();
  void find_empty_rows();
  void check_bits() const;

  const BoundMask& mask_;
  std::int64_t cell_keys_, words_per_row_, cells_;
  int group_ = -1;
  Range rows_;
  Outline outline_;
  Band unnamed_, *band_ = &unnamed_;  // band_: the one that was scanned
  std::unordered_map<BandKey, Band, BandKeyHash> bands_;
  std::size_t kept_runs_ = 0;
  int numbers_ = 0;               // of bands unlike those before
  std::vector<CellRun> earlier_;  // of the band that is shifted
  std::vector<std::uint64_t> words_;
  std::vector<std::uint64_t> wide_;  // the bits of neighbouring partial cells, row by row
  bool stayed_ = false;
  std::optional<BandTail> tail_;
  bool stores_cells_ = false;
  std::int64_t band_rows_ = 0;  // rows of the bands whose cells are remembered
  std::unordered_map<Diagonal, CellRun, DiagonalHash> patterns_;
  std::vector<std::uint64_t> pattern_words_;
  std::int64_t nameless_ = 0;  // cells since the last that had a name
  // Patterns whose rows were looked at, by the number of the look.
  std::vector<int> looked_at_;
  int looks_ = 0;
};

// tile_bits() for keys that may reach past the extent, into [rows][words_for(keys.size())] words.
void clipped_tile_bits(const BoundMask& mask, int group, Range rows, Range keys, std::span<std::uint64_t> words);

}  // namespace stof
