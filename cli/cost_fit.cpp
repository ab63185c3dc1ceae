// SPDX-License-Identifier: Apache-2.0
#include "cli/cost_fit.h"

#include <algorithm>
#include <cmath>

#include "src/base/error.h"

namespace stof::cli {

CostFit fit_costs(const std::vector<CostSample>& samples) {
  constexpr int kRounds = 4000;
  STOF_CHECK(!samples.empty());
  const std::size_t terms = samples.front().work.size();
  std::vector<std::vector<double>> columns(terms);  // [terms][samples], relative to the measured time
  for (const CostSample& sample : samples)
    for (std::size_t t = 0; t < terms; ++t) columns[t].push_back(sample.work[t] * 1e-3 / sample.us);
  CostFit fit{.nanoseconds = std::vector<double>(terms, 0.0)};
  std::vector<double> residual(samples.size(), -1.0);  // predicted / measured - 1
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t t = 0; t < terms; ++t) {
      double norm = 0, slope = 0;
      for (std::size_t i = 0; i < residual.size(); ++i) {
        norm += columns[t][i] * columns[t][i];
        slope += columns[t][i] * residual[i];
      }
      if (norm == 0) continue;
      const double step = std::max(fit.nanoseconds[t] - slope / norm, 0.0) - fit.nanoseconds[t];
      fit.nanoseconds[t] += step;
      for (std::size_t i = 0; i < residual.size(); ++i) residual[i] += step * columns[t][i];
    }
  double squares = 0;
  for (const double r : residual) squares += r * r;
  fit.error = std::sqrt(squares / static_cast<double>(residual.size()));
  return fit;
}

}  // namespace stof::cli
