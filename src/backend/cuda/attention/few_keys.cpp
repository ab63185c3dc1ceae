// SPDX-License-Identifier: Apache-2.0
#include "src/backend/cuda/attention/few_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "src/backend/cuda/attention/cost.h"
#include "src/backend/cuda/attention/instances.h"
#include "src/mask/range.h"

namespace stof::cuda {
namespace {

using Grid = FewKeysGrid;

// Of a CTA beside its dynamic memory.
constexpr int kStaticBytes = 2048;

int shared_bytes_of(const DeviceCaps& caps) { return (shared_kilobytes(caps.arch) - 1) * 1024 - kStaticBytes; }

// CTAs that a multiprocessor holds, by its memory and by registers: FewKeysTraits::kCtas.
int resident(const FewKeysSplit& split, const FewKeysLoad& load, const DeviceCaps& caps) {
  const int by_memory = shared_kilobytes(caps.arch) * 1024 / (split.shared_bytes + kStaticBytes + 1024);
  return std::max(1, std::min(by_memory, load.slabs * load.head_dim <= 128 ? 2 : 1));
}

int warp_bytes(std::int64_t head_dim, std::int64_t slabs, int stages) {
  constexpr std::int64_t kUnit = 128;
  const std::int64_t sums = 4 * slabs * Grid::kSlab * (head_dim + Grid::kPadding);
  return static_cast<int>(ceil_div(std::max(stages * Grid::kGroupBytes * head_dim, sums), kUnit) * kUnit);
}

// Behind groups: rows of q, of a token's k and v, results.
int shared_bytes(std::int64_t head_dim, std::int64_t slabs, int stages) {
  const std::int64_t rows = slabs * Grid::kSlab;
  return Grid::kWarps * warp_bytes(head_dim, slabs, stages) +
         static_cast<int>(head_dim * ((rows + 2) * Grid::kQueryBytes + rows * Grid::kResultBytes));
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
std::optional<double> us_of(const FewKeysSplit& split, double of_cluster, const FewKeysLoad& load,
                            const DeviceCaps& caps) {
  constexpr double kCrowdedUs = 0.6, kBeginUs = 1.9, kRoundUs = 0.97, kSecondRoundUs = 0.67, kMemoryUs = 1.5;
  const auto ctas = static_cast<double>(load.tasks * split.ranks), cores = static_cast<double>(caps.cores);
  if (split.ranks > 1 && (caps.arch < 90 || ctas > (split.ranks == 2 ? 1 : 0.75) * cores)) return std::nullopt;
  const double rounds = split.rounds * split.waves - 1, width = static_cast<double>(load.head_dim) / 128;
  const double of_rounds = rounds > 0 ? kSecondRoundUs + kRoundUs * (rounds - 1) : 0;
  const double us =
      kBeginUs + width * (kRoundUs + of_rounds) + of_cluster + (split.ranks > 1 && ctas > cores / 2 ? kCrowdedUs : 0);
  return std::max(us, kMemoryUs + 1e-6 * load.bytes * pricing_of(caps).table.decode[DecodeTerm::memory]);
}

}  // namespace

bool fits_few_keys(std::int64_t head_dim, std::int64_t slabs, const DeviceCaps& caps) {
  return shared_bytes(head_dim, slabs, 1) <= shared_bytes_of(caps);
}

int most_shared_bytes(std::int64_t head_dim, std::int64_t slabs, const DeviceCaps& caps) {
  const int most = shared_bytes(head_dim, slabs, Grid::kMostStages);
  return most <= shared_bytes_of(caps) ? most : shared_bytes(head_dim, slabs, 1);
}

FewKeysSplit split_few_keys(const FewKeysLoad& load, const DeviceCaps& caps) {
  const std::int64_t groups = std::max<std::int64_t>(ceil_div(load.keys, Grid::kGroup), 1);
  const int most = most_shared_bytes(load.head_dim, load.slabs, caps);
  std::optional<FewKeysSplit> best;
  for (const auto& [ranks, of_cluster] : kClusters) {
    FewKeysSplit split{.ranks = ranks,
                       .rounds = static_cast<int>(ceil_div(groups, std::int64_t{ranks} * Grid::kWarps))};
    const int two = shared_bytes(load.head_dim, load.slabs, 2);
    split.stages = split.rounds > 1 && two <= most ? 2 : 1;
    split.warp_bytes = warp_bytes(load.head_dim, load.slabs, split.stages);
    split.shared_bytes = shared_bytes(load.head_dim, load.slabs, split.stages);
    split.waves = static_cast<int>(std::max<std::int64_t>(
        1, ceil_div(load.tasks * ranks, std::int64_t{caps.cores} * resident(split, load, caps))));
    const std::optional<double> us = us_of(split, of_cluster, load, caps);
    if (!us || (best && *us >= best->predicted_us)) continue;
    split.predicted_us = *us;
    best = split;
  }
  return best.value();
}

std::string few_keys_unit(DType dtype) { return fmt::format("few_keys_{}", name_of(dtype)); }

std::string few_keys_traits(DType dtype, std::int64_t head_dim, std::int64_t slabs) {
  return fmt::format("NS0_13FewKeysTraitsINS0_{}ELi{}ELi{}EEE", dtype == DType::f16 ? "4Half" : "6Bfloat", head_dim,
                     slabs);
}

std::string few_keys_entry(DType dtype, std::int64_t head_dim, std::int64_t slabs) {
  return fmt::format("_ZN4stof4cuda25few_keys_attention_kernelI{}EEvNS0_13FewKeysParamsE",
                     few_keys_traits(dtype, head_dim, slabs));
}

}  // namespace stof::cuda
