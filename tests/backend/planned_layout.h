// SPDX-License-Identifier: Apache-2.0
// What was planned on a GPU, read back, beside what the host arranges.
#pragma once
#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "src/backend/cuda/attention/arrange.h"
#include "src/backend/cuda/attention/table_planner.h"

namespace stof::cuda {

template <class Value>
std::vector<Value> read_back(const Gpu& gpu, const void* from, std::size_t count) {
  std::vector<Value> values(count);
  copy_out(gpu, std::as_writable_bytes(std::span(values)), reinterpret_cast<DevicePointer>(from));
  return values;
}

class PlannedLayout {
 public:
  PlannedLayout(const Gpu& gpu, const TablePlanner& planner)
      : groups_(planner.groups()), row_blocks_(planner.table().row_blocks) {
    const DeviceTable& table = planner.table();
    const auto rows = static_cast<std::size_t>(groups_ * row_blocks_);
    items_ = read_back<StreamItem>(gpu, table.items, rows);
    steps_ = read_back<int>(gpu, table.steps, 2 * rows * static_cast<std::size_t>(table.room));
    first_steps_ = read_back<int>(gpu, table.first_steps, 2 * rows);
    words_ = read_back<std::uint32_t>(gpu, table.pattern_words, planner.word_count());
  }

  std::int64_t steps() const {
    std::int64_t sum = 0;
    for (const StreamItem& item : items_) sum += item.steps;
    return sum;
  }

  // Where it is not what the host arranged from the same table, or empty: row blocks in order of their steps, steps in
  // the same order, the same words.
  std::string difference(const ArrangedStream& arranged) const {
    for (int group = 0; group < groups_; ++group)
      if (std::string found = difference(arranged, group); !found.empty())
        return fmt::format("group {}: {}", group, found);
    return "";
  }

 private:
  std::string difference(const ArrangedStream& arranged, int group) const {
    const StreamGroup& expected = arranged.groups.at(static_cast<std::size_t>(group));
    std::map<int, const StreamItem*> by_row;
    for (int i = 0; i < row_blocks_; ++i) {
      const StreamItem& item = items_[static_cast<std::size_t>(group * row_blocks_ + i)];
      if (const auto at = static_cast<std::size_t>(2 * (group * row_blocks_ + i)); item.steps > 0)
        for (const std::size_t of : {0u, 1u})
          if (first_steps_[at + of] != steps_[static_cast<std::size_t>(2 * item.first_step) + of])
            return fmt::format("row {}: its first step is not the one beside it", item.row);
      if (!by_row.emplace(item.row, &item).second) return fmt::format("row {} comes twice", item.row);
      if (i > 0 && item.steps > (&item)[-1].steps) return fmt::format("row {} comes after shorter ones", item.row);
    }
    for (int i = 0; i < expected.item_count; ++i) {
      const StreamItem& wanted = arranged.items[static_cast<std::size_t>(expected.first_item + i)];
      if (!by_row.contains(wanted.row)) return fmt::format("row {} is missing", wanted.row);
      const StreamItem& found = *by_row[wanted.row];
      if (found.steps != wanted.steps || found.full_steps != wanted.full_steps || found.split != wanted.split)
        return fmt::format("row {}: {} steps, {} full; expected {}, {}", wanted.row, found.steps, found.full_steps,
                           wanted.steps, wanted.full_steps);
      for (int n = 0; n < wanted.steps; ++n)
        if (!same_step(found.first_step + n, arranged, wanted.first_step + n))
          return fmt::format("row {}: step {} differs", wanted.row, n);
    }
    return "";
  }

  bool same_step(int step, const ArrangedStream& arranged, int wanted) const {
    const auto at = static_cast<std::size_t>(2 * step), there = static_cast<std::size_t>(2 * wanted);
    const int state = steps_[at + 1], expected = arranged.steps[there + 1];
    if (steps_[at] != arranged.steps[there] || (state < 0) != (expected < 0)) return false;
    if (state < 0) return state == expected;
    const auto first = words_.begin() + std::ptrdiff_t{128} * state;
    return std::equal(first, first + 128, arranged.words.begin() + std::ptrdiff_t{128} * expected);
  }

  int groups_, row_blocks_;
  std::vector<StreamItem> items_;
  std::vector<int> steps_, first_steps_;
  std::vector<std::uint32_t> words_;
};

}  // namespace stof::cuda
