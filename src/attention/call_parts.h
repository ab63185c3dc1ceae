// SPDX-License-Identifier: Apache-2.0
// What each plan has of a call, and in which order, or side by side, the parts run. In the call's memory.
#pragma once
#include <memory_resource>
#include <optional>
#include <vector>

#include "src/attention/call_plans.h"

namespace stof {

// Its items, or of lists of the device the longest item that it may have.
struct PartOfCall {
  CallPlans::Plan plan;
  std::pmr::vector<AttentionItem> items;
  DeviceItems lists;
};
using PartsOfCall = std::pmr::vector<PartOfCall>;

// Of two parts, which one leads, and the cores of each.
struct SidesOfCall {
  std::size_t leading;
  CoreShares shares;
};
struct CallParts {
  PartsOfCall all;
  std::optional<SidesOfCall> sides = {};  // nothing: one behind the other
};

CallParts parts_of_items(CallPlans& plans, const CheckedCall& checked, const AttentionArguments& arguments,
                         std::pmr::memory_resource* memory);
// Which items are of few queries the device alone knows: of two launches each leaves the other's.
PartsOfCall parts_of_lists(CallPlans& plans, const CheckedCall& checked, std::pmr::memory_resource* memory);

void run_parts(const CallParts& parts, const AttentionCall& whole, const Device& device);

}  // namespace stof
