// SPDX-License-Identifier: Apache-2.0
#include "src/mask/row_block_costs.h"

#include <algorithm>

namespace stof {

void RowBlockCosts::add(const RowBlockCost& cost, std::int64_t count) {
  if (!counted_.empty() && counted_.back().cost == cost) {
    counted_.back().count += count;
    return;
  }
  if (counted_.size() == most_) {
    sort();
    most_ = std::max(most_, 2 * counted_.size());
  }
  counted_.push_back({cost, count});
}

void RowBlockCosts::sort() {
  std::sort(counted_.begin(), counted_.end(), [](const Counted& a, const Counted& b) {
    return a.cost.entries() != b.cost.entries() ? a.cost.entries() < b.cost.entries() : a.cost.full < b.cost.full;
  });
  std::size_t distinct = 0;
  for (std::size_t i = 0; i < counted_.size(); ++i)
    if (distinct > 0 && counted_[distinct - 1].cost == counted_[i].cost)
      counted_[distinct - 1].count += counted_[i].count;
    else counted_[distinct++] = counted_[i];
  counted_.resize(distinct);
}

std::vector<BlockStats::Bin> RowBlockCosts::bins() {
  constexpr std::size_t kMostBins = 64;
  sort();
  std::vector<BlockStats::Bin> bins;
  bins.reserve(kMostBins);
  const std::size_t per_bin = (counted_.size() + kMostBins - 1) / kMostBins;
  for (std::size_t i = 0; i < counted_.size(); ++i) {
    if (i % per_bin == 0) bins.emplace_back();
    BlockStats::Bin& bin = bins.back();
    const auto& [cost, count] = counted_[i];
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
