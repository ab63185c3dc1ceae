// SPDX-License-Identifier: Apache-2.0
// Matmul with its bias, activation and residual, against the definition in double, on every device that is there.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/backend/contract.h"
#include "src/backend/cuda/driver/blas.h"
#include "tests/backend/operands.h"
#include "tests/backend/random_tensor.h"
#include "tests/expect_error.h"

namespace stof {
namespace {

constexpr std::size_t kScratchBytes = std::size_t{1} << 20;

struct Case {
  std::int64_t in, out, rows;
  DType weight = DType::f32, dtype = DType::f32;
  Activation activation = Activation::none;
  bool bias = true, residual = false;
  std::int64_t parts = 1;  // matrices that are stacked
};

// Operands of one case on the host. Rows of x past the call's hold NaN: they must not reach its rows.
struct Problem {
  Problem(const Case& what, unsigned seed) : random(seed) {
    for (std::int64_t part = 0; part < what.parts; ++part) {
      weight.push_back(random_tensor(what.weight, {what.out, what.in}, random));
      if (what.bias) bias.push_back(random_tensor(what.weight, {what.out}, random));
    }
    const std::int64_t capacity = row_capacity(what.rows), columns = what.out * what.parts;
    x = random_tensor(what.dtype, {capacity, what.in}, random);
    residual = random_tensor(what.dtype, {capacity, columns}, random);
    out = random_tensor(what.dtype, {capacity, columns}, random);
    for (std::int64_t i = what.rows * what.in; i < x.size(); ++i)
      set_element(x, i, std::numeric_limits<float>::quiet_NaN());
  }
  std::mt19937 random;
  std::vector<Tensor> weight, bias;
  Tensor x, residual, out;
};

LinearSpec spec_of(const Case& what, const Problem& operands) {
  LinearSpec spec{
      .weight = {}, .bias = {}, .activation = what.activation, .residual = what.residual, .dtype = what.dtype};
  for (const Tensor& part : operands.weight) spec.weight.push_back(part.view());
  for (const Tensor& part : operands.bias) spec.bias.push_back(part.view());
  return spec;
}

class Matmul : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    STOF_SKIP_WITHOUT_DEVICE(GetParam());
    if (GetParam() == "cuda" && !cuda::missing_blas().empty()) GTEST_SKIP() << cuda::missing_blas();
    device_ = open_device(GetParam());
  }
  bool on_cpu() const { return device_.backend->memory == nullptr; }
  // That the device multiplies in.
  std::vector<DType> dtypes() const {
    if (on_cpu()) return {DType::f32, DType::bf16};
    return {DType::f32, DType::f16, DType::bf16};
  }

  void run(const Case& what, const Problem& problem, bool residual_is_out = false) const {
    const MatmulOperations& matmul = device_.backend->matmul;
    LinearSpec spec = spec_of(what, problem);
    spec.device = &device_;
    spec.matrix = matrix_;
    Operands there(device_);
    // Less than the device likes best: it is copied each time.
    const Tensor scratch(DType::boolean, {static_cast<std::int64_t>(std::min(matmul.workspace_bytes, kScratchBytes))});
    WorkQueue queue = there.queue();
    queue.workspace_bytes = scratch.bytes();
    queue.workspace = there.in(scratch);
    void* const out = there.result(problem.out);
    matmul.run(matmul.pack(spec), {.x = there.in(problem.x),
                                   .out = out,
                                   .residual = !what.residual    ? nullptr
                                               : residual_is_out ? out
                                                                 : there.in(problem.residual),
                                   .rows = what.rows,
                                   .queue = queue});
    there.finish();
  }
  void expect_definition(const Case& what, unsigned seed) const;

  Device device_;
  PackedMatrix matrix_;  // to pack with; null: none
};
INSTANTIATE_TEST_SUITE_P(Devices, Matmul, testing::Values("cpu", "cuda"), [](const auto& test) { return test.param; });

// The value before the activation, and the sum of magnitudes that its rounding errors are relative to.
struct Sum {
  double value = 0, magnitude = 0;
  void add(double term) {
    value += term;
    magnitude += std::abs(term);
  }
};

double rounded_to(DType dtype, float x) {
  return dtype == DType::bf16  ? float_of_bf16(bf16_of_float(x))
         : dtype == DType::f16 ? float_of_f16(f16_of_float(x))
                               : x;
}

Sum product(const Case& what, const Problem& operands, std::int64_t row, std::int64_t column) {
  const auto part = static_cast<std::size_t>(column / what.out);
  Sum sum;
  for (std::int64_t i = 0; i < what.in; ++i) {
    const auto weight = static_cast<float>(element(operands.weight[part], column % what.out * what.in + i));
    sum.add(rounded_to(what.dtype, weight) * element(operands.x, row * what.in + i));
  }
  // A GPU adds the bias in the product's dtype where cuBLASLt does it.
  if (what.bias) sum.add(element(operands.bias[part], column % what.out));
  return sum;
}

void Matmul::expect_definition(const Case& what, unsigned seed) const {
  SCOPED_TRACE(testing::Message() << what.rows << " rows, in " << what.in << ", out " << what.out << " x " << what.parts
                                  << ", weights " << name_of(what.weight) << ", " << name_of(what.dtype) << ", "
                                  << name_of(what.activation) << ", bias " << what.bias << ", residual "
                                  << what.residual);
  const Problem operands(what, seed);
  run(what, operands);
  const std::int64_t columns = what.out * what.parts;
  for (std::int64_t row = 0; row < what.rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column) {
      const Sum sum = product(what, operands, row, column);
      const std::int64_t i = row * columns + column;
      double want = reference_activation(what.activation, sum.value);
      if (what.residual) want += element(operands.residual, i);
      // Activations have slopes up to 1.13; the error function of the library is good to 1e-6 or so. On a GPU the
      // product is rounded before what a row kernel does to it, and the bias where cuBLASLt adds it.
      double bound = 2e-6 * (1 + sum.magnitude) + 2 * rounding(what.dtype) * (1 + std::abs(want));
      if (!on_cpu()) bound += 4 * rounding(what.dtype) * (2 + std::abs(sum.value));
      ASSERT_NEAR(element(operands.out, i), want, bound) << "row " << row << " column " << column;
    }
}

TEST_P(Matmul, EveryShape) {
  unsigned seed = 1;
  for (const std::int64_t in : {1, 3, 16, 65, 130})
    for (const std::int64_t out : {1, 7, 64, 97})
      for (const std::int64_t rows : {1, 2, 5, 31, 63, 66})
        for (const DType dtype : dtypes())
          expect_definition({.in = in, .out = out, .rows = rows, .dtype = dtype}, seed++);
}

TEST_P(Matmul, EveryNumberOfRows) {
  for (std::int64_t rows = 1; rows <= 70; ++rows) expect_definition({.in = 24, .out = 40, .rows = rows}, 7);
  for (const std::int64_t rows : {127, 128, 129, 191, 250, 256, 257, 330, 512, 600})
    expect_definition({.in = 24, .out = 40, .rows = rows}, 8);
}

TEST_P(Matmul, EveryEpilogueAndWeight) {
  unsigned seed = 100;
  for (const Activation activation : kActivations)
    for (const DType weight : {DType::f32, DType::f16, DType::bf16})
      for (const DType dtype : dtypes())
        for (const bool bias : {false, true})
          for (const bool residual : {false, true}) {
            if (!on_cpu() && residual && activation != Activation::none) continue;  // refused, see below
            expect_definition({.in = 33,
                               .out = 20,
                               .rows = 13,
                               .weight = weight,
                               .dtype = dtype,
                               .activation = activation,
                               .bias = bias,
                               .residual = residual,
                               .parts = 3},
                              seed++);
          }
}

TEST_P(Matmul, OneMatrixServesEveryEpilogue) {
  for (const DType dtype : dtypes()) {
    const Case plain{.in = 40, .out = 72, .rows = 13, .dtype = dtype, .bias = false};
    const Problem weight(plain, 3);
    LinearSpec spec = spec_of(plain, weight);
    spec.device = &device_;
    const PackedMatrix matrix = device_.backend->matmul.pack_matrix(spec);
    for (const Activation activation : {Activation::none, Activation::gelu, Activation::relu})
      for (const bool residual : {false, true}) {
        if (!on_cpu() && residual && activation != Activation::none) continue;  // refused, see below
        Case what = plain;
        what.activation = activation, what.bias = true, what.residual = residual;
        const Problem own(what, 3), shared(what, 3);
        matrix_ = nullptr;
        run(what, own);
        matrix_ = matrix;
        run(what, shared);
        for (std::int64_t i = 0; i < what.rows * what.out; ++i)
          ASSERT_EQ(element(shared.out, i), element(own.out, i)) << name_of(dtype) << " " << name_of(activation);
      }
  }
}

TEST_P(Matmul, TheResidualMayBeTheOutput) {
  const Case what{.in = 19, .out = 23, .rows = 9, .residual = true};
  const Problem apart(what, 5), together(what, 5);
  run(what, apart);
  std::copy_n(together.residual.as<float>(), together.residual.size(), together.out.as<float>());
  run(what, together, true);
  for (std::int64_t i = 0; i < what.rows * what.out; ++i) ASSERT_EQ(element(together.out, i), element(apart.out, i));
}

TEST_P(Matmul, NaNStaysInItsRow) {
  for (const DType dtype : dtypes())
    for (const Activation activation : kActivations) {
      const Case what{.in = 40, .out = 33, .rows = 21, .dtype = dtype, .activation = activation};
      const Problem operands(what, 11);
      set_element(operands.x, 6 * what.in + 39, std::numeric_limits<float>::quiet_NaN());
      run(what, operands);
      for (std::int64_t i = 0; i < what.rows * what.out; ++i)
        // A relu may make 0 of NaN; that of oneDNN does.
        if (activation != Activation::relu || i / what.out != 6) {
          ASSERT_EQ(std::isnan(element(operands.out, i)), i / what.out == 6) << name_of(activation) << " " << i;
        }
    }
}

TEST(MatmulOperations, RefuseByName) {
  const Case what{.in = 2, .out = 2, .rows = 1};
  const Problem operands(what, 1);
  LinearSpec spec = spec_of(what, operands);
  spec.dtype = DType::f16;
  EXPECT_ERROR(cpu_backend.matmul.pack(spec), ErrorKind::unsupported,
               "no matmul in f16 on the CPU; accepted: f32, bf16");
  const Device described = open_device("cuda:h200");
  spec.device = &described;
  spec.dtype = DType::i32;
  EXPECT_ERROR(cuda_backend.matmul.pack(spec), ErrorKind::unsupported,
               "no matmul in i32 on CUDA; accepted: f32, f16, bf16");
  spec.dtype = DType::f16;
  spec.residual = true;
  spec.activation = Activation::gelu;
  EXPECT_ERROR(cuda_backend.matmul.pack(spec), ErrorKind::unsupported,
               "no matmul on CUDA takes this:\n  cublaslt has no matmul with both gelu and a residual\n  wgmma takes "
               "multiples of 8 from 8 on; in is 2");
  spec.residual = false;
  EXPECT_ERROR(cuda_backend.matmul.pack(spec), ErrorKind::device,
               "NVIDIA H200 (described) is a description to plan with; accepted for running: cuda, cuda:N");
}

}  // namespace
}  // namespace stof
