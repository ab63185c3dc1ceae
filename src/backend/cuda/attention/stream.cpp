// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/stream.h"

#include <algorithm>

#include "src/backend/cuda/attention/arrange.h"
#include "src/backend/cuda/attention/cost.h"
#include "src/backend/cuda/attention/tiled_mask.h"
#include "src/backend/cuda/driver/device.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

constexpr int kFewestSteps = 4;                                  // of a part: fewer do not pay for the merge
constexpr std::array kSplits = {2, 3, 4, 6, 8, 12, 16, 24, 32};  // tried, of the heaviest row block
constexpr double kMostPartialBytes = 512e6;
// K and V of the slices that go side by side: what stays in 50 MB of L2 beside everything else.
constexpr std::int64_t kSectionBytes = 25'000'000;

struct StreamMask : TiledMask {
  StreamInstance instance = {};
  std::vector<StreamGroup> groups;
  int section = 1;
  DeviceMemory items, steps, words;
};

std::size_t partial_floats(const StreamInstance& instance) {
  return std::size_t{128} * static_cast<std::size_t>(instance.head_dim / 2 + 4);
}

const StreamInstance& instance_of(const AttentionPlan& plan, DType dtype) {
  const auto found = std::find_if(stream_instances().begin(), stream_instances().end(),
                                  [&](const StreamInstance& i) { return name_of(i, dtype) == plan.instance; });
  STOF_CHECK(found != stream_instances().end());
  return *found;
}

const BlockStats* stats_of(const AttentionProblem& problem, const StreamInstance& instance) {
  for (const BlockStats& stats : problem.stats.blocks)
    if (stats.block_q == 64 * instance.parts && stats.block_kv == 64) return &stats;
  return nullptr;
}

int heaviest_steps(const BlockStats& stats, const StreamInstance& instance) {
  return static_cast<int>(ceil_div(stats.heaviest, instance.tiles));
}

int most_steps(int heaviest, int splits) { return splits == 1 ? 0 : (heaviest + splits - 1) / splits; }

AttentionPlan plan_of(const AttentionProblem& problem, const DeviceCaps& caps, const StreamInstance& instance,
                      const BlockStats& stats, int splits) {
  const SplitEstimate split =
      estimate_split(problem, stats, instance, most_steps(heaviest_steps(stats, instance), splits));
  AttentionPlan plan;
  plan.kernel = kStreamAttention;
  plan.instance = name_of(instance, problem.shape.dtype);
  plan.format = {.block_q = 64 * instance.parts, .block_kv = 64, .key_step = 64};
  plan.splits = splits;
  plan.predicted_us = predict_stream(problem, caps, instance, split);
  plan.reason = fmt::format(
      "{} x {} rows at a time on each of {} multiprocessors; {}x64 tiles touch {:.1f} % of the pairs for "
      "{:.1f} % allowed; tensors off 16 bytes go to row_attention",
      instance.teams * instance.ctas, 64 * instance.parts, caps.cores, stats.block_q,
      100 * (stats.partial + stats.full), 100 * problem.stats.density);
  if (static_cast<double>(split.parts * instance.parts) * static_cast<double>(4 * partial_floats(instance)) >
      kMostPartialBytes)
    plan.kernel = {};  // too much memory for what it gains
  return plan;
}

// Dense lists read all of a slice's keys again and again: as many slices side by side as the L2 holds. Sparse ones go
// slice by slice, unless there is so little to do that all must run at once.
int section_of(const StreamMask& mask, const ArrangedStream& arranged, int cores) {
  const AttentionShape& s = mask.shape;
  const std::int64_t slices = s.batch * s.heads;
  const std::int64_t slice_bytes = std::max<std::int64_t>(1, 4 * s.keys * s.head_dim * s.kv_heads / s.heads);
  const std::int64_t in_cache = std::clamp<std::int64_t>(kSectionBytes / slice_bytes, 1, slices);
  std::int64_t steps = 0;
  for (const StreamItem& item : arranged.items) steps += item.steps;
  const auto items = std::max<std::int64_t>(1, std::ssize(arranged.items));
  const std::int64_t teams = std::int64_t{cores} * mask.instance.ctas * mask.instance.teams;
  const bool dense = 4 * 64 * mask.instance.tiles * steps > items * s.keys;
  const bool little = items / std::max<std::int64_t>(1, std::ssize(arranged.groups)) * slices < 16 * teams;
  return static_cast<int>(dense || little ? in_cache : 1);
}

WorkspaceSize workspace_size(const StreamMask& mask) {
  std::size_t slots = 0;
  for (const StreamGroup& group : mask.groups) slots = std::max(slots, static_cast<std::size_t>(group.slots));
  const AttentionShape& s = mask.shape;
  const auto slices = static_cast<std::size_t>(s.batch * s.heads),
             parts = static_cast<std::size_t>(mask.instance.parts);
  return {.partials = slices * slots * parts * partial_floats(mask.instance),
          .arrivals = slices * slots * parts,
          .numbers = 4 * static_cast<std::size_t>(s.batch),
          .lse = slices * static_cast<std::size_t>(s.queries)};
}

}  // namespace

Refusal stream_refuses(const AttentionProblem& problem, const DeviceCaps& caps) {
  return refuses_tiles(problem, caps, largest_head_dim(stream_instances()));
}

std::vector<AttentionPlan> stream_candidates(const AttentionProblem& problem, const DeviceCaps& caps) {
  std::vector<AttentionPlan> plans;
  const int head_dim = rounded_head_dim(stream_instances(), problem.shape.head_dim).value();
  const auto add = [&](const StreamInstance& instance, const BlockStats& stats, int splits) {
    AttentionPlan plan = plan_of(problem, caps, instance, stats, splits);
    if (!plan.kernel.empty()) plans.push_back(std::move(plan));
  };
  for (const StreamInstance& instance : stream_instances()) {
    const BlockStats* const stats = stats_of(problem, instance);
    if (instance.head_dim != head_dim || stats == nullptr) continue;
    add(instance, *stats, 1);
    for (const int splits : kSplits)
      if (heaviest_steps(*stats, instance) >= splits * kFewestSteps) add(instance, *stats, splits);
  }
  return plans;
}

ArrangedMask arrange_stream_mask(const AttentionPlan& plan, PackedMask packed, const Device& device) {
  auto mask = std::make_shared<StreamMask>();
  mask->instance = instance_of(plan, packed.shape.dtype);
  std::int64_t heaviest = 0;
  for (std::int64_t row = 0; row < packed.blocks.groups * packed.blocks.row_blocks; ++row) {
    const std::int64_t* begin = packed.blocks.row_begin.data() + row / packed.blocks.row_blocks + row;
    heaviest = std::max(heaviest, begin[1] - begin[0]);
  }
  const int steps = static_cast<int>(ceil_div(heaviest, mask->instance.tiles));
  ArrangedStream arranged = arrange_stream(
      packed.blocks,
      {.parts = mask->instance.parts, .tiles = mask->instance.tiles, .most_steps = most_steps(steps, plan.splits)});
  if (device.ordinal == kDescribed) return mask;
  const Gpu& gpu = gpu_of(device);
  set_up(*mask, std::move(packed), gpu);
  mask->section = section_of(*mask, arranged, device.caps.cores);
  mask->groups = std::move(arranged.groups);
  mask->items = to_device<StreamItem>(gpu, arranged.items);
  mask->steps = to_device<int>(gpu, arranged.steps);
  mask->words = to_device<std::uint32_t>(gpu, arranged.words);
  mask->kernel = &instance_kernel(gpu, plan.instance, kStreamEntry);
  mask->workspaces = std::make_unique<WorkspacePool>(gpu, workspace_size(*mask));
  return mask;
}

std::size_t stream_workspace_bytes(const ArrangedMask& arranged) {
  return workspace_bytes(*static_cast<const StreamMask*>(arranged.get()));
}

void run_stream(const AttentionPlan&, const ArrangedMask& arranged, const stof::AttentionCall& call,
                const Device& device) {
  const auto& mask = *static_cast<const StreamMask*>(arranged.get());
  run_tiles(mask, call, device, [&](const TiledLaunch& launch) {
    const StreamGroup& group = mask.groups[static_cast<std::size_t>(launch.group)];
    const int total = narrow<int>(std::int64_t{launch.call.shape.slices} * group.item_count, "row blocks of a launch");
    const int teams = mask.instance.teams;
    const int grid = std::min((total + teams - 1) / teams, device.caps.cores * mask.instance.ctas);
    StreamParams params{.call = launch.call,
                        .layout = {mask.items.as<StreamItem>() + group.first_item, mask.steps.as<int>(),
                                   mask.words.as<unsigned>(), group.item_count, group.slots},
                        .section = std::min(mask.section, launch.call.shape.slices),
                        .partials = launch.workspace.partials,
                        .arrivals = launch.workspace.arrivals,
                        .queue = grid * teams < total ? launch.workspace.queue : nullptr};
    start(launch, grid, &params);
  });
}

}  // namespace stof::cuda
