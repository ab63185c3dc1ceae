// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/tiled_call.h"

#include <algorithm>
#include <numeric>

#include "src/backend/cuda/attention/numbers.h"
#include "src/backend/cuda/attention/rows.h"

namespace stof::cuda {
namespace {

bool consecutive(std::span<const AttentionItem> items) {
  for (std::size_t i = 1; i < items.size(); ++i)
    if (items[i].index != items[i - 1].index + 1) return false;
  return true;
}

// Lengths and places stay on the device.
ItemRun device_run(const stof::DeviceItems& items, bool packed) {
  return {.first = 0,
          .count = 1,
          .places = items.count,
          .query_rows = items.rows,
          .key_rows = items.keys,
          .in_a_row = packed,
          .q = items.q,
          .k = items.k,
          .v = items.v,
          .out = items.out,
          .lse = items.lse};
}

}  // namespace

// Numbers of an item run, where it has any: lengths and, in a packed batch, starts.
struct TiledCall::DeviceNumbers {
  const int *query_lengths = nullptr, *key_lengths = nullptr, *query_starts = nullptr, *key_starts = nullptr;
  bool made = false;                      // maybe by the launch in front
  std::optional<std::int64_t> rows = {};  // of all items at most; nothing: not known to be less than planned
};

// One launch: which items and heads, and whether it may overlap what is in front of it.
struct TiledCall::Piece {
  const ItemRun& run;
  const HeadRun& heads;
  const DeviceNumbers& numbers;
  bool overlap_previous;
};

TiledCall::TiledCall(const TiledMask& mask, const stof::AttentionCall& call, Together together)
    : mask_(mask),
      items_first_(call.memory),
      call_(call),
      stream_(static_cast<StreamHandle>(call.stream)),
      by_item_(mask.extent.batch > 1),
      few_items_(together.few_items),
      mixed_(together.heads),
      together_(together.items || mask.blocks == nullptr),
      items_(call.memory) {
  if (call.device_items.count > 0) {
    items_.push_back(device_run(call.device_items, call.packed));
    return;
  }
  std::optional<ItemRun> classes = together.classes && !by_item_ ? class_run(call, mask.shape.batch) : std::nullopt;
  if (classes && is_alike(*classes) && classes->places <= kMostInGrid) {
    items_.push_back(std::move(*classes));
    return;
  }
  if (call.residues > 1) {
    items_first_ = classes_of_each_item(call);
    call_.items = items_first_, call_.residues = 1, call_.packed = false;
  }
  const bool one_by_one = by_item_ && !(together_ && consecutive(call_.items));
  items_ = item_runs(call_, one_by_one ? 1 : std::min(mask_.shape.batch, kMostInGrid));
}

std::int64_t TiledCall::item_of(const ItemRun& run) const { return by_item_ ? call_.items[run.first].index : 0; }

std::span<const HeadRun> TiledCall::heads_of(const ItemRun& run) const {
  if (together_) return std::span(mask_.all_heads).first(1);
  const auto item = static_cast<std::size_t>(item_of(run));
  return mixed_ ? std::span(mask_.all_heads).subspan(item, 1) : std::span(mask_.head_runs[item]);
}

// Whether visit(box) is true of every tensor of every launch.
template <class Visit>
bool TiledCall::all_boxes(const Visit& visit) const {
  for (const ItemRun& run : items_)
    for (const HeadRun& heads : heads_of(run))
      for (const TensorBox& box : boxes_of(call_, run, heads, box_rows()).all())
        if (!visit(box)) return false;
  return true;
}

BoxRows TiledCall::box_rows() const {
  const bool in_pages = call_.pages.table != nullptr;
  return {.keys = in_pages ? static_cast<int>(std::min<std::int64_t>(mask_.key_step, call_.pages.size)) : mask_.key_box,
          .stacked_heads = mask_.stacked_heads};
}

PageTable TiledCall::pages_of(const ItemRun& run) const {
  PageTable pages = page_table_of(call_.pages);
  if (pages.table == nullptr) return pages;
  pages.table += call_.items[run.first].place * pages.item_stride;
  pages.item_stride *= run.place;
  return pages;
}

DraftTrees TiledCall::trees_of(const ItemRun& run) const {
  DraftTrees trees = draft_trees_of(call_);
  trees.words += call_.items[run.first].place * trees.item_stride;
  trees.item_stride *= run.place;
  return trees;
}

bool TiledCall::fits_maps() const { return all_boxes(fits); }

Refusal TiledCall::refuses_maps() const {
  Refusal refusal;
  all_boxes([&](const TensorBox& box) { return !(refusal = refuses(box)); });
  return refusal;
}

void TiledCall::run(const LaunchPiece& launch) const {
  const CurrentGpu current(*mask_.gpu);  // encoding a map needs one too
  with_workspace(*mask_.workspaces, call_, [&](Workspace& workspace) { launch_all(launch, workspace); });
}

void TiledCall::launch_all(const LaunchPiece& launch, Workspace& workspace) const {
  for (const ItemRun& run : items_) {
    const DeviceNumbers numbers =
        call_.device_items.count > 0 ? numbers_on_device(run, workspace) : write_numbers(run, workspace);
    const std::span<const HeadRun> all_heads = heads_of(run);
    for (const HeadRun& heads : all_heads) {
      const bool behind_numbers = &heads == all_heads.data() && numbers.made;
      launch_piece(launch, {run, heads, numbers, !behind_numbers}, workspace);
    }
  }
}

// Every item as long as the others, so that the kernel needs no lists of lengths. Of items much shorter than planned,
// if they are not classes, a list by these says which row blocks there are (row_block_list.h).
bool TiledCall::is_alike(const ItemRun& run) const {
  const auto is = [](int wanted) { return [wanted](int length) { return length == wanted; }; };
  const bool near_planned = std::int64_t{4} * run.query_lengths.front() >= 3 * mask_.extent.queries;
  return (near_planned || run.residues > 1) && std::ranges::all_of(run.query_lengths, is(run.query_lengths.front())) &&
         std::ranges::all_of(run.key_lengths, is(run.key_lengths.front()));
}

TiledCall::DeviceNumbers TiledCall::numbers_on_device(const ItemRun& run, Workspace& workspace) const {
  const stof::DeviceItems& items = call_.device_items;
  if (items.starts != nullptr)
    return {.query_lengths = items.lengths,
            .key_lengths = items.lengths,
            .query_starts = items.starts,
            .key_starts = items.starts,
            .made = !items.settled};
  int* const to = workspace.numbers;
  place_items(*mask_.gpu, call_, to);
  DeviceNumbers numbers{.query_lengths = to, .key_lengths = to + run.places, .made = true};
  if (items.cu_q == nullptr) return numbers;
  numbers.query_starts = to + 2 * run.places;
  numbers.key_starts = to + 3 * run.places;
  numbers.rows = items.rows;
  return numbers;
}

TiledCall::DeviceNumbers TiledCall::write_numbers(const ItemRun& run, Workspace& workspace) const {
  DeviceNumbers numbers;
  numbers.rows = std::accumulate(run.query_lengths.begin(), run.query_lengths.end(), std::int64_t{0});
  if (run.places <= few_items_ && run.residues == 1) return numbers;
  std::pmr::vector<int> values(call_.memory);
  values.reserve(4 * run.query_lengths.size());
  const auto add = [&](const std::pmr::vector<int>& more) {
    const int* const place = workspace.numbers + values.size();
    values.insert(values.end(), more.begin(), more.end());
    return place;
  };
  if (!is_alike(run)) {
    numbers.query_lengths = add(run.query_lengths);
    numbers.key_lengths = add(run.key_lengths);
  }
  if (run.in_a_row && run.places > 1) {
    numbers.query_starts = add(run.query_starts);
    numbers.key_starts = add(run.key_starts);
  }
  numbers.made = !values.empty();
  cuda::write_numbers(*mask_.gpu, workspace.numbers, values, stream_);
  return numbers;
}

SliceShape TiledCall::shape_of(const ItemRun& run, const HeadRun& heads, const DeviceNumbers& numbers) const {
  const std::int64_t of_item = mixed_ ? 1 : heads.count / mask_.stacked_heads;  // slices of an item and a class
  const auto slices = static_cast<int>(run.places * of_item * run.residues);
  const auto queries = static_cast<int>(mask_.extent.queries), keys = static_cast<int>(mask_.extent.keys);
  const bool known = !run.query_lengths.empty();
  return {.slices = slices,
          .heads = static_cast<int>(of_item),
          .heads_per_kv = static_cast<int>(heads.per_kv),
          .residues = static_cast<int>(run.residues),
          .queries = queries,
          .keys = keys,
          .item_queries = known ? run.query_lengths.front() : queries,
          .item_keys = known ? run.key_lengths.front() : keys,
          .map_keys = static_cast<int>(run.key_rows),
          .first_position = mask_.first_position,
          .numbers_made = numbers.made ? 1 : 0,
          .first_slice = call_.backwards ? slices - 1 : 0,
          .slice_step = call_.backwards ? -1 : 1,
          .query_lengths = numbers.query_lengths,
          .key_lengths = numbers.key_lengths,
          .query_starts = numbers.query_starts,
          .key_starts = numbers.key_starts};
}

AttentionOutput TiledCall::output_of(const ItemRun& run, const HeadRun& heads) const {
  const AttentionItem& first = call_.items[run.first];
  AttentionOutput out{};
  out.values = static_cast<std::uint16_t*>(call_.out) + first.out + heads.first * call_.out_strides.head;
  out.row_stride = call_.out_strides.row;
  out.head_stride = call_.out_strides.head;
  out.item_stride = run.out;
  out.residue_stride = run.out_class;
  out.head_dim = static_cast<int>(call_.head_dim);
  out.read_next = call_.out_read_next ? 1 : 0;
  if (call_.lse == nullptr) return out;
  out.lse = call_.lse + first.lse + heads.first * call_.lse_strides.head;
  out.lse_row_stride = call_.lse_strides.row;
  out.lse_residue_stride = run.lse_class;
  out.lse_head_stride = call_.lse_strides.head;
  out.lse_item_stride = run.lse;
  return out;
}

void TiledCall::launch_piece(const LaunchPiece& launch, const Piece& piece, Workspace& workspace) const {
  const auto& [run, heads, numbers, overlap] = piece;
  const AttentionOutput out = output_of(run, heads);
  const ScoreScale scale = score_scale(call_);
  launch({.mask = mask_,
          .boxes = boxes_of(call_, run, heads, box_rows()),
          .call = {shape_of(run, heads, numbers), out, scale.log2, scale.cap_log2},
          .heads = heads,
          .item = item_of(run),
          .pages = pages_of(run),
          .page_box = box_rows().keys,
          .trees = trees_of(run),
          .bias = score_bias(call_, heads.first, scale.log2),
          .workspace = workspace,
          .stream = stream_,
          .rows = numbers.rows.value_or(run.places * mask_.extent.queries),
          .items = run,
          .overlap_previous = overlap,
          .beside = items_.size() == 1 && heads_of(run).size() == 1 ? call_.beside : Beside{}});
}

}  // namespace stof::cuda
