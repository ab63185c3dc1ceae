// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

namespace stof {

// The larger one of two errors; std::max drops a NaN in one place, a comparison the other way round in the other.
inline void keep_worst(double& worst, double error) {
  if (!std::isnan(worst) && !(error <= worst)) worst = error;
}

}  // namespace stof
