// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/span_mask.h"

#include <algorithm>

#include "src/backend/cuda/attention/cost.h"
#include "src/backend/cuda/attention/row_block_list.h"
#include "src/backend/cuda/memory.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

std::int64_t most_queries(const TiledMask& mask) {
  return mask.most_queries > 0 ? mask.most_queries : mask.extent.queries;
}

// Of plans whose items are not chunks: what as many items as planned, each as long, need.
std::int64_t slots_as_planned(const SpanForm& form, const TiledMask& mask, std::int64_t slices) {
  const auto queries = narrow<int>(mask.extent.queries, "queries"), keys = narrow<int>(mask.extent.keys, "keys");
  return slots_of(form, {.queries = std::span(&queries, 1),
                         .keys = std::span(&keys, 1),
                         .slices_of_item = narrow<int>(slices, "slices of a launch")});
}

// Rows that no rule says.
DeviceMemory rows_on_device(const Gpu& gpu, std::span<const RowSpan> rows) {
  std::vector<RowKeys> on_device;
  on_device.reserve(rows.size());
  for (const RowSpan& row : rows) on_device.push_back({row.prefix_end, row.begin, row.end, 0});
  return to_device<RowKeys>(gpu, on_device);
}

// For as many places as a launch may have, or the kernel that makes the list looks at.
std::size_t most_of_list(const ListedMask& mask, const SpanMask& spans) {
  if (list_ints(mask, spans.sections, mask.shape.batch, 1) == 0) return 0;
  const std::int64_t row_blocks =
      ceil_div(most_queries(mask), std::int64_t{spans.form.block_rows}) + 1;  // aligned ones
  const std::int64_t entries = std::min<std::int64_t>(row_blocks * kSplits.back(), RowBlockListing::kMostEntries);
  return 1 + static_cast<std::size_t>(std::min<std::int64_t>(mask.shape.batch * entries, RowBlockListing::kMostPlaces));
}

double tiles_of_row(std::span<const RowSpan> rows) {
  double tiles = 0;
  for (const RowSpan& row : rows) tiles += static_cast<double>(row.prefix_end + row.end - row.begin) / 64;
  return tiles / static_cast<double>(std::max<std::size_t>(1, rows.size()));
}

}  // namespace

RowSpans SpanMask::of(const TiledLaunch& launch, double share) const {
  const SliceShape& s = launch.call.shape;
  const ItemRun& items = launch.items;
  // What the device alone knows is taken to be as long as it may be.
  const auto longest = narrow<int>(most_queries(launch.mask), "queries of an item");
  const bool known = !items.query_lengths.empty();
  const int key_step = launch.pages.table != nullptr ? launch.page_box : 8;
  const SpanSplit split =
      split_spans(form, {.queries = known ? std::span<const int>(items.query_lengths) : std::span(&longest, 1),
                         .keys = known ? std::span<const int>(items.key_lengths) : std::span(&s.keys, 1),
                         .slices_of_item = known ? s.heads.value : s.slices,
                         .key_step = key_step,
                         .known = known,
                         .share = share});
  return {.rows = rows.as<RowKeys>(),
          .rule = rule,
          .first_position = form.first_position,
          .key_step = key_step,
          .row_blocks = split.row_blocks,
          .split_blocks = split.split_blocks,
          .more_parts = split.split_blocks * (split.parts - 1),
          .parts = split.parts,
          .part_steps = split.part_steps,
          .last_first = split.last_first ? 1 : 0,
          .summed = split.summed ? 1 : 0,
          .trees = launch.trees,
          .aligned = split.aligned ? 1 : 0};
}

SpanMask make_span_mask(const ListedMask& mask, const StreamInstance& instance, std::vector<RowSpan> rows,
                        const DeviceCaps& caps) {
  AttentionShape of_stacks = mask.shape;
  of_stacks.heads /= mask.stacked_heads;
  SpanMask made;
  made.form = span_form(instance, mask.stacked_heads, costs_of(instance, caps), caps);
  made.sections = sections_of(of_stacks, {.tiles = tiles_of_row(rows),
                                          .items = ceil_div(most_queries(mask), made.form.block_rows),
                                          .teams = static_cast<std::int64_t>(made.form.teams)});
  if (const auto rule = span_rule(rows, mask.extent.offset(), mask.extent.keys))
    made.rule = {rule->prefix_end, rule->begin, rule->end};
  else made.rows = rows_on_device(*mask.gpu, rows);
  made.form.rows = std::move(rows);
  made.form.first_position = narrow<int>(mask.extent.offset(), "first position");
  if (mask.most_queries == 0) made.form.slots = slots_as_planned(made.form, mask, of_stacks.batch * of_stacks.heads);
  const auto slots = static_cast<std::size_t>(made.form.slots);
  const std::size_t parts = slots * static_cast<std::size_t>(instance.parts);
  made.workspace = {.partials = parts * partial_floats(instance.head_dim),
                    .arrivals = parts,
                    .queue = WorkspaceSize::kQueue,
                    .numbers = 4 * static_cast<std::size_t>(mask.shape.batch),
                    .list = most_of_list(mask, made)};
  return made;
}

}  // namespace stof::cuda
