// SPDX-License-Identifier: Apache-2.0
// The kernel for products of few rows, on a GPU: every shape of a CTA, every row count, every norm and epilogue against
// the definition; and what it says of calls that it does not take.
#include "kernels/shared/gemv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "src/backend/cuda/matmul/settings.h"
#include "tests/backend/gemm_runs.h"
#include "tests/expect_error.h"

namespace stof {
namespace {

const MatmulSetting kGemv = cuda::gemv_settings().front();

class Gemv : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    STOF_SKIP_WITHOUT_DEVICE(std::string("cuda"));
    device_ = open_device("cuda");
  }

  void expect_definition(GemmCase the, unsigned seed) const {
    the.dtype = GetParam();
    const GemmProblem problem(the, seed);
    const LinearSpec spec = problem.spec(device_);
    const PackedLinear packed = device_.backend->matmul.pack(spec);
    const double slack = the.columns < 64 ? 4 : the.gate ? 1.5 : 1;
    int ran = 0;
    for (const MatmulSetting& setting : cuda::gemv_settings()) {
      if (device_.backend->matmul.refuses(spec, the.rows, setting)) continue;
      ++ran;
      SCOPED_TRACE(testing::Message() << text_of(setting) << ": " << the.rows << " rows, " << the.columns
                                      << " columns, inner " << the.inner << ", norm " << the.own_norm << the.own_shift
                                      << ", gate " << the.gate << ", bias " << the.bias << ", residual " << the.residual
                                      << ", " << name_of(the.activation));
      expect_near_definition(the, problem, GemmRuns(device_).run(the, problem, packed, setting), slack);
    }
    EXPECT_EQ(ran, the.gate ? 2 : 3);
  }

  Device device_;
};
INSTANTIATE_TEST_SUITE_P(Dtypes, Gemv, testing::Values(DType::f16, DType::bf16),
                         [](const auto& test) { return std::string(name_of(test.param)) + "_cuda"; });

TEST_P(Gemv, TakesAnyFewRows) {
  for (std::int64_t rows = 1; rows <= cuda::GemvGrid::kMostRows; ++rows)
    for (const bool own_norm : {false, true})
      expect_definition({.rows = rows, .columns = 136, .inner = 520, .few_rows = true, .own_norm = own_norm}, 1);
}

// Columns that tiles cut; inner dimensions below a chunk, of a few
// chunks, of more than all warps have on their way.
TEST_P(Gemv, TakesAnySizes) {
  unsigned seed = 2;
  for (const std::int64_t columns : {8, 24, 1064, 2120})
    for (const std::int64_t inner : {8, 56, 64, 200, 1032, 4800}) {
      const std::int64_t rows = std::min(1 + static_cast<std::int64_t>(seed) % 16, cuda::GemvGrid::kMostX / inner);
      expect_definition({.rows = rows, .columns = columns, .inner = inner, .bias = false}, ++seed);
    }
}

TEST_P(Gemv, NormsItsRows) {
  unsigned seed = 50;
  for (const bool own_shift : {false, true})
    for (const std::int64_t inner : {8, 72, 1024, 4096})
      for (const std::int64_t rows : {1, 2, 3, 5, 8, 9, 16})
        for (const std::int64_t columns : {40, 1096}) {
          if (rows * inner > 9 * 4096) continue;  // with the norm's vectors more than shared memory holds
          expect_definition({.rows = rows,
                             .columns = columns,
                             .inner = inner,
                             .bias = own_shift,
                             .few_rows = true,
                             .own_norm = true,
                             .own_shift = own_shift},
                            ++seed);
        }
}

TEST_P(Gemv, FinishesItsProducts) {
  unsigned seed = 200;
  for (const Activation activation :
       {Activation::none, Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::relu})
    for (const bool bias : {false, true})
      for (const bool residual : {false, true})
        for (const std::int64_t rows : {1, 7, 13})
          expect_definition({.rows = rows,
                             .columns = 1000,
                             .inner = 304,
                             .activation = activation,
                             .bias = bias,
                             .residual = residual,
                             .few_rows = true},
                            ++seed);
}

TEST_P(Gemv, MultipliesAGateWithWhatItLetsThrough) {
  unsigned seed = 400;
  for (const std::int64_t columns : {8, 16, 24, 40, 1048})
    for (const bool own_norm : {false, true})
      for (const std::int64_t rows : {1, 4, 12})
        expect_definition({.rows = rows,
                           .columns = columns,
                           .inner = 192,
                           .activation = Activation::silu,
                           .bias = rows != 1,
                           .gate = true,
                           .few_rows = true,
                           .own_norm = own_norm},
                          ++seed);
}

// As many tiles as leave some CTAs more of them than others.
TEST_P(Gemv, GoesThroughTilesInSeveralRounds) {
  unsigned seed = 600;
  for (const std::int64_t columns : {10024, 18008})
    for (const bool gate : {false, true})
      for (const bool own_norm : {false, true})
        for (const std::int64_t rows : {1, 3, 11})
          expect_definition({.rows = rows,
                             .columns = gate ? columns / 16 * 8 : columns,
                             .inner = 136,
                             .activation = gate ? Activation::silu : Activation::none,
                             .bias = !gate || rows == 3,
                             .residual = !gate,
                             .gate = gate,
                             .few_rows = true,
                             .own_norm = own_norm},
                            ++seed);
}

TEST_P(Gemv, GivesTheSameBitsEachTimeAlsoWhereTheResidualIsOut) {
  GemmCase the{.rows = 9, .columns = 776, .inner = 1096, .residual = true, .few_rows = true, .own_norm = true};
  the.dtype = GetParam();
  const GemmProblem problem(the, 7);
  const PackedLinear packed = device_.backend->matmul.pack(problem.spec(device_));
  for (const MatmulSetting& setting : cuda::gemv_settings()) {
    const Tensor want = GemmRuns(device_).run(the, problem, packed, setting).out;
    for (int repeat = 0; repeat < 3; ++repeat) {
      Tensor out(the.dtype, problem.residual.shape());
      std::memcpy(out.data(), problem.residual.data(), out.bytes());
      Operands there(device_);
      void* const both = there.result(out);
      device_.backend->matmul.run(packed, {.x = there.in(problem.x),
                                           .out = both,
                                           .residual = both,
                                           .rows = the.rows,
                                           .queue = there.queue(),
                                           .setting = &setting});
      there.finish();
      for (std::int64_t i = 0; i < the.rows * the.columns; ++i) ASSERT_EQ(element(out, i), element(want, i)) << i;
    }
  }
}

TEST_P(Gemv, RefusesMoreRowsAndOddAddresses) {
  GemmCase the{.rows = 17, .columns = 64, .inner = 3600, .few_rows = true, .own_norm = true};
  the.dtype = GetParam();
  const GemmProblem problem(the, 8);
  const PackedLinear packed = device_.backend->matmul.pack(problem.spec(device_));
  Operands there(device_);
  Tensor out(the.dtype, {32, the.columns});
  LinearCall call{.x = there.in(problem.x), .out = there.result(out), .rows = 17, .queue = there.queue()};
  EXPECT_ERROR(device_.backend->matmul.run(packed, call), ErrorKind::unsupported,
               "a matmul for few rows: gemv takes up to 16 rows, not 17");
  call.rows = 16;
  EXPECT_ERROR(device_.backend->matmul.run(packed, call), ErrorKind::unsupported,
               "a matmul for few rows: gemv takes up to 57344 numbers of x, not 16 rows of 3600");
  call.rows = 1, call.setting = &kGemv;
  call.x = static_cast<const std::byte*>(call.x) + 2;
  EXPECT_THROW(device_.backend->matmul.run(packed, call), Error);
}

}  // namespace
}  // namespace stof
