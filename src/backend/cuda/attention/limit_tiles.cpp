// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/limit_tiles.h"

#include <algorithm>

#include "src/backend/cuda/attention/register_order.h"
#include "src/base/narrow.h"
#include "src/mask/cell_scan.h"

namespace stof::cuda {
namespace {

constexpr std::int64_t kBits = 32;  // tiles of a word

class LimitScan {
 public:
  LimitScan(const TableForm& form, const BoundMask& limit)
      : form_(form), limit_(limit), scan_(limit, TableForm::kKeys), words_(ceil_div(form.tiles, kBits)) {}

  LimitArrays run() {
    for (int group = 0; group < limit_.groups(); ++group)
      for (std::int64_t block = 0; block < form_.row_blocks; ++block) add_row_block(group, block);
    if (everything_) return {};
    out_.words = pool_.take();
    return std::move(out_);
  }

 private:
  void add_row_block(int group, std::int64_t block) {
    const std::int64_t begin = block * TableForm::kRows;
    scan_.scan(group, {begin, std::min(begin + TableForm::kRows, form_.extent.queries)});
    row_.assign(static_cast<std::size_t>(words_), LimitTiles{});
    const auto first = out_.patterns.size();
    std::int64_t full = 0;
    for (const CellRun& run : scan_.runs()) {
      if (!run.full) out_.patterns.push_back(pattern_of(run));
      else full += run.end - run.begin;
      for (std::int64_t cell = run.begin; cell < run.end; ++cell) {
        LimitTiles& tiles = row_[static_cast<std::size_t>(cell / kBits)];
        tiles.touched |= 1u << cell % kBits;
        if (!run.full) tiles.partial |= 1u << cell % kBits;
      }
    }
    everything_ = everything_ && full == form_.tiles;
    auto next = narrow<int>(first, "partial tiles");
    for (LimitTiles& tiles : row_) {
      tiles.first_pattern = next;
      next += std::popcount(tiles.partial);
    }
    out_.tiles.insert(out_.tiles.end(), row_.begin(), row_.end());
  }

  int pattern_of(const CellRun& run) {
    TileRows rows{};
    const std::span<const std::uint64_t> bits = scan_.bits(run);
    rows.fill(bits.back());  // those that do not exist are as the last one, as in arrange_stream
    std::copy(bits.begin(), bits.end(), rows.begin());
    const TileWords words = in_register_order(rows);
    return pool_.intern(words);
  }

  const TableForm& form_;
  const BoundMask& limit_;
  CellScan scan_;
  std::int64_t words_;
  PatternPool pool_{1};
  bool everything_ = true;
  std::vector<LimitTiles> row_;
  LimitArrays out_;
};

}  // namespace

LimitArrays limit_tiles(const TableForm& form, const BoundMask& limit) { return LimitScan(form, limit).run(); }

}  // namespace stof::cuda
