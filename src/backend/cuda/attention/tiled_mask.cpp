// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/tiled_mask.h"

#include <algorithm>
#include <cmath>

#include "src/backend/cuda/attention/mma_launch.h"
#include "src/backend/cuda/attention/numbers.h"
#include "src/backend/cuda/attention/rows.h"
#include "src/backend/cuda/driver/device.h"
#include "src/backend/cuda/memory.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

constexpr const char* kMemoryUnit = "call_memory";
constexpr unsigned kMemoryThreads = 256;
constexpr std::int64_t kMostInGrid = 65535;
constexpr std::int64_t kMostRowBlocks = std::int64_t{1} << 31;

// Numbers of an item run, where it has any: lengths and, in a packed batch, starts.
struct DeviceNumbers {
  const int *query_lengths = nullptr, *key_lengths = nullptr, *query_starts = nullptr, *key_starts = nullptr;
  bool any() const { return query_lengths != nullptr || query_starts != nullptr; }
};

// One launch: which items and heads, and whether it may overlap what is in front of it.
struct Piece {
  const ItemRun& run;
  const HeadRun& heads;
  const DeviceNumbers& numbers;
  bool overlap_previous;
};

// What goes into one launch, of what else takes several.
struct Together {
  bool classes = false;  // residue classes of items, where they lie evenly
  bool heads = false;    // those with different masks
};

class Caller {
 public:
  Caller(const TiledMask& mask, const stof::AttentionCall& call, Together together)
      : mask_(mask),
        call_(call),
        stream_(static_cast<StreamHandle>(call.stream)),
        by_item_(mask.extent.batch > 1),
        mixed_(together.heads) {
    const bool on_device = mask.blocks == nullptr, one_by_one = by_item_ && !(on_device && consecutive(call.items));
    const std::optional<ItemRun> classes = together.classes && !by_item_ ? class_run(call) : std::nullopt;
    if (call.device_items.count > 0) items_.push_back(device_run(call.device_items));
    else if (classes && as_planned(*classes) && classes->places <= kMostInGrid) items_.push_back(*classes);
    else items_ = item_runs(call, one_by_one ? 1 : std::min(mask.shape.batch, kMostInGrid));
    const std::int64_t per_kv = call.heads / call.kv_heads;
    if (on_device) heads_.resize(items_.size(), {HeadRun{.first = 0, .count = call.heads, .per_kv = per_kv}});
    for (std::size_t i = heads_.size(); i < items_.size(); ++i) {
      const ItemRun& run = items_[i];
      const std::int64_t item = by_item_ ? call.items[run.first].index : 0;
      if (mixed_) heads_.push_back({HeadRun{0, call.heads, per_kv, static_cast<int>(item)}});
      else
        heads_.push_back(
            head_runs(std::span(mask.group_of)
                          .subspan(static_cast<std::size_t>(item * call.heads), static_cast<std::size_t>(call.heads)),
                      per_kv));
    }
  }

  // Why some tensor cannot be loaded through a map.
  Refusal refuses_maps() const {
    for (std::size_t i = 0; i < items_.size(); ++i)
      for (const HeadRun& heads : heads_[i])
        for (const TensorBox& box : boxes_of(call_, items_[i], heads, mask_.key_box).all())
          if (Refusal refusal = refuses(box)) return refusal;
    return std::nullopt;
  }

  void run(const LaunchPiece& launch) const {
    const CurrentGpu current(*mask_.gpu);  // encoding a map needs one too
    with_workspace(*mask_.workspaces, call_.workspace, stream_,
                   [&](Workspace& workspace) { launch_all(launch, workspace); });
  }

 private:
  // Lengths and places stay on the device.
  static ItemRun device_run(const DeviceItems& items) {
    return {.first = 0, .count = 1, .places = items.count, .query_rows = items.rows, .key_rows = items.rows};
  }

  static bool consecutive(std::span<const AttentionItem> items) {
    for (std::size_t i = 1; i < items.size(); ++i)
      if (items[i].index != items[i - 1].index + 1) return false;
    return true;
  }

  void launch_all(const LaunchPiece& launch, Workspace& workspace) const {
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const DeviceNumbers numbers = write_numbers(items_[i], workspace);
      for (const HeadRun& heads : heads_[i]) {
        const bool behind_numbers = &heads == heads_[i].data() && numbers.any() && call_.device_items.count == 0;
        launch_piece(launch, {items_[i], heads, numbers, !behind_numbers}, workspace);
      }
    }
  }

  // Every item as long as planned, so that the kernel needs no lengths.
  bool as_planned(const ItemRun& run) const {
    const auto is = [](std::int64_t wanted) { return [wanted](int length) { return length == wanted; }; };
    return std::all_of(run.query_lengths.begin(), run.query_lengths.end(), is(mask_.extent.queries)) &&
           std::all_of(run.key_lengths.begin(), run.key_lengths.end(), is(mask_.extent.keys));
  }

  DeviceNumbers write_numbers(const ItemRun& run, Workspace& workspace) const {
    if (const DeviceItems& there = call_.device_items; there.count > 0)
      return {there.lengths, there.lengths, there.starts, there.starts};
    std::vector<int> values;
    DeviceNumbers numbers;
    const auto add = [&](const std::vector<int>& more) {
      const int* const place = workspace.numbers + values.size();
      values.insert(values.end(), more.begin(), more.end());
      return place;
    };
    if (!as_planned(run)) {
      numbers.query_lengths = add(run.query_lengths);
      numbers.key_lengths = add(run.key_lengths);
    }
    if (call_.packed && run.places > 1) {
      numbers.query_starts = add(run.query_starts);
      numbers.key_starts = add(run.key_starts);
    }
    cuda::write_numbers(*mask_.gpu, workspace.numbers, values, stream_);
    return numbers;
  }

  SliceShape shape_of(const ItemRun& run, const HeadRun& heads, const DeviceNumbers& numbers) const {
    const std::int64_t of_item = mixed_ ? 1 : heads.count;  // slices of an item and a class
    return {.slices = static_cast<int>(run.places * of_item * run.residues),
            .heads = static_cast<int>(of_item),
            .heads_per_kv = static_cast<int>(heads.per_kv),
            .residues = static_cast<int>(run.residues),
            .queries = static_cast<int>(mask_.extent.queries),
            .keys = static_cast<int>(mask_.extent.keys),
            .first_position = mask_.first_position,
            .query_lengths = numbers.query_lengths,
            .key_lengths = numbers.key_lengths,
            .query_starts = numbers.query_starts,
            .key_starts = numbers.key_starts};
  }

  bool lse_needs_placing(const ItemRun& run) const {
    return call_.lse != nullptr && call_.lse_strides.row != run.residues;
  }

  AttentionOutput output_of(const ItemRun& run, const HeadRun& heads, const Workspace& workspace) const {
    const AttentionItem& first = call_.items[run.first];
    AttentionOutput out{};
    out.values = static_cast<std::uint16_t*>(call_.out) + first.out + heads.first * call_.out_strides.head;
    out.row_stride = call_.out_strides.row;
    out.head_stride = call_.out_strides.head;
    out.item_stride = run.out;
    out.residue_stride = run.out_class;
    out.head_dim = static_cast<int>(call_.head_dim);
    if (lse_needs_placing(run)) {
      out.lse = workspace.lse;
      out.lse_head_stride = run.query_rows;
      out.lse_item_stride = run.query_rows * heads.count;
    } else if (call_.lse != nullptr) {
      out.lse = call_.lse + first.lse + heads.first * call_.lse_strides.head;
      out.lse_head_stride = call_.lse_strides.head;
      out.lse_item_stride = run.lse;
    }
    return out;
  }

  void launch_piece(const LaunchPiece& launch, const Piece& piece, Workspace& workspace) const {
    const auto& [run, heads, numbers, overlap] = piece;
    const AttentionOutput out = output_of(run, heads, workspace);
    const ScoreScale scale = score_scale(call_);
    launch({.mask = mask_,
            .boxes = boxes_of(call_, run, heads, mask_.key_box),
            .call = {shape_of(run, heads, numbers), out, scale.log2, scale.cap_log2},
            .heads = heads,
            .item = by_item_ ? call_.items[run.first].index : 0,
            .workspace = workspace,
            .stream = stream_,
            .overlap_previous = overlap});
    if (lse_needs_placing(run)) place_lse(run, heads, numbers, out);
  }

  void place_lse(const ItemRun& run, const HeadRun& heads, const DeviceNumbers& numbers,
                 const AttentionOutput& out) const {
    const int longest = *std::max_element(run.query_lengths.begin(), run.query_lengths.end());
    LsePlacement placement{.from = out.lse,
                           .to = call_.lse + call_.items[run.first].lse + heads.first * call_.lse_strides.head,
                           .from_item = numbers.query_starts != nullptr ? 0 : out.lse_item_stride,
                           .from_head = out.lse_head_stride,
                           .to_item = numbers.query_starts != nullptr ? 0 : run.lse,
                           .to_head = call_.lse_strides.head,
                           .to_row = call_.lse_strides.row,
                           .items = static_cast<int>(run.places),
                           .heads = static_cast<int>(heads.count),
                           .rows = longest,
                           .lengths = numbers.query_lengths,
                           .starts = numbers.query_starts};
    const Kernel& kernel = plain_kernel(*mask_.gpu, kMemoryUnit, "place_lse_kernel", kMemoryThreads);
    void* arguments[] = {&placement};
    const auto chunks = (static_cast<unsigned>(longest) + kMemoryThreads - 1) / kMemoryThreads;
    kernel.launch(
        {.grid = {chunks, static_cast<unsigned>(heads.count), static_cast<unsigned>(run.places)}, .stream = stream_},
        arguments);
  }

  const TiledMask& mask_;
  const stof::AttentionCall& call_;
  const StreamHandle stream_;
  const bool by_item_;  // the mask differs by item
  const bool mixed_;    // a launch takes all heads, and its lists say which one a row block is of
  std::vector<ItemRun> items_;
  std::vector<std::vector<HeadRun>> heads_;  // of each item run
};

// Kernels without lengths take every item to begin at the layout's row 0 and to be as long as planned.
bool is_ragged(const SliceShape& shape) {
  return shape.query_lengths != nullptr || shape.key_lengths != nullptr || shape.query_starts != nullptr ||
         shape.key_starts != nullptr || shape.first_position != shape.keys - shape.queries;
}

}  // namespace

Refusal refuses_capped(const AttentionProblem& problem) {
  if (problem.shape.capped) return "calls will bring a softcap, which it does not do";
  return std::nullopt;
}

Refusal refuses_sizes(const AttentionProblem& problem, int most_head_dim) {
  const AttentionShape& s = problem.shape;
  if (s.dtype != DType::f16 && s.dtype != DType::bf16)
    return fmt::format("it takes f16 and bf16, not {}", name_of(s.dtype));
  if (s.head_dim > most_head_dim)
    return fmt::format("head_dim {} is above {}, the largest that it is built for", s.head_dim, most_head_dim);
  if (s.queries == 0 || s.keys == 0) return "there are no queries or no keys to load";
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

void load_kernels_of_calls(const Gpu& gpu) {
  prepare_numbers(gpu);
  plain_kernel(gpu, kMemoryUnit, "place_lse_kernel", kMemoryThreads);
}

// Why a kernel that copies by tensor maps does not take the call. A branch for capped scores was tried in these kernels
// and cost short lists 2 to 4 % (docs/kernels/attention-log.md): they have a form of their own, in plans for them.
Refusal refuses_call(const TiledMask& mask, const stof::AttentionCall& call, const Caller& caller) {
  if (call.softcap > 0 && mask.capped == nullptr)
    return fmt::format("softcap = {}, and the plan is not for capped scores", call.softcap);
  return caller.refuses_maps();
}

// Lists that were made on the device serve one kernel, and nothing stands in for what it cannot do.
void check_other_kernels(const TiledMask& mask, const std::string& why) {
  if (mask.blocks == nullptr)
    fail(ErrorKind::unsupported, "attention: {}; no other kernel takes a mask that is made on the device", why);
}

}  // namespace

void set_up(TiledMask& mask, const TableProblem& problem, const Gpu& gpu) {
  mask.shape = problem.shape;
  mask.extent = problem.form.extent;
  mask.first_position = narrow<int>(problem.form.extent.offset(), "first position");
  mask.gpu = &gpu;
  load_kernels_of_calls(gpu);
}

void set_up(TiledMask& mask, PackedMask packed, const Gpu& gpu) {
  mask.shape = packed.shape;
  mask.extent = packed.blocks.extent;
  mask.first_position = narrow<int>(packed.blocks.first_position, "first position");
  mask.gpu = &gpu;
  mask.blocks = std::make_unique<const DeviceBlocks>(gpu, packed.blocks);
  mask.group_of = std::move(packed.blocks.group_of);
  mask.packed = &packed_mma_kernel(gpu, packed.shape.dtype, packed.shape.head_dim);
  prepare_rows(gpu, packed.shape.dtype);
  load_kernels_of_calls(gpu);
}

std::size_t workspace_bytes(const TiledMask& mask) { return mask.workspaces ? mask.workspaces->size().bytes() : 0; }

void start(const TiledLaunch& launch, int grid, void* params) {
  const TiledMask& mask = launch.mask;
  const bool capped = launch.call.cap_log2 != 0, ragged = mask.ragged != nullptr && is_ragged(launch.call.shape);
  const InstanceKernel& kernel = *(capped ? mask.capped : ragged ? mask.ragged : mask.kernel);
  AttentionMaps maps = encode(launch.boxes);
  void* arguments[] = {&maps, params};
  kernel.kernel.launch(
      {.grid = {static_cast<unsigned>(grid)}, .stream = launch.stream, .overlap_previous = launch.overlap_previous},
      arguments);
}

void run_tiles(const TiledMask& mask, const stof::AttentionCall& call, const Device& device,
               const LaunchPiece& launch) {
  gpu_of(device);
  if (call.items.empty()) return;
  check_addresses(call, device);
  if (call.workspace != nullptr) check_address(device, "workspace", call.workspace);
  // The kernels take the maximum of unscaled scores, which is that of scaled ones for positive factors.
  const bool ordinary = std::isfinite(call.scale) && call.scale > 0;
  const bool in_pages = call.pages.table != nullptr;
  if (!ordinary || in_pages) {
    check_other_kernels(
        mask, in_pages ? "the keys are in pages" : fmt::format("scale = {}, which is not above 0", call.scale));
    return launch_rows(*mask.blocks, call);
  }
  const bool arranged = mask.kernel != nullptr;
  const Caller caller(mask, call, {.classes = mask.by_maps && arranged, .heads = mask.mixes_heads});
  const Refusal refusal = mask.by_maps ? refuses_call(mask, call, caller) : std::nullopt;
  if (refusal) check_other_kernels(mask, *refusal);
  if (arranged && !refusal) caller.run(launch);
  else Caller(mask, call, {}).run(launch_packed_mma);
}

}  // namespace stof::cuda
