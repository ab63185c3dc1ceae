// SPDX-License-Identifier: Apache-2.0
#include "src/layout/block_layout.h"

namespace stof {
namespace {

template <class T>
std::size_t bytes_of(const std::vector<T>& values) {
  return values.size() * sizeof(T);
}

}  // namespace

std::size_t BlockLayout::bytes() const {
  return bytes_of(group_of) + bytes_of(row_begin) + bytes_of(entries) + bytes_of(bitmaps) + bytes_of(has_empty_row);
}

std::size_t RowLayout::bytes() const { return bytes_of(group_of) + bytes_of(row_begin) + bytes_of(intervals); }

}  // namespace stof
