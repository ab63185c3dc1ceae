// SPDX-License-Identifier: Apache-2.0
// A call whose mask is viewed by residue class (src/mask/residues.h): each class of an item's rows, with the keys at
// the same residue, is an item of its own, its rows n rows apart.
#pragma once
#include <algorithm>

#include "src/backend/contract.h"

namespace stof {

// Numbers of queries and keys so that [keys - queries, keys) has the positions of every class's rows.
struct ClassExtent {
  std::int64_t queries = 0, keys = 0;
  friend bool operator==(const ClassExtent&, const ClassExtent&) = default;
};
ClassExtent class_extent(std::int64_t queries, std::int64_t keys, std::int64_t residues);

// Rows row, row + n, ... of the item, and the keys at their residues.
AttentionItem class_item(const AttentionCall& call, const AttentionItem& item, std::int64_t row, std::int64_t residues);

// Whether every class of every item has as many rows and keys as the others, and items lie apart from each other.
bool is_one_call(const AttentionCall& call, std::int64_t residues);
// Of so many items one after the other, at most.
constexpr std::int64_t calls_of_items(std::int64_t items) { return 2 * items; }

// run(call) for calls that hold all classes together: of equal classes all at once, each beside the others; of one item
// those of equal lengths side by side, which are two calls at most; of several items one class after the other, so that
// the items of a call lie as evenly as before, or one item after the other where that is fewer calls.
template <class Run>
void for_each_class(const AttentionCall& call, std::int64_t residues, const Run& run) {
  AttentionCall part = call;
  if (call.items.size() > 1 && !is_one_call(call, residues) && residues > calls_of_items(std::ssize(call.items))) {
    for (std::size_t i = 0; i < call.items.size(); ++i) {
      part.items = call.items.subspan(i, 1);
      for_each_class(part, residues, run);
    }
    return;
  }
  for (AttentionStrides* strides :
       {&part.q_strides, &part.k_strides, &part.v_strides, &part.out_strides, &part.lse_strides})
    strides->row *= residues;
  const std::size_t count = call.items.size();
  part.packed = call.packed && count > 1;
  const bool by_rows = part.packed && call.q_strides.row != 0;
  const bool together = count > 1 && is_one_call(call, residues);
  if (together) part.residues = residues;
  std::pmr::vector<AttentionItem> items(call.memory);
  items.reserve(static_cast<std::size_t>(residues) * (together ? count : 1) + count);
  const auto run_items = [&] {
    part.items = items;
    if (!items.empty()) run(std::as_const(part));
    items.clear();
  };
  for (std::int64_t residue = 0; residue < residues; ++residue) {
    for (const AttentionItem& item : call.items) {
      // Rows of one residue in memory: in a packed batch an item begins anywhere. Any order does where all rows are
      // one.
      const std::int64_t before = by_rows ? (item.q - call.items[0].q) / call.q_strides.row : 0;
      const std::int64_t row = ((residue - before) % residues + residues) % residues;
      const AttentionItem made = class_item(call, item, row, residues);
      if (made.queries == 0) continue;
      if (count == 1 && !items.empty() && (made.queries != items[0].queries || made.keys != items[0].keys)) run_items();
      items.push_back(made);
    }
    if (count > 1 && !together) run_items();
  }
  run_items();
}

}  // namespace stof
