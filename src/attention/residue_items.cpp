// SPDX-License-Identifier: Apache-2.0
#include "src/attention/residue_items.h"

namespace stof {
namespace {

std::int64_t modulo(std::int64_t x, std::int64_t n) { return (x % n + n) % n; }

// Of 0..count-1, those first, first + n, ...
std::int64_t every(std::int64_t first, std::int64_t count, std::int64_t n) {
  return count > first ? (count - first + n - 1) / n : 0;
}

}  // namespace

ClassExtent class_extent(std::int64_t queries, std::int64_t keys, std::int64_t residues) {
  ClassExtent extent{.queries = 0, .keys = every(0, keys, residues)};
  for (std::int64_t row = 0; row < std::min(residues, queries); ++row) {
    const std::int64_t behind = extent.keys - every(modulo(row + keys - queries, residues), keys, residues);
    extent.queries = std::max(extent.queries, every(row, queries, residues) + behind);
  }
  return extent;
}

AttentionItem class_item(const AttentionCall& call, const AttentionItem& item, std::int64_t row,
                         std::int64_t residues) {
  const std::int64_t key = modulo(row + item.keys - item.queries, residues);
  AttentionItem made = item;
  made.queries = every(row, item.queries, residues);
  made.keys = every(key, item.keys, residues);
  made.q += row * call.q_strides.row;
  made.out += row * call.out_strides.row;
  made.lse += row * call.lse_strides.row;
  made.k += key * call.k_strides.row;
  made.v += key * call.v_strides.row;
  return made;
}

std::int64_t runs_of_classes(std::int64_t queries, std::int64_t keys, std::int64_t residues) {
  const std::int64_t first = modulo(keys - queries, residues);  // residue of row 0's position
  std::int64_t runs = 0, rows = 0, of_keys = 0;
  for (std::int64_t row = 0; row < std::min(residues, queries); ++row) {
    const std::int64_t next_rows = every(row, queries, residues),
                       next_keys = every((first + row) % residues, keys, residues);
    if (runs == 0 || next_rows != rows || next_keys != of_keys) ++runs;
    rows = next_rows, of_keys = next_keys;
  }
  return runs;
}

}  // namespace stof
