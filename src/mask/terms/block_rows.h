// SPDX-License-Identifier: Apache-2.0
// Terms on a coarse grid of blocks: blocks(), random_blocks(), bigbird().
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/mask/bit_array.h"
#include "src/mask/outline.h"
#include "src/mask/range.h"
#include "src/mask/row_bits.h"
#include "src/mask/traits.h"

namespace stof::term {

struct Blocks {
  std::int64_t size;
  std::shared_ptr<const BitArray> table;  // [R, C] or [H, R, C]
  std::string print(ArrayNames names) const;
  MaskTraits traits() const { return {.head = table->slices > 1}; }
};

// Which blocks win depends on how many there are.
struct RandomBlocks {
  std::int64_t size, count;
  std::uint64_t seed;
  std::string print(ArrayNames) const;
  static constexpr MaskTraits traits() { return kLength; }
};

// Draws as RandomBlocks does, and its last blocks are counted from the end.
struct BigBird {
  std::int64_t size, window, global, random;
  std::uint64_t seed;
  std::string print(ArrayNames) const;
  static constexpr MaskTraits traits() { return kLength; }
};

}  // namespace stof::term

namespace stof::bound {

// Per row-block the allowed column blocks, as ascending ranges that do not touch.
class BlockRows {
 public:
  BlockRows(std::int64_t size, const MaskExtent& extent);

  std::int64_t size() const { return size_; }
  Range row_blocks() const { return row_blocks_; }
  std::int64_t columns() const { return columns_; }
  // For every row-block in turn; the ranges come in any order and may overlap, and are used up.
  void append(std::vector<Range>& ranges);

  bool allows(std::int64_t p, std::int64_t key) const;
  BlockKind classify(Range positions, Range keys) const;
  bool outline(const CellGrid& grid, Range cells, Outline& out) const;  // false: of too many row-blocks
  void fill(const TileBits& tile) const;

 private:
  std::int64_t size_, columns_;
  Range row_blocks_;
  std::vector<std::size_t> begin_;
  std::vector<Range> ranges_;  // in column blocks

  std::int64_t block_of(std::int64_t position) const { return floor_div(position, size_); }
  Range keys_of(const Range& blocks) const { return {blocks.begin * size_, blocks.end * size_}; }
  struct Row {
    const Range *begin, *end;
  };
  Row row(std::int64_t row_block) const;
  void outline_row(Row row, const CellGrid& grid, Range cells, Outline& out) const;
  const Range* first_reaching(Row row, std::int64_t column) const;
};

BlockRows bind(const term::Blocks& term, std::int64_t slice, const MaskExtent& extent);
BlockRows bind(const term::RandomBlocks& term, const MaskExtent& extent);
BlockRows bind(const term::BigBird& term, const MaskExtent& extent);

}  // namespace stof::bound
