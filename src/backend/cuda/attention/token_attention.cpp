// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/token_attention.h"

#include <cmath>

#include "kernels/shared/token_attention.h"
#include "src/backend/cuda/attention/few_keys.h"
#include "src/backend/cuda/attention/kernel_store.h"
#include "src/backend/cuda/driver/device.h"
#include "src/base/error.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

using Grid = TokenAttentionGrid;

FewKeysLoad load_of(const TokenAttentionShape& s) {
  return {.tasks = s.texts * s.kv_heads,
          .keys = keys_seen(s),
          .head_dim = s.head_dim,
          .bytes = static_cast<double>(s.texts * keys_seen(s) * 2 * s.kv_heads * s.head_dim) *
                   static_cast<double>(size_of(s.dtype))};
}

std::optional<std::string> refuses(const TokenAttentionShape& s, const DeviceCaps& caps) {
  if (caps.arch < 80)
    return fmt::format("it needs compute capability 8.0; this device has {}.{}", caps.arch / 10, caps.arch % 10);
  if (s.dtype != DType::f16 && s.dtype != DType::bf16)
    return fmt::format("it takes f16 and bf16, not {}", name_of(s.dtype));
  if (s.head_dim != 64 && s.head_dim != 128) return fmt::format("it takes heads of 64 and 128, not {}", s.head_dim);
  if (s.heads % s.kv_heads != 0 || s.heads / s.kv_heads > Grid::kMostHeads)
    return fmt::format("it takes up to {} heads for each key head, not {} for {}", Grid::kMostHeads, s.heads,
                       s.kv_heads);
  if (keys_seen(s) > Grid::kMostKeys)
    return fmt::format("it takes up to {} keys, not {}", +Grid::kMostKeys, keys_seen(s));
  constexpr std::int64_t kMostBlocks = 65535;  // of a grid's second and third dimension
  if (s.texts > kMostBlocks || s.kv_heads > kMostBlocks)
    return fmt::format("it takes up to {} texts and key heads, not {} and {}", kMostBlocks, s.texts, s.kv_heads);
  // A text that is longer than the others is read by as few CTAs as they are.
  const int most_rounds = 8, rounds = split_few_keys(load_of(s), caps).rounds;
  if (s.texts > 1 && rounds > most_rounds)
    return fmt::format("{} texts of {} keys take {} rounds of keys, one after the other; accepted: {}, or one text",
                       s.texts, keys_seen(s), rounds, most_rounds);
  return std::nullopt;
}

double predicted_us(const TokenAttentionShape& s, const DeviceCaps& caps) {
  return split_few_keys(load_of(s), caps).predicted_us;
}

const Kernel& kernel_of(const TokenAttentionShape& s, const Gpu& gpu) {
  return plain_kernel(gpu, kTokenAttentionUnit, token_attention_entry(s.dtype, s.head_dim), FewKeysGrid::kThreads);
}

void prepare(const TokenAttentionShape& s, const Device& device) {
  kernel_of(s, gpu_of(device)).allow_shared_bytes(static_cast<unsigned>(most_shared_bytes(s.head_dim, 1, device.caps)));
}

bool aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

void run(const TokenAttentionShape& s, const TokenAttentionCall& call) {
  const Gpu& gpu = gpu_of(*call.queue.device);
  if (s.texts == 0) return;
  STOF_CHECK(aligned(call.x) && aligned(call.out) && aligned(call.heads.kept.rows));
  const auto texts = static_cast<std::size_t>(s.texts);
  STOF_CHECK(call.lengths.size() >= texts && call.heads.kept.places.size() >= texts);
  STOF_CHECK(call.heads.angles == nullptr || call.heads.positions.size() >= texts);
  const FewKeysSplit split = split_few_keys(load_of(s), gpu.caps);
  TokenAttentionParams params{.x = call.x,
                              .out = call.out,
                              .cache = call.heads.kept.rows,
                              .angles = call.heads.angles,
                              .q_scale = call.heads.norms.q_scale,
                              .k_scale = call.heads.norms.k_scale,
                              .positions = call.heads.positions.data(),
                              .places = call.heads.kept.places.data(),
                              .lengths = call.lengths.data(),
                              .text_stride = call.capacity * 2 * s.kv_heads * s.head_dim,
                              .epsilon = call.heads.norms.epsilon,
                              .scale_log2 = 1.4426950408889634f / std::sqrt(static_cast<float>(s.head_dim)),
                              .heads = narrow<int>(s.heads, "heads"),
                              .kv_heads = narrow<int>(s.kv_heads, "key heads"),
                              .prefix_end = s.allowed.prefix_end,
                              .begin = s.allowed.begin,
                              .end = s.allowed.end,
                              .stages = split.stages,
                              .warp_bytes = split.warp_bytes};
  void* arguments[] = {&params};
  kernel_of(s, gpu).launch({.grid = {.x = static_cast<unsigned>(split.ranks),
                                     .y = static_cast<unsigned>(s.kv_heads),
                                     .z = static_cast<unsigned>(s.texts)},
                            .stream = static_cast<StreamHandle>(call.queue.stream),
                            .cluster = static_cast<unsigned>(split.ranks),
                            .overlap_previous = gpu.caps.arch >= 90,
                            .least_shared_bytes = static_cast<unsigned>(split.shared_bytes)},
                           arguments);
}

}  // namespace

std::string token_attention_entry(DType dtype, std::int64_t head_dim) {
  return fmt::format("_ZN4stof4cuda22token_attention_kernelI{}EEvNS0_20TokenAttentionParamsE",
                     few_keys_traits(dtype, head_dim, 1));
}

const TokenAttention token_attention{.refuses = refuses, .predicted_us = predicted_us, .prepare = prepare, .run = run};

}  // namespace stof::cuda
