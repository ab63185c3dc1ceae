// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/listed_mask.h"

#include <algorithm>

#include "src/backend/cuda/attention/mixed_heads.h"
#include "src/backend/cuda/attention/row_block_list.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

constexpr double kMostPartialBytes = 512e6;

// Heads, or stacks of them, that the lists are of, as if each stack were a head.
struct Stacks {
  std::int64_t of_item = 1;
  std::vector<int> group_of;  // [items][of_item]
};

Stacks stacks_of(const ListedMask& mask) {
  Stacks stacks{.of_item = mask.shape.heads / mask.stacked_heads, .group_of = {}};
  for (std::size_t head = 0; head < mask.group_of.size(); head += static_cast<std::size_t>(mask.stacked_heads))
    stacks.group_of.push_back(mask.group_of[head]);
  return stacks;
}

// Of slices, which are stacks of items. teams: see set_up.
Sections sections_for(const ListedMask& mask, const Stacks& stacks, const ArrangedStream& arranged, int tiles,
                      std::int64_t teams) {
  std::vector<double> heads(arranged.groups.size(), 0);
  for (const int group : stacks.group_of) ++heads[static_cast<std::size_t>(group)];
  double items = 0, steps = 0, longest = 0;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const StreamGroup& group = arranged.groups[i];
    items += heads[i] * group.item_count;
    for (int at = group.first_item; at < group.first_item + group.item_count; ++at) {
      const double of_item = arranged.items[static_cast<std::size_t>(at)].steps;
      steps += heads[i] * of_item;
      longest = std::max(longest, of_item);
    }
  }
  AttentionShape of_stacks = mask.shape;
  of_stacks.heads = stacks.of_item;
  const double average = std::max(1.0, steps) / std::max(1.0, items);
  const std::int64_t of_stack =
      static_cast<std::int64_t>(items) / std::max<std::int64_t>(1, std::ssize(stacks.group_of));
  return sections_of(of_stacks, {.tiles = tiles * average,
                                 .longest = std::max(1.0, longest / average),
                                 .items = mask.window.window.parts > 0 ? mask.window.items() : of_stack,
                                 .teams = teams});
}

// One list for all heads of an item, which go through it as slices would.
void put_heads_together(ListedMask& mask, const Stacks& stacks, ArrangedStream& arranged) {
  const auto heads = narrow<int>(stacks.of_item, "heads");
  const Sections::Front front = mask.sections.front(heads);
  std::optional<MixedHeads> mixed =
      mix_heads(arranged, {.group_of = stacks.group_of, .heads = heads, .width = front.width, .turns = front.count});
  if (!mixed) return;
  mask.mixes_heads = true;
  mask.sections = mask.sections.of_items(heads);
  arranged.items = std::move(mixed->items), arranged.groups = std::move(mixed->groups);
}

// Of every mask as many row blocks, where none is split: then a slice's list is found by its mask's number.
bool are_alike(const std::vector<StreamGroup>& groups) {
  return std::ranges::all_of(groups, [&](const StreamGroup& group) {
    return group.item_count == groups.front().item_count && group.slots == 0;
  });
}

WorkspaceSize workspace_size(const ListedMask& mask, const ListShape& shape, std::int64_t teams) {
  std::size_t slots = 0;
  std::int64_t items = 0;
  for (const StreamGroup& group : mask.groups) {
    slots = std::max(slots, static_cast<std::size_t>(group.slots));
    items = std::max(items, std::int64_t{group.item_count});
  }
  const AttentionShape& s = mask.shape;
  const std::int64_t lists = mask.mixes_heads ? s.batch : s.batch * (s.heads / mask.stacked_heads);
  const std::size_t parts = static_cast<std::size_t>(lists) * slots * static_cast<std::size_t>(shape.parts);
  const bool queued = shape.queued && lists * items > kRoundsDealt * teams;
  return {.partials = parts * partial_floats(shape.head_dim),
          .arrivals = parts,
          .queue = queued ? WorkspaceSize::kQueue : 0,
          .numbers = 4 * static_cast<std::size_t>(s.batch),
          .list = queued && shape.listed && mask.window.window.parts == 0 && !mask.mixes_items
                      ? list_ints(mask, mask.sections, s.batch, items)
                      : 0};
}

}  // namespace

int most_steps(int heaviest, int splits) { return splits == 1 ? 0 : (heaviest + splits - 1) / splits; }

std::size_t partial_floats(int head_dim) { return std::size_t{128} * static_cast<std::size_t>(head_dim / 2 + 4); }

bool partials_fit(const SplitEstimate& split, const ListShape& shape) {
  return static_cast<double>(split.parts * shape.parts) * static_cast<double>(4 * partial_floats(shape.head_dim)) <=
         kMostPartialBytes;
}

ArrangedStream arrange_lists(const BlockLayout& layout, const ListShape& shape, int splits) {
  std::int64_t heaviest = 0;
  for (std::int64_t row = 0; row < layout.groups * layout.row_blocks; ++row) {
    const std::int64_t* begin = layout.row_begin.data() + row / layout.row_blocks + row;
    heaviest = std::max(heaviest, begin[1] - begin[0]);
  }
  const int steps = static_cast<int>(ceil_div(heaviest, shape.tiles));
  return arrange_stream(layout, {.parts = shape.parts,
                                 .tiles = shape.tiles,
                                 .most_steps = most_steps(steps, splits),
                                 .covering = shape.covering,
                                 .stacked_heads = shape.stacked_heads});
}

void set_up(ListedMask& mask, ArrangedStream arranged, const ListShape& shape, std::int64_t teams) {
  const Gpu& gpu = *mask.gpu;
  const int block_rows = 64 / shape.stacked_heads * shape.parts;
  const Stacks stacks = stacks_of(mask);
  mask.window = window_shape(arranged, block_rows, mask.most_queries);
  mask.sections = sections_for(mask, stacks, arranged, shape.tiles, teams);
  if (mask.window.window.parts > 0) {
    put_in_row_order(arranged, block_rows, mask.window);
  } else if (shape.by_slice && mask.extent.batch > 1 && are_alike(arranged.groups)) {
    mask.mixes_items = true;
    mask.slice_groups = to_device<int>(gpu, stacks.group_of);
  } else if (heads_differ(stacks.group_of, stacks.of_item)) {
    put_heads_together(mask, stacks, arranged);
  }
  mask.groups = std::move(arranged.groups);
  mask.items = to_device<StreamItem>(gpu, arranged.items);
  mask.steps = to_device<int>(gpu, arranged.steps);
  mask.step_ints = shape.tiles * (1 + shape.parts);
  mask.key_step = key_step_of(arranged, 1 + shape.parts, mask.extent.keys);
  mask.first_steps = to_device<int>(gpu, first_steps(arranged, mask.step_ints));
  mask.words = to_device<std::uint32_t>(gpu, arranged.words);
  mask.workspaces = std::make_unique<WorkspacePool>(gpu, workspace_size(mask, shape, teams));
}

void set_up(ListedMask& mask, const TableProblem& problem, std::int64_t head_dim, std::int64_t teams) {
  const TableForm& form = problem.form;
  mask.sections = sections_of(
      mask.shape, {.tiles = static_cast<double>(form.most_tiles), .items = form.row_blocks, .teams = teams});
  mask.groups = {{.first_item = 0, .item_count = narrow<int>(form.row_blocks, "row blocks"), .slots = 0}};
  mask.planner = std::make_unique<const TablePlanner>(*mask.gpu, form, problem.limit);
  std::vector<int> groups;
  for (std::int64_t item = 0; item < problem.shape.batch; item += form.extent.batch)
    groups.insert(groups.end(), form.group_of.begin(), form.group_of.end());
  mask.slice_groups = to_device<int>(*mask.gpu, groups);
  const ListShape shape{.parts = 1, .tiles = 1, .head_dim = static_cast<int>(head_dim), .queued = true};
  mask.workspaces = std::make_unique<WorkspacePool>(*mask.gpu, workspace_size(mask, shape, teams));
}

StreamLayout ListedMask::layout(const TiledLaunch& launch, bool in_window) const {
  const StreamGroup& group = groups[static_cast<std::size_t>(launch.heads.group)];
  StreamLayout layout{.items = items.as<StreamItem>() + group.first_item,
                      .steps = steps.as<int>(),
                      .first_steps = first_steps.as<int>() + group.first_item * step_ints,
                      .words = words.as<unsigned>(),
                      .item_count = in_window && window.window.parts > 0 ? window.items() : group.item_count,
                      .slots = group.slots,
                      .group_of = nullptr};
  if (planner != nullptr || mixes_items)
    layout.group_of = slice_groups.as<int>() + launch.item * (shape.heads / stacked_heads);
  if (planner != nullptr) {
    const DeviceTable& table = planner->table();
    layout.items = table.items, layout.words = table.pattern_words;
    layout.steps = table.steps, layout.first_steps = table.first_steps;
  }
  return layout;
}

}  // namespace stof::cuda
