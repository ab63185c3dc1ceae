// SPDX-License-Identifier: Apache-2.0
#include "src/mask/bit_array.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "src/base/error.h"
#include "src/base/memory.h"
#include "src/mask/pack_bytes.h"

namespace stof {
namespace {

// Rows of booleans, 64 at a time, as rows of words.
class RowPacker {
 public:
  RowPacker(const TensorView& tensor, std::int64_t first_element)
      : bytes_(tensor.as<const std::uint8_t>() + first_element),
        row_stride_(tensor.strides[tensor.rank() - 2]),
        column_stride_(tensor.strides.back()),
        columns_(tensor.shape.back()),
        gathered_(static_cast<std::size_t>(column_stride_ == 1 ? 0 : columns_)) {}

  void pack(std::int64_t row, std::uint64_t* words) {
    const std::uint8_t* bytes = bytes_ + row * row_stride_;
    if (column_stride_ != 1) {
      for (std::int64_t j = 0; j < columns_; ++j) gathered_[static_cast<std::size_t>(j)] = bytes[j * column_stride_];
      bytes = gathered_.data();
    }
    pack_bytes(bytes, static_cast<std::size_t>(columns_), words);
  }

 private:
  const std::uint8_t* bytes_;
  std::int64_t row_stride_, column_stride_, columns_;
  std::vector<std::uint8_t> gathered_;
};

// From rows of words to cells.
void scatter(const std::vector<std::uint64_t>& rows, std::int64_t count, std::int64_t columns, std::uint64_t* cells) {
  constexpr std::int64_t kLine = 8;  // words of a cache line, read together
  for (std::int64_t begin = 0; begin < columns; begin += kLine) {
    const std::int64_t end = std::min(begin + kLine, columns);
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t w = begin; w < end; ++w) cells[w * 64 + i] = rows[static_cast<std::size_t>(i * columns + w)];
  }
}

std::int32_t allowed_in(const std::uint64_t* cell, std::int64_t rows) {
  std::int32_t allowed = 0;
  for (std::int64_t i = 0; i < rows; ++i) allowed += std::popcount(cell[i]);
  return allowed;
}

BlockKind kind_of(std::int64_t allowed, std::int64_t pairs) {
  return allowed == 0 ? BlockKind::empty : allowed == pairs ? BlockKind::full : BlockKind::partial;
}

void pack_slice(const TensorView& tensor, std::int64_t first_element, BitArray& array, std::int64_t slice) {
  const std::int64_t columns = array.word_columns();
  RowPacker packer(tensor, first_element);
  CellLevel level{.rows = array.row_cells(), .columns = columns, .kinds = {}};
  std::vector<std::uint64_t> rows(static_cast<std::size_t>(64 * columns));
  for (std::int64_t begin = 0; columns > 0 && begin < array.rows; begin += 64) {
    const std::int64_t count = std::min<std::int64_t>(64, array.rows - begin);
    for (std::int64_t i = 0; i < count; ++i) packer.pack(begin + i, rows.data() + i * columns);
    std::uint64_t* cells = array.words.data() + slice * array.slice_words() + begin * columns;
    scatter(rows, count, columns, cells);
    for (std::int64_t w = 0; w < columns; ++w) {
      array.allowed.push_back(allowed_in(cells + w * 64, count));
      array.used.push_back(std::accumulate(cells + w * 64, cells + w * 64 + count, std::uint64_t{0}, std::bit_or<>()));
      level.kinds.push_back(kind_of(array.allowed.back(), count * std::min<std::int64_t>(64, array.columns - 64 * w)));
    }
  }
  array.cells[static_cast<std::size_t>(slice)].push_back(std::move(level));
}

CellLevel coarser(const CellLevel& fine) {
  CellLevel level{.rows = ceil_div(fine.rows, 2), .columns = ceil_div(fine.columns, 2), .kinds = {}};
  for (std::int64_t r = 0; r < level.rows; ++r)
    for (std::int64_t c = 0; c < level.columns; ++c) {
      const std::int64_t r1 = std::min(2 * r + 1, fine.rows - 1), c1 = std::min(2 * c + 1, fine.columns - 1);
      const BlockKind first = fine.at(2 * r, 2 * c);
      const bool same = first == fine.at(2 * r, c1) && first == fine.at(r1, 2 * c) && first == fine.at(r1, c1);
      level.kinds.push_back(same ? first : BlockKind::partial);
    }
  return level;
}

// Finds equal slices and the fingerprint of the whole, in one pass over the words.
void fingerprint(BitArray& array) {
  std::map<Fingerprint, std::int64_t> seen;
  std::string text = to_string(array.shape);
  const auto words = static_cast<std::size_t>(array.slice_words());
  for (std::int64_t slice = 0; slice < array.slices; ++slice) {
    const auto content =
        fingerprint_of(std::as_bytes(std::span(array.words.data() + slice * array.slice_words(), words)));
    array.slice_of.push_back(seen.emplace(content, slice).first->second);
    text += content.hex();
  }
  array.source.content = fingerprint_of(text);
}

// Where slice `slice` of the leading dimensions begins.
std::int64_t first_element(const TensorView& tensor, std::int64_t slice) {
  std::int64_t offset = 0;
  for (std::size_t d = tensor.rank() - 2; d-- > 0;) {
    offset += slice % tensor.shape[d] * tensor.strides[d];
    slice /= tensor.shape[d];
  }
  return offset;
}

// A row of a few columns is stored as 64 words: 512 bytes for an array of one element. Of each slice there is also
// which one it equals, and the text of its fingerprint while that of the whole is found.
void check_room(const BitArray& array) {
  constexpr double kFingerprintText = 32;
  const auto words = static_cast<double>(array.slice_words());
  const double of_cell = sizeof(BlockKind) + sizeof(std::int32_t) + sizeof(std::uint64_t);
  const double of_slice = 8 * words + words / 64 * of_cell + sizeof(std::vector<CellLevel>) + sizeof(CellLevel) +
                          sizeof(std::int64_t) + kFingerprintText;
  check_memory(fmt::format("bits of {}", to_string(array.shape)), static_cast<double>(array.slices) * of_slice);
}

}  // namespace

std::shared_ptr<const BitArray> pack_bits(const TensorView& tensor, const std::string& file) {
  auto array = std::make_shared<BitArray>();
  array->shape = tensor.shape;
  array->rows = tensor.dim(tensor.rank() - 2);
  array->columns = tensor.shape.back();
  array->slices = element_count(Shape(tensor.shape.begin(), tensor.shape.end() - 2));
  check_room(*array);
  array->words.resize(static_cast<std::size_t>(element_count({array->slices, array->slice_words()})));
  array->allowed.reserve(array->words.size() / 64);
  array->used.reserve(array->words.size() / 64);
  array->cells.resize(static_cast<std::size_t>(array->slices));
  array->source.file = file;
  for (std::int64_t slice = 0; slice < array->slices; ++slice)
    pack_slice(tensor, first_element(tensor, slice), *array, slice);
  fingerprint(*array);
  for (std::int64_t slice = 0; slice < array->slices; ++slice) {
    std::vector<CellLevel>& levels = array->cells[static_cast<std::size_t>(slice)];
    if (array->slice_of[static_cast<std::size_t>(slice)] != slice) levels.clear();
    while (!levels.empty() && (levels.back().rows > 1 || levels.back().columns > 1))
      levels.push_back(coarser(levels.back()));
  }
  return array;
}

}  // namespace stof
