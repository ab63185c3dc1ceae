// SPDX-License-Identifier: Apache-2.0
// Items of few queries in calls of a plan for more: a step of a server decodes many texts beside chunks of prompts.
// Each of their heads would be a tile of 64 rows for a row or some, and the longest of them would be what the call
// waits for; a kernel for few queries takes the heads of a key head at once, and cuts keys over all multiprocessors.
#pragma once
#include <span>
#include <string_view>

#include "src/attention/planned.h"

namespace stof {

class FewQueries {
 public:
  // `kernel` is what the plan was asked for: another one than "auto" takes all items.
  FewQueries(const AttentionShape& shape, const Device& device, std::string_view kernel);

  // Whether such items of the plan's calls have a kernel of their own.
  bool possible() const { return kernel_ != nullptr; }
  bool are(std::int64_t queries) const { return possible() && queries > 0 && queries <= kernel_->few_queries; }
  // An item that begins at the first key or behind it.
  bool are_of(const AttentionItem& item) const { return are(item.queries) && item.keys >= item.queries; }

  // Whether a launch for them is sooner than leaving them among the call's other items: side by side with theirs, or
  // behind it.
  bool pays(std::span<const AttentionItem> items, bool side_by_side) const;

  // Of them, at every position.
  Planned plan(const Mask& mask, const Device& device) const;

 private:
  AttentionShape shape_;
  const AttentionKernel* kernel_ = nullptr;
  double cores_;
};

}  // namespace stof
