// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/arrange.h"

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <map>

namespace stof::bench {
namespace {

using Rows = std::array<std::uint64_t, 64>;
using Words = std::array<unsigned, 128>;

// Bit i of thread t is the element that accumulator register i of thread t holds (kernels/cuda/wgmma.cuh).
Words in_register_order(const Rows& rows) {
  Words words{};
  for (int t = 0; t < 128; ++t)
    for (int i = 0; i < 32; ++i) {
      const int row = t / 32 * 16 + t % 32 / 4 + 8 * (i >> 1 & 1);
      const int column = i / 4 * 8 + t % 4 * 2 + (i & 1);
      words[t] |= unsigned(rows[row] >> column & 1) << i;
    }
  return words;
}

class Arranger {
 public:
  Arranger(const BlockLayout& layout, const StreamArrangement& how) : layout_(layout), how_(how) {}

  ArrangedStream run() {
    for (std::int64_t block = 0; block < layout_.row_blocks; ++block) add_row_block(block);
    std::stable_sort(out_.items.begin(), out_.items.end(),
                     [](const StreamItem& a, const StreamItem& b) { return a.steps > b.steps; });
    if (out_.words.empty()) out_.words.resize(128);
    if (out_.steps.empty()) out_.steps.resize(8);
    return std::move(out_);
  }

 private:
  struct Tile {
    int key_start;
    std::array<int, 4> states;
  };

  int state(const BlockEntry& entry, int part, int rows) {
    if (entry.full()) return TileState::kFull;
    if (!(entry.parts >> part & 1)) return TileState::kUnused;
    Rows bits{};
    bool full = true;
    for (int row = 0; row < 64; ++row) {
      bits[row] = layout_.bitmaps[std::size_t(entry.bitmap) * layout_.format.block_q + part * 64 + row];
      full &= part * 64 + row >= rows || bits[row] == ~std::uint64_t{0};
    }
    if (full) return TileState::kFull;
    const auto [at, added] = known_.try_emplace(in_register_order(bits), int(known_.size()));
    if (added) out_.words.insert(out_.words.end(), at->first.begin(), at->first.end());
    return at->second;
  }

  unsigned users(const Tile& tile) const {
    unsigned parts = 0;
    for (int part = 0; part < how_.parts; ++part) parts |= unsigned(tile.states[part] != TileState::kUnused) << part;
    return parts;
  }

  // Of keys that exist, and full for every part.
  bool whole(const Tile& tile) const {
    bool full = tile.key_start + 64 <= layout_.extent.keys;
    for (int part = 0; part < how_.parts; ++part) full &= tile.states[part] == TileState::kFull;
    return full;
  }

  // First what every part needs but is partial; then what some parts need, in turns, so that while one works another
  // need not wait for a whole run of tiles that are not its own; last what is full for all.
  void order(std::vector<Tile>& tiles) const {
    std::array<int, 16> seen{};
    const unsigned all = (1u << how_.parts) - 1;
    std::vector<std::pair<int, Tile>> ranked;
    for (const Tile& tile : tiles) {
      const unsigned parts = users(tile);
      ranked.push_back({whole(tile) ? 1 << 30 : parts == all ? 0 : 1 + seen[parts]++, tile});
    }
    const auto by_rank = [](const auto& a, const auto& b) { return a.first < b.first; };
    std::stable_sort(ranked.begin(), ranked.end(), by_rank);
    for (std::size_t i = 0; i < tiles.size(); ++i) tiles[i] = ranked[i].second;
  }

  // Steps at the end of [begin, end) that need no look at their states: every part has used one before.
  int full_steps(const std::vector<Tile>& tiles, int begin, int end) const {
    int full = 0;
    const auto whole_step = [&](int step) {
      const auto first = tiles.begin() + step * how_.tiles;
      return std::all_of(first, first + how_.tiles, [&](const Tile& tile) { return whole(tile); });
    };
    while (begin + full < end && whole_step(end - full - 1)) ++full;
    unsigned used = 0;
    for (int tile = begin * how_.tiles; tile < (end - full) * how_.tiles; ++tile)
      used |= users(tiles[std::size_t(tile)]);
    return full > 0 && used != (1u << how_.parts) - 1 ? full - 1 : full;
  }

  std::vector<Tile> tiles_of(std::int64_t block) {
    const int rows =
        int(std::min<std::int64_t>(layout_.extent.queries - block * layout_.format.block_q, 64 * how_.parts));
    std::vector<Tile> tiles;
    for (std::int64_t e = layout_.row_begin[block]; e < layout_.row_begin[block + 1]; ++e) {
      Tile tile{layout_.entries[e].key_start, {}};
      for (int part = 0; part < how_.parts; ++part) tile.states[part] = state(layout_.entries[e], part, rows);
      tiles.push_back(tile);
    }
    order(tiles);
    if (how_.tiles == 2 && tiles.size() % 2) {
      Tile none{int(layout_.extent.keys), {}};
      none.states.fill(TileState::kUnused);
      tiles.insert(tiles.begin() + 1, none);
    }
    return tiles;
  }

  void add_row_block(std::int64_t block) {
    const std::vector<Tile> tiles = tiles_of(block);
    const int step_ints = how_.tiles * (1 + how_.parts), first = int(out_.steps.size()) / step_ints;
    for (const Tile& tile : tiles) {
      out_.steps.push_back(tile.key_start);
      out_.steps.insert(out_.steps.end(), tile.states.begin(), tile.states.begin() + how_.parts);
    }
    const int steps = int(tiles.size()) / how_.tiles, row = int(block) * 64 * how_.parts;
    const int parts = how_.most_steps && steps > how_.most_steps ? (steps + how_.most_steps - 1) / how_.most_steps : 1;
    for (int i = 0; i < parts; ++i) {
      const int begin = steps * i / parts, end = steps * (i + 1) / parts;
      out_.items.push_back({row, first + begin, end - begin, full_steps(tiles, begin, end),
                            parts > 1 ? out_.slots | i << 16 | parts << 24 : 0});
    }
    if (parts > 1) out_.slots += parts;
  }

  const BlockLayout& layout_;
  const StreamArrangement how_;
  ArrangedStream out_;
  std::map<Words, int> known_;
};

class BandArranger {
 public:
  BandArranger(const BlockLayout& layout, int parts, int keys) : layout_(layout), parts_(parts), keys_(keys) {}

  std::optional<ArrangedBand> run() {
    for (std::int64_t block = 0; block < layout_.row_blocks; ++block)
      if (!add_row_block(block)) return std::nullopt;
    return std::move(out_);
  }

 private:
  std::uint64_t row_word(std::int64_t block, int row, int key) const {
    std::uint64_t word = 0;
    for (std::int64_t e = layout_.row_begin[block]; e < layout_.row_begin[block + 1]; ++e) {
      const BlockEntry& entry = layout_.entries[e];
      const int shift = entry.key_start - key;
      if (shift <= -64 || shift >= 64) continue;
      const std::uint64_t bits =
          entry.full() ? ~std::uint64_t{0} : layout_.bitmaps[std::size_t(entry.bitmap) * layout_.format.block_q + row];
      word |= shift >= 0 ? bits << shift : bits >> -shift;
    }
    return word;
  }

  // The keys that the rows of a part use, half-open.
  Range keys_of(std::int64_t block, int part) const {
    std::uint64_t any = 0;
    Range keys{layout_.extent.keys, 0};
    for (std::int64_t e = layout_.row_begin[block]; e < layout_.row_begin[block + 1]; ++e) {
      const int start = layout_.entries[e].key_start;
      any = 0;
      for (int row = 64 * part; row < 64 * part + 64; ++row) any |= row_word(block, row, start);
      if (!any) continue;
      keys.begin = std::min<std::int64_t>(keys.begin, start + std::countr_zero(any));
      keys.end = std::max<std::int64_t>(keys.end, start + 64 - std::countl_zero(any));
    }
    return keys;
  }

  bool add_row_block(std::int64_t block) {
    std::int64_t low = -(1 << 30), high = 1 << 30;
    for (int part = 0; part < parts_; ++part) {
      const Range keys = keys_of(block, part);
      if (keys.end <= keys.begin) continue;
      low = std::max(low, keys.end - keys_ - 64 * part);
      high = std::min(high, keys.begin - 64 * part);
    }
    if (high == 1 << 30) low = high = 0;
    const std::int64_t start = (low + (1 << 20) + 7) / 8 * 8 - (1 << 20);  // rounded up, below zero too
    if (start > high) return false;
    BandRow row{int(start), {}};
    for (int part = 0; part < parts_; ++part) row.patterns[part] = pattern(block, part, int(start) + 64 * part);
    out_.rows.push_back(row);
    return true;
  }

  int pattern(std::int64_t block, int part, int start) {
    std::vector<unsigned> words;
    for (int tile = 0; tile < (keys_ + 63) / 64; ++tile) {
      Rows rows{};
      for (int row = 0; row < 64; ++row) rows[row] = row_word(block, 64 * part + row, start + 64 * tile);
      const Words ordered = in_register_order(rows);
      words.insert(words.end(), ordered.begin(), ordered.end());
    }
    const auto [at, added] = known_.try_emplace(words, int(known_.size()));
    if (added) out_.words.insert(out_.words.end(), words.begin(), words.end());
    return at->second;
  }

  const BlockLayout& layout_;
  const int parts_, keys_;
  ArrangedBand out_;
  std::map<std::vector<unsigned>, int> known_;
};

}  // namespace

std::optional<ArrangedBand> arrange_band(const BlockLayout& layout, int parts, int keys) {
  return BandArranger(layout, parts, keys).run();
}

ArrangedStream arrange_stream(const BlockLayout& layout, const StreamArrangement& arrangement) {
  return Arranger(layout, arrangement).run();
}

}  // namespace stof::bench
