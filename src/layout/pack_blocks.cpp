// SPDX-License-Identifier: Apache-2.0
// Mask to BlockLayout: each row-block is scanned in cells of 64 keys, and its touched keys are covered by entries.
#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <unordered_map>

#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/layout/bitmap_pool.h"
#include "src/layout/groups.h"
#include "src/layout/pack.h"
#include "src/mask/cell_scan.h"
#include "src/mask/row_bits.h"

namespace stof {
namespace {

constexpr std::int64_t kCell = 64;
constexpr std::int64_t kPartRows = 64;
constexpr std::size_t kMostEntries = std::size_t{1} << 30;

void check(const BlockFormat& format, const MaskExtent& extent) {
  const auto& [block_q, block_kv, key_step, row_origin] = format;
  if (block_q < 1 || block_q > 256 || block_kv < 8 || block_kv > 256 || block_kv % 8 != 0)
    fail(ErrorKind::invalid_argument,
         "block format {} x {}; accepted: 1 to 256 rows, multiples of 8 from 8 to 256 keys", block_q, block_kv);
  if (key_step < 8 || block_kv % key_step != 0 || (kCell % key_step != 0 && key_step % kCell != 0))
    fail(ErrorKind::invalid_argument,
         "key_step {} for blocks of {} keys; accepted: 8, 16, 32 or a multiple of 64 that divides {}", key_step,
         block_kv, block_kv);
  if (extent.keys > (std::int64_t{1} << 30) || extent.queries > (std::int64_t{1} << 30))
    fail(ErrorKind::unsupported, "a layout of {} queries and {} keys; at most 2^30 of each are packed", extent.queries,
         extent.keys);
}

// Two cells beside each other, by the patterns of their runs, of which a tile takes the keys from `shift` on.
struct Join {
  int first, second;
  std::int64_t shift;
  friend bool operator==(const Join&, const Join&) = default;
};
constexpr int kEverything = -2, kNothing = -3;  // in place of a pattern
static_assert(CellRun::kNoPattern > kEverything);

struct JoinHash {
  std::size_t operator()(const Join& join) const {
    const auto first = static_cast<std::uint32_t>(join.first), second = static_cast<std::uint32_t>(join.second);
    return splitmix64((std::uint64_t{first} << 32 | second) ^ splitmix64(static_cast<std::uint64_t>(join.shift)));
  }
};

class Packer {
 public:
  Packer(const BoundMask& mask, const BlockFormat& format, std::uint64_t most_bytes)
      : mask_(mask),
        format_(format),
        most_bytes_(most_bytes),
        scan_(mask, kCell),
        words_per_row_(words_for(format.block_kv)),
        pool_(static_cast<std::size_t>(format.block_q * words_per_row_)),
        bitmap_(static_cast<std::size_t>(format.block_q * words_per_row_)) {
    const MaskExtent& extent = mask.extent();
    layout_.format = format;
    layout_.extent = extent;
    layout_.positions = {extent.offset(), extent.keys};
    layout_.first_position = row_block_at(extent, format.row_origin, format.block_q, extent.offset());
    layout_.row_blocks = ceil_div(extent.keys - layout_.first_position, format.block_q);
  }

  BlockLayout pack() {
    Groups groups(mask_);
    for (int group = 0; group < mask_.groups(); ++group) {
      const std::size_t entries = layout_.entries.size(), rows = layout_.row_begin.size(),
                        flags = layout_.has_empty_row.size();
      pack_group(group);
      const int equal = same_as_earlier(entries, rows);
      groups.place(group, equal >= 0 ? equal : layout_.groups);
      if (equal < 0) {
        ++layout_.groups;
        continue;
      }
      layout_.entries.resize(entries);
      layout_.row_begin.resize(rows);
      layout_.has_empty_row.resize(flags);
    }
    layout_.group_of = groups.of_each_head();
    layout_.bitmaps = pool_.take();
    return std::move(layout_);
  }

 private:
  void pack_group(int group) {
    const std::size_t first_entry = layout_.entries.size();
    cells_.clear();
    joined_.clear();
    for (std::int64_t r = 0; r < layout_.row_blocks; ++r) {
      layout_.row_begin.push_back(static_cast<std::int64_t>(layout_.entries.size()));
      const std::int64_t begin = layout_.first_position + r * format_.block_q;
      const Range positions = intersect({begin, begin + format_.block_q}, layout_.positions);
      group_ = group;
      rows_ = {positions.begin - layout_.positions.begin, positions.end - layout_.positions.begin};
      first_row_ = positions.begin - begin;
      parts_with_rows_ = parts_with_rows();
      scan_.scan(group, rows_);
      covered_ = 0;
      check_size();
      if (!add_alike(scan_.alike())) add_covering();
      pool_.reserve(group * layout_.row_blocks + r + 1, mask_.groups() * layout_.row_blocks);
      reserve_entries(first_entry, r + 1);
      layout_.has_empty_row.push_back(scan_.empty_row_count() > 0);
    }
    layout_.row_begin.push_back(static_cast<std::int64_t>(layout_.entries.size()));
  }

  // Before the list is full, room for what the group needs if it goes on as it began: memory costs when it is first
  // written, and a list that doubles is written three times.
  void reserve_entries(std::size_t before, std::int64_t row_blocks_done) {
    constexpr std::size_t kMostReserved = std::size_t{1} << 22;
    const std::size_t size = layout_.entries.size();
    const auto done = static_cast<std::size_t>(row_blocks_done), all = static_cast<std::size_t>(layout_.row_blocks);
    const std::size_t mean = (size - before) / done + 1;
    if (size + 2 * mean > layout_.entries.capacity() && mean * all <= kMostReserved)
      layout_.entries.reserve(std::max(before + mean * all, 2 * size));
  }

  void add_covering() {
    const std::size_t first = layout_.entries.size();
    const std::span<const CellRun> runs = scan_.runs();
    const std::optional<BandTail>& tail = scan_.tail();
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (tail && tail->first_run == i && add_alike(tail->alike)) break;
      cover(runs[i]);
      check_size();
    }
    const BandAlike alike = scan_.alike();
    if (static_cast<std::size_t>(alike.number) >= alike_.size())
      alike_.resize(static_cast<std::size_t>(alike.number) + 1);
    alike_[static_cast<std::size_t>(alike.number)] = {first, layout_.entries.size() - first, alike.cells};
  }

  // Adds the entries of an earlier row-block whose band was like this one, further on, when no entry in front of them
  // covers what the first one does. False: there is none, or the entries would not be the same ones. Rows that do not
  // exist are nobody's, and where the keys end entries are others.
  bool add_alike(const BandAlike& alike) {
    const auto number = static_cast<std::size_t>(alike.number);
    if (number >= alike_.size() || alike_[number].count == 0 || rows_.size() < format_.block_q) return false;
    const auto& [first, count, cells] = alike_[number];
    const std::int64_t further = (alike.cells - cells) * kCell;
    const std::int64_t begin = layout_.entries[first].key_start + further,
                       last = layout_.entries[first + count - 1].key_start + further;
    if (further % format_.key_step != 0 || begin < covered_ || last + format_.block_kv > mask_.extent().keys)
      return false;
    check_size(static_cast<std::int64_t>(count));
    const std::size_t added = layout_.entries.size();
    layout_.entries.resize(added + count);
    const BlockEntry* const from = layout_.entries.data() + first;
    BlockEntry* const to = layout_.entries.data() + added;
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = from[i];
      to[i].key_start += static_cast<std::int32_t>(further);
    }
    return true;
  }

  // For each row-block, behind each run of cells and before `more` entries: one row-block of 2^30 keys may take
  // gigabytes.
  void check_size(std::int64_t more = 0) const {
    const std::size_t entries = layout_.entries.size() + static_cast<std::size_t>(more);
    if (entries > kMostEntries)
      fail(ErrorKind::unsupported, "the layout has more than {} entries; use larger blocks or a sparser mask",
           kMostEntries);
    const std::size_t bytes =
        entries * sizeof(BlockEntry) + layout_.row_begin.size() * sizeof(layout_.row_begin[0]) + pool_.bytes();
    if (bytes > most_bytes_)
      fail(ErrorKind::unsupported, "the layout takes more than {} bytes; use larger blocks or a sparser mask",
           most_bytes_);
  }

  // Emits entries until the run's allowed keys are covered.
  void cover(const CellRun& run) {
    const Range keys = scan_.keys_of(run);
    if (run.full || format_.key_step >= kCell) return cover(keys, run);
    // The columns of a partial cell that some row needs, in steps of key_step.
    for (std::int64_t at = 0; at < kCell; at += format_.key_step) {
      const std::uint64_t step = ((std::uint64_t{1} << format_.key_step) - 1) << at;
      const Range of_step = {keys.begin + at, std::min(keys.begin + at + format_.key_step, keys.end)};
      if ((run.columns & step) != 0 && of_step.end > covered_) cover(of_step, run);
    }
  }

  void cover(Range keys, const CellRun& run) {
    std::int64_t start = std::max(floor_div(keys.begin, format_.key_step) * format_.key_step, covered_);
    while (start < keys.end) {
      const std::int64_t full = run.full && start >= keys.begin ? entries_inside({start, keys.end}) : 0;
      if (full > 0) add_full_entries(start, full);
      else add_entry({start, start + format_.block_kv}, run);
      covered_ = start += std::max<std::int64_t>(full, 1) * format_.block_kv;
    }
  }

  // Entries from its beginning on without other keys than these. Past the last key there are none.
  std::int64_t entries_inside(Range keys) const {
    return keys.end == mask_.extent().keys ? ceil_div(keys.size(), format_.block_kv) : keys.size() / format_.block_kv;
  }

  void add_full_entries(std::int64_t start, std::int64_t count) {
    check_size(count);
    const std::size_t first = layout_.entries.size();
    layout_.entries.resize(first + static_cast<std::size_t>(count));
    for (std::size_t at = first; at < layout_.entries.size(); ++at, start += format_.block_kv)
      layout_.entries[at] = {.key_start = static_cast<std::int32_t>(start), .parts = parts_with_rows_};
  }

  void add_entry(Range keys, const CellRun& run) {
    BlockEntry entry;
    // The scan has seen the run's one cell to be partial.
    if (!run.full && format_.block_kv == kCell && keys.begin == run.begin * kCell) add_cell(entry, run);
    else entry = joined(keys, run);
    entry.key_start = static_cast<std::int32_t>(keys.begin);
    layout_.entries.push_back(entry);
  }

  // Across the same two patterns the same entry.
  BlockEntry joined(Range keys, const CellRun& run) {
    const std::optional<Join> join = join_of(keys, run);
    if (!join) return made_of(keys, run);
    const auto [known, is_new] = joined_.try_emplace(*join);
    if (is_new) known->second = made_of(keys, run);
    return known->second;
  }

  BlockEntry made_of(Range keys, const CellRun& run) {
    BlockEntry entry;
    if (fill_bitmap(keys, run)) entry.parts = parts_with_rows_;
    else set_bitmap(entry, bitmap_);
    return entry;
  }

  std::optional<Join> join_of(Range keys, const CellRun& run) const {
    if (format_.block_kv != kCell || rows_.size() < format_.block_q || keys.end > mask_.extent().keys)
      return std::nullopt;
    const CellRun* const next = next_of(keys.begin / kCell, run);
    const Join join{code_of(&run), code_of(next), keys.begin % kCell};
    return join.first == CellRun::kNoPattern || join.second == CellRun::kNoPattern ? std::nullopt : std::optional(join);
  }

  static int code_of(const CellRun* run) {
    if (run == nullptr) return kNothing;
    return run->full ? kEverything : run->pattern;
  }

  // What the cell behind this one lies in, where that is more than nothing.
  const CellRun* next_of(std::int64_t cell, const CellRun& run) const {
    if (run.end > cell + 1) return &run;
    if (&run == &scan_.runs().back()) return nullptr;
    const CellRun* const next = &run + 1;
    return next->begin == cell + 1 ? next : nullptr;
  }

  void add_cell(BlockEntry& entry, const CellRun& run) {
    const std::span<const std::uint64_t> bits = scan_.bits(run);
    if (rows_.size() < format_.block_q) {
      std::fill(bitmap_.begin(), bitmap_.end(), 0);
      std::copy(bits.begin(), bits.end(), bitmap_.begin() + first_row_);
      return set_bitmap(entry, bitmap_);
    }
    if (run.pattern == CellRun::kNoPattern) return set_bitmap(entry, bits);
    const auto pattern = static_cast<std::size_t>(run.pattern);
    if (pattern >= cells_.size()) cells_.resize(pattern + 1);
    BlockEntry& known = cells_[pattern];
    if (known.full()) set_bitmap(known, bits);
    entry.bitmap = known.bitmap;
    entry.parts = known.parts;
  }

  void set_bitmap(BlockEntry& entry, std::span<const std::uint64_t> bitmap) {
    entry.bitmap = pool_.intern(bitmap);
    entry.parts = parts_with_bits(bitmap);
  }

  // Makes the bitmap of [rows of the row-block][keys], which begin in `run`; returns whether every pair inside the
  // extent is allowed.
  bool fill_bitmap(Range keys, const CellRun& run) {
    const std::size_t skipped = static_cast<std::size_t>(first_row_ * words_per_row_);
    const std::size_t count = static_cast<std::size_t>(rows_.size() * words_per_row_);
    std::fill(bitmap_.begin(), bitmap_.end(), 0);
    const std::span<std::uint64_t> words = std::span(bitmap_).subspan(skipped, count);
    if (keys.size() == kCell) join_cells(keys.begin, run, words);
    else clipped_tile_bits(mask_, group_, rows_, keys, words);
    std::int64_t allowed = 0;
    for (const std::uint64_t word : words) allowed += std::popcount(word);
    return allowed == rows_.size() * intersect(keys, {0, mask_.extent().keys}).size();
  }

  // The keys of a cell from `start` on, which lies in `run`: of its cell and the next one as the scan has seen them.
  void join_cells(std::int64_t start, const CellRun& run, std::span<std::uint64_t> words) const {
    const std::int64_t cell = start / kCell, shift = start % kCell;
    add_bits(run, cell, words, [=](std::uint64_t word) { return word >> shift; });
    if (const CellRun* const next = next_of(cell, run); next != nullptr && shift > 0)
      add_bits(*next, cell + 1, words, [=](std::uint64_t word) { return word << (kCell - shift); });
  }

  template <class Move>
  void add_bits(const CellRun& run, std::int64_t cell, std::span<std::uint64_t> words, const Move& move) const {
    if (run.full) {
      const std::int64_t keys = std::min(kCell, mask_.extent().keys - cell * kCell);
      const std::uint64_t whole = move(~std::uint64_t{0} >> (kCell - keys));
      for (std::uint64_t& word : words) word |= whole;
    } else {
      const std::span<const std::uint64_t> bits = scan_.bits(run);
      for (std::size_t row = 0; row < words.size(); ++row) words[row] |= move(bits[row]);
    }
  }

  std::uint32_t parts_with_rows() const {
    std::uint32_t parts = 0;
    for (std::int64_t part = 0; part * kPartRows < format_.block_q; ++part)
      if (!intersect({part * kPartRows, (part + 1) * kPartRows}, {first_row_, first_row_ + rows_.size()}).empty())
        parts |= 1u << part;
    return parts;
  }

  std::uint32_t parts_with_bits(std::span<const std::uint64_t> bitmap) const {
    std::uint32_t parts = 0;
    const std::int64_t words = kPartRows * words_per_row_;
    for (std::int64_t part = 0; part * kPartRows < format_.block_q; ++part) {
      const auto first = bitmap.begin() + part * words;
      const auto last = bitmap.begin() + std::min((part + 1) * words, std::ssize(bitmap));
      if (std::any_of(first, last, [](std::uint64_t word) { return word != 0; })) parts |= 1u << part;
    }
    return parts;
  }

  // An earlier packed group with the same entries as the last one, or -1.
  int same_as_earlier(std::size_t first_entry, std::size_t first_row) {
    const std::size_t count = layout_.entries.size() - first_entry;
    const std::uint64_t hash = hash64(layout_.entries.data() + first_entry, count * sizeof(BlockEntry));
    const auto rows = static_cast<std::size_t>(layout_.row_blocks + 1);
    const auto [first, last] = packed_.equal_range(hash);
    for (auto it = first; it != last; ++it) {
      const std::int64_t* begin = layout_.row_begin.data() + static_cast<std::size_t>(it->second) * rows;
      if (begin[rows - 1] - begin[0] != static_cast<std::int64_t>(count)) continue;
      const bool same_rows = std::equal(
          begin, begin + rows, layout_.row_begin.data() + first_row,
          [&](std::int64_t a, std::int64_t b) { return a - begin[0] == b - static_cast<std::int64_t>(first_entry); });
      if (same_rows && std::equal(layout_.entries.data() + begin[0], layout_.entries.data() + begin[rows - 1],
                                  layout_.entries.data() + first_entry))
        return it->second;
    }
    packed_.emplace(hash, layout_.groups);
    return -1;
  }

  const BoundMask& mask_;
  BlockFormat format_;
  std::uint64_t most_bytes_;
  CellScan scan_;
  std::int64_t words_per_row_;
  BitmapPool pool_;
  std::vector<std::uint64_t> bitmap_;
  BlockLayout layout_;
  // Of the group's whole row-blocks, by the pattern of their runs; full: not met yet. Shorter row-blocks have patterns
  // of their own.
  std::vector<BlockEntry> cells_;
  std::unordered_map<Join, BlockEntry, JoinHash> joined_;
  // By the number of its band, the entries of a row-block.
  struct Alike {
    std::size_t first = 0, count = 0;
    std::int64_t cells = 0;
  };
  std::vector<Alike> alike_;
  std::multimap<std::uint64_t, int> packed_;
  // The row-block at work.
  int group_ = 0;
  Range rows_;                  // inside the extent
  std::int64_t first_row_ = 0;  // of rows_, within the row-block
  std::int64_t covered_ = 0;    // keys below it are in entries
  std::uint32_t parts_with_rows_ = 0;
};

}  // namespace

BlockLayout pack_blocks(const BoundMask& mask, const BlockFormat& format, std::uint64_t most_bytes) {
  check(format, mask.extent());
  return Packer(mask, format, most_bytes).pack();
}

}  // namespace stof
