// SPDX-License-Identifier: Apache-2.0
#include "src/attention/few_queries.h"

#include <algorithm>
#include <cmath>

namespace stof {

FewQueries::FewQueries(const AttentionShape& shape, const Device& device, std::string_view kernel)
    : shape_(shape), cores_(device.caps.cores) {
  if (kernel != "auto") return;
  for (const AttentionKernel& other : device.backend->attention) {
    if (other.few_queries == 0 || other.few_queries >= std::min(shape.queries, shape.keys)) continue;
    shape_.queries = other.few_queries;
    if (!other.refuses({.shape = shape_}, device.caps)) kernel_ = &other;
  }
}

// Estimates by bench/results/h200-few-queries.txt and, side by side, h200-side-by-side.txt, in us: a step is the 64
// keys of a row block at d 128, of which a multiprocessor has one at a time.
bool FewQueries::pays(std::span<const AttentionItem> items, bool side_by_side) const {
  constexpr double kBegin = 6, kStep = 0.42, kStepAlone = 0.55, kFlops = 5e8, kBytes = 4.3e6;
  constexpr double kTilesRead = 0.8;    // of that rate by tiles of 64 rows
  constexpr double kBytesOfTask = 6e4;  // that could be read while a task begins
  constexpr double kFewestSteps = 3;    // where there are no other items
  double steps = 0, longest = 0, bytes = 0, tasks = 0, pairs = 0;
  bool alone = true;
  const auto heads = static_cast<double>(shape_.heads), kv_heads = static_cast<double>(shape_.kv_heads),
             dim = static_cast<double>(shape_.head_dim);
  for (const AttentionItem& item : items) {
    const auto queries = static_cast<double>(item.queries), keys = static_cast<double>(item.keys);
    if (!are_of(item)) {
      alone = false;
      pairs += heads * queries * std::max(0.0, keys - queries / 2);
      continue;
    }
    const double of_item = std::ceil(keys / 64);
    steps += heads * (kBegin + of_item);
    bytes += kv_heads * keys * dim * 4;
    tasks += kv_heads;
    longest = std::max(longest, of_item);
  }
  if (alone || steps == 0) return alone && longest >= kFewestSteps;
  const double of_step = (64 + dim) / 192, others = pairs * 4 * dim / kFlops;
  double together = others + steps * kStep * of_step / cores_;
  // Row blocks as long as theirs are begun when others are well on their way.
  if (longest * kStepAlone * of_step > 0.3 * others)
    together = std::max(together, others + longest * kStepAlone * of_step);
  const double few = (bytes + tasks * kBytesOfTask) / kBytes;
  const double apart = side_by_side ? std::max(others, few) + 2 : others + few + 8;
  return apart < std::max(together, bytes / kBytes / kTilesRead);
}

Planned FewQueries::plan(const Mask& mask, const Device& device) const {
  return plan_every_position(mask, shape_, device, kernel_->name);
}

}  // namespace stof
