// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/band.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "src/backend/cuda/attention/arrange.h"
#include "src/backend/cuda/attention/band_spans.h"
#include "src/backend/cuda/attention/cost.h"
#include "src/backend/cuda/attention/numbers.h"
#include "src/backend/cuda/attention/tiled_mask.h"
#include "src/backend/cuda/driver/device.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

struct BandMask : TiledMask {
  BandInstance instance = {};
  OverPages over_pages = OverPages::passes_on;
  DeviceMemory rows, words;
  int row_blocks = 0;
  std::optional<BandForm> form = {};  // of rows that have spans, where pages are read
  DeviceMemory form_rows;             // those of the form, where no rule says them
};

constexpr int kSmallestPage = 16;  // a copy that begins at multiples of it, and brings no more, stays within a page

std::int64_t width(const AttentionProblem& problem, int parts) {
  return problem.band_widths.keys[static_cast<std::size_t>(parts - 1)];
}

// Whether another CTA of the multiprocessor works while one waits for the copies of pages, of which 192 keys of pages
// of 16 have 48 and more, or there are few row blocks. Of pages of 16: up to 1.3 row blocks a CTA bands were sooner
// than lists, with some six level or sooner, with twelve later (bench/results/h200-bands-over-pages.txt); between
// nothing was timed.
bool hides_copies(const BandMask& mask, const AttentionShape& s, const DeviceCaps& caps) {
  constexpr std::int64_t kFew = 2;
  return mask.instance.ctas > 1 || s.batch * s.heads * mask.row_blocks <= kFew * caps.cores;
}

// Of a launch whose items may be anywhere in the layout; all of the layout's where the device alone knows their
// lengths.
BandPlacement place_row_blocks(const BandMask& mask, const TiledLaunch& launch, int cores) {
  const ItemRun& items = launch.items;
  const SliceShape& s = launch.call.shape;
  if (items.query_lengths.empty() || items.residues > 1) return {mask.row_blocks, launch.page_box, false};
  BandPlacement placed{0, launch.page_box, false};
  if (mask.form && launch.pages.table != nullptr)
    placed = place_band(*mask.form, {.queries = items.query_lengths,
                                     .keys = items.key_lengths,
                                     .slices_of_item = s.heads,
                                     .page = 1 << launch.pages.shift,
                                     .layout_position = mask.first_position,
                                     .layout_copy = launch.page_box,
                                     .at_once = static_cast<double>(cores) * mask.instance.ctas});
  else
    placed.row_blocks =
        touched_row_blocks(items.query_lengths, items.key_lengths, mask.first_position, 64 * mask.instance.parts);
  if (!placed.from_first_row) placed.row_blocks = std::min(placed.row_blocks, mask.row_blocks);
  return placed;
}

// What the kernel reads of rows whose row blocks begin at an item's first row.
RowSpans spans_of(const BandMask& mask, const BandPlacement& placed) {
  RowSpans spans{};
  if (!placed.from_first_row) return spans;
  spans.rows = mask.form_rows.as<RowKeys>();
  if (mask.form->rule) spans.rule = *mask.form->rule;
  spans.first_position = mask.form->first_position;
  spans.key_step = placed.copy;
  spans.parts = 1;
  return spans;
}

void launch_band(const BandMask& mask, TiledLaunch launch, int cores) {
  const bool in_pages = launch.pages.table != nullptr;
  const InstanceKernel* const kernel = in_pages ? mask.paged : is_ragged(launch) ? mask.ragged : mask.kernel;
  const bool as_planned = kernel == mask.kernel;
  const BandPlacement placed =
      as_planned ? BandPlacement{mask.row_blocks, launch.page_box, false} : place_row_blocks(mask, launch, cores);
  if (placed.row_blocks == 0) return;
  if (in_pages) launch.page_box = launch.boxes.k.box[1] = launch.boxes.v.box[1] = placed.copy;
  // Of all kernels: each reads what it has of this.
  PagedBandParams params{{{.call = launch.call,
                           .rows = mask.rows.as<BandRow>() + std::int64_t{launch.heads.group} * mask.row_blocks,
                           .words = mask.words.as<unsigned>(),
                           .row_blocks = placed.row_blocks},
                          few_numbers(launch.items),
                          launch.call.shape.slices,
                          mask.row_blocks},
                         tile_pages(launch),
                         spans_of(mask, placed)};
  const int total = narrow<int>(std::int64_t{launch.call.shape.slices} * placed.row_blocks, "row blocks of a launch");
  start(launch, *kernel, std::min(total, cores * mask.instance.ctas), &params);
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
  if (Refusal why = refuses_trees(problem)) return why;
  if (Refusal why = refuses_biased(problem)) return why;
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
  const bool fits_pages = arranged && arranged->key_step >= kSmallestPage;
  mask->row_blocks = narrow<int>(packed.blocks.row_blocks, "row blocks");
  if (fits_pages && !packed.spans.empty())
    mask->form = band_form(mask->instance, packed.spans, narrow<int>(packed.blocks.extent.offset(), "first position"),
                           packed.blocks.extent.keys);
  if (fits_pages)
    mask->over_pages = !hides_copies(*mask, packed.shape, device.caps) ? OverPages::reads_late
                       : mask->form                                    ? OverPages::reads_anywhere
                                                                       : OverPages::reads;
  if (device.ordinal == kDescribed) return mask;
  const Gpu& gpu = gpu_of(device);
  set_up(*mask, std::move(packed), gpu);
  const AttentionShape& s = mask->shape;
  mask->workspaces =
      std::make_unique<WorkspacePool>(gpu, WorkspaceSize{.numbers = 4 * static_cast<std::size_t>(s.batch)});
  if (!arranged) return mask;
  mask->key_box = mask->instance.loaded_keys();
  mask->key_step = arranged->key_step;
  mask->few_items = FewNumbers::kMost;
  mask->rows = to_device<BandRow>(gpu, arranged->rows);
  mask->words = to_device<std::uint32_t>(gpu, arranged->words);
  mask->kernel = &instance_kernel(gpu, plan.instance, kBandEntry);
  mask->ragged = &instance_kernel(gpu, plan.instance, kRaggedBandEntry);
  if (fits_pages) mask->paged = &instance_kernel(gpu, plan.instance, kPagedBandEntry);
  if (mask->form && !mask->form->rule) mask->form_rows = to_device<RowKeys>(gpu, mask->form->rows);
  return mask;
}

OverPages band_over_pages(const ArrangedMask& arranged) {
  return static_cast<const BandMask*>(arranged.get())->over_pages;
}

// Of d 128, whose matmuls were never serialised, in bench/results/h100-bands-over-pages.txt.
double band_pages_us(const AttentionPlan&) { return 0.6; }

std::size_t band_workspace_bytes(const ArrangedMask& arranged) {
  return workspace_bytes(*static_cast<const BandMask*>(arranged.get()));
}

void run_band(const AttentionPlan&, const ArrangedMask& arranged, const stof::AttentionCall& call,
              const Device& device) {
  const auto& mask = *static_cast<const BandMask*>(arranged.get());
  run_tiles(mask, call, device, [&](const TiledLaunch& launch) { launch_band(mask, launch, device.caps.cores); });
}

}  // namespace stof::cuda
