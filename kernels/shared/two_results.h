// SPDX-License-Identifier: Apache-2.0
// Two results of attention for the same rows, and where they lie. Distances are in elements.
#pragma once

namespace stof::cuda {

struct ResultPlaces {
  long long item, head, row;
};

// out becomes that of both. Rows have head_dim elements.
struct AddResultsParams {
  void* out;
  const void* other_out;
  const float *lse, *other_lse;  // logarithms of the sums of exponentials
  float* both_lse;               // apart from these; null: not wanted
  ResultPlaces out_at, other_out_at, lse_at, other_lse_at, both_lse_at;
  int rows, head_dim;
};
struct AddResultsGrid {
  static constexpr int kThreads = 256;
};

}  // namespace stof::cuda
