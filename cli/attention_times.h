// SPDX-License-Identifier: Apache-2.0
// The time of an attention call where it runs: on the CPU by the clock on the wall, on a GPU by replaying a graph of
// many launches between two events.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "cli/attention_problem.h"
#include "cli/call_times.h"

namespace stof::cli {

struct AttentionTimes {
  CallTimes hot;                  // the same buffers each time
  std::optional<CallTimes> cold;  // buffers that no cache has; of a GPU
  CallTimes wall;                 // of the host, from the call to the result
  AttentionError error;
};

// Runs once, calls `check` when out is on the host, then times. Throws internal when a timed run's output differs.
AttentionTimes time_attention(const Attention& attention, const AttentionProblemInputs& inputs, const Device& device,
                              double seconds, const std::function<AttentionError()>& check);

std::string attention_protocol(const Device& device);  // in words

}  // namespace stof::cli
