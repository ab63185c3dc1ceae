// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/mma.h"

#include <algorithm>

#include "src/backend/cuda/attention/cost.h"
#include "src/backend/cuda/attention/listed_mask.h"
#include "src/backend/cuda/attention/mma_launch.h"
#include "src/backend/cuda/driver/device.h"

namespace stof::cuda {
namespace {

struct MmaMask : ListedMask {
  MmaInstance instance = {};
};

ListShape list_shape(const MmaInstance& instance) { return {instance.parts, 1, instance.head_dim}; }

// Its plans but for splits and their times.
AttentionPlan plan_of(const AttentionProblem& problem, const DeviceCaps& caps, const MmaInstance& instance,
                      const BlockStats& stats, int key_step) {
  AttentionPlan plan;
  plan.kernel = kMmaAttention;
  plan.instance = name_of(instance, problem.shape.dtype);
  plan.format = {.block_q = 64 * instance.parts, .block_kv = 64, .key_step = key_step};
  plan.reason = fmt::format(
      "{} x {} rows at a time on each of {} multiprocessors; {}x64 tiles touch {:.1f} % of the pairs for "
      "{:.1f} % allowed; tensors off 16 bytes are loaded by elements{}",
      ctas_of(instance, caps), 64 * instance.parts, caps.cores, stats.block_q, 100 * (stats.partial + stats.full),
      100 * problem.stats.density, launches_in_words(problem, ListsOf::all_heads));
  return plan;
}

}  // namespace

Refusal mma_refuses(const AttentionProblem& problem, const DeviceCaps& caps) {
  if (caps.arch < 80)
    return fmt::format("it needs compute capability 8.0; this device has {}.{}", caps.arch / 10, caps.arch % 10);
  return refuses_sizes(problem, largest_head_dim(mma_instances()));
}

std::vector<AttentionPlan> mma_candidates(const AttentionProblem& problem, const DeviceCaps& caps) {
  std::vector<AttentionPlan> plans;
  const int head_dim = rounded_head_dim(mma_instances(), problem.shape.head_dim).value();
  const Pricing pricing = pricing_of(caps);
  for (const MmaInstance& instance : mma_instances()) {
    const BlockStats* const stats = stats_of(problem, instance.parts);
    if (instance.head_dim != head_dim || stats == nullptr || ctas_of(instance, caps) == 0) continue;
    const ListedTiles listed = mma_tiles(problem, *stats);
    const AttentionPlan plan = plan_of(problem, caps, instance, *stats, listed.key_step);
    for (const int splits : kSplits) {
      if (splits > 1 && listed.heaviest < splits * kFewestSteps) break;
      const SplitEstimate split = estimate_split(problem, listed, 1, splits);
      if (!partials_fit(split, list_shape(instance))) continue;
      AttentionPlan& added = plans.emplace_back(plan);
      added.splits = splits;
      added.predicted_us = predict_mma(problem, pricing, instance, split);
    }
  }
  return plans;
}

ArrangedMask arrange_mma_mask(const AttentionPlan& plan, PackedMask packed, const Device& device) {
  auto mask = std::make_shared<MmaMask>();
  mask->instance = instance_named(mma_instances(), plan.instance, packed.shape.dtype);
  mask->by_maps = false;
  const ListShape shape = list_shape(mask->instance);
  ArrangedStream arranged = arrange_lists(packed.blocks, shape, plan.splits);
  if (device.ordinal == kDescribed) return mask;
  const Gpu& gpu = gpu_of(device);
  set_up(*mask, std::move(packed), gpu);
  set_up(*mask, std::move(arranged), shape, std::int64_t{device.caps.cores} * ctas_of(mask->instance, device.caps));
  mask->kernel = &instance_kernel(gpu, plan.instance, kMmaEntry);
  mask->paged = &instance_kernel(gpu, plan.instance, kPagedMmaEntry);
  return mask;
}

std::size_t mma_workspace_bytes(const ArrangedMask& arranged) {
  return workspace_bytes(*static_cast<const MmaMask*>(arranged.get()));
}

void run_mma(const AttentionPlan&, const ArrangedMask& arranged, const stof::AttentionCall& call,
             const Device& device) {
  const auto& mask = *static_cast<const MmaMask*>(arranged.get());
  run_tiles(mask, call, device, [&](const TiledLaunch& launch) {
    MmaParams params = mma_params(launch);
    params.layout = mask.layout(launch, true);
    params.window = mask.window.window;
    params.sections = in_sections(mask.sections, launch.call.shape.slices, params.layout.item_count);
    const InstanceKernel& kernel = *(launch.pages.table != nullptr ? mask.paged : mask.kernel);
    launch_mma(kernel, launch, std::int64_t{launch.call.shape.slices} * params.layout.item_count, params);
  });
}

}  // namespace stof::cuda
