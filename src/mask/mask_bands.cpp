// SPDX-License-Identifier: Apache-2.0
#include "src/mask/mask_bands.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace stof {

namespace {

// What is visited of a scanned band. What is known of one that stayed the same is kept.
class BandReader {
 public:
  explicit BandReader(const CellScan& scan) : scan_(scan) {}

  MaskBand read() {
    if (!scan_.stayed()) return read_into(once_);
    const BandAlike alike = scan_.alike();
    Known& known = stayed_[alike.number];
    if (std::exchange(known.cells, alike.cells) == alike.cells) return known.band;
    return read_into(known);
  }

 private:
  struct Known {
    std::int64_t cells = -1;  // of its BandAlike
    MaskBand band;
    std::vector<BandRun> runs;
  };

  MaskBand read_into(Known& known) const {
    known.runs.clear();
    for (const CellRun& run : scan_.runs()) {  // at most 2^30 keys have statistics
      BandRun* const last = known.runs.empty() ? nullptr : &known.runs.back();
      if (last != nullptr && !run.full && !last->full && last->end == run.begin && last->columns == run.columns)
        last->end = static_cast<std::int32_t>(run.end);
      else
        known.runs.push_back(
            {static_cast<std::int32_t>(run.begin), static_cast<std::int32_t>(run.end), run.full, run.columns});
    }
    known.band.allowed = scan_.allowed_pairs();
    known.band.empty_rows = scan_.empty_row_count();
    known.band.runs = known.runs;
    return known.band;
  }

  const CellScan& scan_;
  Known once_;
  std::unordered_map<int, Known> stayed_;  // by their numbers
};

}  // namespace

void scan_bands(const BoundMask& mask, RowOrigin origin, int rows, int keys, const VisitBand& visit) {
  const MaskExtent& extent = mask.extent();
  const Range positions = {extent.offset(), extent.keys};
  CellScan scan(mask, keys);
  BandReader reader(scan);
  for (int group = 0; group < mask.groups(); ++group)
    for (std::int64_t at = row_block_at(extent, origin, rows, positions.begin); at < positions.end; at += rows) {
      const Range inside = intersect({at, at + rows}, positions);
      scan.scan(group, {inside.begin - positions.begin, inside.end - positions.begin});
      MaskBand band = reader.read();
      band.group = group, band.positions = inside;
      visit(band);
    }
}

void MaskBands::for_each(const VisitBand& visit) const {
  if (state_ != State::kept) return scan(visit);
  for (const Kept& kept : bands_) {
    MaskBand band = kept.band;
    band.runs = std::span(runs_).subspan(kept.first_run, kept.run_count);
    visit(band);
  }
}

void MaskBands::scan(const VisitBand& visit) const {
  bands_.clear(), runs_.clear();  // what an error has left
  bool few = state_ == State::unseen;
  const std::size_t most = most_runs();
  std::size_t most_so_far = 16 * kMostMean;  // at twice the pace
  scan_bands(mask_, origin_, kRows, kKeys, [&](const MaskBand& band) {
    most_so_far += 2 * kMostMean;
    few = few && runs_.size() + band.runs.size() <= std::min(most, most_so_far);
    if (few) keep(band);
    visit(band);
  });
  state_ = few ? State::kept : State::too_many;
  if (!few) bands_ = {}, runs_ = {};
}

// Of a mask that has more nothing but the first statistics are wanted, as a rule: copying them costs what is saved.
std::size_t MaskBands::most_runs() const {
  constexpr std::size_t kMost = std::size_t{1} << 18;  // 6 MiB
  const std::int64_t bands = (ceil_div(mask_.extent().queries, kRows) + 1) * mask_.groups();
  return std::min(kMost, kMostMean * static_cast<std::size_t>(bands));
}

void MaskBands::keep(const MaskBand& band) const {
  bands_.push_back({band, runs_.size(), band.runs.size()});
  runs_.insert(runs_.end(), band.runs.begin(), band.runs.end());
}

}  // namespace stof
