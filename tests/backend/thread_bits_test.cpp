// SPDX-License-Identifier: Apache-2.0
// Our kernels promise identical bits for any number of threads: rows are computed whole, by one thread each. oneDNN,
// which multiplies bf16 where there are matrix registers, promises nothing. Attention makes the same promise in
// tests/attention/run_test.cpp, sessions another one (docs/sessions.md).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "src/backend/contract.h"
#include "src/base/threads.h"
#include "tests/backend/random_tensor.h"

namespace stof {
namespace {

using Bits = std::vector<std::byte>;

Bits bits_of(const Tensor& tensor, std::int64_t first_row, std::int64_t rows) {
  const std::int64_t row_bytes = tensor.shape()[1] * static_cast<std::int64_t>(size_of(tensor.dtype()));
  const std::byte* begin = tensor.as<std::byte>() + first_row * row_bytes;
  return {begin, begin + rows * row_bytes};
}

void expect_same_bits(const Tensor& out, const std::function<void()>& compute) {
  Bits one;
  for (const int threads : {1, 2, 3, 7}) {
    const ThreadCount count(threads);
    std::memset(out.data(), 0xA5, out.bytes());
    compute();
    const Bits bits = bits_of(out, 0, out.shape()[0]);
    if (threads == 1) one = bits;
    EXPECT_TRUE(bits == one) << threads << " threads";
  }
}

TEST(ThreadBits, RowOperations) {
  std::mt19937 random(1);
  const std::int64_t rows = 131, columns = 77;  // more than one thread takes, and an odd last vector
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const RowShape shape{rows, columns, dtype};
    const Tensor x = random_tensor(dtype, {rows, columns}, random), y = random_tensor(dtype, {rows, columns}, random);
    const Tensor scale = random_tensor(DType::f32, {columns}, random);
    const NormWeights norm{.scale = scale.as<float>(), .shift = scale.as<float>()};
    const Tensor table = random_tensor(DType::f16, {rows, columns}, random);
    std::vector<std::int32_t> indices;
    for (std::int32_t i = 0; i < rows; ++i) indices.push_back((i * 29) % static_cast<std::int32_t>(rows));
    const std::vector<LookupTable> tables{{.table = table.view(), .indices = indices}};
    const Tensor out(dtype, {rows, columns});
    expect_same_bits(out, [&] { cpu_backend.rows.lookup(shape, tables, &norm, out.data()); });
    expect_same_bits(out, [&] { cpu_backend.rows.layer_norm(shape, x.data(), y.data(), norm, out.data()); });
    for (const Activation activation : {Activation::none, Activation::gelu})
      expect_same_bits(out, [&] { cpu_backend.rows.add(shape, x.data(), {y.data()}, activation, out.data()); });
  }
}

class MatmulBits : public testing::TestWithParam<DType> {
 protected:
  static constexpr std::int64_t kRows = 340, kIn = 384, kOut = 200;
  void SetUp() override {
    if (GetParam() == DType::bf16 && open_device("cpu").caps.bf16_matrix)
      GTEST_SKIP() << "oneDNN promises nothing, and multiplies bf16 here";
    packed = cpu_backend.matmul.pack(
        {.weight = {weight.view()}, .bias = {bias.view()}, .activation = Activation::gelu, .dtype = GetParam()});
  }
  void run(const void* rows_of_x, std::int64_t rows, const Tensor& result) const {
    cpu_backend.matmul.run(packed, {.x = rows_of_x, .out = result.data(), .rows = rows});
  }

  std::mt19937 random{1};
  Tensor weight = random_tensor(DType::f32, {kOut, kIn}, random), bias = random_tensor(DType::f32, {kOut}, random);
  Tensor x = random_tensor(GetParam(), {kRows, kIn}, random);
  Tensor out{GetParam(), {kRows, kOut}};
  PackedLinear packed;
};
INSTANTIATE_TEST_SUITE_P(Dtypes, MatmulBits, testing::Values(DType::f32, DType::bf16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST_P(MatmulBits, DoNotDependOnThreads) {
  expect_same_bits(out, [&] { run(x.data(), kRows, out); });
}

// So a text has the same bits alone as in a batch.
TEST_P(MatmulBits, DoNotDependOnTheOtherRows) {
  run(x.data(), kRows, out);
  const Tensor part(GetParam(), {kRows, kOut});
  for (const std::int64_t rows : {1, 2, 3, 9, 31, 64, 70, 129, 255, 260})
    for (const std::int64_t first : {0, 1, 37, 80}) {
      const std::int64_t row_bytes = kIn * static_cast<std::int64_t>(size_of(GetParam()));
      run(x.as<std::byte>() + first * row_bytes, rows, part);
      EXPECT_TRUE(bits_of(part, 0, rows) == bits_of(out, first, rows)) << rows << " rows from " << first;
    }
}

}  // namespace
}  // namespace stof
