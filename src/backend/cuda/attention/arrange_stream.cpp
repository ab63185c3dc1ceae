// SPDX-License-Identifier: Apache-2.0
// Row blocks as lists of steps: in which order tiles are visited, what of them each part needs, where rows are split.
#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "src/backend/cuda/attention/arrange.h"
#include "src/backend/cuda/attention/register_order.h"
#include "src/backend/cuda/attention/row_block_bits.h"
#include "src/base/error.h"
#include "src/base/hash.h"

namespace stof::cuda {
namespace {

constexpr int kMostParts = 4, kMostGroups = 4;

// What a 64-row part needs of a tile.
struct PartOfTile {
  int state = TileState::kUnused;
  std::uint64_t rows = 0;  // bit i: row i has a key in it
};
using RowsOfParts = std::array<std::uint64_t, kMostParts>;

struct Tile {
  int key_start = 0;
  std::array<int, kMostParts> states = {};
  RowsOfParts rows = {};

  std::int64_t row_count() const {
    return std::accumulate(rows.begin(), rows.end(), std::int64_t{0},
                           [](std::int64_t sum, std::uint64_t part) { return sum + std::popcount(part); });
  }
};

class StreamArranger {
 public:
  StreamArranger(const BlockLayout& layout, const StreamArrangement& how)
      : layout_(layout),
        how_(how),
        positions_(64 / how.stacked_heads),
        all_((1u << how.parts) - 1),
        unmet_(layout.bitmaps.size() / static_cast<std::size_t>(layout.format.block_q)),
        met_(unmet_, 0),
        known_(unmet_ * static_cast<std::size_t>(how.parts), {.state = kUnknown}) {
    STOF_CHECK(layout.format.block_q == positions_ * how.parts && layout.format.block_kv == 64 &&
               how.parts <= kMostParts && how.covering <= kMostGroups);
    pool_.reserve_at_most(known_.size());
  }

  ArrangedStream run() {
    out_.items.reserve(static_cast<std::size_t>(layout_.groups * layout_.row_blocks));
    out_.steps.reserve(layout_.entries.size() * static_cast<std::size_t>(1 + how_.parts));
    for (int group = 0; group < layout_.groups; ++group) {
      StreamGroup& added = out_.groups.emplace_back();
      added.first_item = static_cast<int>(out_.items.size());
      for (std::int64_t block = 0; block < layout_.row_blocks; ++block) add_row_block(group, block, added);
      added.item_count = static_cast<int>(out_.items.size()) - added.first_item;
      std::stable_sort(out_.items.begin() + added.first_item, out_.items.end(),
                       [](const StreamItem& a, const StreamItem& b) { return a.steps > b.steps; });
    }
    out_.words = pool_.take();
    return std::move(out_);
  }

 private:
  static constexpr int kUnknown = -3;

  // Rows of the row block that the mask has.
  Range rows_of(std::int64_t block) const {
    const std::int64_t first = layout_.first_position + block * layout_.format.block_q;
    const Range inside = intersect({first, first + layout_.format.block_q}, layout_.positions);
    return {inside.begin - first, inside.end - first};
  }

  // Positions of a part: each is a row of every stacked head.
  Range rows_of_part(int part, Range rows) const {
    const Range inside = intersect({rows.begin - positions_ * part, rows.end - positions_ * part}, {0, positions_});
    return inside.empty() ? Range{} : inside;
  }

  static std::uint64_t bits_of(Range rows) {
    return rows.empty() ? 0 : ~std::uint64_t{0} >> (64 - rows.size()) << rows.begin;
  }

  bool uses(const BlockEntry& entry, int part) const { return (entry.parts >> positions_ * part / 64 & 1) != 0; }

  std::span<const std::uint64_t> words_of(int bitmap, int part) const {
    const auto first = static_cast<std::size_t>(std::int64_t{bitmap} * layout_.format.block_q + positions_ * part);
    return std::span(layout_.bitmaps).subspan(first, static_cast<std::size_t>(positions_));
  }

  static std::uint32_t hash_of(std::span<const std::uint64_t> words) {
    return static_cast<std::uint32_t>(hash64(words.data(), words.size_bytes()));
  }

  // Hashes what part_of_bitmap will be asked for, in that order, and announces it to the pool.
  void hash_parts(std::span<const BlockEntry> entries, Range rows) {
    const bool remembered = rows.size() == layout_.format.block_q;
    hashes_.clear();
    if (!remembered || unmet_ > 0)
      for (const BlockEntry& entry : entries) {
        if (entry.full()) continue;
        std::uint8_t& met = met_[static_cast<std::size_t>(entry.bitmap)];
        if (remembered && met != 0) continue;
        if (remembered) met = 1, --unmet_;
        for (int part = 0; part < how_.parts; ++part) {
          if (!uses(entry, part)) continue;
          const std::span<const std::uint64_t> words = words_of(entry.bitmap, part);
          hashes_.push_back(hash_of(words));
          pool_.announce(hashes_.back());
        }
      }
    next_hash_ = hashes_.begin();
  }

  PartOfTile part_of(const BlockEntry& entry, int part, Range rows) {
    if (entry.full()) return {TileState::kFull, bits_of(rows_of_part(part, rows))};
    return uses(entry, part) ? part_of_bitmap(entry.bitmap, part, rows) : PartOfTile{};
  }

  // Of a row block whose rows all exist, what each part needs of a bitmap is found once.
  void look_at(const BlockEntry& entry, Range rows, Tile& tile) {
    std::array<PartOfTile, kMostParts> made;
    PartOfTile* parts = made.data();
    const bool remembered = !entry.full() && rows.size() == layout_.format.block_q;
    if (remembered) parts = &known_[static_cast<std::size_t>(std::int64_t{entry.bitmap} * how_.parts)];
    if (!remembered || parts->state == kUnknown)
      for (int part = 0; part < how_.parts; ++part) parts[part] = part_of(entry, part, rows);
    tile.key_start = entry.key_start;
    for (int part = 0; part < how_.parts; ++part) {
      tile.states[static_cast<std::size_t>(part)] = parts[part].state;
      tile.rows[static_cast<std::size_t>(part)] = parts[part].rows;
    }
  }

  TileWords in_registers(std::span<const std::uint64_t> words) const {
    if (how_.stacked_heads == 1) return in_register_order(words.first<64>());
    TileRows rows;
    for (std::size_t row = 0; row < rows.size(); ++row) rows[row] = words[row % words.size()];
    return in_register_order(rows);
  }

  // Rows that do not exist are not written: whatever their bits, the tile may count as full. They have those of the
  // nearest row that does: without keys until a step that is full for all, they would make their warp do that step
  // twice (settle of kernels/cuda/stream_consumer.cuh).
  std::span<const std::uint64_t> with_all_rows(std::span<const std::uint64_t> words, Range there) {
    if (there.empty() || there.size() == positions_) return words;
    const auto first = static_cast<std::size_t>(there.begin), last = static_cast<std::size_t>(there.end) - 1;
    for (std::size_t row = 0; row < words.size(); ++row) filled_[row] = words[std::clamp(row, first, last)];
    return std::span(filled_).first(words.size());
  }

  // All heads have the bits of the first, and so have rows that stand for nothing.
  PartOfTile part_of_bitmap(int bitmap, int part, Range rows) {
    const Range there = rows_of_part(part, rows);
    const std::span<const std::uint64_t> words = with_all_rows(words_of(bitmap, part), there);
    STOF_CHECK(next_hash_ != hashes_.end());
    const std::uint32_t hash = words.data() == filled_.data() ? hash_of(words) : *next_hash_;
    ++next_hash_;
    std::uint64_t every = ~std::uint64_t{0}, any = 0, covered = 0;
    for (const std::uint64_t word : words) any |= word;
    for (std::int64_t row = there.begin; row < there.end; ++row) {
      const std::uint64_t word = words[static_cast<std::size_t>(row)];
      every &= word;
      covered |= std::uint64_t{word != 0} << row;
    }
    if (every == ~std::uint64_t{0}) return {TileState::kFull, covered};
    // By this part: BlockEntry::parts tells 64 rows from 64 others.
    if (any == 0 && how_.stacked_heads > 1) return {};
    return {pool_.intern(in_registers(words), hash), covered};
  }

  unsigned users(const Tile& tile) const {
    unsigned parts = 0;
    for (int part = 0; part < how_.parts; ++part)
      parts |= static_cast<unsigned>(tile.states[static_cast<std::size_t>(part)] != TileState::kUnused) << part;
    return parts;
  }

  // Of keys that exist, and full for every part.
  bool whole(const Tile& tile) const {
    bool full = tile.key_start + 64 <= layout_.extent.keys;
    for (int part = 0; part < how_.parts; ++part)
      full &= tile.states[static_cast<std::size_t>(part)] == TileState::kFull;
    return full;
  }

  // First what every part needs but is partial; then what some parts need, in turns, so that while one works another
  // need not wait for a whole run of tiles that are not its own; last what is full for all. In front of all, tiles with
  // a key for as many rows as any (cover).
  void order_tiles(int group, std::int64_t block) {
    const Range rows = rows_of(block);
    const RowBlockBits bits(layout_, group * layout_.row_blocks + block);
    std::array<int, 1 << kMostParts> seen{};
    tiles_.clear(), of_some_.clear(), whole_.clear();
    hash_parts(bits.entries(), rows);
    for (const BlockEntry& entry : bits.entries()) {
      if (entry.full() && entry.key_start + 64 <= layout_.extent.keys) {
        whole_.push_back(entry.key_start);
        continue;
      }
      Tile& tile = tiles_.emplace_back();
      look_at(entry, rows, tile);
      const unsigned parts = users(tile);
      if (parts == all_ && !whole(tile)) continue;
      if (parts == all_) whole_.push_back(entry.key_start);
      else of_some_.emplace_back(seen[parts]++, tile);
      tiles_.pop_back();
    }
    std::stable_sort(of_some_.begin(), of_some_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [turn, tile] : of_some_) tiles_.push_back(tile);
    cover(rows);
    if (how_.tiles == 2 && (tiles_.size() + whole_.size()) % 2 != 0) fill_up();
  }

  // A step in which a row has its first scores is done apart (late_steps), or, where that is not known, twice (settle
  // of kernels/cuda/stream_consumer.cuh), but for a warpgroup's first one: the first steps have a key for as many rows
  // as any.
  void cover(Range rows) {
    const auto fewer_rows = [](const Tile& a, const Tile& b) { return a.row_count() < b.row_count(); };
    const auto count = static_cast<std::size_t>(std::ptrdiff_t{how_.covering} * how_.tiles);
    for (std::size_t i = 0; i < std::min(count, tiles_.size()); ++i) {
      const auto at = tiles_.begin() + static_cast<std::ptrdiff_t>(i);
      if (at->row_count() == rows.size()) continue;
      const auto most = std::max_element(at, tiles_.end(), fewer_rows);
      if (most->row_count() == rows.size() || whole_.empty()) {
        std::rotate(at, most, most + 1);
        continue;
      }
      Tile whole{.key_start = whole_.front(), .rows = every_row(rows)};
      whole.states.fill(TileState::kFull);
      tiles_.insert(at, whole);
      whole_.erase(whole_.begin());
    }
  }

  // The first step of an odd number of tiles, with keys that are not there.
  void fill_up() {
    if (tiles_.empty()) {
      Tile& first = tiles_.emplace_back(Tile{.key_start = whole_.front()});
      first.states.fill(TileState::kFull);
      whole_.erase(whole_.begin());
    }
    Tile none{.key_start = static_cast<int>(layout_.extent.keys)};
    none.states.fill(TileState::kUnused);
    tiles_.insert(tiles_.begin() + 1, none);
  }

  int tile_count() const { return static_cast<int>(tiles_.size() + whole_.size()); }

  // Steps at the end of [begin, end) that need no look at their states: every part has used one before.
  int full_steps(int begin, int end) const {
    const int others = static_cast<int>(tiles_.size()), first = (others + how_.tiles - 1) / how_.tiles;
    const int full = std::max(0, end - std::max(begin, first)), before = (end - full) * how_.tiles;
    unsigned used = before > std::max(others, begin * how_.tiles) ? all_ : 0;
    for (int tile = begin * how_.tiles; tile < std::min(before, others) && used != all_; ++tile)
      used |= users(tiles_[static_cast<std::size_t>(tile)]);
    return full > 0 && used != all_ ? full - 1 : full;
  }

  RowsOfParts every_row(Range rows) const {
    RowsOfParts every{};
    for (int part = 0; part < how_.parts; ++part)
      every[static_cast<std::size_t>(part)] = bits_of(rows_of_part(part, rows));
    return every;
  }

  // StreamItem::late_steps of steps [begin, end). Groups have rows of their own, and take the steps in turns.
  std::uint32_t late_steps(Range rows, int begin, int end) const {
    constexpr int kBits = 32;
    const int groups = std::max(1, how_.covering);
    const RowsOfParts every = every_row(rows);
    std::array<RowsOfParts, kMostGroups> met{};
    std::uint32_t late = 0;
    for (int n = 0; n < std::min(end - begin, kBits); ++n) {
      RowsOfParts& of_group = met[static_cast<std::size_t>(n % groups)];
      const RowsOfParts before = of_group;
      for (int tile = (begin + n) * how_.tiles; tile < (begin + n + 1) * how_.tiles; ++tile) {
        const bool whole = tile >= static_cast<int>(tiles_.size());
        const RowsOfParts& of_tile = whole ? every : tiles_[static_cast<std::size_t>(tile)].rows;
        for (std::size_t part = 0; part < of_group.size(); ++part) of_group[part] |= of_tile[part];
      }
      if (n >= groups && of_group != before) late |= 1u << n;
    }
    return late;
  }

  void add_steps() {
    const auto parts = static_cast<std::size_t>(how_.parts);
    const std::size_t first = out_.steps.size();
    out_.steps.resize(first + (tiles_.size() + whole_.size()) * (1 + parts), TileState::kFull);
    int* at = out_.steps.data() + first;
    for (const Tile& tile : tiles_) {
      *at++ = tile.key_start;
      for (std::size_t part = 0; part < parts; ++part) *at++ = tile.states[part];
    }
    for (const int key_start : whole_) {
      *at = key_start;
      at += 1 + parts;
    }
  }

  int splits_of(int steps, const StreamGroup& group) const {
    if (how_.most_steps == 0 || steps <= how_.most_steps) return 1;
    const int splits = std::min((steps + how_.most_steps - 1) / how_.most_steps, kMostSplits);
    return group.slots + splits < kMostSlots ? splits : 1;
  }

  void add_row_block(int group, std::int64_t block, StreamGroup& added) {
    order_tiles(group, block);
    const int step_ints = how_.tiles * (1 + how_.parts), first = static_cast<int>(out_.steps.size()) / step_ints;
    add_steps();
    check_countable("numbers in its steps", out_.steps.size());
    const int steps = tile_count() / how_.tiles, splits = splits_of(steps, added);
    const Range rows = rows_of(block);
    for (int i = 0; i < splits; ++i) {
      const int begin = steps * i / splits, end = steps * (i + 1) / splits;
      out_.items.push_back({.row = static_cast<int>(block) * layout_.format.block_q,
                            .first_step = first + begin,
                            .steps = end - begin,
                            .full_steps = full_steps(begin, end),
                            .split = splits > 1 ? added.slots | i << 16 | splits << 24 : 0,
                            .head = 0,
                            .late_steps = late_steps(rows, begin, end)});
    }
    if (splits > 1) added.slots += splits;
  }

  const BlockLayout& layout_;
  const StreamArrangement how_;
  const int positions_;            // of a part
  const unsigned all_;             // parts
  std::size_t unmet_;              // bitmaps, by row blocks whose rows all exist
  std::vector<std::uint8_t> met_;  // [bitmap]
  std::vector<PartOfTile> known_;  // [bitmap][part]
  PatternPool pool_{1};
  ArrangedStream out_;
  // Of the row block at work.
  std::array<std::uint64_t, 64> filled_ = {};  // bits of a part of which some rows do not exist
  std::vector<std::uint32_t> hashes_;
  std::vector<std::uint32_t>::const_iterator next_hash_;
  // Its tiles in order, and behind them the keys of those that are full for every part.
  std::vector<Tile> tiles_;
  std::vector<int> whole_;
  std::vector<std::pair<int, Tile>> of_some_;  // needed by some parts, with their turns
};

}  // namespace

ArrangedStream arrange_stream(const BlockLayout& layout, const StreamArrangement& arrangement) {
  return StreamArranger(layout, arrangement).run();
}

int key_step_of(const ArrangedStream& arranged, int tile_ints, std::int64_t keys) {
  unsigned starts = 64;
  for (std::size_t i = 0; i < arranged.steps.size(); i += static_cast<std::size_t>(tile_ints))
    if (arranged.steps[i] < keys) starts |= static_cast<unsigned>(arranged.steps[i]);
  return 1 << std::countr_zero(starts);
}

std::vector<int> first_steps(const ArrangedStream& arranged, int step_ints) {
  std::vector<int> first(arranged.items.size() * static_cast<std::size_t>(step_ints));
  auto at = first.begin();
  for (const StreamItem& item : arranged.items) {
    if (item.steps > 0)
      std::copy_n(arranged.steps.begin() + std::ptrdiff_t{item.first_step} * step_ints, step_ints, at);
    at += step_ints;
  }
  return first;
}

}  // namespace stof::cuda
