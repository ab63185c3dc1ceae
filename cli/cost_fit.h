// SPDX-License-Identifier: Apache-2.0
// From measured times of known amounts of work to what a unit of each costs.
#pragma once
#include <vector>

namespace stof::cli {

struct CostSample {
  std::vector<double> work;  // amounts, one for each term
  double us = 0;
};

struct CostFit {
  std::vector<double> nanoseconds;  // of a unit of each term; none is negative
  double error = 0;                 // root of the mean square of relative errors
};

// The least sum of squares of relative errors, one coordinate at a time. Of at least one sample.
CostFit fit_costs(const std::vector<CostSample>& samples);

}  // namespace stof::cli
