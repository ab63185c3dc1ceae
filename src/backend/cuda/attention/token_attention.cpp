// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/token_attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/shared/token_attention.h"
#include "src/backend/cuda/attention/cost.h"
#include "src/backend/cuda/attention/kernel_store.h"
#include "src/backend/cuda/driver/device.h"
#include "src/base/error.h"
#include "src/base/narrow.h"

namespace stof::cuda {
namespace {

using Grid = TokenAttentionGrid;

unsigned shared_bytes(std::int64_t head_dim, int stages) {
  return static_cast<unsigned>(head_dim) * static_cast<unsigned>(stages * Grid::kStageBytes + Grid::kRowBytes);
}

// CTAs that a multiprocessor holds.
int ctas_of(std::int64_t head_dim, int stages) { return head_dim > 64 && stages > 1 ? 1 : 2; }

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// GPUs of 8.6 and 8.9 have 99 KB a CTA.
int most_stages(const DeviceCaps& caps) { return caps.arch == 80 || caps.arch >= 90 ? Grid::kMostStages : 1; }

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
  return std::nullopt;
}

struct Cluster {
  int ranks;
  double us;  // that it takes longer than one CTA
};
constexpr Cluster kClusters[] = {{1, 0}, {2, 0.8}, {4, 1.15}, {8, 1.95}};
static_assert(kClusters[3].ranks == Grid::kMostRanks);

// Of a launch by so many ranks: fitted by hand to bench/results/h200-token-attention-ranks.txt. A round is a group of
// keys of every warp. Clusters meet twice, are begun later where they need most multiprocessors, and one after the
// other where not all of them find enough of these near each other.
std::optional<double> us_of(const TokenSplit& split, double of_cluster, const TokenAttentionShape& s,
                            const DeviceCaps& caps) {
  constexpr double kCrowdedUs = 0.6, kBeginUs = 1.9, kRoundUs = 0.97, kSecondRoundUs = 0.67, kMemoryUs = 1.5;
  const auto ctas = static_cast<double>(s.texts * s.kv_heads * split.ranks), cores = static_cast<double>(caps.cores);
  if (split.ranks > 1 && (caps.arch < 90 || ctas > (split.ranks == 2 ? 1 : 0.75) * cores)) return std::nullopt;
  const double waves = std::max(1., std::ceil(ctas / (cores * ctas_of(s.head_dim, split.stages)))),
               rounds = split.rounds * waves - 1, width = static_cast<double>(s.head_dim) / 128;
  const double of_rounds = rounds > 0 ? kSecondRoundUs + kRoundUs * (rounds - 1) : 0;
  const double us =
      kBeginUs + width * (kRoundUs + of_rounds) + of_cluster + (split.ranks > 1 && ctas > cores / 2 ? kCrowdedUs : 0);
  const double megabytes = 1e-6 * static_cast<double>(s.texts * keys_seen(s) * 2 * s.kv_heads * s.head_dim) *
                           static_cast<double>(size_of(s.dtype));
  return std::max(us, kMemoryUs + megabytes * pricing_of(caps).table.decode[DecodeTerm::memory]);
}

double predicted_us(const TokenAttentionShape& s, const DeviceCaps& caps) {
  return split_token_attention(s, caps).predicted_us;
}

const Kernel& kernel_of(const TokenAttentionShape& s, const Gpu& gpu) {
  return plain_kernel(gpu, kTokenAttentionUnit, token_attention_entry(s.dtype, s.head_dim), Grid::kThreads);
}

void prepare(const TokenAttentionShape& s, const Device& device) {
  kernel_of(s, gpu_of(device)).allow_shared_bytes(shared_bytes(s.head_dim, most_stages(device.caps)));
}

bool aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

void run(const TokenAttentionShape& s, const TokenAttentionCall& call) {
  const Gpu& gpu = gpu_of(*call.queue.device);
  if (s.texts == 0) return;
  STOF_CHECK(!refuses(s, gpu.caps) && aligned(call.x) && aligned(call.out) && aligned(call.heads.kept.rows));
  const auto texts = static_cast<std::size_t>(s.texts);
  STOF_CHECK(call.lengths.size() >= texts && call.heads.kept.places.size() >= texts);
  STOF_CHECK(call.heads.angles == nullptr || call.heads.positions.size() >= texts);
  const TokenSplit split = split_token_attention(s, gpu.caps);
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
                              .stages = split.stages};
  void* arguments[] = {&params};
  kernel_of(s, gpu).launch({.grid = {.x = static_cast<unsigned>(split.ranks),
                                     .y = static_cast<unsigned>(s.kv_heads),
                                     .z = static_cast<unsigned>(s.texts)},
                            .stream = static_cast<StreamHandle>(call.queue.stream),
                            .cluster = static_cast<unsigned>(split.ranks),
                            .overlap_previous = gpu.caps.arch >= 90,
                            .least_shared_bytes = shared_bytes(s.head_dim, split.stages)},
                           arguments);
}

}  // namespace

std::string token_attention_entry(DType dtype, std::int64_t head_dim) {
  return fmt::format(
      "_ZN4stof4cuda22token_attention_kernelINS0_11TokenTraitsINS0_{}ELi{}EEEEEvNS0_20TokenAttentionParamsE",
      dtype == DType::f16 ? "4Half" : "6Bfloat", head_dim);
}

TokenSplit split_token_attention(const TokenAttentionShape& shape, const DeviceCaps& caps) {
  const std::int64_t groups = std::max<std::int64_t>(ceil_div(keys_seen(shape), Grid::kGroup), 1);
  std::optional<TokenSplit> best;
  for (const auto& [ranks, of_cluster] : kClusters) {
    const auto rounds = static_cast<int>(ceil_div(groups, std::int64_t{ranks} * Grid::kWarps));
    TokenSplit split{.ranks = ranks, .stages = std::min(rounds, most_stages(caps)), .rounds = rounds};
    const std::optional<double> us = us_of(split, of_cluster, shape, caps);
    if (!us || (best && *us >= best->predicted_us)) continue;
    split.predicted_us = *us;
    best = split;
  }
  return best.value();
}

const TokenAttention token_attention{.refuses = refuses, .predicted_us = predicted_us, .prepare = prepare, .run = run};

}  // namespace stof::cuda
