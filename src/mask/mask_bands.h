// SPDX-License-Identifier: Apache-2.0
// The bands of rows that statistics are made of, without their bits.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "src/mask/cell_scan.h"
#include "src/mask/row_origin.h"

namespace stof {

// Cells [begin, end), all full, or all partial with the same columns.
struct BandRun {
  std::int32_t begin = 0, end = 0;
  bool full = false;
  std::uint64_t columns = 0;  // of partial cells of at most 64 keys: those that some row is allowed, as in a CellRun

  // In cells of so many keys, of `all` that there are.
  Range keys(std::int64_t of_cell, std::int64_t all) const { return {begin * of_cell, std::min(end * of_cell, all)}; }
};

// The rows of a row block of one group.
struct MaskBand {
  int group = 0;
  Range positions = {};  // of its rows
  std::int64_t allowed = 0, empty_rows = 0;
  std::span<const BandRun> runs = {};
};
using VisitBand = std::function<void(const MaskBand&)>;

// Scans all bands of so many rows, in cells of so many keys: group by group, ascending.
void scan_bands(const BoundMask& mask, RowOrigin origin, int rows, int keys, const VisitBand& visit);

// Those of 64 rows and 64 keys: what several measurements look at is scanned by the first of them. Not for several
// threads at once.
class MaskBands {
 public:
  static constexpr int kRows = 64, kKeys = 64;

  MaskBands(const BoundMask& mask, RowOrigin origin = RowOrigin::zero)  // NOLINT: a mask whose bands nobody has scanned
      : mask_(mask), origin_(origin) {}
  MaskBands(const MaskBands&) = delete;
  MaskBands& operator=(const MaskBands&) = delete;

  const BoundMask& mask() const { return mask_; }
  RowOrigin origin() const { return origin_; }
  void for_each(const VisitBand& visit) const;

 private:
  enum class State : std::uint8_t { unseen, kept, too_many };
  static constexpr std::size_t kMostMean = 32;  // runs of a band
  struct Kept {
    MaskBand band;  // its runs are runs_[first_run, first_run + run_count)
    std::size_t first_run, run_count;
  };
  void scan(const VisitBand& visit) const;
  std::size_t most_runs() const;
  void keep(const MaskBand& band) const;

  const BoundMask& mask_;
  RowOrigin origin_;
  mutable State state_ = State::unseen;
  mutable std::vector<Kept> bands_ = {};
  mutable std::vector<BandRun> runs_ = {};
};

}  // namespace stof
