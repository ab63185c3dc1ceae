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

WindowShape window_shape(const ArrangedStream& layout, int block_rows, std::int64_t most) {
  if (most == 0) return {};
  WindowShape shape;
  RowWindow& window = shape.window;
  for (const StreamItem& item : layout.items) {
    window.parts = std::max(window.parts, parts_of(item));
    window.row_blocks = std::max(window.row_blocks, item.row / block_rows + 1);
  }
  const std::int64_t row_blocks = (most + block_rows - 2) / block_rows + 1;
  if (row_blocks >= window.row_blocks || row_blocks * window.parts > kMostSlots) return {};
  shape.row_blocks = static_cast<int>(row_blocks);
  return shape;
}

void put_in_row_order(ArrangedStream& layout, int block_rows, const WindowShape& shape) {
  const int parts = shape.window.parts, of_group = shape.window.row_blocks * parts;
  StreamItem none{};
  none.row = kNoRow;
  std::vector<StreamItem> items(layout.groups.size() * static_cast<std::size_t>(of_group), none);
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    StreamGroup& group = layout.groups[g];
    const int first = static_cast<int>(g) * of_group;
    for (int at = group.first_item; at < group.first_item + group.item_count; ++at) {
      StreamItem item = layout.items[static_cast<std::size_t>(at)];
      const int block = item.row / block_rows, place = first + block * parts + part_of(item);
      if (item.split != 0) item.split = (item.split & ~0xffff) | block % shape.row_blocks * parts;
      items[static_cast<std::size_t>(place)] = item;
    }
    group = {.first_item = first, .item_count = of_group, .slots = parts > 1 ? shape.items() : 0};
  }
  layout.items = std::move(items);
}

}  // namespace stof::cuda
