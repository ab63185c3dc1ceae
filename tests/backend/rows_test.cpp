// SPDX-License-Identifier: Apache-2.0
// Row operations against their definition in double, at every width from 1 on: the last vector of a row is a part of
// one on every instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/backend/contract.h"
#include "tests/backend/random_tensor.h"

namespace stof {
namespace {

constexpr float kEpsilon = 1e-5f;
constexpr std::int64_t kRows = 5;

std::vector<std::int64_t> widths() {
  std::vector<std::int64_t> widths;
  for (std::int64_t width = 1; width <= 70; ++width) widths.push_back(width);
  widths.insert(widths.end(), {127, 128, 129, 384, 768, 1023});
  return widths;
}

struct Norm {
  Norm(std::int64_t columns, std::mt19937& random)
      : scale(random_tensor(DType::f32, {columns}, random)), shift(random_tensor(DType::f32, {columns}, random)) {}
  NormWeights weights() const { return {.scale = scale.as<float>(), .shift = shift.as<float>(), .epsilon = kEpsilon}; }
  Tensor scale, shift;
};

// In place.
void normalise(std::vector<double>& row, const Norm& norm) {
  double mean = 0, variance = 0;
  for (const double x : row) mean += x / static_cast<double>(row.size());
  for (const double x : row) variance += (x - mean) * (x - mean) / static_cast<double>(row.size());
  for (std::size_t c = 0; c < row.size(); ++c)
    row[c] = (row[c] - mean) / std::sqrt(variance + double{kEpsilon}) * norm.scale.as<float>()[c] +
             norm.shift.as<float>()[c];
}

void expect_row(const Tensor& out, std::int64_t row, const std::vector<double>& want, double bound) {
  const auto columns = std::ssize(want);
  for (std::int64_t c = 0; c < columns; ++c) {
    const double value = want[static_cast<std::size_t>(c)];
    ASSERT_NEAR(element(out, row * columns + c), value, bound + 2 * rounding(out.dtype()) * std::abs(value))
        << "columns " << columns << ", row " << row << ", column " << c;
  }
}

class RowOperationsOf : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, RowOperationsOf, testing::Values(DType::f32, DType::bf16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST_P(RowOperationsOf, LookupSumsAndNormalises) {
  std::mt19937 random(1);
  const std::vector<DType> dtypes{DType::f32, DType::f16, DType::bf16};
  for (const std::int64_t columns : widths())
    for (const bool with_norm : {false, true}) {
      std::vector<Tensor> tables;
      std::vector<LookupTable> lookups;
      const std::vector<std::vector<std::int32_t>> indices{{0, 8, 3, 3, 5}, {1, 1, 0, 2, 8}, {8, 7, 6, 5, 4}};
      for (const DType dtype : dtypes) tables.push_back(random_tensor(dtype, {9, columns}, random));
      for (std::size_t t = 0; t < tables.size(); ++t)
        lookups.push_back({.table = tables[t].view(), .indices = indices[t]});
      const Norm norm(columns, random);
      const NormWeights weights = norm.weights();
      const Tensor out(GetParam(), {kRows, columns});
      cpu_backend.rows.lookup({kRows, columns, GetParam()}, lookups, with_norm ? &weights : nullptr, out.data());
      for (std::int64_t row = 0; row < kRows; ++row) {
        std::vector<double> want(static_cast<std::size_t>(columns), 0);
        for (std::size_t t = 0; t < tables.size(); ++t)
          for (std::int64_t c = 0; c < columns; ++c)
            want[static_cast<std::size_t>(c)] +=
                element(tables[t], indices[t][static_cast<std::size_t>(row)] * columns + c);
        if (with_norm) normalise(want, norm);
        expect_row(out, row, want, 2e-5);
      }
    }
}

TEST_P(RowOperationsOf, LayerNormAddsTheResidual) {
  std::mt19937 random(2);
  for (const std::int64_t columns : widths())
    for (const bool with_residual : {false, true}) {
      const Tensor x = random_tensor(GetParam(), {kRows, columns}, random);
      const Tensor residual = random_tensor(GetParam(), {kRows, columns}, random);
      const Norm norm(columns, random);
      const Tensor out(GetParam(), {kRows, columns});
      cpu_backend.rows.layer_norm({kRows, columns, GetParam()}, x.data(), with_residual ? residual.data() : nullptr,
                                  norm.weights(), out.data());
      for (std::int64_t row = 0; row < kRows; ++row) {
        std::vector<double> want;
        for (std::int64_t i = row * columns; i < (row + 1) * columns; ++i)
          want.push_back(element(x, i) + (with_residual ? element(residual, i) : 0));
        normalise(want, norm);
        expect_row(out, row, want, 2e-5);
      }
    }
}

TEST_P(RowOperationsOf, LayerNormMayOverwriteItsInput) {
  std::mt19937 random(3);
  const std::int64_t columns = 77;
  const Tensor x = random_tensor(GetParam(), {kRows, columns}, random);
  const Tensor residual = random_tensor(GetParam(), {kRows, columns}, random);
  const Norm norm(columns, random);
  const Tensor out(GetParam(), {kRows, columns});
  const RowShape shape{kRows, columns, GetParam()};
  cpu_backend.rows.layer_norm(shape, x.data(), residual.data(), norm.weights(), out.data());
  cpu_backend.rows.layer_norm(shape, x.data(), residual.data(), norm.weights(), residual.data());
  for (std::int64_t i = 0; i < out.size(); ++i) ASSERT_EQ(element(out, i), element(residual, i));
}

TEST_P(RowOperationsOf, AddTakesRowsABiasOrNothing) {
  std::mt19937 random(4);
  enum class Second { none, bias, rows };
  for (const std::int64_t columns : {1, 3, 16, 17, 64, 100})
    for (const Activation activation : {Activation::none, Activation::gelu, Activation::gelu_tanh, Activation::relu})
      for (const Second second : {Second::none, Second::bias, Second::rows}) {
        const Tensor x = random_tensor(GetParam(), {kRows, columns}, random, 0.f, 3.f);
        const Tensor y = second == Second::bias ? random_tensor(DType::f32, {columns}, random)
                                                : random_tensor(GetParam(), {kRows, columns}, random);
        const Tensor out(GetParam(), {kRows, columns});
        cpu_backend.rows.add({kRows, columns, GetParam()}, x.data(), second == Second::none ? nullptr : y.data(),
                             second == Second::bias, activation, out.data());
        for (std::int64_t row = 0; row < kRows; ++row) {
          std::vector<double> want;
          for (std::int64_t c = 0; c < columns; ++c) {
            double sum = element(x, row * columns + c);
            if (second != Second::none) sum += element(y, second == Second::bias ? c : row * columns + c);
            want.push_back(reference_activation(activation, sum));
          }
          expect_row(out, row, want, 2e-6);
        }
      }
}

TEST_P(RowOperationsOf, NaNStaysInItsRow) {
  std::mt19937 random(5);
  for (const std::int64_t columns : {1, 16, 33}) {
    const Tensor x = random_tensor(GetParam(), {kRows, columns}, random);
    set_element(x, 2 * columns + columns / 2, std::numeric_limits<float>::quiet_NaN());
    const Norm norm(columns, random);
    const Tensor normalised(GetParam(), {kRows, columns}), added(GetParam(), {kRows, columns});
    const RowShape shape{kRows, columns, GetParam()};
    cpu_backend.rows.layer_norm(shape, x.data(), nullptr, norm.weights(), normalised.data());
    cpu_backend.rows.add(shape, x.data(), nullptr, false, Activation::gelu, added.data());
    for (std::int64_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(std::isnan(element(normalised, i)), i / columns == 2) << "columns " << columns;
      ASSERT_EQ(std::isnan(element(added, i)), i == 2 * columns + columns / 2) << "columns " << columns;
    }
    const Tensor kept(GetParam(), {kRows, columns});
    cpu_backend.rows.add(shape, x.data(), nullptr, false, Activation::relu, kept.data());
    EXPECT_TRUE(std::isnan(element(kept, 2 * columns + columns / 2)));
  }
}

// In one pass, the squares of a thousand would leave nothing of a variance of one third.
TEST(LayerNorm, KeepsTheVarianceOfRowsFarFromZero) {
  std::mt19937 random(6);
  const std::int64_t columns = 384;
  const Tensor x = random_tensor(DType::f32, {kRows, columns}, random, 1000.f, 1.f);
  const Norm norm(columns, random);
  const Tensor out(DType::f32, {kRows, columns});
  cpu_backend.rows.layer_norm({kRows, columns, DType::f32}, x.data(), nullptr, norm.weights(), out.data());
  for (std::int64_t row = 0; row < kRows; ++row) {
    std::vector<double> want;
    for (std::int64_t c = 0; c < columns; ++c) want.push_back(element(x, row * columns + c));
    normalise(want, norm);
    expect_row(out, row, want, 1e-3);
  }
}

}  // namespace
}  // namespace stof
