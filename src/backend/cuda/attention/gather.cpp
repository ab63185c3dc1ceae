// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/gather.h"

#include <algorithm>

#include "src/backend/cuda/attention/arrange.h"
#include "src/backend/cuda/attention/cost.h"
#include "src/backend/cuda/attention/tiled_mask.h"
#include "src/backend/cuda/driver/device.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

constexpr std::array kSplits = {1, 2, 4, 8, 16, 32, 64};  // tried, of the heaviest row block

struct GatherMask : TiledMask {
  GatherInstance instance = {};
  std::vector<GatherGroup> groups;
  DeviceMemory items, units, words;
};

int units_of(std::int64_t pieces, const GatherInstance& instance) {
  return static_cast<int>(std::max<std::int64_t>(1, ceil_div(pieces, instance.pieces)));
}

int most_units(int heaviest, int splits) { return splits == 1 ? 0 : (heaviest + splits - 1) / splits; }

WorkspaceSize workspace_size(const GatherMask& mask) {
  std::size_t slots = 0;
  for (const GatherGroup& group : mask.groups) slots = std::max(slots, static_cast<std::size_t>(group.slots));
  const AttentionShape& s = mask.shape;
  const auto slices = static_cast<std::size_t>(s.batch * s.heads);
  return {.partials = slices * slots * 128 * static_cast<std::size_t>(mask.instance.head_dim / 2 + 4),
          .arrivals = slices * slots,
          .numbers = 4 * static_cast<std::size_t>(s.batch)};
}

int heaviest_units(const AttentionProblem& problem, const GatherInstance& instance) {
  const auto& row_blocks = problem.key_pieces.row_blocks;
  return units_of(row_blocks.empty() ? 0 : row_blocks.back().pieces, instance);
}

// Of all pieces, those of row blocks that have more than `pieces`.
double share_of_long_ones(const KeyPieces& key_pieces, double pieces) {
  double longer = 0, all = 0;
  for (const KeyPieces::Bin& bin : key_pieces.row_blocks) {
    const double count = static_cast<double>(bin.count) * static_cast<double>(bin.pieces);
    all += count;
    if (static_cast<double>(bin.pieces) > pieces) longer += count;
  }
  return all > 0 ? longer / all : 0;
}

}  // namespace

int most_units_of(const AttentionProblem& problem, const GatherInstance& instance, int splits) {
  return most_units(heaviest_units(problem, instance), splits);
}

Refusal gather_refuses(const AttentionProblem& problem, const DeviceCaps& caps) {
  if (Refusal why = refuses_tiles(problem, caps, largest_head_dim(gather_instances()))) return why;
  if (Refusal why = refuses_capped(problem)) return why;
  if (Refusal why = refuses_trees(problem)) return why;
  if (Refusal why = refuses_biased(problem)) return why;
  if (!problem.key_pieces.measured)
    return fmt::format("most 64 rows touch more than {} tiles of 64 keys", KeyPieces::kMostTypicalTiles);
  // Each reads its keys by itself: beside narrow heads four causal ones of 16,384 keys took 528 us, and 243 by lists
  // (bench/results/h200-masks-of-items.txt).
  constexpr double kTypicalPieces = KeyPieces::kMostTypicalTiles * 64 / KeyPieces::kKeys, kMostOfLongOnes = 0.5;
  if (share_of_long_ones(problem.key_pieces, kTypicalPieces) > kMostOfLongOnes)
    return fmt::format("64 rows that touch more than {} tiles of 64 keys have most of the keys",
                       KeyPieces::kMostTypicalTiles);
  return std::nullopt;
}

std::vector<AttentionPlan> gather_candidates(const AttentionProblem& problem, const DeviceCaps& caps) {
  std::vector<AttentionPlan> plans;
  const int head_dim = rounded_head_dim(gather_instances(), problem.shape.head_dim).value();
  for (const GatherInstance& instance : gather_instances()) {
    if (instance.head_dim != head_dim) continue;
    const int units = heaviest_units(problem, instance);
    for (const int splits : kSplits) {
      if (splits > units) break;
      AttentionPlan plan;
      plan.kernel = kGatherAttention;
      plan.instance = name_of(instance, problem.shape.dtype);
      plan.format = {.block_q = 64, .block_kv = 64, .key_step = 64};
      plan.splits = splits;
      plan.predicted_us = predict_gather(problem, pricing_of(caps), instance, most_units(units, splits));
      plan.reason = fmt::format(
          "64 rows at a time with their keys in pieces of {}, {} at once; tensors off 16 bytes go to mma_attention{}",
          KeyPieces::kKeys, instance.pieces, launches_in_words(problem, ListsOf::one_mask));
      plans.push_back(std::move(plan));
    }
  }
  return plans;
}

ArrangedMask arrange_gather_mask(const AttentionPlan& plan, PackedMask packed, const Device& device) {
  auto mask = std::make_shared<GatherMask>();
  mask->instance = instance_named(gather_instances(), plan.instance, packed.shape.dtype);
  ArrangedGather arranged = arrange_gather(packed.blocks, {.pieces = mask->instance.pieces});
  if (plan.splits > 1) {
    int heaviest = 0;
    for (const GatherItem& item : arranged.items) heaviest = std::max(heaviest, item.units);
    arranged = arrange_gather(packed.blocks, {mask->instance.pieces, most_units(heaviest, plan.splits)});
  }
  if (device.ordinal == kDescribed) return mask;
  const Gpu& gpu = gpu_of(device);
  set_up(*mask, std::move(packed), gpu);
  mask->key_box = KeyPieces::kKeys;
  mask->groups = std::move(arranged.groups);
  mask->items = to_device<GatherItem>(gpu, arranged.items);
  mask->units = to_device<int>(gpu, arranged.units);
  mask->words = to_device<std::uint32_t>(gpu, arranged.words);
  mask->kernel = &instance_kernel(gpu, plan.instance, kGatherEntry);
  mask->ragged = &instance_kernel(gpu, plan.instance, kRaggedGatherEntry);
  mask->workspaces = std::make_unique<WorkspacePool>(gpu, workspace_size(*mask));
  return mask;
}

std::size_t gather_workspace_bytes(const ArrangedMask& arranged) {
  return workspace_bytes(*static_cast<const GatherMask*>(arranged.get()));
}

void run_gather(const AttentionPlan&, const ArrangedMask& arranged, const stof::AttentionCall& call,
                const Device& device) {
  const auto& mask = *static_cast<const GatherMask*>(arranged.get());
  run_tiles(mask, call, device, [&](const TiledLaunch& launch) {
    const GatherGroup& group = mask.groups[static_cast<std::size_t>(launch.heads.group)];
    const int total = narrow<int>(std::int64_t{launch.call.shape.slices} * group.item_count, "row blocks of a launch");
    GatherParams params{.call = launch.call,
                        .items = mask.items.as<GatherItem>() + group.first_item,
                        .units = mask.units.as<int>(),
                        .words = mask.words.as<unsigned>(),
                        .item_count = group.item_count,
                        .long_items = group.long_items,
                        .short_items = group.item_count - group.long_items,
                        .slots = group.slots,
                        .partials = launch.workspace.partials,
                        .arrivals = launch.workspace.arrivals};
    const int grid = std::min(total, device.caps.cores * mask.instance.ctas);
    start(launch, grid, &params);
  });
}

}  // namespace stof::cuda
