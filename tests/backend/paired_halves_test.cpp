// SPDX-License-Identifier: Apache-2.0
// A gate and what it lets through, 8 columns of either in turns: as a product leaves them whose matrix is also that of
// a matmul with the gate inside, and as a gate behind it reads them.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>

#include "tests/backend/gemm_runs.h"
#include "tests/backend/row_operations_of.h"

namespace stof {
namespace {

class PairedHalvesOf : public RowOperationsOf {
 protected:
  // Of rows of so few columns as the gate of paired halves has.
  RowShape few(std::int64_t rows, std::int64_t columns, const Operands& there) const {
    return {rows * columns / kPairedColumns, kPairedColumns, dtype(), there.queue()};
  }

  GemmResult product_and_gate(const GemmCase& the, const GemmProblem& problem, const LinearSpec& product,
                              const MatmulSetting& setting) const {
    GemmResult result{Tensor(the.dtype, {row_capacity(the.rows), the.columns}), Tensor()};
    for (std::int64_t i = 0; i < result.out.size(); ++i)
      set_element(result.out, i, std::numeric_limits<float>::quiet_NaN());
    Operands there(device_);
    void* const halves = there.in(Tensor(the.dtype, {row_capacity(the.rows), 2 * the.columns}));
    const MatmulOperations& matmul = device_.backend->matmul;
    matmul.run(
        matmul.pack(product),
        {.x = there.in(problem.x), .out = halves, .rows = the.rows, .queue = there.queue(), .setting = &setting});
    rows().gate(few(the.rows, the.columns, there), halves, the.activation, there.result(result.out));
    there.finish();
    return result;
  }
};
INSTANTIATE_TEST_SUITE_P(Dtypes, PairedHalvesOf, kPlaces, name_of_place);

// At addresses that vectors take, and others.
TEST_P(PairedHalvesOf, AreGatedAsRowsOfFewColumns) {
  std::mt19937 random(10);
  const auto element_bytes = static_cast<std::int64_t>(size_of(dtype()));
  for (const std::int64_t columns : {8, 24, 176, 1048})
    for (const std::int64_t moved : {0, 1}) {
      const Tensor x = random_tensor(dtype(), {moved + kRows * 2 * columns}, random, 0.f, 3.f);
      const Tensor moved_out(dtype(), {moved + kRows * columns}), out(dtype(), {kRows, columns});
      Operands there(device_);
      auto* const to = static_cast<std::byte*>(there.result(moved_out));
      rows().gate(few(kRows, columns, there), static_cast<std::byte*>(there.in(x)) + moved * element_bytes,
                  Activation::silu, to + moved * element_bytes);
      there.finish();
      std::memcpy(out.data(), moved_out.as<std::byte>() + moved * element_bytes, out.bytes());
      for (std::int64_t row = 0; row < kRows; ++row) {
        std::vector<double> want;
        for (std::int64_t c = 0; c < columns; ++c) {
          const std::int64_t gate = moved + row * 2 * columns + c / 8 * 16 + c % 8;
          want.push_back(reference_activation(Activation::silu, element(x, gate)) * element(x, gate + 8));
        }
        expect_row(out, row, want, 6e-6);
      }
    }
}

// By cuBLASLt and by gemv, in 16 bits with the very matrix of a matmul that has the gate inside.
TEST_P(PairedHalvesOf, AreWhatAProductLeavesForItsGate) {
  const MatmulOperations& matmul = device_.backend->matmul;
  if (!matmul.pairs_gates) GTEST_SKIP() << "halves lie one behind the other";
  unsigned seed = 90;
  for (const std::int64_t columns : {8, 24, 200})
    for (const std::int64_t rows : {3, 133})
      for (const bool bias : {false, true}) {
        const GemmCase the{.rows = rows,
                           .columns = columns,
                           .inner = 320,
                           .dtype = dtype(),
                           .activation = Activation::silu,
                           .bias = bias,
                           .gate = true};
        const GemmProblem problem(the, seed++);
        const LinearSpec inside = problem.spec(device_);
        LinearSpec product = inside;
        product.activation = Activation::none, product.gate = false, product.paired = true;
        product.matrix = matmul.pack_matrix(matmul.takes(inside) ? inside : product);
        int ran = 0;
        for (const MatmulChoice& choice : matmul.settings(product, rows)) {
          if (choice.setting.kernel == MatmulSetting::Kernel::wgmma) continue;  // those may have to be compiled
          ++ran;
          SCOPED_TRACE(testing::Message()
                       << text_of(choice.setting) << ": " << rows << " rows, " << columns << " columns, bias " << bias);
          // The halves are rounded, too; in f32 the activation is off by more than that.
          const double slack = dtype() == DType::f32 ? 64 : columns < 64 ? 6 : 3;
          expect_near_definition(the, problem, product_and_gate(the, problem, product, choice.setting), slack);
        }
        EXPECT_GT(ran, 0);
      }
}

}  // namespace
}  // namespace stof
