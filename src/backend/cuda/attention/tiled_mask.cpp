// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/tiled_mask.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "src/backend/cuda/attention/mma_launch.h"
#include "src/backend/cuda/attention/numbers.h"
#include "src/backend/cuda/attention/rows.h"
#include "src/backend/cuda/attention/tiled_call.h"
#include "src/backend/cuda/driver/device.h"
#include "src/backend/cuda/memory.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

constexpr std::int64_t kMostRowBlocks = std::int64_t{1} << 31;
constexpr std::int64_t kMostKeys = std::int64_t{1} << 29;  // TileMark::kKey, RowRule::kNoBound

}  // namespace

Refusal refuses_capped(const AttentionProblem& problem) {
  if (problem.shape.capped) return "calls will bring a softcap, which it does not do";
  return std::nullopt;
}

Refusal refuses_trees(const AttentionProblem& problem) {
  if (problem.shape.tree_queries > 0) return "calls will bring draft trees, which it does not read";
  return std::nullopt;
}

Refusal refuses_biased(const AttentionProblem& problem) {
  if (problem.shape.biased) return "calls will bring a relative bias, which it does not add";
  return std::nullopt;
}

Refusal refuses_sizes(const AttentionProblem& problem, int most_head_dim) {
  const AttentionShape& s = problem.shape;
  if (s.dtype != DType::f16 && s.dtype != DType::bf16)
    return fmt::format("it takes f16 and bf16, not {}", name_of(s.dtype));
  if (s.head_dim > most_head_dim)
    return fmt::format("head_dim {} is above {}, the largest that it is built for", s.head_dim, most_head_dim);
  if (s.queries == 0 || s.keys == 0) return "there are no queries or no keys to load";
  if (s.keys > kMostKeys) return fmt::format("{} keys are more than {}", s.keys, kMostKeys);
  if (s.heads > kMostInGrid) return fmt::format("{} heads are more than {}", s.heads, kMostInGrid);
  if (static_cast<double>(s.batch) * static_cast<double>(s.heads) * static_cast<double>(s.queries / 64 + 2) >
      static_cast<double>(kMostRowBlocks))
    return fmt::format("the problem has more than {} blocks of 64 rows", kMostRowBlocks);
  return std::nullopt;
}

Refusal refuses_tiles(const AttentionProblem& problem, const DeviceCaps& caps, int most_head_dim) {
  if (caps.arch != 90)
    return fmt::format("it is written for compute capability 9.0; this device has {}.{}", caps.arch / 10,
                       caps.arch % 10);
  if (Refusal why = refuses_sizes(problem, most_head_dim)) return why;
  if (problem.shape.head_dim % 8 != 0)
    return fmt::format("head_dim {} is not a multiple of 8, which the copy engine needs", problem.shape.head_dim);
  return std::nullopt;
}

namespace {

bool is_apart(const stof::AttentionCall& call) { return call.pages.table != nullptr || call.trees.queries > 0; }

// Whether a kernel that copies by tensor maps takes the call. A branch for capped scores was tried in these kernels and
// cost short lists 2 to 4 % (docs/kernels/attention-log.md): they have a form of their own, in plans for them.
bool takes(const TiledMask& mask, const stof::AttentionCall& call, const TiledCall& tiled) {
  if (call.pages.table != nullptr && (mask.paged == nullptr || call.softcap > 0)) return false;
  if (call.trees.queries > 0 && (!mask.takes_trees || call.softcap > 0)) return false;
  if (call.bias.values != nullptr && (mask.biased == nullptr || call.softcap > 0 || is_apart(call))) return false;
  return (call.softcap == 0 || mask.capped != nullptr) && tiled.fits_maps();
}

// Why it does not.
std::string refusal_of(const TiledMask& mask, const stof::AttentionCall& call, const TiledCall& tiled) {
  if (call.bias.values != nullptr && call.softcap > 0) return "a softcap with a relative bias";
  if (call.softcap > 0 && mask.capped == nullptr)
    return fmt::format("softcap = {}, and the plan is not for capped scores", call.softcap);
  return tiled.refuses_maps().value_or("");
}

// Lists that were made on the device serve one kernel, and nothing stands in for what it cannot do.
[[noreturn]] void fail_alone(const std::string& why) {
  fail(ErrorKind::unsupported, "attention: {}; no other kernel takes a mask that is made on the device", why);
}

}  // namespace

void set_up(TiledMask& mask, const TableProblem& problem, const Gpu& gpu) {
  mask.shape = problem.shape;
  mask.extent = problem.form.extent;
  mask.first_position = narrow<int>(problem.form.extent.offset(), "first position");
  mask.gpu = &gpu;
  mask.all_heads = {HeadRun{.first = 0, .count = mask.shape.heads, .per_kv = mask.shape.heads / mask.shape.kv_heads}};
  prepare_numbers(gpu);
}

void set_up(TiledMask& mask, PackedMask packed, const Gpu& gpu) {
  mask.shape = packed.shape;
  mask.most_queries = packed.most_queries;
  mask.extent = packed.blocks.extent;
  mask.first_position = narrow<int>(packed.blocks.first_position, "first position");
  mask.gpu = &gpu;
  mask.blocks = std::make_unique<const DeviceBlocks>(gpu, packed.blocks);
  mask.group_of = std::move(packed.blocks.group_of);
  const std::int64_t heads = mask.shape.heads, per_kv = heads / mask.shape.kv_heads;
  for (std::int64_t item = 0; item < mask.extent.batch; ++item) {
    const std::span groups =
        std::span(mask.group_of).subspan(static_cast<std::size_t>(item * heads), static_cast<std::size_t>(heads));
    mask.head_runs.push_back(head_runs(groups, per_kv));
    mask.all_heads.push_back({.first = 0, .count = heads, .per_kv = per_kv, .group = static_cast<int>(item)});
  }
  if (mask.stacked_heads == 1) {
    mask.packed = &packed_mma_kernel(gpu, packed.shape.dtype, packed.shape.head_dim, kPackedMmaEntry);
    mask.paged_packed = &packed_mma_kernel(gpu, packed.shape.dtype, packed.shape.head_dim, kPagedPackedMmaEntry);
  }
  prepare_rows(gpu, packed.shape.dtype);
  prepare_numbers(gpu);
}

std::size_t workspace_bytes(const TiledMask& mask) { return mask.workspaces ? mask.workspaces->size().bytes() : 0; }

namespace {

void start_kernel(const InstanceKernel& kernel, const TileBoxes& boxes, Launch how, void* params) {
  AttentionMaps maps = encode(boxes);
  void* arguments[] = {&maps, params};
  kernel.kernel.launch(how, arguments);
}

}  // namespace

bool is_ragged(const TiledLaunch& launch) {
  const SliceShape& shape = launch.call.shape;
  const auto differ = [](const auto& lengths) {
    return std::ranges::any_of(lengths, [&](int length) { return length != lengths.front(); });
  };
  const bool beside = launch.items.residues == 1 && launch.items.places <= launch.mask.few_items;
  if (beside && (differ(launch.items.query_lengths) || differ(launch.items.key_lengths) ||
                 (launch.items.in_a_row && launch.items.places > 1)))
    return true;
  return shape.query_lengths != nullptr || shape.key_lengths != nullptr || shape.query_starts != nullptr ||
         shape.key_starts != nullptr || shape.item_queries != shape.queries || shape.item_keys != shape.keys;
}

TilePages tile_pages(const TiledLaunch& launch) {
  return {.table = launch.pages.table,
          .item_stride = launch.pages.item_stride,
          .shift = launch.pages.shift,
          .copied_log2 = std::countr_zero(static_cast<unsigned>(launch.page_box))};
}

void start(const TiledLaunch& launch, int grid, void* params) {
  const TiledMask& mask = launch.mask;
  const bool biased = launch.bias.values != nullptr, capped = launch.call.cap_log2 != 0,
             ragged = mask.ragged != nullptr && is_ragged(launch);
  start(launch, *(biased ? mask.biased : capped ? mask.capped : ragged ? mask.ragged : mask.kernel), grid, params);
}

void start(const TiledLaunch& launch, const InstanceKernel& kernel, int grid, void* params) {
  start_kernel(
      kernel, launch.boxes,
      {.grid = {static_cast<unsigned>(grid)}, .stream = launch.stream, .overlap_previous = launch.overlap_previous},
      params);
}

void start_listed(const TiledLaunch& launch, const InstanceKernel& kernel, int grid, void* params) {
  start_kernel(kernel, launch.boxes,
               {.grid = {static_cast<unsigned>(grid)}, .stream = launch.stream, .overlap_previous = true}, params);
}

void run_tiles(const TiledMask& mask, const stof::AttentionCall& call, const Device& device,
               const LaunchPiece& launch) {
  gpu_of(device);
  if (call.items.empty()) return;
  check_addresses(call, device);
  if (call.workspace != nullptr) check_address(device, "workspace", call.workspace);
  const bool ordinary =
      tiles_take_scale(call.scale) && (call.bias.values == nullptr || call.scale >= kLeastBiasedScale);
  const bool in_pages = call.pages.table != nullptr, alone = mask.blocks == nullptr;
  if (!ordinary || (in_pages && alone) || call.softcap > kMostTiledCap) {
    if (alone)
      fail_alone(in_pages ? "the keys are in pages"
                 : !ordinary
                     ? fmt::format("scale = {}, which is not above {} and at most {}", call.scale,
                                   call.bias.values == nullptr ? "0" : "1e-18 beside a relative bias", kMostTiledScale)
                     : fmt::format("softcap = {}, which is above {}", call.softcap, kMostTiledCap));
    return launch_rows(*mask.blocks, call);
  }
  const bool arranged = mask.kernel != nullptr;
  const TiledCall tiled(mask, call,
                        {.classes = mask.by_maps && arranged,
                         .heads = mask.mixes_heads,
                         .items = mask.mixes_items,
                         .few_items = mask.few_items});
  const bool taken = !mask.by_maps || takes(mask, call, tiled);
  if (!taken && alone) fail_alone(refusal_of(mask, call, tiled));
  if (!taken && mask.stacked_heads > 1) return launch_rows(*mask.blocks, call);
  if (arranged && taken) tiled.run(launch);
  else TiledCall(mask, call, {}).run(launch_packed_mma);
}

}  // namespace stof::cuda
