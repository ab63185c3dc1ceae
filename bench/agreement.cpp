// SPDX-License-Identifier: Apache-2.0
#include "bench/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/base/error.h"

namespace stof {
namespace {

constexpr double kLeastNorm = 1e-6;  // of a row: one of zeros has no relative error

struct Squares {
  double distance = 0, norm = 0;
};

std::vector<Squares> squares_of_rows(std::span<const float> got, std::span<const float> want, std::size_t columns) {
  std::vector<Squares> rows(want.size() / columns);
#pragma omp parallel for
  for (std::size_t row = 0; row < rows.size(); ++row)
    for (std::size_t i = row * columns; i < (row + 1) * columns; ++i) {
      const double distance = double{got[i]} - want[i];
      rows[row].distance += distance * distance, rows[row].norm += double{want[i]} * want[i];
    }
  return rows;
}

}  // namespace

Agreement agreement_of(std::span<const float> got, std::span<const float> want, std::int64_t columns, double bound) {
  const double row_bound = 10 * bound;
  STOF_CHECK(got.size() == want.size() && columns > 0 && want.size() % static_cast<std::size_t>(columns) == 0);
  Agreement found;
  Squares all;
  std::size_t row = 0, worst = 0;
  for (const Squares& of : squares_of_rows(got, want, static_cast<std::size_t>(columns))) {
    all.distance += of.distance, all.norm += of.norm;
    const double error = std::sqrt(of.distance) / std::max(std::sqrt(of.norm), kLeastNorm);
    // The first NaN stays: nothing is larger than it.
    if (!std::isnan(found.worst_row) && !(error <= found.worst_row)) found.worst_row = error, worst = row;
    ++row;
  }
  found.frobenius = std::sqrt(all.distance) / std::max(std::sqrt(all.norm), kLeastNorm);
  if (!(found.frobenius < bound) || !(found.worst_row < row_bound))
    found.wrong = fmt::format("relative error {:.1e}, row {} {:.1e}; accepted: less than {:.0e} and {:.0e}",
                              found.frobenius, worst, found.worst_row, bound, row_bound);
  return found;
}

}  // namespace stof
