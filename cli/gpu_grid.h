// SPDX-License-Identifier: Apache-2.0
// What calibrates the cost model of the GPU's attention kernels, and what it is judged by.
#pragma once
#include <string>
#include <vector>

#include "stof/attention.h"

namespace stof::cli {

struct GpuCase {
  std::string mask;
  AttentionShape shape;

  // "(1,12,12,512,512,64) f16 causal": batch, heads, heads of keys, queries, keys, head dimension.
  std::string id() const;
};

// Masks of every kind by sizes of grids, head dimensions and dtypes; and decoding.
std::vector<GpuCase> gpu_calibration_grid();
// Other masks by other sizes: what is predicted for them was fitted without them.
std::vector<GpuCase> gpu_held_out_grid();

}  // namespace stof::cli
