// SPDX-License-Identifier: Apache-2.0
// Every plan that was considered for a problem, run on the GPU, checked and timed.
#pragma once
#include "cli/gpu_grid.h"
#include "cli/json_output.h"
#include "src/backend/contract.h"

namespace stof::cli {

// "id", "mask", "shape", "dtype", "density", "frobenius", "worst_row", and "plans": of each "kernel", "instance",
// "block_q", "key_step", "row_origin", "splits", "residues", "us", "predicted_us", and whether it is "chosen". Plans
// that are predicted to take more than kHopeless times as long as the chosen one are not run and have no "us". Throws
// internal when an output is wrong.
Json time_plans(const GpuCase& one, const Device& device);

inline constexpr double kHopeless = 12;

std::string gpu_plan_times_protocol();  // in words

}  // namespace stof::cli
