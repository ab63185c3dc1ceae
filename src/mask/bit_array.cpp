// SPDX-License-Identifier: Apache-2.0
#include "src/mask/bit_array.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "src/mask/pack_bytes.h"

namespace stof {
namespace {

void pack_slice(const std::uint8_t* bytes, const TensorView& tensor, BitArray& array, std::int64_t slice) {
  const std::int64_t row_stride = tensor.strides[tensor.rank() - 2], column_stride = tensor.strides.back();
  std::vector<std::uint8_t> gathered(static_cast<std::size_t>(column_stride == 1 ? 0 : array.columns));
  for (std::int64_t i = 0; i < array.rows; ++i) {
    const std::uint8_t* row = bytes + i * row_stride;
    if (column_stride != 1) {
      for (std::int64_t j = 0; j < array.columns; ++j) gathered[static_cast<std::size_t>(j)] = row[j * column_stride];
      row = gathered.data();
    }
    pack_bytes(row, static_cast<std::size_t>(array.columns),
               array.words.data() + (slice * array.rows + i) * array.row_words);
  }
}

CellLevel finest_cells(const BitArray& array, std::int64_t slice) {
  CellLevel level{.rows = ceil_div(array.rows, 64), .columns = array.row_words, .kinds = {}};
  std::vector<std::uint64_t> any(static_cast<std::size_t>(array.row_words)), every(any.size());
  for (std::int64_t cell = 0; cell < level.rows; ++cell) {
    std::fill(any.begin(), any.end(), 0);
    std::fill(every.begin(), every.end(), ~std::uint64_t{0});
    for (std::int64_t i = cell * 64; i < std::min(cell * 64 + 64, array.rows); ++i) {
      const std::uint64_t* row = array.row(slice, i);
      for (std::size_t w = 0; w < any.size(); ++w) {
        any[w] |= row[w];
        every[w] &= row[w];
      }
    }
    for (std::size_t w = 0; w < any.size(); ++w) {
      const bool last = w + 1 == any.size() && array.columns % 64 != 0;
      const std::uint64_t whole = last ? ~(~std::uint64_t{0} << (array.columns % 64)) : ~std::uint64_t{0};
      level.kinds.push_back(any[w] == 0 ? BlockKind::empty : every[w] == whole ? BlockKind::full : BlockKind::partial);
    }
  }
  return level;
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
  const auto words = static_cast<std::size_t>(array.rows * array.row_words);
  for (std::int64_t slice = 0; slice < array.slices; ++slice) {
    const Fingerprint content = fingerprint_of(std::as_bytes(std::span(array.row(slice, 0), words)));
    array.slice_of.push_back(seen.emplace(content, slice).first->second);
    text += content.hex();
  }
  array.source.content = fingerprint_of(text);
}

}  // namespace

std::shared_ptr<const BitArray> pack_bits(const TensorView& tensor, const std::string& file) {
  auto array = std::make_shared<BitArray>();
  array->shape = tensor.shape;
  array->rows = tensor.dim(tensor.rank() - 2);
  array->columns = tensor.shape.back();
  array->slices = element_count(Shape(tensor.shape.begin(), tensor.shape.end() - 2));
  array->row_words = words_for(array->columns);
  array->words.resize(static_cast<std::size_t>(element_count({array->slices, array->rows, array->row_words})));
  array->source.file = file;

  for (std::int64_t slice = 0; slice < array->slices; ++slice) {
    std::int64_t offset = 0, rest = slice;
    for (std::size_t d = tensor.rank() - 2; d-- > 0;) {
      offset += rest % tensor.shape[d] * tensor.strides[d];
      rest /= tensor.shape[d];
    }
    pack_slice(tensor.as<const std::uint8_t>() + offset, tensor, *array, slice);
  }
  fingerprint(*array);

  array->cells.resize(static_cast<std::size_t>(array->slices));
  for (std::int64_t slice = 0; slice < array->slices; ++slice) {
    if (array->slice_of[static_cast<std::size_t>(slice)] != slice || array->rows == 0 || array->columns == 0) continue;
    std::vector<CellLevel>& levels = array->cells[static_cast<std::size_t>(slice)];
    levels.push_back(finest_cells(*array, slice));
    while (levels.back().rows > 1 || levels.back().columns > 1) levels.push_back(coarser(levels.back()));
  }
  return array;
}

}  // namespace stof
