// SPDX-License-Identifier: Apache-2.0
#include "src/layout/table_form.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "src/base/error.h"

namespace stof {
namespace {

constexpr std::int64_t kMostWidth = std::int64_t{1} << 20;

void check_count(std::string_view name, std::int64_t got, std::vector<std::int64_t> accepted) {
  if (std::find(accepted.begin(), accepted.end(), got) != accepted.end()) return;
  std::sort(accepted.begin(), accepted.end());
  accepted.erase(std::unique(accepted.begin(), accepted.end()), accepted.end());
  fail(ErrorKind::invalid_argument, "table: {} = {}; accepted here: {}", name, got, fmt::join(accepted, ", "));
}

void check_block(std::string_view name, std::int64_t size) {
  if (size < 64 || size > kMostWidth || size % 64 != 0)
    fail(ErrorKind::invalid_argument, "table: {} = {}; accepted: multiples of 64 up to {}", name, size, kMostWidth);
}

void check_range(std::string_view name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most)
    fail(ErrorKind::invalid_argument, "table: {} = {}; accepted: {}..{}", name, value, least, most);
}

std::int64_t most_tiles(const TableForm& form) {
  const MaskTable& table = form.table;
  const std::int64_t in_blocks = table.block_kv / TableForm::kKeys;
  std::int64_t most = form.tiles;
  if (table.kind == TableKind::lists) most = std::min(most, table.width * in_blocks);
  return table.capacity > 0 ? std::min(most, table.capacity) : most;
}

void place_groups(TableForm& form, const BoundMask& limit) {
  const auto& [queries, keys, batch, heads] = form.extent;
  std::map<std::tuple<std::int64_t, std::int64_t, int>, int> placed;
  std::set<std::pair<std::int64_t, std::int64_t>> tables;
  for (std::int64_t item = 0; item < batch; ++item)
    for (std::int64_t head = 0; head < heads; ++head) {
      TableGroup group{.item = form.table.batch > 1 ? item : 0,
                       .head = head / (heads / form.table.heads),
                       .limit = limit.group_of(item, head)};
      const auto [found, added] =
          placed.try_emplace({group.item, group.head, group.limit}, static_cast<int>(form.groups.size()));
      if (added) {
        group.first = tables.emplace(group.item, group.head).second;
        form.groups.push_back(group);
      }
      form.group_of.push_back(found->second);
    }
}

}  // namespace

TableForm form_of(const MaskTable& table, const BoundMask& limit, std::int64_t kv_heads) {
  TableForm form{.table = table, .extent = limit.extent(), .groups = {}, .group_of = {}};
  const auto& [queries, keys, batch, heads] = form.extent;
  const bool lists = table.kind == TableKind::lists, pairs = is_of_pairs(table.kind);
  check_count("batch", table.batch, {1, batch});
  check_count("heads", table.heads, {1, kv_heads, heads});
  if (!pairs) check_block("block_q", table.block_q);
  if (!pairs) check_block("block_kv", table.block_kv);
  if (lists) check_range("width", table.width, 1, kMostWidth);
  check_range("capacity", table.capacity, 0, std::int64_t{1} << 30);
  form.row_blocks = ceil_div(queries, TableForm::kRows);
  form.tiles = ceil_div(keys, TableForm::kKeys);
  form.columns = lists                             ? table.width
                 : table.kind == TableKind::bits   ? keys
                 : table.kind == TableKind::packed ? ceil_div(keys, 8)
                                                   : ceil_div(keys, table.block_kv);
  if (pairs) form.table.block_q = form.table.block_kv = TableForm::kKeys;
  form.most_tiles = most_tiles(form);
  place_groups(form, limit);
  return form;
}

void check_contents(const TableForm& form, const TableContents& contents) {
  const bool lists = form.table.kind == TableKind::lists;
  constexpr std::int64_t kMostStride = std::int64_t{1} << 44;
  if (contents.data == nullptr) fail(ErrorKind::invalid_argument, "table: data is a null pointer");
  if (lists && reinterpret_cast<std::uintptr_t>(contents.data) % sizeof(std::int32_t) != 0)
    fail(ErrorKind::invalid_argument, "table: data is at {}; accepted for i32: a multiple of {}", contents.data,
         sizeof(std::int32_t));
  if (reinterpret_cast<std::uintptr_t>(contents.status) % alignof(TableStatus) != 0)
    fail(ErrorKind::invalid_argument, "table: status is at {}; accepted: a multiple of {}",
         static_cast<const void*>(contents.status), alignof(TableStatus));
  check_range("batch_stride", contents.batch_stride, 0, kMostStride);
  check_range("head_stride", contents.head_stride, 0, kMostStride);
  check_range("row_stride", contents.row_stride, 0, kMostStride);
}

}  // namespace stof
