// SPDX-License-Identifier: Apache-2.0
// The keys of each row block gathered in pieces of 32, as many as a unit takes at once.
#include <algorithm>
#include <bit>

#include "src/backend/cuda/attention/arrange.h"
#include "src/backend/cuda/attention/register_order.h"
#include "src/backend/cuda/attention/row_block_bits.h"
#include "src/base/error.h"
#include "src/layout/key_pieces.h"

namespace stof::cuda {
namespace {

constexpr int kPieceKeys = KeyPieces::kKeys;

class GatherArranger {
 public:
  GatherArranger(const BlockLayout& layout, const GatherArrangement& how)
      : layout_(layout), how_(how), pool_(static_cast<std::size_t>((how.pieces + 1) / 2)) {
    STOF_CHECK(layout.format.block_q == 64 && layout.format.block_kv == 64);
  }

  ArrangedGather run() {
    for (int group = 0; group < layout_.groups; ++group) {
      GatherGroup& added = out_.groups.emplace_back();
      added.first_item = static_cast<int>(out_.items.size());
      for (std::int64_t block = 0; block < layout_.row_blocks; ++block) add_row_block(group, block, added);
      added.item_count = static_cast<int>(out_.items.size()) - added.first_item;
      const auto first = out_.items.begin() + added.first_item;
      std::stable_sort(first, out_.items.end(),
                       [](const GatherItem& a, const GatherItem& b) { return weight(a) > weight(b); });
      added.long_items =
          static_cast<int>(std::count_if(first, out_.items.end(), [](const auto& item) { return weight(item) > 1; }));
    }
    out_.words = pool_.take();
    return std::move(out_);
  }

 private:
  // A part of a split row block is long however few its units: its result is merged.
  static int weight(const GatherItem& item) { return item.units + (item.split != 0 ? 1 : 0); }

  // Where the pieces start that hold all keys of a row block.
  static std::vector<int> pieces_of(const RowBlockBits& bits) {
    std::vector<int> starts;
    std::int64_t end = 0;
    for (const BlockEntry& entry : bits.entries()) {
      std::uint64_t left = bits.used(entry, 0);
      while (true) {
        if (const std::int64_t covered = end - entry.key_start; covered > 0)
          left = covered >= 64 ? 0 : left >> covered << covered;
        if (left == 0) break;
        const int key = entry.key_start + std::countr_zero(left);
        starts.push_back(key / static_cast<int>(KeyPieces::kStep) * static_cast<int>(KeyPieces::kStep));
        end = starts.back() + kPieceKeys;
      }
    }
    return starts;
  }

  int splits_of(int units, const GatherGroup& group) const {
    if (how_.most_units == 0 || units <= how_.most_units) return 1;
    const int splits = std::min((units + how_.most_units - 1) / how_.most_units, kMostSplits);
    return group.slots + splits < kMostSlots ? splits : 1;
  }

  void add_row_block(int group, std::int64_t block, GatherGroup& added) {
    const RowBlockBits bits(layout_, group * layout_.row_blocks + block);
    std::vector<int> starts = pieces_of(bits);
    const int first = static_cast<int>(out_.units.size()) / (how_.pieces + 1);
    const int units = std::max(1, (static_cast<int>(starts.size()) + how_.pieces - 1) / how_.pieces);
    for (int unit = 0; unit < units; ++unit) add_unit(bits, starts, unit * how_.pieces);
    check_countable("numbers in its units", out_.units.size());
    const int splits = splits_of(units, added);
    for (int i = 0; i < splits; ++i) {
      const int begin = units * i / splits, end = units * (i + 1) / splits;
      out_.items.push_back({.row = static_cast<int>(block) * 64,
                            .first_unit = first + begin,
                            .units = end - begin,
                            .split = splits > 1 ? added.slots | i << 16 | splits << 24 : 0});
    }
    if (splits > 1) added.slots += splits;
  }

  // Places without a piece load the first one again, or the first keys, and allow nothing of it.
  void add_unit(const RowBlockBits& bits, const std::vector<int>& starts, int first) {
    const int count = std::min(how_.pieces, static_cast<int>(starts.size()) - first);
    for (int i = 0; i < how_.pieces; ++i) {
      const int piece = first + (i < count ? i : 0);
      out_.units.push_back(starts.empty() ? 0 : starts[static_cast<std::size_t>(piece)]);
    }
    std::vector<std::uint32_t> words;
    for (int i = 0; i < how_.pieces; i += 2) {
      TileRows rows{};
      for (int row = 0; row < 64; ++row)
        rows[static_cast<std::size_t>(row)] = piece_bits(bits, row, starts, first + i, i < count) |
                                              piece_bits(bits, row, starts, first + i + 1, i + 1 < count) << kPieceKeys;
      const TileWords ordered = in_register_order(rows);
      words.insert(words.end(), ordered.begin(), ordered.end());
    }
    out_.units.push_back(pool_.intern(words));
  }

  static std::uint64_t piece_bits(const RowBlockBits& bits, int row, const std::vector<int>& starts, int piece,
                                  bool is_there) {
    return is_there ? bits.row_word(row, starts[static_cast<std::size_t>(piece)]) & 0xffffffffu : 0;
  }

  const BlockLayout& layout_;
  const GatherArrangement how_;
  PatternPool pool_;
  ArrangedGather out_;
};

}  // namespace

ArrangedGather arrange_gather(const BlockLayout& layout, const GatherArrangement& arrangement) {
  return GatherArranger(layout, arrangement).run();
}

}  // namespace stof::cuda
