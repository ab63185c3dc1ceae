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

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::optional<FewKeysMask> FewKeysMask::of(const Gpu& gpu, const PackedMask& packed, std::int64_t head_dim) {
  if (packed.spans.empty() || !fits_few_keys(head_dim, 1, gpu.caps)) return std::nullopt;
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
  for (std::int64_t slabs = 1; slabs <= FewKeysGrid::kMostSlabs; ++slabs) {
    if (!fits_few_keys(head_dim, slabs, gpu.caps)) break;
    const Kernel& kernel = plain_kernel(gpu, few_keys_unit(packed.shape.dtype),
                                        few_keys_entry(packed.shape.dtype, head_dim, slabs), FewKeysGrid::kThreads);
    kernel.allow_shared_bytes(static_cast<unsigned>(most_shared_bytes(head_dim, slabs, gpu.caps)));
    mask.kernels_[static_cast<std::size_t>(slabs - 1)] = &kernel;
  }
  return mask;
}

std::optional<FewKeysSplit> FewKeysMask::split(const DecodeParams& call, std::int64_t queries,
                                               std::int64_t keys) const {
  const std::int64_t rows = call.heads_per_kv * queries, of_cta = slabs(rows);
  constexpr std::int64_t kMostBlocks = 65535;  // of a grid's second and third dimension
  const std::int64_t chunks = ceil_div(rows, of_cta * FewKeysGrid::kSlab), kv_heads = shape_.kv_heads;
  if (call.trees.queries > 0 || kernels_[static_cast<std::size_t>(of_cta - 1)] == nullptr ||
      kv_heads * chunks > kMostBlocks || call.item_count > kMostBlocks)
    return std::nullopt;
  // Rows of one item see ranges that begin and end as far apart as they are.
  const std::int64_t seen = std::min(keys, most_keys_ + queries - 1);
  if (seen > kMostKeys) return std::nullopt;
  const FewKeysSplit split =
      split_few_keys({.tasks = call.item_count * kv_heads * chunks,
                      .keys = seen,
                      .slabs = of_cta,
                      .head_dim = head_dim_,
                      .bytes = static_cast<double>(call.item_count * seen * 2 * kv_heads * call.head_dim) *
                               static_cast<double>(size_of(shape_.dtype))},
                     gpu_->caps);
  return split.rounds <= kMostRounds ? std::optional(split) : std::nullopt;
}

void FewKeysMask::launch(const DecodeParams& call, const FewKeysSplit& split, std::int64_t queries,
                         StreamHandle stream) const {
  const std::int64_t rows = call.heads_per_kv * queries, of_cta = slabs(rows),
                     chunks = ceil_div(rows, of_cta * FewKeysGrid::kSlab);
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
                       .kv_heads = narrow<int>(shape_.kv_heads, "key heads"),
                       .head_dim = call.head_dim,
                       .chunks = narrow<int>(chunks, "parts of rows"),
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
  kernels_[static_cast<std::size_t>(of_cta - 1)]->launch(
      {.grid = {.x = static_cast<unsigned>(split.ranks),
                .y = static_cast<unsigned>(shape_.kv_heads * chunks),
                .z = static_cast<unsigned>(call.item_count)},
       .stream = stream,
       .cluster = static_cast<unsigned>(split.ranks),
       .overlap_previous = gpu_->caps.arch >= 90,
       .least_shared_bytes = static_cast<unsigned>(split.shared_bytes)},
      arguments);
}

}  // namespace stof::cuda
