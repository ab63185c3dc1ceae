// SPDX-License-Identifier: Apache-2.0
// Instances of the gather kernel on masks most of whose rows have few keys.
#pragma once
#include "bench/cuda/problem.cuh"

namespace stof::bench {

void gather_checks();
void gather_rows(const Problem& problem, int reach);

}  // namespace stof::bench
