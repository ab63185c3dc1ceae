// SPDX-License-Identifier: Apache-2.0
#include "src/layout/key_pieces.h"

#include <algorithm>
#include <bit>
#include <map>

#include "src/mask/mask_bands.h"
#include "src/mask/row_block_costs.h"

namespace stof {
namespace {

constexpr std::int64_t kRows = MaskBands::kRows;

class PieceCounter {
 public:
  explicit PieceCounter(std::int64_t keys) : keys_(keys) {}

  void add(const BandRun& run) {
    const Range keys = run.keys(MaskBands::kKeys, keys_);
    if (run.full) {
      cover(std::max(end_, keys.begin), keys.end);
      return;
    }
    for (std::int64_t begin = keys.begin; begin < keys.end; begin += MaskBands::kKeys) add_partial(begin, run.columns);
  }
  std::int64_t count() const { return count_; }

 private:
  void add_partial(std::int64_t begin, std::uint64_t columns) {
    while (true) {
      if (const std::int64_t covered = end_ - begin; covered > 0)
        columns = covered >= 64 ? 0 : columns >> covered << covered;
      if (columns == 0) return;
      const std::int64_t key = begin + std::countr_zero(columns);
      cover(key, key + 1);
    }
  }

  void cover(std::int64_t begin, std::int64_t end) {
    if (begin >= end) return;
    const std::int64_t start = begin / KeyPieces::kStep * KeyPieces::kStep;
    const std::int64_t pieces = ceil_div(end - start, KeyPieces::kKeys);
    count_ += pieces;
    end_ = start + pieces * KeyPieces::kKeys;
  }

  std::int64_t keys_, count_ = 0, end_ = 0;
};

// Of half the row blocks, and a few more.
bool most_touch_few_tiles(const BlockStats& stats) {
  std::int64_t all = 0, few = 0;
  for (const BlockStats::Bin& bin : stats.row_blocks) {
    all += bin.count;
    if (bin.full + bin.partial <= KeyPieces::kMostTypicalTiles) few += bin.count;
  }
  return 2 * few > all;
}

}  // namespace

KeyPieces measure_pieces(const MaskBands& bands, const MaskStats& stats) {
  KeyPieces result;
  const auto tiles = std::find_if(stats.blocks.begin(), stats.blocks.end(),
                                  [](const BlockStats& b) { return b.block_q == kRows && b.block_kv == 64; });
  if (tiles == stats.blocks.end() || !most_touch_few_tiles(*tiles)) return result;
  result.measured = true;
  const std::vector<std::int64_t> weights = weights_of_groups(bands.mask());
  std::map<std::int64_t, std::int64_t> counts;
  bands.for_each([&](const MaskBand& band) {
    PieceCounter pieces(bands.mask().extent().keys);
    for (const BandRun& run : band.runs) pieces.add(run);
    counts[pieces.count()] += weights[static_cast<std::size_t>(band.group)];
  });
  for (const auto& [pieces, count] : counts) result.row_blocks.push_back({pieces, count});
  return result;
}

}  // namespace stof
