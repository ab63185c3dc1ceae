// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/row_window.h"

#include <algorithm>

namespace stof::cuda {
namespace {

constexpr int kNoRow = 1 << 29;  // which no item has

// See StreamItem::split.
int part_of(const StreamItem& item) { return item.split >> 16 & 0xff; }
int parts_of(const StreamItem& item) { return std::max(1, item.split >> 24 & 0xff); }

}  // namespace

WindowShape window_shape(const ArrangedStream& arranged, int block_rows, std::int64_t most_queries) {
  if (most_queries == 0) return {};
  WindowShape shape;
  for (const StreamItem& item : arranged.items) {
    shape.window.parts = std::max(shape.window.parts, parts_of(item));
    shape.window.row_blocks = std::max(shape.window.row_blocks, item.row / block_rows + 1);
  }
  const std::int64_t row_blocks = (most_queries + block_rows - 2) / block_rows + 1;
  if (row_blocks >= shape.window.row_blocks || row_blocks * shape.window.parts > kMostSlots) return {};
  shape.row_blocks = static_cast<int>(row_blocks);
  return shape;
}

void put_in_row_order(ArrangedStream& arranged, int block_rows, const WindowShape& shape) {
  const auto [parts, row_blocks] = shape.window;
  StreamItem none{};
  none.row = kNoRow;
  std::vector<StreamItem> items(arranged.groups.size() * static_cast<std::size_t>(row_blocks * parts), none);
  int first = 0;
  for (StreamGroup& group : arranged.groups) {
    for (int at = group.first_item; at < group.first_item + group.item_count; ++at) {
      StreamItem item = arranged.items[static_cast<std::size_t>(at)];
      const int block = item.row / block_rows, part = part_of(item);
      if (item.split != 0) item.split = (item.split & ~0xffff) | block % shape.row_blocks * parts;
      items[static_cast<std::size_t>(first + block * parts + part)] = item;
    }
    group = {.first_item = first, .item_count = row_blocks * parts, .slots = parts > 1 ? shape.items() : 0};
    first += row_blocks * parts;
  }
  arranged.items = std::move(items);
}

}  // namespace stof::cuda
