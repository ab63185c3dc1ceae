// SPDX-License-Identifier: Apache-2.0
// Which plan attention of a step goes by: one token for each text, of lengths that a device reads for itself.
#pragma once
#include <optional>
#include <string>

#include "src/backend/token_attention.h"
#include "stof/attention.h"

namespace stof {

// Kernels that do not read lengths where they lie need a launch in front of each call, which no prediction has: of a
// device beside the host, one that reads them is taken where it is slower by less than that.
struct StepChoice {
  std::string kernel = "auto";
  double predicted_us = 0;
};
StepChoice choose_step(const Mask& mask, const AttentionShape& shape, const Device& device);
Attention plan_step(const Mask& mask, const AttentionShape& shape, const Device& device);

// All that stands between two products of a step as one launch, where the device takes that. Of masks that are the same
// for all lengths.
std::optional<TokenAttentionShape> one_launch_of_step(const Mask& mask, const AttentionShape& shape,
                                                      const Device& device);
// The same where it is sooner than several, of which attention goes as chosen above.
std::optional<TokenAttentionShape> join_step(const Mask& mask, const AttentionShape& shape, const Device& device);

}  // namespace stof
