// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/layout.h"

#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

std::vector<RowEntry> row_entries(const BlockLayout& layout) {
  std::vector<RowEntry> entries;
  entries.reserve(layout.entries.size());
  for (const BlockEntry& entry : layout.entries) entries.push_back({entry.key_start, entry.bitmap});
  return entries;
}

}  // namespace

DeviceBlocks::DeviceBlocks(const Gpu& gpu, const BlockLayout& layout)
    : gpu_(&gpu),
      group_of_(to_device<int>(gpu, layout.group_of)),
      row_begin_(to_device<std::int64_t>(gpu, layout.row_begin)),
      entries_(to_device<RowEntry>(gpu, row_entries(layout))),
      bitmaps_(to_device<std::uint64_t>(gpu, layout.bitmaps)),
      heads_(narrow<int>(layout.extent.heads, "heads")),
      row_blocks_(narrow<int>(layout.row_blocks, "row blocks")),
      block_q_(layout.format.block_q),
      first_position_(narrow<int>(layout.first_position, "first position")) {
  STOF_CHECK(layout.format.block_kv <= 64);
}

RowLayoutView DeviceBlocks::view() const {
  return {.group_of = group_of_.as<int>(),
          .row_begin = row_begin_.as<long long>(),
          .entries = entries_.as<RowEntry>(),
          .bitmaps = bitmaps_.as<unsigned long long>(),
          .heads = heads_,
          .row_blocks = row_blocks_,
          .block_q = block_q_,
          .first_position = first_position_};
}

}  // namespace stof::cuda
