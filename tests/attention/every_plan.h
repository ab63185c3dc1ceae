// SPDX-License-Identifier: Apache-2.0
// Every kernel of a device with each of its tiles and splits, not only what choose() would take.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/attention/planned.h"
#include "tests/attention/problem.h"

namespace stof {

// So many items, each of so many queries, the longest first.
struct Batch {
  std::string name;
  BatchForm form;
  std::vector<std::int32_t> lengths;
};

// Of `shape` count heads, head_dim and dtype. Items have `more_keys` keys on top of as many as queries; rows of a
// packed batch are apart.
ProblemShape shape_of(const Batch& batch, AttentionShape shape, std::int64_t more_keys, float softcap = 0,
                      std::int64_t page_size = 0);
Problem problem_of(const Batch& batch, const AttentionShape& shape, std::int64_t more_keys, float softcap = 0,
                   std::int64_t page_size = 0);

// Runs the problem under the view's mask, which is bound to the problem's largest lengths, by every plan that any
// kernel of the device has for it, outputs poisoned before each; then calls `check` with the plan in words. Returns how
// many there were; stops after a check that fails fatally. `only`: of this kernel, unless it is empty.
int run_every_plan(const Device& device, const View& view, const Problem& problem,
                   const std::function<void(const std::string& plan)>& check, std::string_view only = {});

}  // namespace stof
