// SPDX-License-Identifier: Apache-2.0
#include "src/attention/planned.h"

#include "src/attention/live_share.h"
#include "src/base/error.h"
#include "src/layout/pack.h"

namespace stof {
namespace {

constexpr std::int64_t kMaxHeadDim = 256;
constexpr std::int64_t kMaxLength = std::int64_t{1} << 30;  // keys and rows are 32-bit inside kernels

// Items share one layout when the mask is the same for all.
MaskExtent extent_of(const Mask& mask, const AttentionShape& shape) {
  return {.queries = shape.queries,
          .keys = shape.keys,
          .batch = depends_on_batch(mask) ? shape.batch : 1,
          .heads = shape.heads};
}

void check_range(std::string_view name, std::int64_t value, std::int64_t first, std::int64_t last) {
  if (value < first || value > last)
    fail(ErrorKind::invalid_argument, "attention: {} = {}; accepted: {}..{}", name, value, first, last);
}

PackedMask pack(const BoundMask& mask, const AttentionShape& shape, const AttentionPlan& plan) {
  PackedMask packed;
  packed.kind = plan.layout;
  packed.shape = shape;
  if (plan.layout == LayoutKind::block) packed.blocks = pack_blocks(mask, plan.format);
  else packed.rows = pack_rows(mask);
  return packed;
}

Planned arrange(const BoundMask& mask, const AttentionShape& shape, Choice choice, const Device& device) {
  const MaskExtent& extent = mask.extent();
  Planned planned{.choice = std::move(choice), .positions = {extent.offset(), extent.keys}, .arranged = {}};
  planned.arranged =
      planned.choice.kernel->arrange(planned.choice.plan, pack(mask, shape, planned.choice.plan), device);
  return planned;
}

Choice choose_bound(const BoundMask& mask, const AttentionShape& shape, const Device& device, std::string_view kernel) {
  AttentionProblem problem{.shape = shape, .stats = measure(mask, device.backend->attention_block_sizes)};
  problem.partial_live = partial_live_share(mask);
  if (device.backend->measures_keys) {
    problem.band_widths = measure_bands(mask, problem.stats);
    problem.key_pieces = measure_pieces(mask, problem.stats);
  }
  return choose(device.backend->attention, problem, device.caps, kernel);
}

}  // namespace

void check_shape(const AttentionShape& shape) {
  check_range("batch", shape.batch, 1, kMaxLength);
  check_range("heads", shape.heads, 1, kMaxLength);
  check_range("kv_heads", shape.kv_heads, 1, kMaxLength);
  check_range("queries", shape.queries, 0, kMaxLength);
  check_range("keys", shape.keys, 0, kMaxLength);
  check_range("head_dim", shape.head_dim, 1, kMaxHeadDim);
  if (shape.heads % shape.kv_heads != 0)
    fail(ErrorKind::invalid_argument, "attention: heads = {} is not a multiple of kv_heads = {}", shape.heads,
         shape.kv_heads);
  if (shape.dtype != DType::f32 && shape.dtype != DType::f16 && shape.dtype != DType::bf16)
    fail(ErrorKind::invalid_argument, "attention: dtype {}; accepted: f32, f16, bf16", name_of(shape.dtype));
}

Choice choose_attention(const Mask& mask, const AttentionShape& shape, const Device& device, std::string_view kernel) {
  check_shape(shape);
  return choose_bound(BoundMask(mask, extent_of(mask, shape)), shape, device, kernel);
}

Planned plan_attention(const Mask& mask, const AttentionShape& shape, const Device& device, std::string_view kernel) {
  check_shape(shape);
  const BoundMask bound(mask, extent_of(mask, shape));
  return arrange(bound, shape, choose_bound(bound, shape, device, kernel), device);
}

Planned replan(const Mask& mask, const AttentionShape& shape, const Device& device, const Choice& choice) {
  return arrange(BoundMask(mask, extent_of(mask, shape)), shape, choice, device);
}

}  // namespace stof
