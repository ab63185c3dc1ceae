// SPDX-License-Identifier: Apache-2.0
// The prediction of one plan, by its names: what a calibration compares with what was measured.
#pragma once
#include <functional>
#include <string>

#include "src/backend/cuda/attention/cost.h"

namespace stof::cuda {

struct NamedPlan {
  std::string kernel, instance;
  int splits = 1;
};

// Whether the plan's time depends on the table: not of row_attention, nor of an instance that there no longer is.
bool is_priced(const NamedPlan& plan, DType dtype);

// "stream_d64_t4_p1_k1_s2_c1_g1", "decode": which costs of the table it has.
std::string costs_name(const NamedPlan& plan, DType dtype);

// Of a plan that is priced. The problem must outlive it.
using Prediction = std::function<double(const Pricing&)>;
Prediction prediction_of(const AttentionProblem& problem, const NamedPlan& plan);

}  // namespace stof::cuda
