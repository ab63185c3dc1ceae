// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/row_block_list.h"

#include <algorithm>
#include <utility>

namespace stof::cuda {
namespace {

// A round of row blocks without rows takes about 0.8 us, of waiting for the queue and for lengths: 70 us for 89 rounds
// of "short" in docs/kernels/ragged.md. The launch in front takes what 3 or 4 do: "half" has 5.6 rounds and gains 1
// to 7 %.
constexpr std::int64_t kRoundsMissing = 4;

// In one CTA's look.
bool fits(std::int64_t items, std::int64_t entries) {
  return items <= RowBlockListing::kMostItems && entries <= RowBlockListing::kMostEntries &&
         items * entries <= RowBlockListing::kMostPlaces;
}

const Kernel& list_kernel(const Gpu& gpu) {
  return plain_kernel(gpu, "row_block_list", "list_row_blocks_kernel", RowBlockListing::kThreads);
}

}  // namespace

void prepare_row_block_lists(const Gpu& gpu) { list_kernel(gpu); }

std::size_t list_ints(const ListedMask& mask, const Sections& sections, std::int64_t items, std::int64_t entries) {
  const std::int64_t heads = mask.mixes_heads ? 1 : mask.shape.heads / mask.stacked_heads;
  const bool side_by_side = sections.width == 1 || sections.width >= heads;
  return items > 1 && fits(items, entries) && side_by_side ? 1 + static_cast<std::size_t>(items * entries) : 0;
}

bool list_pays(const TiledLaunch& launch, const ListedBlocks& blocks, std::int64_t at_once) {
  const SliceShape& s = launch.call.shape;
  const StreamLayout& layout = blocks.layout;
  if (launch.workspace.list == nullptr || s.query_lengths == nullptr || s.residues > 1) return false;
  const std::int64_t items = s.slices / s.heads;
  if (!fits(items, layout.item_count) || std::cmp_greater(1 + items * layout.item_count, blocks.room)) return false;
  const std::int64_t queries = launch.mask.most_queries > 0 ? launch.mask.most_queries : s.queries;
  const std::int64_t planned = std::int64_t{s.slices / s.heads} * queries;
  const double missing = 1 - static_cast<double>(launch.rows) / static_cast<double>(std::max<std::int64_t>(1, planned));
  return missing * s.slices * layout.item_count > static_cast<double>(kRoundsMissing * at_once);
}

const int* list_row_blocks(const ListedMask& mask, const TiledLaunch& launch, const ListedBlocks& blocks) {
  const SliceShape& s = launch.call.shape;
  const int items = s.slices / s.heads;
  const Sections::Front front = blocks.sections.of_items(s.heads).front(items);
  RowBlockListing listing{.shape = s,
                          .entries = blocks.spans ? nullptr : blocks.layout.items,
                          .entry_count = blocks.layout.item_count,
                          .split_blocks = blocks.spans ? int{blocks.spans->split_blocks} : 0,
                          .more_parts = blocks.spans ? blocks.spans->more_parts : 0,
                          .aligned = blocks.spans ? blocks.spans->aligned : 0,
                          .section = front.width,
                          .last_section = front.count,
                          .rows = blocks.rows,
                          .list = launch.workspace.list};
  void* arguments[] = {&listing};
  list_kernel(*mask.gpu).launch({.grid = {}, .stream = launch.stream, .overlap_previous = true}, arguments);
  return listing.list;
}

}  // namespace stof::cuda
