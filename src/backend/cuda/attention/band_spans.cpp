// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/band_spans.h"

#include <algorithm>

#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

constexpr int kPartRows = 64, kBehindAll = 1 << 30;  // all keys

// Of 64 rows from each on, or as many as there are.
struct Extremes {
  std::vector<int> begins, ends;
};
Extremes of_parts(std::span<const RowSpan> rows) {
  Extremes all;
  for (const RowSpan& row : rows) {
    const bool in_range = row.begin < row.end;
    all.begins.push_back(row.prefix_end > 0 ? 0 : in_range ? row.begin : kBehindAll);
    all.ends.push_back(in_range ? row.end : row.prefix_end);
  }
  const std::size_t count = rows.size();
  for (std::size_t further = 1; further < kPartRows; further *= 2)
    for (std::size_t i = 0; i + further < count; ++i) {
      all.begins[i] = std::min(all.begins[i], all.begins[i + further]);
      all.ends[i] = std::max(all.ends[i], all.ends[i + further]);
    }
  return all;
}

// Of a row block: where its keys begin and end, of part i 64 i keys further on.
struct BandKeys {
  int begin, end;
};
BandKeys keys_of(const BandForm& form, int position, int rows) {
  if (!form.rule) {
    const auto at = static_cast<std::size_t>(position - form.first_position);
    return {form.rows[at].band_begin, form.ends[at]};
  }
  const int last = position + std::min(rows, kPartRows) - 1;
  return {band_begin(*form.rule, position, rows), std::max(last + form.rule->end, form.rule->prefix_end)};
}

// Whether every row block from an item's first row on has its keys within those that are loaded.
bool all_fit(const BandForm& form, const BandItems& items, int copy) {
  for (std::size_t i = 0; i < items.queries.size(); ++i) {
    const int queries = items.queries[i], keys = items.keys[i];
    if (keys == 0) continue;  // its rows see nothing
    for (int row = 0; row < queries; row += form.block_rows()) {
      const BandKeys needed = keys_of(form, keys - queries + row, std::min(queries - row, form.block_rows()));
      if (std::min(needed.end, keys) > (needed.begin & -copy) + form.instance.keys) return false;
    }
  }
  return true;
}

struct RowBlocks {
  int most = 0;      // of an item
  double total = 0;  // of all slices

  void add(int of_item, int slices) { most = std::max(most, of_item), total += static_cast<double>(of_item) * slices; }
};

int touched_row_blocks(int queries, int keys, int first_position, int rows) {
  if (queries == 0) return 0;
  const int first = keys == 0 ? 0 : std::max(keys - queries - first_position, 0);
  return (first % rows + queries - 1) / rows + 1;
}

// What a row block takes, if keys come in copies of so many. Estimates: pages of 16 take 3 to 5 % longer than pages of
// 64 in bench/results/h200-paged-chunks.json.
double cost_of_copies(int keys) { return keys >= 64 ? 1 : keys == 32 ? 1.03 : 1.08; }

}  // namespace

BandForm band_form(const BandInstance& instance, std::span<const RowSpan> rows, int first_position, std::int64_t keys) {
  BandForm form{.instance = instance, .first_position = first_position};
  if (const auto rule = span_rule(rows, first_position, keys)) {
    form.rule = {rule->prefix_end, rule->begin, rule->end};
    return form;
  }
  const Extremes parts = of_parts(rows);
  const auto count = narrow<int>(static_cast<std::int64_t>(rows.size()), "positions");
  for (int i = 0; i < count; ++i) {
    int begin = kBehindAll, end = 0;
    for (int further = 0; further < form.block_rows() && i + further < count; further += kPartRows) {
      const auto part = static_cast<std::size_t>(i + further);
      if (parts.begins[part] == kBehindAll) continue;
      begin = std::min(begin, parts.begins[part] - further), end = std::max(end, parts.ends[part] - further);
    }
    const RowSpan& row = rows[static_cast<std::size_t>(i)];
    form.rows.push_back({row.prefix_end, row.begin, row.end, begin == kBehindAll ? 0 : begin});
    form.ends.push_back(end);
  }
  return form;
}

BandPlacement place_band(const BandForm& form, const BandItems& items) {
  RowBlocks in_layout, from_first;
  for (std::size_t i = 0; i < items.queries.size(); ++i) {
    const int queries = items.queries[i];
    in_layout.add(touched_row_blocks(queries, items.keys[i], items.layout_position, form.block_rows()),
                  items.slices_of_item);
    from_first.add((queries + form.block_rows() - 1) / form.block_rows(), items.slices_of_item);
  }
  // A CTA that has few row blocks waits for the layout's where it begins, and makes words anew for few.
  constexpr double kFew = 2;
  const bool few = from_first.total <= kFew * items.at_once;
  for (const int copy : {64, 32, 16}) {
    if (copy > items.page || form.instance.loaded_keys() % copy != 0) continue;
    const bool sooner = from_first.total * cost_of_copies(copy) < in_layout.total * cost_of_copies(items.layout_copy);
    if ((sooner || (few && copy >= items.layout_copy)) && all_fit(form, items, copy))
      return {from_first.most, copy, true};
  }
  return {in_layout.most, items.layout_copy, false};
}

int touched_row_blocks(std::span<const int> queries, std::span<const int> keys, int first_position, int rows) {
  int most = 0;
  for (std::size_t i = 0; i < queries.size(); ++i)
    most = std::max(most, touched_row_blocks(queries[i], keys[i], first_position, rows));
  return most;
}

}  // namespace stof::cuda
