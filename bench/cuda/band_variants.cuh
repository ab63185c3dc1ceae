// SPDX-License-Identifier: Apache-2.0
// Instances of the band kernel on masks whose rows have few keys.
#pragma once
#include "bench/cuda/problem.cuh"

namespace stof::bench {

void band_checks();
void band_whole(const Problem& problem);  // 128 keys at most: every mask is a band
void band_rows(const Sizes& sizes, int length, int reach);

}  // namespace stof::bench
