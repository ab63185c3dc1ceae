// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/decode_few_keys.h"

#include <algorithm>
#include <vector>

#include "src/backend/cuda/attention/kernel_store.h"
#include "src/backend/cuda/driver/device.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

// Up to which it is the sooner one where lengths are on the device (bench/results/h200-few-keys.txt). An item that is
// longer than the others is read by as few CTAs as they are: rounds bound what that costs.
constexpr std::int64_t kMostKeys = 2048;
constexpr int kMostRounds = 4;
constexpr std::int64_t kMostBlocks = 65535;  // of a grid's second and third dimension

// Rows of q of a CTA: those of the heads of one key head.
std::int64_t slabs_of(std::int64_t rows) { return rows > FewKeysGrid::kSlab ? 2 : 1; }

}  // namespace

std::optional<FewKeysSplit> split_few_keys(const FewKeysCall& call, const DeviceCaps& caps) {
  const std::int64_t rows = call.heads / call.kv_heads, slabs = slabs_of(rows);
  if (call.trees || call.queries != 1 || rows > FewKeysGrid::kMostSlabs * FewKeysGrid::kSlab || call.keys > kMostKeys ||
      !fits_few_keys(call.head_dim, slabs, caps) || call.kv_heads > kMostBlocks || call.items > kMostBlocks)
    return std::nullopt;
  const FewKeysSplit split =
      split_few_keys({.tasks = call.items * call.kv_heads,
                      .keys = call.keys,
                      .slabs = slabs,
                      .head_dim = call.head_dim,
                      .bytes = static_cast<double>(call.items * call.keys * 4 * call.kv_heads * call.head_dim)},
                     caps);
  return split.rounds <= kMostRounds && split.waves == 1 ? std::optional(split) : std::nullopt;
}

std::optional<FewKeysMask> FewKeysMask::of(const Gpu& gpu, const PackedMask& packed, std::int64_t head_dim) {
  const std::int64_t slabs = slabs_of(packed.shape.heads / packed.shape.kv_heads);
  if (packed.spans.empty() || slabs > FewKeysGrid::kMostSlabs || !fits_few_keys(head_dim, slabs, gpu.caps))
    return std::nullopt;
  FewKeysMask mask;
  mask.gpu_ = &gpu;
  mask.shape_ = packed.shape;
  mask.head_dim_ = head_dim;
  mask.first_position_ = narrow<int>(packed.shape.keys - std::ssize(packed.spans), "first position");
  std::vector<KeySpan> spans;
  for (const RowSpan& row : packed.spans) {
    spans.push_back({row.prefix_end, row.begin, row.end, 0});
    mask.most_keys_ = std::max<std::int64_t>(mask.most_keys_, row.prefix_end + std::max(row.end - row.begin, 0));
  }
  mask.spans_ = to_device<KeySpan>(gpu, spans);
  mask.kernel_ = &plain_kernel(gpu, few_keys_unit(packed.shape.dtype),
                               few_keys_entry(packed.shape.dtype, head_dim, slabs), FewKeysGrid::kThreads);
  mask.kernel_->allow_shared_bytes(static_cast<unsigned>(most_shared_bytes(head_dim, slabs, gpu.caps)));
  return mask;
}

std::optional<FewKeysSplit> FewKeysMask::split(const DecodeParams& call, std::int64_t queries,
                                               std::int64_t keys) const {
  return split_few_keys({.items = call.item_count,
                         .heads = shape_.heads,
                         .kv_heads = shape_.kv_heads,
                         .queries = queries,
                         .keys = std::min(keys, most_keys_),
                         .head_dim = head_dim_,
                         .trees = call.trees.queries > 0},
                        gpu_->caps);
}

void FewKeysMask::launch(const DecodeParams& call, const FewKeysSplit& split, StreamHandle stream) const {
  FewKeysParams params{.q = call.q,
                       .k = call.k,
                       .v = call.v,
                       .out = call.out,
                       .lse = call.lse,
                       .q_stride = call.q_stride,
                       .k_stride = call.k_stride,
                       .v_stride = call.v_stride,
                       .out_stride = call.out_stride,
                       .lse_stride = call.lse_stride,
                       .heads_per_kv = call.heads_per_kv,
                       .head_dim = call.head_dim,
                       .stages = split.stages,
                       .warp_bytes = split.warp_bytes,
                       .scale_log2 = call.scale_log2,
                       .cap_log2 = call.cap_log2,
                       .first_position = first_position_,
                       .positions = narrow<int>(shape_.keys - first_position_, "positions"),
                       .spans = spans_.as<KeySpan>(),
                       .pages = call.pages,
                       .key_lengths = call.key_lengths,
                       .item_list = call.item_list,
                       .items = {}};
  static_assert(FewKeysParams::kMostItems == DecodeParams::kMostItems);
  if (call.item_list == nullptr) std::copy_n(call.items, call.item_count, params.items);
  void* arguments[] = {&params};
  kernel_->launch({.grid = {.x = static_cast<unsigned>(split.ranks),
                            .y = static_cast<unsigned>(shape_.kv_heads),
                            .z = static_cast<unsigned>(call.item_count)},
                   .stream = stream,
                   .cluster = static_cast<unsigned>(split.ranks),
                   .overlap_previous = gpu_->caps.arch >= 90,
                   .least_shared_bytes = static_cast<unsigned>(split.shared_bytes)},
                  arguments);
}

}  // namespace stof::cuda
