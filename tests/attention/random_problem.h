// SPDX-License-Identifier: Apache-2.0
// Random (mask, shape, dtype, strides, lengths) problems against the definition: a seed is a problem.
#pragma once
#include <cstdint>
#include <string>

#include "stof/device.h"

namespace stof {

struct RandomOutcome {
  bool taken = false;  // false: the mask does not fit some item's length, which is the mask's business and tested there
  std::string wrong;   // what differs, with all that names the problem; empty: nothing
};

enum class RandomKind : std::uint8_t { any, few_queries, large };  // any: few of them large

RandomOutcome try_random_problem(unsigned seed, const Device& device, const std::string& kernel,
                                 RandomKind kind = RandomKind::any);

}  // namespace stof
