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
  float softcap = 0;             // 0: none
  std::int64_t bias_reach = -1;  // of a relative bias; below 0: none

  // "(1,12,12,512,512,64) f16 causal": batch, heads, heads of keys, queries, keys, head dimension; behind it, where
  // there is one, "softcap 50" or "bias 128".
  std::string id() const;
};

// Masks of every kind by sizes of grids, head dimensions and dtypes; and decoding.
std::vector<GpuCase> gpu_calibration_grid();
// Other masks by other sizes: what is predicted for them was fitted without them.
std::vector<GpuCase> gpu_held_out_grid();
// Capped scores: what bench/peers/attention.py --softcap compares with other libraries.
std::vector<GpuCase> gpu_capped_grid(float softcap);
// Biased scores, as T5's kind and ALiBi have them.
std::vector<GpuCase> gpu_biased_grid(std::int64_t reach);
// A few queries on many keys that query heads share: chunks of a prompt, drafts that are verified.
std::vector<GpuCase> gpu_grouped_grid();

}  // namespace stof::cli
