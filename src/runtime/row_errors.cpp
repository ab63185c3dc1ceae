// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/row_errors.h"

#include <algorithm>
#include <cmath>

#include "src/base/error.h"

namespace stof {
namespace {

double relative(double distance, double norm) {
  constexpr double kLeastNorm = 1e-30;  // zeros have no relative error
  return std::sqrt(distance / std::max(norm, kLeastNorm));
}

}  // namespace

void RowDistances::add(std::span<const float> got, std::span<const float> want) {
  STOF_CHECK(got.size() == want.size() && want.size() % columns_ == 0);
  for (std::size_t row = 0; row < want.size(); row += columns_) {
    double distance = 0, norm = 0;
    for (std::size_t i = row; i < row + columns_; ++i) {
      const double apart = double{got[i]} - double{want[i]};
      distance += apart * apart;
      norm += double{want[i]} * double{want[i]};
    }
    const double error = relative(distance, norm);
    if (!std::isnan(worst_) && !(error <= worst_)) worst_ = error;  // NaN stays
    distance_ += distance;
    norm_ += norm;
  }
}

RowErrors RowDistances::errors() const { return {.all = relative(distance_, norm_), .worst_row = worst_}; }

}  // namespace stof
