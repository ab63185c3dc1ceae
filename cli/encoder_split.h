// SPDX-License-Identifier: Apache-2.0
// Where the time of a whole encoder goes: its steps, timed where they stand in the call.
#pragma once
#include "cli/json_output.h"
#include "cli/peak_matmul.h"
#include "src/model/model.h"
#include "stof/session.h"

namespace stof::cli {

// {"whole_us", "busy", "calls", "matmul_gflops", "steps": [{"work", "us", "gflop", "activation_us"}]}: the median of
// calls that take turns with calls of the same graph without activations and with the machine's fastest matmul, for so
// many seconds, at least three. Steps of one work (src/fusion/work.h) are summed; what they do not add up to is between
// them. `busy` is the share of the threads' time in which they ran: one that waits for others sleeps after a
// microsecond (cli/short_spins.h). Of a device that does its work at once.
Json split_encoder(const Model& model, const SessionOptions& options, const TokenBatch& batch, const PeakMatmul& matmul,
                   double seconds);

}  // namespace stof::cli
