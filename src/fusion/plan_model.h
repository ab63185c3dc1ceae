// SPDX-License-Identifier: Apache-2.0
// What is asked and known of a model before any plan: the key that its plans are found by, and the plan that no
// measurement is needed for.
#pragma once
#include <optional>

#include "src/fusion/cost.h"
#include "src/fusion/plan.h"
#include "stof/mask.h"

namespace stof {

// What is asked, as it is asked on this device of this machine.
PlanKey on_device(PlanKey question, const Device& device);

// Of a simplified graph, before it is restricted by the mask. Without the weights: to know them, all are read.
// keeps_keys: of plans whose keys others read, as FusionTarget has it.
PlanKey plan_key(const Graph& simplified, const std::optional<Mask>& mask, const CostContext& call,
                 bool keeps_keys = false);

// The first setting that the device has no words for; empty where there is none. Whether settings and scheme fit a
// model only the model can tell.
std::string wrong_setting(const FusionPlan& plan, const Device& device);

// Schemes worth starting from: the default one, residuals added by the matmuls before them, norms left to the matmuls
// after them where the device can. Each once.
std::vector<Scheme> known_schemes(const Blocks& blocks);

// By predicted times alone. Where a backend has one way of running a matmul this is the default scheme: nothing that
// rounds differently is chosen unmeasured.
SearchResult analytical_search(const Blocks& blocks, const CostContext& call);

// As a session asks, which does not wait for a compiler: `stof tune` does.
inline CostContext at_once(CostContext call) {
  call.built_in_only = true;
  return call;
}

}  // namespace stof
