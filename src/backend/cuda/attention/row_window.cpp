// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/row_window.h"

#include <algorithm>

#include "src/base/error.h"

namespace stof::cuda {
namespace {

constexpr int kNoRow = 1 << 29;  // which no item has

// See StreamItem::split.
int part_of(const StreamItem& item) { return item.split >> 16 & 0xff; }
int parts_of(const StreamItem& item) { return std::max(1, item.split >> 24 & 0xff); }

// Behind what is there: where its steps and words begin now.
struct Moved {
  int first_step, first_word;
};

// A tile's numbers are where it begins, then states.
Moved append(ArrangedStream& to, const ArrangedStream& from, const TileSizes& tiles) {
  constexpr int kWords = 128;  // of a pattern
  const Moved moved{static_cast<int>(to.steps.size()) / (tiles.ints * tiles.of_step),
                    static_cast<int>(to.words.size()) / kWords};
  for (std::size_t i = 0; i < from.steps.size(); ++i) {
    const bool is_pattern = i % static_cast<std::size_t>(tiles.ints) != 0 && from.steps[i] >= 0;
    to.steps.push_back(from.steps[i] + (is_pattern ? moved.first_word : 0));
  }
  to.words.insert(to.words.end(), from.words.begin(), from.words.end());
  return moved;
}

}  // namespace

WindowShape window_shape(std::span<const ArrangedStream> layouts, const TileSizes& tiles, const WindowRows& rows) {
  if (rows.most == 0) return {};
  WindowShape shape;
  RowWindow& window = shape.window;
  for (const ArrangedStream& layout : layouts)
    for (const StreamItem& item : layout.items) {
      window.parts = std::max(window.parts, parts_of(item));
      window.row_blocks = std::max(window.row_blocks, item.row / tiles.rows + 1);
    }
  window.shift_rows = layouts.size() > 1 ? rows.shift : tiles.rows;
  const std::int64_t row_blocks = (rows.most + window.shift_rows - 2) / tiles.rows + 1;
  if (row_blocks >= window.row_blocks || row_blocks * window.parts > kMostSlots) return {};
  shape.row_blocks = static_cast<int>(row_blocks);
  return shape;
}

ArrangedStream in_row_order(std::span<const ArrangedStream> layouts, const TileSizes& tiles, const WindowShape& shape) {
  const auto [parts, row_blocks, shift_rows] = shape.window;
  const int of_layout = row_blocks * parts, of_group = of_layout * static_cast<int>(layouts.size());
  StreamItem none{};
  none.row = kNoRow;
  ArrangedStream all;
  all.groups = layouts.front().groups;
  all.items.assign(all.groups.size() * static_cast<std::size_t>(of_group), none);
  for (std::size_t n = 0; n < layouts.size(); ++n) {
    const ArrangedStream& layout = layouts[n];
    const Moved moved = append(all, layout, tiles);
    STOF_CHECK(layout.groups.size() == all.groups.size());
    for (std::size_t g = 0; g < layout.groups.size(); ++g) {
      const int first = static_cast<int>(g) * of_group + static_cast<int>(n) * of_layout;
      for (int at = layout.groups[g].first_item; at < layout.groups[g].first_item + layout.groups[g].item_count; ++at) {
        StreamItem item = layout.items[static_cast<std::size_t>(at)];
        const int block = item.row / tiles.rows, place = first + block * parts + part_of(item);
        if (item.split != 0) item.split = (item.split & ~0xffff) | block % shape.row_blocks * parts;
        item.row += static_cast<int>(n) * shift_rows;
        item.first_step += moved.first_step;
        all.items[static_cast<std::size_t>(place)] = item;
      }
    }
  }
  for (std::size_t g = 0; g < all.groups.size(); ++g)
    all.groups[g] = {
        .first_item = static_cast<int>(g) * of_group, .item_count = of_group, .slots = parts > 1 ? shape.items() : 0};
  return all;
}

}  // namespace stof::cuda
