// SPDX-License-Identifier: Apache-2.0
// Tables with random contents, bad entries among them, and the pairs that they allow.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "src/layout/table_form.h"
#include "stof/tensor.h"

namespace stof {

class RandomTable {
 public:
  // extent: of the longest item. `padding`: elements between rows.
  RandomTable(const MaskTable& form, const MaskExtent& extent, unsigned seed, std::int64_t padding = 3)
      : form_(form), extent_(extent) {
    if (is_of_pairs(form.kind)) form_.block_q = form_.block_kv = 1;
    rows_ = ceil_div(extent.queries, form_.block_q);
    blocks_ = ceil_div(extent.keys, form_.block_kv);
    columns_ = form.kind == TableKind::lists    ? form.width
               : form.kind == TableKind::packed ? ceil_div(blocks_, 8)
                                                : blocks_;
    row_stride_ = columns_ + padding;
    fill(seed);
  }

  // The same places with other contents.
  void fill(unsigned seed) {
    std::mt19937 random(seed);
    const std::size_t size = form_.kind == TableKind::lists ? sizeof(std::int32_t) : 1;
    bytes_.assign(static_cast<std::size_t>(form_.batch * form_.heads * rows_ * row_stride_) * size, std::byte{0});
    ignored_ = 0;
    for (std::int64_t row = 0; row < form_.batch * form_.heads * rows_; ++row) {
      if (form_.kind == TableKind::lists) fill_list(row, random);
      else if (form_.kind == TableKind::blocks) fill_blocks(row, random);
      else fill_bits(row, random);
    }
  }

  // As update() takes them, at `data`; status and stream are the caller's.
  TableContents contents(const void* data) const {
    return {.data = data,
            .batch_stride = form_.batch > 1 ? form_.heads * rows_ * row_stride_ : 0,
            .head_stride = form_.heads > 1 ? rows_ * row_stride_ : 0,
            .row_stride = row_stride_};
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }  // what lies at `data`
  int ignored() const { return ignored_; }

  // bool [extent.batch, extent.heads, queries, keys]
  Tensor dense() const {
    const auto& [queries, keys, batch, heads] = extent_;
    Tensor dense(DType::boolean, {batch, heads, queries, keys});
    auto* out = dense.as<bool>();
    for (std::int64_t item = 0; item < batch; ++item)
      for (std::int64_t head = 0; head < heads; ++head)
        for (std::int64_t row = 0; row < queries; ++row, out += keys) dense_row(item, head, row, out);
    return dense;
  }

 private:
  template <class Element>
  Element* row_at(std::int64_t row) {
    return reinterpret_cast<Element*>(bytes_.data()) + row * row_stride_;
  }
  template <class Element>
  const Element* row_at(std::int64_t row) const {
    return reinterpret_cast<const Element*>(bytes_.data()) + row * row_stride_;
  }
  static std::int32_t below(std::mt19937& random, std::int64_t n) {
    return static_cast<std::int32_t>(random() % static_cast<unsigned>(n));
  }

  // Blocks, some of them twice, -1, and now and then what is neither; some lists are empty.
  void fill_list(std::int64_t row, std::mt19937& random) {
    const bool empty = below(random, 8) == 0;
    auto* const list = row_at<std::int32_t>(row);
    for (std::int64_t i = 0; i < columns_; ++i) {
      const std::int32_t dice = below(random, 20), block = below(random, blocks_);
      const bool ignored = !empty && (dice == 3 || dice == 4);
      list[i] = empty || dice < 3 ? -1
                : !ignored        ? block
                : dice == 3       ? -2 - block
                                  : static_cast<std::int32_t>(blocks_) + block;
      ignored_ += ignored;
    }
  }

  void fill_blocks(std::int64_t row, std::mt19937& random) {
    const bool empty = below(random, 8) == 0;
    auto* const allowed = row_at<std::uint8_t>(row);
    for (std::int64_t i = 0; i < columns_; ++i) {
      const auto value = static_cast<std::uint8_t>(1 + below(random, 255));
      allowed[i] = !empty && below(random, 3) == 0 ? value : 0;
    }
  }

  // Tiles of 64 x 64 that are empty, full or mixed, and now and then an empty row.
  void fill_bits(std::int64_t row, std::mt19937& random) {
    if (row % rows_ % 64 == 0) {
      tile_kinds_.resize(static_cast<std::size_t>(ceil_div(blocks_, 64)));
      for (int& kind : tile_kinds_) kind = below(random, 3);
    }
    auto* const allowed = row_at<std::uint8_t>(row);
    unsigned bits = 0;
    for (std::int64_t i = 0; i < blocks_ && row % 200 != 7; ++i, bits >>= 1) {
      const int kind = tile_kinds_[static_cast<std::size_t>(i / 64)];
      if (i % 32 == 0) bits = kind == 0 ? 0 : kind == 1 ? ~0u : static_cast<unsigned>(random());
      if (form_.kind == TableKind::bits) allowed[i] = static_cast<std::uint8_t>((bits & 1) != 0 ? 1 + i % 255 : 0);
      else allowed[i / 8] = static_cast<std::uint8_t>(allowed[i / 8] | (bits & 1) << i % 8);
    }
    if (form_.kind == TableKind::packed && blocks_ % 8 != 0)  // what is behind the last key is anything
      allowed[columns_ - 1] = static_cast<std::uint8_t>(allowed[columns_ - 1] | below(random, 256) << blocks_ % 8);
  }

  void dense_row(std::int64_t item, std::int64_t head, std::int64_t row, bool* out) const {
    const std::int64_t table_head = head / (extent_.heads / form_.heads);
    const std::int64_t table = (form_.batch > 1 ? item : 0) * form_.heads + table_head;
    const std::int64_t table_row = table * rows_ + row / form_.block_q;
    for (std::int64_t key = 0; key < extent_.keys; ++key) out[key] = names(table_row, key / form_.block_kv);
  }

  bool names(std::int64_t table_row, std::int64_t block) const {
    if (form_.kind == TableKind::packed) return (row_at<std::uint8_t>(table_row)[block / 8] >> block % 8 & 1) != 0;
    if (form_.kind != TableKind::lists) return row_at<std::uint8_t>(table_row)[block] != 0;
    const auto* const list = row_at<std::int32_t>(table_row);
    return std::find(list, list + columns_, block) != list + columns_;
  }

  MaskTable form_;
  MaskExtent extent_;
  std::int64_t rows_, blocks_, columns_, row_stride_;
  std::vector<std::byte> bytes_;
  std::vector<int> tile_kinds_;
  int ignored_ = 0;
};

// A form and an extent for it, small, with everything that may vary.
inline std::pair<MaskTable, MaskExtent> random_form(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
  MaskExtent extent{.queries = 1 + below(330), .keys = 1 + below(400), .batch = 1 + below(2), .heads = 2};
  if (below(2) == 0) extent.queries = extent.keys;
  MaskTable table{.kind = static_cast<TableKind>(seed % 4)};
  table.batch = below(2) == 0 ? 1 : extent.batch;
  table.heads = 1 + below(2);
  table.block_q = 64 * (1 + below(2));
  table.block_kv = 64 * (1 + below(3));
  if (table.kind == TableKind::lists) table.width = 1 + below(5);
  return {table, extent};
}

inline const char* const kTableLimits[] = {"all",
                                           "causal",
                                           "causal & window(100)",
                                           "!window(40) | sink(3)",
                                           "heads(0: causal, *: all)",
                                           "strided(7) & causal"};

}  // namespace stof
