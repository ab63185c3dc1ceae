// SPDX-License-Identifier: Apache-2.0
// Row blocks as one stretch of keys each, with the bits of every part.
#include <algorithm>
#include <bit>
#include <numeric>

#include "src/backend/cuda/attention/arrange.h"
#include "src/backend/cuda/attention/register_order.h"
#include "src/backend/cuda/attention/row_block_bits.h"
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
    std::span<const BlockEntry> before;
    for (std::int64_t row = 0; row < layout_.groups * layout_.row_blocks; ++row) {
      const RowBlockBits bits(layout_, row);
      if (!add_repeated(before, bits.entries()) && !add_row_block(bits)) return std::nullopt;
      before = bits.entries();
    }
    out_.words = pool_.take();
    for (const BandRow& row : out_.rows) out_.key_step = std::gcd(out_.key_step, row.key_start);
    out_.key_step = std::gcd(out_.key_step, keys_ + 64 * (parts_ - 1));
    return std::move(out_);
  }

 private:
  // The keys that the rows of a part use, from the first to the last.
  static Range keys_of(const RowBlockBits& bits, int part) {
    Range keys{std::int64_t{1} << 40, 0};
    for (const BlockEntry& entry : bits.entries()) {
      const std::uint64_t any = bits.used(entry, part);
      if (any == 0) continue;
      keys.begin = std::min<std::int64_t>(keys.begin, entry.key_start + std::countr_zero(any));
      keys.end = std::max<std::int64_t>(keys.end, entry.key_start + 64 - std::countl_zero(any));
    }
    return keys;
  }

  // Adds a row block whose entries are those of the one before it, whole ones, some keys further on. False: they are
  // not.
  bool add_repeated(std::span<const BlockEntry> before, std::span<const BlockEntry> entries) {
    if (before.empty() || before.size() != entries.size()) return false;
    const std::int32_t further = entries.front().key_start - before.front().key_start;
    const auto alike = [&](const BlockEntry& one, const BlockEntry& other) {
      return other.key_start - one.key_start == further && other.bitmap == one.bitmap && other.parts == one.parts;
    };
    if (further % 8 != 0 || entries.back().key_start + 64 > layout_.extent.keys ||
        before.back().key_start + 64 > layout_.extent.keys ||
        !std::equal(before.begin(), before.end(), entries.begin(), alike))
      return false;
    BandRow row = out_.rows.back();
    row.key_start += further;
    out_.rows.push_back(row);
    return true;
  }

  bool add_row_block(const RowBlockBits& bits) {
    constexpr std::int64_t kFree = std::int64_t{1} << 40;
    std::int64_t low = -kFree, high = kFree;
    for (int part = 0; part < parts_; ++part) {
      const Range keys = keys_of(bits, part);
      if (keys.empty()) continue;
      low = std::max(low, keys.end - keys_ - 64 * part);
      high = std::min(high, keys.begin - 64 * part);
    }
    if (high == kFree) low = high = 0;
    const std::optional<int> start = start_between(low, high);
    if (!start) return false;
    BandRow row{*start, {}};
    for (int part = 0; part < parts_; ++part) row.patterns[part] = pattern(bits, part, row.key_start + 64 * part);
    out_.rows.push_back(row);
    return true;
  }

  // At a multiple of 64 if there is one: so few copies bring keys that lie in pages.
  static std::optional<int> start_between(std::int64_t low, std::int64_t high) {
    for (const int step : {64, 32, 16, 8})
      if (const std::int64_t start = ceil_div(low, step) * step; start <= high) return static_cast<int>(start);
    return std::nullopt;
  }

  int pattern(const RowBlockBits& bits, int part, int start) {
    std::vector<std::uint32_t> words;
    for (int tile = 0; tile < (keys_ + 63) / 64; ++tile) {
      TileRows rows{};
      for (int row = 0; row < 64; ++row)
        rows[static_cast<std::size_t>(row)] = bits.row_word(64 * part + row, start + 64 * tile);
      const TileWords ordered = in_register_order(rows);
      words.insert(words.end(), ordered.begin(), ordered.end());
    }
    return pool_.intern(words);
  }

  const BlockLayout& layout_;
  const int parts_, keys_;
  PatternPool pool_;
  ArrangedBand out_;
};

}  // namespace

std::optional<ArrangedBand> arrange_band(const BlockLayout& layout, int parts, int keys) {
  return BandArranger(layout, parts, keys).run();
}

}  // namespace stof::cuda
