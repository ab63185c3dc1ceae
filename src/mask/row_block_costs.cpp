// SPDX-License-Identifier: Apache-2.0
#include "src/mask/row_block_costs.h"

#include <algorithm>
#include <utility>

namespace stof {

std::vector<BlockStats::Bin> bins_of(const RowBlockCosts& costs) {
  constexpr std::size_t kMostBins = 64;
  std::vector<std::pair<RowBlockCost, std::int64_t>> ordered(costs.begin(), costs.end());
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return a.first.full + a.first.partial < b.first.full + b.first.partial;
  });
  std::vector<BlockStats::Bin> bins;
  const std::size_t per_bin = (ordered.size() + kMostBins - 1) / kMostBins;
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    if (i % per_bin == 0) bins.emplace_back();
    BlockStats::Bin& bin = bins.back();
    const auto& [cost, count] = ordered[i];
    const auto before = static_cast<double>(bin.count), more = static_cast<double>(count);
    bin.full = (bin.full * before + static_cast<double>(cost.full) * more) / (before + more);
    bin.partial = (bin.partial * before + static_cast<double>(cost.partial) * more) / (before + more);
    bin.count += count;
  }
  return bins;
}

std::vector<std::int64_t> weights_of_groups(const BoundMask& mask) {
  const MaskExtent& extent = mask.extent();
  std::vector<std::int64_t> weights(static_cast<std::size_t>(mask.groups()), 0);
  for (std::int64_t item = 0; item < extent.batch; ++item)
    for (std::int64_t head = 0; head < extent.heads; ++head)
      ++weights[static_cast<std::size_t>(mask.group_of(item, head))];
  return weights;
}

}  // namespace stof
