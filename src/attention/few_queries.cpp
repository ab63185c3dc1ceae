// SPDX-License-Identifier: Apache-2.0
#include "src/attention/few_queries.h"

#include <algorithm>

#include "src/mask/range.h"

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

// In units of one step, the 64 keys of a row block, of which a multiprocessor has one at a time: what their row blocks
// would add to the launch of the others, and the longest of them to its end. By bench/results/h200-few-queries.txt.
bool FewQueries::pays(std::span<const AttentionItem> items) const {
  constexpr double kRowBlock = 6, kLaunch = 24, kLongest = 40, kAlone = 3;
  double steps = 0, longest = 0;
  bool alone = true;
  for (const AttentionItem& item : items) {
    if (!are_of(item)) {
      alone = false;
      continue;
    }
    const auto of_item = static_cast<double>(ceil_div(item.keys, std::int64_t{64}));
    steps += static_cast<double>(shape_.heads) * (kRowBlock + of_item) / cores_;
    longest = std::max(longest, of_item);
  }
  return alone ? longest >= kAlone : steps >= kLaunch || longest >= kLongest;
}

Planned FewQueries::plan(const Mask& mask, const Device& device) const {
  return plan_every_position(mask, shape_, device, kernel_->name);
}

}  // namespace stof
