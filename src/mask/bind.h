// SPDX-License-Identifier: Apache-2.0
// A mask whose extent is fixed. It answers three questions about (group, row, key); statistics, packing, drawing and
// the reference are each written once against them.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/mask/band_name.h"
#include "src/mask/diagonal_name.h"
#include "src/mask/outline.h"
#include "src/mask/range.h"
#include "src/mask/row_bits.h"
#include "stof/mask.h"

namespace stof {

// Rows are i in [0, queries); the position of row i is i + keys - queries. Heads and items for which the mask is the
// same by construction share a group, so that they are measured and packed once.
class BoundMask {
 public:
  // Throws invalid_argument when an array, selection or grid does not fit the extent.
  BoundMask(const Mask& mask, const MaskExtent& extent);
  // Of an extent with one item for all of them where the mask does not differ by item; what is refused names them all.
  static BoundMask once_for_like_items(const Mask& mask, const MaskExtent& extent);
  ~BoundMask();
  BoundMask(BoundMask&&) noexcept;
  BoundMask& operator=(BoundMask&&) noexcept;

  const MaskExtent& extent() const;
  int groups() const;
  int group_of(std::int64_t item, std::int64_t head) const;

  bool allows(int group, std::int64_t row, std::int64_t key) const;
  // Never wrong about empty or full; may answer partial when unsure.
  BlockKind classify(int group, Range rows, Range keys) const;
  // Writes, exactly, one bit per key in [keys.begin, keys.end) of one row, least significant bit first, into
  // (keys.size() + 63) / 64 words; bits past keys.size() are 0. Keys outside [0, extent.keys) are forbidden.
  void row_bits(int group, std::int64_t row, Range keys, std::span<std::uint64_t> words) const;
  // The same for every row of a rectangle, into [rows.size()][(keys.size() + 63) / 64] words: one walk of the tree for
  // up to 512 words.
  void tile_bits(int group, Range rows, Range keys, std::span<std::uint64_t> words) const;
  // A band of rows, which is not empty, in cells of so many keys: as sure of each cell as classify is.
  void outline(int group, Range rows, std::int64_t cell_keys, Outline& out) const;
  // A name for the bits of a rectangle that the outline leaves partial, where only position - key matters to them, or a
  // place in a grid or a period, too: rectangles of one shape on one diagonal with the same name have the same bits,
  // and so have those that are a multiple of the name's keys off that diagonal.
  std::optional<DiagonalName> name_along_diagonal(int group, Range rows, Range keys) const;
  // A name for the bits of a band of rows, which is not empty, as far as there are keys: where only position - key
  // matters to them, or a place in a grid or a period, too.
  std::optional<NamedBand> named_band(int group, Range rows) const;
  // True when 64 x 64 cells are stored as they are asked for: asking for several together gains nothing.
  bool stores_cells(int group) const;
  // The 64 x 64 cell that begins at this row and key, where it is stored as it is, with what exists of it at the ends
  // of rows and keys; else without words.
  StoredCell stored_cell(int group, std::int64_t row, std::int64_t key) const;

 private:
  // batch: that arrays have to fit.
  BoundMask(const Mask& mask, const MaskExtent& extent, std::int64_t batch);

  struct State;
  std::unique_ptr<State> state_;
};

// What planning may share: a mask that depends on neither serves every batch composition with one layout over
// positions [0, max_len).
bool depends_on_length(const Mask& mask);  // bits, natten, and bigbird's and random_blocks' draws
bool depends_on_batch(const Mask& mask);

}  // namespace stof
