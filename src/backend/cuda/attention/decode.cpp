// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/decode.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/shared/decode_shares.h"
#include "src/backend/cuda/attention/arrange.h"
#include "src/backend/cuda/attention/call_pieces.h"
#include "src/backend/cuda/attention/cost.h"
#include "src/backend/cuda/attention/decode_mask.h"
#include "src/backend/cuda/attention/decode_split.h"
#include "src/backend/cuda/attention/kernel_store.h"
#include "src/backend/cuda/attention/numbers.h"
#include "src/backend/cuda/attention/rows.h"
#include "src/backend/cuda/attention/tiled_mask.h"
#include "src/backend/cuda/attention/workspace.h"
#include "src/backend/cuda/driver/device.h"
#include "src/backend/cuda/layout.h"
#include "src/backend/cuda/memory.h"
#include "src/base/error.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

constexpr unsigned kSumThreads = 128;
constexpr unsigned kMostSumBlocks = 2048;
// More than half of what a multiprocessor has. Where CTAs of the launch in front still have places, or none are in some
// multiprocessors, the next ones would else come two to one and none to another.
constexpr unsigned kAloneBytes = 120 * 1024;
constexpr int kItemInts = sizeof(RowItem) / sizeof(int);

const DecodeInstance& instance_for(std::int64_t head_dim) {
  const int rounded = rounded_head_dim(decode_instances(), head_dim).value();
  return *std::find_if(decode_instances().begin(), decode_instances().end(),
                       [&](const DecodeInstance& i) { return i.head_dim == rounded; });
}

WorkspaceSize workspace_size(const DecodeMask& mask) {
  constexpr std::int64_t kCutInts = sizeof(DecodeCut) / sizeof(int);  // a vector, and so is what lies in front
  return {.partials = partial_floats(mask) +
                      static_cast<std::size_t>(ceil_div(kItemInts * mask.shape.batch, kCutInts) * kCutInts),
          .arrivals = static_cast<std::size_t>(mask.ctas),
          .numbers = static_cast<std::size_t>(kCutInts * mask.ctas)};
}

// Whether the queries and keys of all items are as many.
bool is_alike(std::span<const AttentionItem> items) {
  return std::all_of(items.begin(), items.end(), [&](const AttentionItem& item) {
    return item.queries == items.front().queries && item.keys == items.front().keys;
  });
}

class Launcher {
 public:
  Launcher(const DecodeMask& mask, const stof::AttentionCall& call, Workspace& workspace)
      : mask_(mask), call_(call), workspace_(workspace), stream_(static_cast<StreamHandle>(call.stream)) {
    for (const AttentionItem& item : call.items)
      queries_ = std::max(queries_, item.queries), keys_ = std::max(keys_, item.keys);
    const int rows = rows_of(mask, queries_);
    form_ = form_for(mask.forms, rows);
    device_ = decode_device(mask.rows->gpu().caps, mask.instance, mask.forms[form_]);
    chunks_ = chunks_of(mask, queries_);
    rows_ = chunks_ > 0 ? (rows + chunks_ - 1) / chunks_ : 0;
  }

  void run() {
    const std::int64_t tasks = std::int64_t{mask_.sets.sets} * chunks_;
    if (tasks == 0) return;  // no item has a query
    // The list of items has room for as many as were planned for.
    const std::int64_t most = std::min(decode_items_of_launch(tasks, mask_.most_tiles),
                                       std::max<std::int64_t>(mask_.shape.batch, DecodeParams::kMostItems));
    if (const std::int64_t listed = call_.device_items.count; listed > 0) {
      place_items(mask_.rows->gpu(), call_, nullptr, item_list());
      for (std::int64_t first = 0; first < listed; first += most)
        launch_listed(item_list() + first, std::min(most, listed - first));
      return;
    }
    if (is_beside()) launches_ = narrow<int>(launches_beside(mask_, call_, queries_), "launches");
    const std::int64_t at_once = is_beside() ? ceil_div(std::ssize(call_.items), std::int64_t{launches_}) : most;
    for (std::size_t first = 0; first < call_.items.size(); first += static_cast<std::size_t>(at_once), ++launched_)
      launch_items(call_.items.subspan(
          first, std::min<std::size_t>(static_cast<std::size_t>(at_once), call_.items.size() - first)));
  }

 private:
  bool is_beside() const { return call_.beside.cores > 0; }

  DecodeParams params() const {
    DecodeParams params{};
    params.q = call_.q, params.k = call_.k, params.v = call_.v, params.out = call_.out, params.lse = call_.lse;
    params.q_stride = stride_of(call_.q_strides), params.k_stride = stride_of(call_.k_strides);
    params.v_stride = stride_of(call_.v_strides), params.out_stride = stride_of(call_.out_strides);
    params.lse_stride = stride_of(call_.lse_strides);
    params.heads_per_kv = static_cast<int>(call_.heads / call_.kv_heads);
    params.head_dim = static_cast<int>(call_.head_dim);
    params.chunks = chunks_;
    params.task_rows = rows_;
    const ScoreScale scale = score_scale(call_);
    params.scale_log2 = scale.log2, params.cap_log2 = scale.cap_log2;
    params.pages = page_table_of(call_.pages);
    params.trees = draft_trees_of(call_);
    params.layout = {.lists = mask_.lists.as<DecodeList>(),
                     .runs = mask_.runs.as<DecodeRun>(),
                     .words = mask_.words.as<unsigned long long>(),
                     .heads = mask_.sets.heads.empty() ? nullptr : mask_.heads.as<DecodeHeads>(),
                     .sets = mask_.sets.sets,
                     .blocks = mask_.blocks,
                     .first_position = mask_.first_position};
    params.key_lengths = call_.device_lengths;
    params.partials = workspace_.partials;
    params.follows = is_beside() ? 1 : 0;
    return params;
  }

  void launch_items(std::span<const AttentionItem> items) {
    DecodeParams params = this->params();
    params.item_count = narrow<int>(items.size(), "items of a launch");
    if (params.item_count <= DecodeParams::kMostItems)
      std::transform(items.begin(), items.end(), params.items, row_item);
    else params.item_list = write_items(items);
    params.alike = mask_.sets.heads.empty() && call_.device_lengths == nullptr && is_alike(items);
    launch(params, row_item(items.front()));
  }

  // What the device alone knows.
  void launch_listed(const RowItem* list, std::int64_t count) {
    DecodeParams params = this->params();
    params.item_count = narrow<int>(count, "items of a launch");
    params.item_list = list;
    launch(params, {});
  }

  // first: of the items, where they are alike.
  void launch(DecodeParams& params, const RowItem& first) {
    // Counting the tiles of tasks whose lengths are on the device takes longer than few keys do.
    const bool reads_lengths = call_.device_lengths != nullptr || call_.device_items.count > 0;
    if (reads_lengths && mask_.few_keys)
      if (const auto split = mask_.few_keys->split(params, queries_, keys_))
        return mask_.few_keys->launch(params, *split, stream_);
    const DecodeLoad load = load_of(params, first);
    // Launches beside another one work at the same time, too.
    const int places = device_.ctas * call_.beside.cores / launches_;
    const DecodeSplit split = is_beside() ? split_beside(load, places) : split_decode(load, device_);
    params.ctas = split.ctas, params.start = split.start;
    if (params.alike) give_list(params, first);
    params.sums_of_tasks = split.apart && params.units > 0 && params.item_list == nullptr && load.tasks <= split.ctas;
    const std::size_t before = static_cast<std::size_t>(launched_) * static_cast<std::size_t>(places);
    if (is_beside()) params.partials += before * (partial_floats(mask_) / static_cast<std::size_t>(mask_.ctas));
    if (!split.apart) params.arrivals = workspace_.arrivals + (is_beside() ? before : 0);
    else if (!params.sums_of_tasks) params.cuts = reinterpret_cast<DecodeCut*>(workspace_.numbers);
    void* arguments[] = {&params};
    const auto& kernels = params.trees.queries > 0 ? mask_.of_trees : mask_.kernels;
    kernels[form_]->kernel.launch({.grid = {static_cast<unsigned>(split.ctas)},
                                   .stream = stream_,
                                   .overlap_previous = device_.overlaps,
                                   .least_shared_bytes = split.alone && device_.overlaps ? kAloneBytes : 0},
                                  arguments);
    if (split.apart) mask_.sums[form_]->launch(sum_grid(params, load), arguments);
  }

  // What CTAs would else read one after the other before their first key.
  void give_list(DecodeParams& params, const RowItem& item) const {
    const DecodeList* const list = list_of(mask_, item);
    if (list == nullptr || list->tiles == 0 || list->last_key >= item.keys) return;
    params.list = *list;
    params.units = list->tiles + params.start;
    const std::int64_t tasks = std::int64_t{mask_.sets.sets} * chunks_ * params.item_count;
    const DecodeShare cut = cut_share(narrow<int>(tasks * params.units, "units of a launch"), params.ctas, 0);
    params.each = cut.each, params.rest = cut.rest;
    params.items[0] = item;
    params.given_runs = std::min(list->runs, DecodeParams::kMostGiven);
    std::copy_n(mask_.runs_of_lists.begin() + list->first_run, params.given_runs, params.first_runs);
  }

  DecodeLoad load_of(const DecodeParams& params, const RowItem& first) const {
    return {.tasks = std::int64_t{mask_.sets.sets} * chunks_ * params.item_count,
            .tiles = std::max(params.alike != 0 ? tiles_of(mask_, first) : mask_.most_tiles, 1),
            .rows = rows_,
            .form = mask_.forms[form_],
            .readers = readers_of(mask_.forms[form_], mask_.instance),
            .head_dim = mask_.instance.head_dim,
            .alike = params.alike != 0,
            .small_pages = params.pages.table != nullptr && 1 << params.pages.shift < DecodeList::kTileKeys};
  }

  // Four rows a block where one warp, or two, takes all parts of a row; one where all do.
  Launch sum_grid(const DecodeParams& params, const DecodeLoad& load) const {
    constexpr int kPartsAtOnce = 16;
    const auto of_sums = static_cast<unsigned>(params.sums_of_tasks ? load.tasks : params.ctas);
    const int at_once = decode_parts(load, params.ctas) > kPartsAtOnce ? 1 : 512 / load.head_dim;
    const auto blocks = static_cast<unsigned>((rows_ + at_once - 1) / at_once);
    return {.grid = {of_sums, std::min(blocks, std::max(kMostSumBlocks / of_sums, 1u))},
            .stream = stream_,
            .overlap_previous = device_.overlaps};
  }

  // Behind the partial results.
  RowItem* item_list() const { return reinterpret_cast<RowItem*>(workspace_.partials + partial_floats(mask_)); }

  const RowItem* write_items(std::span<const AttentionItem> items) const {
    std::pmr::vector<int> values(items.size() * kItemInts, call_.memory);
    for (std::size_t i = 0; i < items.size(); ++i) {
      const RowItem item = row_item(items[i]);
      std::memcpy(values.data() + i * kItemInts, &item, sizeof item);
    }
    write_numbers(mask_.rows->gpu(), reinterpret_cast<int*>(item_list()), values, stream_);
    return item_list();
  }

  const DecodeMask& mask_;
  const stof::AttentionCall& call_;
  Workspace& workspace_;
  const StreamHandle stream_;
  std::size_t form_ = 0;
  DecodeDevice device_ = {};
  std::int64_t queries_ = 0, keys_ = 0;  // of an item at most
  int rows_ = 0, chunks_ = 1;            // of a task; tasks of a set of heads
  int launches_ = 1, launched_ = 0;      // of the call
};

}  // namespace

Refusal decode_refuses(const AttentionProblem& problem, const DeviceCaps& caps) {
  const AttentionShape& s = problem.shape;
  if (s.queries > kMostDecoded) return fmt::format("it takes at most {} queries, not {}", kMostDecoded, s.queries);
  if (Refusal why = refuses_biased(problem)) return why;
  if (caps.arch < 80)
    return fmt::format("it needs compute capability 8.0; this device has {}.{}", caps.arch / 10, caps.arch % 10);
  if (s.dtype != DType::f16 && s.dtype != DType::bf16)
    return fmt::format("it takes f16 and bf16, not {}", name_of(s.dtype));
  if (s.head_dim % 8 != 0)
    return fmt::format("head_dim {} is not a multiple of 8: it copies 16 bytes at a time", s.head_dim);
  if (s.queries == 0 || s.keys == 0) return "there are no queries or no keys to load";
  if (s.heads > DecodeParams::kMostTasks)
    return fmt::format("{} heads are more than {}", s.heads, DecodeParams::kMostTasks);
  if (ctas_of(instance_for(s.head_dim), caps) == 0)
    return fmt::format("head_dim {} needs more shared memory than a multiprocessor of {}.{} has", s.head_dim,
                       caps.arch / 10, caps.arch % 10);
  return std::nullopt;
}

std::vector<AttentionPlan> decode_candidates(const AttentionProblem& problem, const DeviceCaps& caps) {
  const DecodeInstance& instance = instance_for(problem.shape.head_dim);
  AttentionPlan plan;
  plan.kernel = kDecodeAttention;
  plan.instance = name_of(instance, problem.shape.dtype);
  plan.format = {
      .block_q = DecodeList::kPositions, .block_kv = DecodeList::kTileKeys, .key_step = DecodeList::kTileKeys};
  plan.predicted_us = predict_decode(problem, pricing_of(caps), instance);
  plan.reason =
      "the queries of all heads of a key head at once, their keys in rows or pages shared out over all CTAs; tensors "
      "off 16 bytes go to row_attention";
  return {plan};
}

ArrangedMask arrange_decode_mask(const AttentionPlan& plan, PackedMask packed, const Device& device) {
  auto mask = std::make_shared<DecodeMask>();
  mask->shape = packed.shape;
  mask->instance = instance_named(decode_instances(), plan.instance, packed.shape.dtype);
  ArrangedDecode arranged = arrange_decode(packed.blocks, packed.blocks.extent.queries, packed.shape.tree_queries > 0);
  mask->first_position = narrow<int>(packed.blocks.first_position, "first position");
  mask->blocks = arranged.blocks;
  mask->most_tiles = arranged.most_tiles;
  mask->of_positions = arranged.lists;
  const AttentionShape& s = packed.shape;
  mask->sets = head_sets(packed.blocks.group_of, s.heads, s.heads / s.kv_heads);
  mask->ctas = device.caps.cores * ctas_of(mask->instance, device.caps);
  const std::span<const DecodeForm> forms = decode_forms(mask->instance, device.caps.arch);
  mask->forms = forms.first(1 + form_for(forms, rows_of(*mask, std::min(s.queries, kMostDecoded))));
  if (device.ordinal == kDescribed) return mask;
  const Gpu& gpu = gpu_of(device);
  mask->rows = std::make_unique<const DeviceBlocks>(gpu, packed.blocks);
  mask->few_keys = FewKeysMask::of(gpu, packed, mask->instance.head_dim);
  mask->lists = to_device<DecodeList>(gpu, arranged.lists);
  mask->runs = to_device<DecodeRun>(gpu, arranged.runs);
  mask->words = to_device<std::uint64_t>(gpu, arranged.words);
  mask->heads = to_device<DecodeHeads>(gpu, mask->sets.heads);
  mask->runs_of_lists = std::move(arranged.runs);
  for (const DecodeForm& form : mask->forms) {
    const std::string unit = unit_of(form, mask->instance, s.dtype);
    const auto load = [&](std::string_view entry) {
      const InstanceKernel& kernel = instance_kernel(gpu, unit, entry);
      if (decode_device(device.caps, mask->instance, form).overlaps)
        kernel.kernel.allow_shared_bytes(std::max(kAloneBytes, kernel.shared_bytes));
      return &kernel;
    };
    mask->kernels.push_back(load(form.entry));
    if (s.tree_queries > 0) mask->of_trees.push_back(load(form.tree_entry));
    mask->sums.push_back(&plain_kernel(gpu, unit, form.sum_entry, kSumThreads));
  }
  prepare_rows(gpu, s.dtype);
  prepare_numbers(gpu);
  mask->workspaces = std::make_unique<WorkspacePool>(gpu, workspace_size(*mask));
  return mask;
}

std::size_t decode_workspace_bytes(const ArrangedMask& arranged) {
  const auto& mask = *static_cast<const DecodeMask*>(arranged.get());
  return mask.workspaces ? mask.workspaces->size().bytes() : 0;
}

void run_decode(const AttentionPlan&, const ArrangedMask& arranged, const stof::AttentionCall& call,
                const Device& device) {
  gpu_of(device);
  if (call.items.empty()) return;
  const auto& mask = *static_cast<const DecodeMask*>(arranged.get());
  check_addresses(call, device);
  if (call.workspace != nullptr) check_address(device, "workspace", call.workspace);
  if (const char* const why = why_by_rows(mask, call)) {
    if (call.device_lengths != nullptr)
      fail(ErrorKind::unsupported, "attention: lengths on the device need {} here", why);
    return launch_rows(*mask.rows, call);
  }
  const CurrentGpu current(mask.rows->gpu());
  with_workspace(*mask.workspaces, call, [&](Workspace& workspace) { Launcher(mask, call, workspace).run(); });
}

}  // namespace stof::cuda
