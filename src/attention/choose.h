// SPDX-License-Identifier: Apache-2.0
// The choice of kernel, layout and tiles: a pure function of the problem and of what the device can do.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/backend/contract.h"

namespace stof {

struct Refused {
  std::string_view kernel;
  std::string why;
  friend bool operator==(const Refused&, const Refused&) = default;
};

struct Choice {
  const AttentionKernel* kernel = nullptr;  // null: all refuse
  AttentionPlan plan;
  std::vector<AttentionPlan> considered;  // the plan among them
  std::vector<Refused> refusals;
};

// Every kernel with each of its tiles; the smallest predicted time wins, the earlier on a tie. `wanted` is "auto" or
// the one kernel to look at. No kernel when all refuse. Throws invalid_argument with the names there are for an unknown
// one.
Choice consider(std::span<const AttentionKernel> kernels, const AttentionProblem& problem, const DeviceCaps& device,
                std::string_view wanted = "auto");

// Of two ways to see one problem the one predicted to be quicker, `a` on a tie, with what was considered both ways.
// Refused is who takes neither.
Choice better(Choice a, Choice b);

// Throws unsupported with every refusal when nothing is left.
Choice settled(Choice choice);

// What was considered, settled.
Choice choose(std::span<const AttentionKernel> kernels, const AttentionProblem& problem, const DeviceCaps& device,
              std::string_view wanted = "auto");

}  // namespace stof
