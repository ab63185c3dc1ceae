// SPDX-License-Identifier: Apache-2.0
// A call whose mask is viewed by residue class (src/mask/residues.h): each class of an item's rows, with the keys at
// the same residue, is an item of its own, its rows n rows apart.
#pragma once
#include <algorithm>
#include <utility>

#include "src/backend/contract.h"
#include "src/backend/even_items.h"

namespace stof {

// Numbers of queries and keys so that [keys - queries, keys) has the positions of every class's rows.
struct ClassExtent {
  std::int64_t queries = 0, keys = 0;
  friend bool operator==(const ClassExtent&, const ClassExtent&) = default;
};
ClassExtent class_extent(std::int64_t queries, std::int64_t keys, std::int64_t residues);

// Rows row, row + n, ... of the item, and the keys at their residues.
AttentionItem class_item(const AttentionCall& call, const AttentionItem& item, std::int64_t row, std::int64_t residues);

// Calls that for_each_class makes of so many rows and keys in items that lie evenly.
std::int64_t runs_of_classes(std::int64_t queries, std::int64_t keys, std::int64_t residues);

namespace class_calls {

// A call of classes, whose items are added one by one: of so many classes of each item at most.
class Part {
 public:
  Part(const AttentionCall& call, std::int64_t residues, std::int64_t classes) : part_(call), items_(call.memory) {
    items_.reserve(static_cast<std::size_t>(classes) * call.items.size());
    for (AttentionStrides* strides :
         {&part_.q_strides, &part_.k_strides, &part_.v_strides, &part_.out_strides, &part_.lse_strides})
      strides->row *= residues;
    part_.packed = call.packed && call.items.size() > 1;
  }

  std::pmr::vector<AttentionItem>& items() { return items_; }

  // With the items so far, which are those of so many classes; there are none afterwards.
  template <class Run>
  void run(const Run& run, std::int64_t classes = 1) {
    part_.items = items_;
    part_.residues = classes;
    if (!items_.empty()) run(std::as_const(part_));
    items_.clear();
  }

 private:
  AttentionCall part_;
  std::pmr::vector<AttentionItem> items_;
};

// Classes that follow each other and are equally long go together.
template <class Run>
void of_items_alike(const AttentionCall& call, std::int64_t residues, const Run& run) {
  Part part(call, residues, residues);
  const std::pmr::vector<AttentionItem>& items = part.items();
  const std::int64_t count = std::ssize(call.items);
  // Classes of one item are items like others.
  const auto run_part = [&] { part.run(run, count == 1 ? 1 : std::ssize(items) / count); };
  for (std::int64_t row = 0; row < std::min(residues, call.items[0].queries); ++row) {
    const AttentionItem made = class_item(call, call.items[0], row, residues);
    if (!items.empty() && (made.queries != items[0].queries || made.keys != items[0].keys)) run_part();
    for (const AttentionItem& item : call.items) part.items().push_back(class_item(call, item, row, residues));
  }
  run_part();
}

template <class Run>
void one_by_one(const AttentionCall& call, std::int64_t residues, const Run& run) {
  Part part(call, residues, 1);
  const bool by_rows = call.packed && call.q_strides.row != 0;
  for (std::int64_t residue = 0; residue < residues; ++residue) {
    for (const AttentionItem& item : call.items) {
      // Rows of one residue in memory: in a packed batch an item begins anywhere. Any order does where all rows are
      // one.
      const std::int64_t before = by_rows ? (item.q - call.items[0].q) / call.q_strides.row : 0;
      const std::int64_t row = ((residue - before) % residues + residues) % residues;
      const AttentionItem made = class_item(call, item, row, residues);
      if (made.queries > 0) part.items().push_back(made);
    }
    part.run(run);
  }
}

}  // namespace class_calls

// run(call) for calls that hold all classes together: of items that lie evenly those of equal lengths side by side,
// which are three calls at most; of others one class after the other, so that the items of a call lie as evenly as
// before, or one item after the other where that is fewer calls.
template <class Run>
void for_each_class(const AttentionCall& call, std::int64_t residues, const Run& run) {
  if (call.items.empty()) return;
  if (items_lie_evenly(call.items)) return class_calls::of_items_alike(call, residues, run);
  if (residues <= 2 * std::ssize(call.items)) return class_calls::one_by_one(call, residues, run);
  AttentionCall part = call;
  for (std::size_t i = 0; i < call.items.size(); ++i) {
    part.items = call.items.subspan(i, 1);
    class_calls::of_items_alike(part, residues, run);
  }
}

}  // namespace stof
