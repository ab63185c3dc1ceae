// SPDX-License-Identifier: Apache-2.0
// Row blocks as one stretch of keys each, with the bits of every part.
#include <algorithm>
#include <bit>

#include "src/backend/cuda/attention/arrange.h"
#include "src/backend/cuda/attention/register_order.h"
#include "src/base/error.h"

namespace stof::cuda {
namespace {

class BandArranger {
 public:
  BandArranger(const BlockLayout& layout, int parts, int keys)
      : layout_(layout), parts_(parts), keys_(keys), pool_(static_cast<std::size_t>((keys + 63) / 64)) {
    STOF_CHECK(layout.format.block_q == 64 * parts && layout.format.block_kv == 64);
  }

  std::optional<ArrangedBand> run() {
    for (std::int64_t row = 0; row < layout_.groups * layout_.row_blocks; ++row) {
      const std::int64_t* begin = layout_.row_begin.data() + row / layout_.row_blocks + row;
      entries_ = std::span(layout_.entries)
                     .subspan(static_cast<std::size_t>(begin[0]), static_cast<std::size_t>(begin[1] - begin[0]));
      if (!add_row_block()) return std::nullopt;
    }
    out_.words = pool_.take();
    return std::move(out_);
  }

 private:
  std::uint64_t bits(const BlockEntry& entry, int row) const {
    return entry.full()
               ? ~std::uint64_t{0}
               : layout_.bitmaps[static_cast<std::size_t>(std::int64_t{entry.bitmap} * layout_.format.block_q + row)];
  }

  std::uint64_t row_word(int row, int key) const {
    std::uint64_t word = 0;
    for (const BlockEntry& entry : entries_) {
      const int shift = entry.key_start - key;
      if (shift <= -64 || shift >= 64) continue;
      word |= shift >= 0 ? bits(entry, row) << shift : bits(entry, row) >> -shift;
    }
    return word;
  }

  // The keys that the rows of a part use; those of a full entry past the last key count as used.
  Range keys_of(int part) const {
    Range keys{std::int64_t{1} << 40, 0};
    for (const BlockEntry& entry : entries_) {
      std::uint64_t any = 0;
      if ((entry.parts >> part & 1) != 0)
        for (int row = 64 * part; row < 64 * part + 64; ++row) any |= bits(entry, row);
      if (any == 0) continue;
      keys.begin = std::min<std::int64_t>(keys.begin, entry.key_start + std::countr_zero(any));
      keys.end = std::max<std::int64_t>(keys.end, entry.key_start + 64 - std::countl_zero(any));
    }
    return {keys.begin, std::min(keys.end, layout_.extent.keys)};
  }

  bool add_row_block() {
    constexpr std::int64_t kFree = std::int64_t{1} << 40;
    std::int64_t low = -kFree, high = kFree;
    for (int part = 0; part < parts_; ++part) {
      const Range keys = keys_of(part);
      if (keys.empty()) continue;
      low = std::max(low, keys.end - keys_ - 64 * part);
      high = std::min(high, keys.begin - 64 * part);
    }
    if (high == kFree) low = high = 0;
    const std::int64_t start = ceil_div(low, 8) * 8;
    if (start > high) return false;
    BandRow row{static_cast<int>(start), {}};
    for (int part = 0; part < parts_; ++part) row.patterns[part] = pattern(part, row.key_start + 64 * part);
    out_.rows.push_back(row);
    return true;
  }

  int pattern(int part, int start) {
    std::vector<std::uint32_t> words;
    for (int tile = 0; tile < (keys_ + 63) / 64; ++tile) {
      TileRows rows{};
      for (int row = 0; row < 64; ++row)
        rows[static_cast<std::size_t>(row)] =
            row_word(64 * part + row, start + 64 * tile) & existing(start + 64 * tile);
      const TileWords ordered = in_register_order(rows);
      words.insert(words.end(), ordered.begin(), ordered.end());
    }
    return pool_.intern(words);
  }

  // Full entries may reach past the last key.
  std::uint64_t existing(int start) const {
    const std::int64_t count = layout_.extent.keys - start;
    return count >= 64 ? ~std::uint64_t{0} : count <= 0 ? 0 : (std::uint64_t{1} << count) - 1;
  }

  const BlockLayout& layout_;
  const int parts_, keys_;
  std::span<const BlockEntry> entries_;  // of the row block at work
  PatternPool pool_;
  ArrangedBand out_;
};

}  // namespace

std::optional<ArrangedBand> arrange_band(const BlockLayout& layout, int parts, int keys) {
  return BandArranger(layout, parts, keys).run();
}

}  // namespace stof::cuda
