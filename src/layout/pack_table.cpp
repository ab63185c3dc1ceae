// SPDX-License-Identifier: Apache-2.0
// A table in the host's memory to BlockLayout: what it allows, cell by cell, of what the limiting mask allows.
#include <algorithm>
#include <array>
#include <bit>

#include "src/base/narrow.h"
#include "src/layout/bitmap_pool.h"
#include "src/layout/table_form.h"
#include "src/mask/cell_scan.h"

namespace stof {
namespace {

using CellBits = std::array<std::uint64_t, TableForm::kRows>;

class TablePacker {
 public:
  TablePacker(const TableForm& form, const TableContents& contents, const BoundMask& limit, std::uint64_t most_bytes)
      : form_(form),
        contents_(contents),
        most_bytes_(most_bytes),
        scan_(limit, TableForm::kKeys),
        named_(static_cast<std::size_t>(form.tiles)) {
    const MaskExtent& extent = form.extent;
    layout_.format = TableForm::kFormat;
    layout_.extent = extent;
    layout_.positions = {extent.offset(), extent.keys};
    layout_.first_position = extent.offset();
    layout_.group_of = form.group_of;
    layout_.groups = static_cast<int>(form.groups.size());
    layout_.row_blocks = form.row_blocks;
  }

  BlockLayout pack() {
    for (const TableGroup& group : form_.groups) {
      for (std::int64_t block = 0; block < form_.row_blocks; ++block) add_row_block(group, block);
      layout_.row_begin.push_back(std::ssize(layout_.entries));
    }
    layout_.bitmaps = pool_.take();
    if (contents_.status != nullptr) *contents_.status = status_;
    return std::move(layout_);
  }

 private:
  void add_row_block(const TableGroup& group, std::int64_t block) {
    const std::int64_t begin = block * TableForm::kRows;
    rows_ = {begin, std::min(begin + TableForm::kRows, form_.extent.queries)};
    served_ = 0;
    layout_.row_begin.push_back(std::ssize(layout_.entries));
    const bool pairs = is_of_pairs(form_.table.kind);
    if (!pairs) name_tiles(group, block);
    scan_.scan(group.limit, rows_);
    for (const CellRun& run : scan_.runs())
      for (std::int64_t cell = run.begin; cell < run.end; ++cell) {
        if (pairs) add_cell(cell, run, bits_of(group, cell));
        else if (named_[static_cast<std::size_t>(cell)]) add_cell(cell, run, all_bits(cell));
      }
    layout_.has_empty_row.push_back(served_ != existing_rows());
    check_size();
    const std::int64_t tiles = std::ssize(layout_.entries) - layout_.row_begin.back();
    status_.most_tiles = std::max(status_.most_tiles, narrow<std::int32_t>(tiles, "tiles of a row block"));
  }

  // A table of a few large blocks may name more tiles than there is room for.
  void check_size() const {
    const std::size_t bytes = layout_.entries.size() * sizeof(BlockEntry) +
                              layout_.row_begin.size() * sizeof(layout_.row_begin[0]) + pool_.bytes();
    if (bytes > most_bytes_)
      fail(ErrorKind::unsupported, "the layout of the table takes more than {} bytes; use a table of fewer blocks",
           most_bytes_);
  }

  std::uint64_t existing_rows() const { return ~std::uint64_t{0} >> (TableForm::kRows - rows_.size()); }

  template <class Element>
  const Element* row(const TableGroup& group, std::int64_t row) const {
    return static_cast<const Element*>(contents_.data) + group.item * contents_.batch_stride +
           group.head * contents_.head_stride + row * contents_.row_stride;
  }

  // The tiles of the blocks that the table names for a row block.
  void name_tiles(const TableGroup& group, std::int64_t block) {
    const std::int64_t row_blocks = form_.table.block_q / TableForm::kRows, table_row = block / row_blocks;
    const std::int64_t blocks = ceil_div(form_.extent.keys, form_.table.block_kv);
    std::fill(named_.begin(), named_.end(), false);
    for (std::int64_t column = 0; column < form_.columns; ++column) {
      if (form_.table.kind == TableKind::blocks) {
        if (row<std::uint8_t>(group, table_row)[column] != 0) name_block(column);
        continue;
      }
      const std::int32_t named = row<std::int32_t>(group, table_row)[column];
      if (named >= 0 && named < blocks) name_block(named);
      else if (named != -1 && group.first && block % row_blocks == 0) ++status_.ignored_entries;
    }
  }

  void name_block(std::int64_t block) {
    const std::int64_t tiles = form_.table.block_kv / TableForm::kKeys;
    const auto first = named_.begin() + block * tiles;
    std::fill(first, first + std::min(tiles, form_.tiles - block * tiles), true);
  }

  std::int64_t keys_of(std::int64_t cell) const {
    return std::min(TableForm::kKeys, form_.extent.keys - cell * TableForm::kKeys);
  }

  CellBits all_bits(std::int64_t cell) const {
    CellBits bits{};
    std::fill_n(bits.begin(), rows_.size(), ~std::uint64_t{0} >> (TableForm::kKeys - keys_of(cell)));
    return bits;
  }

  CellBits bits_of(const TableGroup& group, std::int64_t cell) const {
    CellBits bits{};
    const std::int64_t first = cell * TableForm::kKeys;
    for (std::int64_t i = 0; i < rows_.size(); ++i) {
      const std::uint8_t* allowed = row<std::uint8_t>(group, rows_.begin + i);
      for (std::int64_t j = 0; j < keys_of(cell); ++j) {
        const bool pair = form_.table.kind == TableKind::bits ? allowed[first + j] != 0
                                                              : (allowed[(first + j) / 8] >> j % 8 & 1) != 0;
        bits[static_cast<std::size_t>(i)] |= std::uint64_t{pair} << j;
      }
    }
    return bits;
  }

  void add_cell(std::int64_t cell, const CellRun& run, CellBits bits) {
    std::int64_t allowed = 0;
    for (std::int64_t i = 0; i < rows_.size(); ++i) {
      std::uint64_t& word = bits[static_cast<std::size_t>(i)];
      if (!run.full) word &= scan_.bits(run)[static_cast<std::size_t>(i)];
      allowed += std::popcount(word);
      served_ |= std::uint64_t{word != 0} << i;
    }
    if (allowed == 0) return;
    const bool full = allowed == rows_.size() * keys_of(cell);
    layout_.entries.push_back({.key_start = static_cast<std::int32_t>(cell * TableForm::kKeys),
                               .bitmap = full ? BlockEntry::kFull : pool_.intern(bits),
                               .parts = 1});
  }

  const TableForm& form_;
  const TableContents& contents_;
  std::uint64_t most_bytes_;
  CellScan scan_;
  BitmapPool pool_{static_cast<std::size_t>(TableForm::kRows)};
  BlockLayout layout_;
  TableStatus status_{};
  // The row block at work.
  Range rows_;
  std::uint64_t served_ = 0;  // rows with a key
  std::vector<bool> named_;   // [tiles]
};

}  // namespace

BlockLayout pack_table(const TableForm& form, const TableContents& contents, const BoundMask& limit,
                       std::uint64_t most_bytes) {
  return TablePacker(form, contents, limit, most_bytes).pack();
}

}  // namespace stof
