// SPDX-License-Identifier: Apache-2.0
// Matmuls of a device on operands of the host, and what their results may be off by.
#pragma once
#include <gtest/gtest.h>

#include "tests/backend/gemm_problem.h"
#include "tests/backend/operands.h"
#include "tests/worst.h"

namespace stof {

struct GemmResult {
  Tensor out, moments;
};

class GemmRuns {
 public:
  explicit GemmRuns(const Device& device) : device_(device) {}

  // Out and moments begin as NaN, rows past the case's included. The weight itself stands for that of the next matmul.
  GemmResult run(const GemmCase& the, const GemmProblem& problem, const PackedLinear& packed,
                 const MatmulSetting& setting, bool backwards = false) const {
    GemmResult result{Tensor(the.dtype, {row_capacity(the.rows), the.columns}),
                      Tensor(DType::f32, {row_capacity(the.rows), moment_pieces(the.columns), 2})};
    for (const Tensor* tensor : {&result.out, &result.moments})
      for (std::int64_t i = 0; i < tensor->size(); ++i)
        set_element(*tensor, i, std::numeric_limits<float>::quiet_NaN());
    Operands there(device_);
    WorkQueue queue = there.queue();
    queue.backwards = backwards;
    device_.backend->matmul.run(
        packed, {.x = there.in(problem.x),
                 .out = there.result(result.out),
                 .residual = the.residual ? there.in(problem.residual) : nullptr,
                 .rows = the.rows,
                 .out_use = backwards ? CacheUse::again : CacheUse::unknown,
                 .next_weight = device_.backend->matmul.weight(packed),
                 .queue = queue,
                 .setting = &setting,
                 .x_moments = the.x_norm ? there.floats(problem.x_moments) : nullptr,
                 .residual_moments = the.residual_norm ? there.floats(problem.residual_moments) : nullptr,
                 .moments = static_cast<float*>(there.result(result.moments)),
                 .angles = the.turned.heads > 0 ? there.floats(problem.angles) : nullptr,
                 .positions = there.in(std::span<const std::int32_t>(problem.positions))});
    there.finish();
    return result;
  }

 private:
  const Device& device_;
};

inline void expect_moments(const GemmCase& the, const GemmResult& result) {
  const Tensor want = moments_of(result.out, the.rows, the.columns);
  for (std::int64_t i = 0; i < want.size(); ++i) {
    const double expected = want.as<float>()[i];
    ASSERT_NEAR(result.moments.as<float>()[i], expected, 1e-5 * (1 + std::abs(expected))) << "moment " << i;
  }
}

// slack: of the bound, where rows are too short for errors to even out.
inline void expect_near_definition(const GemmCase& the, const GemmProblem& problem, const GemmResult& result,
                                   double slack = 1) {
  double error = 0, norm = 0, worst = 0;
  for (std::int64_t row = 0; row < the.rows; ++row) {
    double row_error = 0, row_norm = 0;
    for (std::int64_t i = row * the.columns; i < (row + 1) * the.columns; ++i) {
      const double want = problem.want[static_cast<std::size_t>(i)], distance = element(result.out, i) - want;
      row_error += distance * distance, row_norm += want * want;
    }
    error += row_error, norm += row_norm;
    keep_worst(worst, std::sqrt(row_error / row_norm));
  }
  // Inputs are exact; weights, scaled by the norm of x or not, and the output are rounded.
  const double bound = slack * 2.5 * rounding(the.dtype);
  EXPECT_LT(std::sqrt(error / norm), bound);
  EXPECT_LT(worst, 2 * bound);
  if (the.moments) expect_moments(the, result);
  for (std::int64_t i = the.rows * the.columns; i < result.out.size(); ++i)
    ASSERT_TRUE(std::isnan(element(result.out, i))) << "row " << i / the.columns << " was written";
}

}  // namespace stof
