// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/band.h"

#include <algorithm>
#include <iterator>

#include "src/backend/cuda/attention/arrange.h"
#include "src/backend/cuda/attention/cost.h"
#include "src/backend/cuda/attention/tiled_mask.h"
#include "src/backend/cuda/driver/device.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

struct BandMask : TiledMask {
  BandInstance instance = {};
  DeviceMemory rows, words;
  int row_blocks = 0;
};

std::int64_t width(const AttentionProblem& problem, int parts) {
  return problem.band_widths.keys[static_cast<std::size_t>(parts - 1)];
}

std::vector<BandInstance> instances_for(const AttentionProblem& problem) {
  const int head_dim = rounded_head_dim(band_instances(), problem.shape.head_dim).value();
  std::vector<BandInstance> instances;
  std::copy_if(band_instances().begin(), band_instances().end(), std::back_inserter(instances),
               [&](const BandInstance& instance) { return instance.head_dim == head_dim; });
  return instances;
}

}  // namespace

Refusal band_refuses(const AttentionProblem& problem, const DeviceCaps& caps) {
  if (Refusal why = refuses_tiles(problem, caps, largest_head_dim(band_instances()))) return why;
  if (Refusal why = refuses_capped(problem)) return why;
  int most = 0;
  for (const BandInstance& instance : instances_for(problem)) most = std::max(most, instance.keys);
  if (!problem.band_widths.measured)
    return fmt::format("some 64 rows use keys from more than {} tiles", BandWidths::kMostBandTiles);
  if (width(problem, 1) > most)
    return fmt::format("some 64 rows use keys {} apart; at most {} fit", width(problem, 1), most);
  return std::nullopt;
}

std::vector<AttentionPlan> band_candidates(const AttentionProblem& problem, const DeviceCaps& caps) {
  std::vector<AttentionPlan> plans;
  for (const BandInstance& instance : instances_for(problem)) {
    if (width(problem, instance.parts) > instance.keys) continue;
    AttentionPlan plan;
    plan.kernel = kBandAttention;
    plan.instance = name_of(instance, problem.shape.dtype);
    plan.format = {.block_q = 64 * instance.parts, .block_kv = 64, .key_step = 8};
    plan.predicted_us = predict_band(problem, pricing_of(caps), instance);
    plan.reason =
        fmt::format("every 64 rows get by with {} keys, taken at once; tensors off 16 bytes go to mma_attention{}",
                    width(problem, instance.parts), launches_in_words(problem, ListsOf::one_mask));
    plans.push_back(std::move(plan));
  }
  return plans;
}

ArrangedMask arrange_band_mask(const AttentionPlan& plan, PackedMask packed, const Device& device) {
  auto mask = std::make_shared<BandMask>();
  mask->instance = instance_named(band_instances(), plan.instance, packed.shape.dtype);
  // Over more positions than were planned for, rows may need more keys: they go to mma_attention.
  const std::optional<ArrangedBand> arranged = arrange_band(packed.blocks, mask->instance.parts, mask->instance.keys);
  if (device.ordinal == kDescribed) return mask;
  const Gpu& gpu = gpu_of(device);
  mask->row_blocks = narrow<int>(packed.blocks.row_blocks, "row blocks");
  set_up(*mask, std::move(packed), gpu);
  const AttentionShape& s = mask->shape;
  mask->workspaces =
      std::make_unique<WorkspacePool>(gpu, WorkspaceSize{.numbers = 4 * static_cast<std::size_t>(s.batch)});
  if (!arranged) return mask;
  mask->key_box = mask->instance.loaded_keys();
  mask->rows = to_device<BandRow>(gpu, arranged->rows);
  mask->words = to_device<std::uint32_t>(gpu, arranged->words);
  mask->kernel = &instance_kernel(gpu, plan.instance, kBandEntry);
  mask->ragged = &instance_kernel(gpu, plan.instance, kRaggedBandEntry);
  return mask;
}

std::size_t band_workspace_bytes(const ArrangedMask& arranged) {
  return workspace_bytes(*static_cast<const BandMask*>(arranged.get()));
}

void run_band(const AttentionPlan&, const ArrangedMask& arranged, const stof::AttentionCall& call,
              const Device& device) {
  const auto& mask = *static_cast<const BandMask*>(arranged.get());
  run_tiles(mask, call, device, [&](const TiledLaunch& launch) {
    BandParams params{.call = launch.call,
                      .rows = mask.rows.as<BandRow>() + std::int64_t{launch.heads.group} * mask.row_blocks,
                      .words = mask.words.as<unsigned>(),
                      .row_blocks = mask.row_blocks};
    const int total = narrow<int>(std::int64_t{launch.call.shape.slices} * mask.row_blocks, "row blocks of a launch");
    const int grid = std::min(total, device.caps.cores * mask.instance.ctas);
    start(launch, grid, &params);
  });
}

}  // namespace stof::cuda
