// SPDX-License-Identifier: Apache-2.0
// What calibrates the cost model of the CPU's attention kernels, and what it is judged by: every candidate of every
// problem of a set, timed on one core in CPU time, with the amounts of work that the model sees.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cli/json_output.h"
#include "stof/device.h"
#include "stof/tensor.h"

namespace stof::cli {

struct GridCase {
  std::string mask;
  std::int64_t queries, keys, head_dim;
  DType dtype;
};

// Masks of every kind by lengths, head dimensions and dtypes; and decoding.
std::vector<GridCase> calibration_grid();
// Other masks, lengths and head dimensions: what is predicted for them was fitted without them.
std::vector<GridCase> held_out_grid();

// "mask", "queries", "keys", "head_dim", "dtype", "density", and "plans": of each "kernel", "block_q", "block_kv", the
// amounts of "work", "us", "predicted_us", and whether it is "chosen".
Json time_grid_case(const GridCase& one, const Device& device);

}  // namespace stof::cli
