// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/stream.h"

#include <algorithm>

#include "src/backend/cuda/attention/cost.h"
#include "src/backend/cuda/attention/numbers.h"
#include "src/backend/cuda/attention/row_block_list.h"
#include "src/backend/cuda/attention/side_by_side.h"
#include "src/backend/cuda/attention/span_mask.h"
#include "src/backend/cuda/driver/device.h"
#include "src/backend/cuda/memory.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

struct StreamMask : ListedMask {
  StreamInstance instance = {};
  const InstanceKernel* listed = nullptr;  // null: no launch of the mask has a list, a window or spans
  const Kernel* sum = nullptr;             // of launches with spans
  std::optional<SpanMask> spans = {};      // then there are lists only where some launch goes by them
  bool many_parts = false;                 // which a grid behind adds up sooner, where launches go by spans

  // Pages have boxes of keys that fill tiles from where spans begin them, wherever lists do.
  bool goes_by_spans(const TiledLaunch& launch) const {
    const bool wanted = most_queries > 0 || launch.pages.table != nullptr || many_parts || launch.trees.queries > 0;
    return spans && !launch.changes_scores() && wanted;
  }
};

ListShape list_shape(const StreamInstance& instance, std::int64_t stacked_heads) {
  return {.parts = instance.parts,
          .tiles = instance.tiles,
          .head_dim = instance.head_dim,
          .queued = true,
          .covering = instance.groups,
          .stacked_heads = static_cast<int>(stacked_heads),
          .listed = instance.takes_lists(),
          .by_slice = true};
}

std::string_view form_in_words(const AttentionShape& shape) {
  return shape.biased   ? "its form for biased scores is compiled at first use; "
         : shape.capped ? "its form for capped scores is compiled at first use; "
                        : "";
}

// Its plans but for splits and their times.
AttentionPlan plan_of(const AttentionProblem& problem, const DeviceCaps& caps, const StreamInstance& instance,
                      const BlockStats& stats, int key_step) {
  const int heads = heads_to_stack(problem, instance);
  AttentionPlan plan;
  plan.kernel = kStreamAttention;
  plan.instance = name_of(instance, problem.shape.dtype);
  plan.format = {.block_q = 64 / heads * instance.parts, .block_kv = 64, .key_step = key_step};
  plan.stacked_heads = heads;
  plan.reason = fmt::format(
      "{} x {} rows{} at a time on each of {} multiprocessors; {}x64 tiles touch {:.1f} % of the pairs for "
      "{:.1f} % allowed; {}tensors off 16 bytes go to {}_attention",
      instance.teams * instance.ctas, 64 * instance.parts,
      heads > 1 ? fmt::format(" of {} heads that share keys", heads) : "", caps.cores, stats.block_q,
      100 * (stats.partial + stats.full), 100 * problem.stats.density, form_in_words(problem.shape),
      heads > 1 ? "row" : "mma");
  return plan;
}

// Steps that are planned on the device are one tile for one part of one head.
std::vector<StreamInstance> instances_for(const AttentionProblem& problem) {
  std::vector<StreamInstance> instances;
  for (const StreamInstance& instance : stream_instances())
    if (!problem.from_table || (instance.parts == 1 && instance.tiles == 1 && !instance.stacked))
      instances.push_back(instance);
  return instances;
}

// What the plan's calls launch. Forms for capped and for biased scores come beside the other one.
void load_kernels(StreamMask& mask, const Gpu& gpu, const AttentionPlan& plan) {
  mask.kernel = &instance_kernel(gpu, plan.instance, kStreamEntry);
  mask.paged = &instance_kernel(gpu, plan.instance, kPagedStreamEntry);
  const auto form = [&](StreamForm of) {
    const DType dtype = mask.shape.dtype;
    return &instance_kernel(gpu, KernelUnit{name_of(mask.instance, dtype, of), source_of(mask.instance, dtype, of)},
                            kStreamEntry);
  };
  if (mask.shape.capped) mask.capped = form(StreamForm::capped);
  if (mask.shape.biased) mask.biased = form(StreamForm::biased);
  const bool lists = mask.workspaces->size().list > 0;
  if (lists || mask.window.window.parts > 0 || mask.spans)
    mask.listed = &instance_kernel(gpu, plan.instance, kListedStreamEntry);
  if (mask.spans) mask.sum = &plain_kernel(gpu, plan.instance, kStreamSumEntry, SpanSumGrid::kThreads);
  if (lists) prepare_row_block_lists(gpu);
}

std::int64_t teams_of(const StreamInstance& instance, const Device& device) {
  return std::int64_t{device.caps.cores} * instance.ctas * instance.teams;
}

// By the kernel that the call's keys and row blocks need.
void start_stream(const StreamMask& mask, const TiledLaunch& launch, int grid, ListedStreamParams& params) {
  const auto with = [&](const InstanceKernel& kernel, void* of_kernel) {
    if (params.list != nullptr) start_listed(launch, kernel, grid, of_kernel);
    else start(launch, kernel, grid, of_kernel);
  };
  if (launch.pages.table != nullptr) {
    PagedStreamParams paged{params, tile_pages(launch)};
    with(*mask.paged, &paged);
  } else if (params.list != nullptr || params.window.parts > 0 || params.spans.parts > 0) {
    with(*mask.listed, &params);
  } else if (launch.bias.values != nullptr) {
    BiasedStreamParams biased{params, launch.bias};
    start(launch, grid, &biased);
  } else {
    start(launch, grid, &params);
  }
}

ListedStreamParams params_of(const StreamMask& mask, const Sections& sections, const TiledLaunch& launch,
                             const StreamLayout& layout) {
  return {{.call = launch.call,
           .layout = layout,
           .sections = in_sections(sections, launch.call.shape.slices, layout.item_count),
           .partials = launch.workspace.partials,
           .arrivals = launch.workspace.arrivals,
           .queue = nullptr,
           .positions = 64 / mask.stacked_heads,
           .stacked_heads = mask.stacked_heads},
          nullptr,
          {},
          {},
          {},
          0};
}

void launch_stream(const StreamMask& mask, int cores, const TiledLaunch& launch, ListedStreamParams params,
                   const ListedBlocks& blocks) {
  const int total =
      narrow<int>(std::int64_t{launch.call.shape.slices} * params.layout.item_count, "row blocks of a launch");
  // A row block has a multiprocessor to itself as long as there are some: its teams share what it has.
  const int grid = std::min(total, cores * mask.instance.ctas), at_once = grid * mask.instance.teams;
  if (kRoundsDealt * at_once < total) params.queue = launch.workspace.queue;
  const bool plain = !launch.changes_scores(), in_window = params.window.parts > 0;
  if (mask.listed != nullptr && params.queue != nullptr && plain && !in_window && list_pays(launch, blocks, at_once))
    params.list = list_row_blocks(mask, launch, blocks);
  start_stream(mask, launch, grid, params);
}

void launch_lists(const StreamMask& mask, int cores, const TiledLaunch& launch) {
  const bool in_window = mask.window.window.parts > 0 && !launch.changes_scores();
  ListedStreamParams params = params_of(mask, mask.sections, launch, mask.layout(launch, in_window));
  if (in_window) params.window = mask.window.window;
  launch_stream(mask, cores, launch, params,
                {params.layout, nullptr, mask.sections, 64 * mask.instance.parts, mask.workspaces->size().list});
}

// The parts that the launch in front left.
void launch_sum(const StreamMask& mask, const TiledLaunch& launch, ListedStreamParams params) {
  const int row_blocks = params.spans.split_blocks * launch.call.shape.slices;
  void* arguments[] = {&params};
  mask.sum->launch({.grid = {static_cast<unsigned>(row_blocks * mask.instance.parts),
                             static_cast<unsigned>(mask.instance.head_dim / SpanSumGrid::kColumns)},
                    .stream = launch.stream,
                    .overlap_previous = true},
                   arguments);
}

void launch_spans(const StreamMask& mask, int cores, const TiledLaunch& launch) {
  if (launch.pages.table != nullptr) STOF_CHECK(launch.page_box >= 16);  // a tile has four boxes at most
  const bool leads = launch.beside.leads != nullptr;
  const RowSpans spans =
      mask.spans->of(launch, leads ? static_cast<double>(launch.beside.cores) / static_cast<double>(cores) : 1);
  if (leads) cores = launch.beside.cores, *launch.beside.leads = true;
  StreamLayout layout{};
  layout.item_count = spans.more_parts + spans.row_blocks;
  layout.slots = spans.split_blocks * spans.parts;
  ListedStreamParams params = params_of(mask, mask.spans->sections, launch, layout);
  params.numbers = few_numbers(launch.items);
  params.spans = spans;
  params.leads = leads ? 1 : 0;
  launch_stream(mask, cores, launch, params,
                {layout, &spans, mask.spans->sections, mask.spans->form.block_rows, mask.workspaces->size().list});
  if (spans.summed) launch_sum(mask, launch, params);
}

// Launches of chunks and pages go by them, and what there was room for they have room for.
void set_up_spans(StreamMask& mask, std::vector<RowSpan> rows, const Device& device) {
  mask.spans = make_span_mask(mask, mask.instance, std::move(rows), device.caps);
  const WorkspaceSize& size = mask.spans->workspace;
  mask.workspaces =
      std::make_unique<WorkspacePool>(*mask.gpu, mask.workspaces ? larger_of(mask.workspaces->size(), size) : size);
  mask.key_step = key_step_in_pages(mask.spans->form);
  mask.takes_trees = true;
  if (mask.most_queries > 0) mask.few_items = FewNumbers::kMost;
}

}  // namespace

Refusal stream_refuses(const AttentionProblem& problem, const DeviceCaps& caps) {
  if (Refusal why = refuses_tiles(problem, caps, largest_head_dim(stream_instances()))) return why;
  if (problem.shape.capped && problem.shape.biased) return "it caps scores or adds a bias to them, not both";
  const bool only_scales = !changes_scores(problem.shape);
  if (problem.shape.tree_queries > 0 && !(only_scales && problem.by_spans))
    return !only_scales ? "it takes no draft trees beside scores with a cap or a bias"
                        : "it takes draft trees where the mask allows each row a prefix and one range of keys";
  if (!problem.why_not_compiled.empty())
    return fmt::format("its form for {} scores is compiled when it is first wanted, and {}",
                       problem.shape.biased ? "biased" : "capped", problem.why_not_compiled);
  return std::nullopt;
}

std::vector<AttentionPlan> stream_candidates(const AttentionProblem& problem, const DeviceCaps& caps) {
  std::vector<AttentionPlan> plans;
  const std::vector<StreamInstance> instances = instances_for(problem);
  const int head_dim = rounded_head_dim(std::span(instances), problem.shape.head_dim).value();
  const Pricing pricing = pricing_of(caps);
  for (const StreamInstance& instance : instances) {
    const BlockStats* const stats = stats_of(problem, instance);
    if (instance.head_dim != head_dim || stats == nullptr) continue;
    const int heads = heads_to_stack(problem, instance);
    const ListedTiles listed = stream_tiles(problem, *stats, heads);
    const std::int64_t heaviest = ceil_div(listed.heaviest, instance.tiles);
    const AttentionPlan plan = plan_of(problem, caps, instance, *stats, listed.key_step);
    for (const int splits : problem.from_table ? std::span(kSplits).first(1) : std::span(kSplits)) {
      const bool too_short = heaviest < splits * kFewestSteps;
      if (splits > 1 && (too_short || (heads > 1 && is_one_task(problem.shape, heads)))) break;
      if (cut_by_call(problem, instance, caps, splits)) {
        AttentionPlan& added = plans.emplace_back(plan);
        added.splits = splits;
        added.reason += launches_in_words(problem, ListsOf::all_items);
        added.predicted_us = predict_spans(problem, pricing, instance);
        break;
      }
      const SplitEstimate split = estimate_split(problem, listed, instance.tiles, splits);
      // In a second round stacks no longer read the keys that others read: in all rows of
      // bench/results/486b689-h200-grouped.json fewer parts were faster.
      const bool one_round = split.parts <= std::int64_t{caps.cores} * instance.ctas * instance.teams;
      if (!partials_fit(split, list_shape(instance, heads)) || (heads > 1 && !one_round)) continue;
      AttentionPlan& added = plans.emplace_back(plan);
      added.splits = splits;
      added.reason += launches_in_words(problem, split.most_steps > 0 ? ListsOf::all_heads : ListsOf::all_items);
      added.predicted_us = predict_stream(problem, pricing, instance, split);
    }
  }
  return plans;
}

ArrangedMask arrange_stream_mask(const AttentionPlan& plan, PackedMask packed, const Device& device) {
  auto mask = std::make_shared<StreamMask>();
  mask->instance = instance_named(stream_instances(), plan.instance, packed.shape.dtype);
  mask->stacked_heads = static_cast<int>(plan.stacked_heads);
  mask->many_parts = sums_behind(costs_of(mask->instance, device.caps), plan.splits);
  const ListShape shape = list_shape(mask->instance, plan.stacked_heads);
  const bool has_spans = !packed.spans.empty() && !changes_scores(packed.shape),
             has_lists = !has_spans || (packed.most_queries == 0 && !mask->many_parts);
  ArrangedStream arranged;
  if (has_lists) arranged = arrange_lists(packed.blocks, shape, plan.splits);
  if (device.ordinal == kDescribed) return mask;
  const Gpu& gpu = gpu_of(device);
  std::vector<RowSpan> spans = std::move(packed.spans);
  set_up(*mask, std::move(packed), gpu);
  if (has_lists) set_up(*mask, std::move(arranged), shape, teams_of(mask->instance, device));
  if (has_spans) set_up_spans(*mask, std::move(spans), device);
  load_kernels(*mask, gpu, plan);
  return mask;
}

ArrangedMask reserve_stream_mask(const AttentionPlan& plan, const TableProblem& problem, const Device& device) {
  auto mask = std::make_shared<StreamMask>();
  mask->instance = instance_named(stream_instances(), plan.instance, problem.shape.dtype);
  if (device.ordinal == kDescribed) return mask;
  const Gpu& gpu = gpu_of(device);
  set_up(*mask, problem, gpu);
  set_up(*mask, problem, mask->instance.head_dim, teams_of(mask->instance, device));
  load_kernels(*mask, gpu, plan);
  return mask;
}

void update_stream_mask(const ArrangedMask& arranged, const TableContents& contents, const Device& device) {
  const auto& mask = *static_cast<const StreamMask*>(arranged.get());
  gpu_of(device);
  check_address(device, "table.data", contents.data);
  if (contents.status != nullptr) check_address(device, "table.status", contents.status);
  mask.planner->plan(contents);
}

// Of the rows of bench/results/h200-decode-or-stacks.txt, and in parts of 74577a0-h200-decode-over-pages.txt.
double stream_pages_us(const AttentionPlan& plan) {
  constexpr double kWholeUs = 1.2, kInPartsUs = 2.5;
  return plan.splits > 1 ? kInPartsUs : kWholeUs;
}

std::size_t stream_workspace_bytes(const ArrangedMask& arranged) {
  return workspace_bytes(*static_cast<const StreamMask*>(arranged.get()));
}

std::optional<LeadingWork> leading_of_stream(const ArrangedMask& arranged, const stof::AttentionCall& call) {
  const auto& mask = *static_cast<const StreamMask*>(arranged.get());
  const bool in_pages = call.pages.table != nullptr, is_wanted = in_pages || mask.most_queries > 0 || mask.many_parts;
  const bool is_known = call.device_items.count == 0 && call.workspace == nullptr;
  // Several CTAs of a multiprocessor would be spread over all of them.
  if (!mask.spans || !is_wanted || call.softcap > 0 || call.bias.values != nullptr || !is_known ||
      mask.instance.ctas > 1)
    return std::nullopt;
  LeadingWork work{mask.spans->form, mask.instance, call.memory};
  for (const AttentionItem& item : call.items)
    work.queries.push_back(narrow<int>(item.queries, "queries")), work.keys.push_back(narrow<int>(item.keys, "keys"));
  work.slices_of_item = static_cast<int>(call.heads / mask.stacked_heads);
  work.key_step = in_pages ? static_cast<int>(std::min<std::int64_t>(mask.key_step, call.pages.size)) : 8;
  return work;
}

void run_stream(const AttentionPlan&, const ArrangedMask& arranged, const stof::AttentionCall& call,
                const Device& device) {
  const auto& mask = *static_cast<const StreamMask*>(arranged.get());
  run_tiles(mask, call, device, [&](const TiledLaunch& launch) {
    if (mask.goes_by_spans(launch)) launch_spans(mask, device.caps.cores, launch);
    else launch_lists(mask, device.caps.cores, launch);
  });
}

}  // namespace stof::cuda
