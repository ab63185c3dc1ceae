// SPDX-License-Identifier: Apache-2.0
#include "src/mask/mask_bands.h"

#include <algorithm>

namespace stof {

void scan_bands(const BoundMask& mask, int rows, int keys, const VisitBand& visit) {
  const MaskExtent& extent = mask.extent();
  const Range positions = {extent.offset(), extent.keys};
  CellScan scan(mask, keys);
  std::vector<BandRun> runs;
  for (int group = 0; group < mask.groups(); ++group)
    for (std::int64_t at = floor_div(positions.begin, rows) * rows; at < positions.end; at += rows) {
      const Range inside = intersect({at, at + rows}, positions);
      scan.scan(group, {inside.begin - positions.begin, inside.end - positions.begin});
      runs.clear();
      for (const CellRun& run : scan.runs())  // at most 2^30 keys have statistics
        runs.push_back(
            {static_cast<std::int32_t>(run.begin), static_cast<std::int32_t>(run.end), run.full, run.columns});
      visit({.group = group,
             .positions = inside,
             .allowed = scan.allowed_pairs(),
             .empty_rows = scan.empty_row_count(),
             .runs = runs});
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
  scan_bands(mask_, kRows, kKeys, [&](const MaskBand& band) {
    few = few && runs_.size() + band.runs.size() <= most;
    if (few) keep(band);
    visit(band);
  });
  state_ = few ? State::kept : State::too_many;
  if (!few) bands_ = {}, runs_ = {};
}

// Of a mask that has more nothing but the first statistics are wanted, as a rule: copying them costs what is saved.
std::size_t MaskBands::most_runs() const {
  constexpr std::int64_t kMostMean = 32, kMost = std::int64_t{1} << 18;  // 6 MiB
  return static_cast<std::size_t>(
      std::min(kMost, kMostMean * (ceil_div(mask_.extent().queries, kRows) + 1) * mask_.groups()));
}

void MaskBands::keep(const MaskBand& band) const {
  bands_.push_back({band, runs_.size(), band.runs.size()});
  runs_.insert(runs_.end(), band.runs.begin(), band.runs.end());
}

}  // namespace stof
