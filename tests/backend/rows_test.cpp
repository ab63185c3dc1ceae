// SPDX-License-Identifier: Apache-2.0
// Row operations against their definition in double, on every device that is there, at every width from 1 on: the last
// vector of a row is a part of one on every instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "stof/session.h"
#include "tests/backend/random_tensor.h"
#include "tests/backend/row_operations_of.h"

namespace stof {
namespace {

constexpr float kEpsilon = 1e-5f;

std::vector<std::int64_t> widths() {
  std::vector<std::int64_t> widths;
  for (std::int64_t width = 1; width <= 70; ++width) widths.push_back(width);
  widths.insert(widths.end(), {127, 128, 129, 384, 520, 768, 1000, 1023, 1024, 1032, 1500});
  return widths;
}

struct Norm {
  Norm(std::int64_t columns, std::mt19937& random)
      : scale(random_tensor(DType::f32, {columns}, random)), shift(random_tensor(DType::f32, {columns}, random)) {}
  NormWeights on(Operands& there) const {
    return {.scale = there.floats(scale), .shift = there.floats(shift), .epsilon = kEpsilon};
  }
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

INSTANTIATE_TEST_SUITE_P(Dtypes, RowOperationsOf, kPlaces, name_of_place);

// The row operations of the CPU that give back what is in the table, converted.
Tensor looked_up(const Tensor& table, DType dtype) {
  const Device device = open_device("cpu");
  std::vector<std::int32_t> every(static_cast<std::size_t>(table.shape()[0]));
  std::iota(every.begin(), every.end(), 0);
  const LookupTable lookup{.table = table.view(), .indices = every};
  Tensor out(dtype, table.shape());
  device.backend->rows.lookup({table.shape()[0], table.shape()[1], dtype, {.device = &device}}, {&lookup, 1}, nullptr,
                              out.data());
  return out;
}

TEST(Rows, EveryHalfIsWidenedAndNarrowedBack) {
  const Tensor halves(DType::f16, {64, 1024});
  for (std::int64_t i = 0; i < halves.size(); ++i) halves.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(i);
  const Tensor floats = looked_up(halves, DType::f32), back = looked_up(floats, DType::f16);
  for (std::int64_t i = 0; i < halves.size(); ++i) {
    const double want = element(halves, i);
    ASSERT_EQ(std::isnan(element(floats, i)), std::isnan(want)) << i;
    ASSERT_EQ(std::isnan(element(back, i)), std::isnan(want)) << i;
    if (std::isnan(want)) continue;
    ASSERT_EQ(element(floats, i), want) << i;
    ASSERT_EQ(element(back, i), want) << i;
  }
}

// Between the halves, at their middles and beside these, and beyond the largest.
TEST(Rows, FloatsAreRoundedToTheNearestHalf) {
  std::vector<float> values{65519.99f, 65520.f, 1e6f, 3e38f, std::numeric_limits<float>::infinity(), 0x1p-25f, 1e-30f};
  for (std::uint16_t half = 0; half < 0x7BFF; ++half) {
    const float middle = (float_of_f16(half) + float_of_f16(static_cast<std::uint16_t>(half + 1))) / 2;
    values.insert(values.end(), {middle, std::nextafter(middle, 0.f), std::nextafter(middle, 1e6f)});
  }
  for (std::size_t i = values.size(); i-- > 0;) values.push_back(-values[i]);
  const Tensor table(DType::f32, {1, std::ssize(values)});
  std::copy(values.begin(), values.end(), table.as<float>());
  const Tensor out = looked_up(table, DType::f16);
  for (std::int64_t i = 0; i < table.size(); ++i)
    ASSERT_EQ(element(out, i), float_of_f16(f16_of_float(table.as<float>()[i]))) << table.as<float>()[i];
}

TEST_P(RowOperationsOf, LookupSumsAndNormalises) {
  std::mt19937 random(1);
  for (const std::int64_t columns : widths())
    for (const bool with_norm : {false, true}) {
      std::vector<Tensor> tables;
      std::vector<LookupTable> lookups;
      const std::vector<std::vector<std::int32_t>> indices{{0, 8, 3, 3, 5}, {1, 1, 0, 2, 8}, {8, 7, 6, 5, 4}};
      for (const DType of_table : table_dtypes()) tables.push_back(random_tensor(of_table, {9, columns}, random));
      Operands there(device_);
      for (std::size_t t = 0; t < tables.size(); ++t)
        lookups.push_back({.table = view_of(there.in(tables[t]), tables[t].dtype(), tables[t].shape()),
                           .indices = there.in(indices[t])});
      const Norm norm(columns, random);
      const NormWeights weights = norm.on(there);
      const Tensor out(dtype(), {kRows, columns});
      rows().lookup(shape(columns, there), lookups, with_norm ? &weights : nullptr, there.result(out));
      there.finish();
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
      const Tensor x = random_tensor(dtype(), {kRows, columns}, random);
      const Tensor residual = random_tensor(dtype(), {kRows, columns}, random);
      const Norm norm(columns, random);
      const Tensor out(dtype(), {kRows, columns});
      Operands there(device_);
      rows().layer_norm(shape(columns, there), there.in(x), there.in(with_residual ? &residual : nullptr),
                        norm.on(there), there.result(out));
      there.finish();
      for (std::int64_t row = 0; row < kRows; ++row) {
        std::vector<double> want;
        for (std::int64_t i = row * columns; i < (row + 1) * columns; ++i)
          want.push_back(element(x, i) + (with_residual ? element(residual, i) : 0));
        normalise(want, norm);
        expect_row(out, row, want, 2e-5);
      }
    }
}

// More rows than a GPU works on at once, some of its warps with a row more than others; every width of vectors. A
// residual of zeros is another kernel there, which adds in the same order; so does the one that goes backwards.
TEST_P(RowOperationsOf, ManyRowsAreNormalisedAsFewAre) {
  std::mt19937 random(10);
  constexpr std::int64_t kMany = 9001;
  for (const std::int64_t columns : {256, 264, 384, 520, 768, 1024}) {
    const Tensor x = random_tensor(dtype(), {kMany, columns}, random), zeros(dtype(), {kMany, columns});
    std::memset(zeros.data(), 0, zeros.bytes());
    const Norm norm(columns, random);
    const Tensor out(dtype(), {kMany, columns}), in_place(dtype(), {kMany, columns}),
        with_zeros(dtype(), {kMany, columns}), turned(dtype(), {kMany, columns});
    std::memcpy(in_place.data(), x.data(), x.bytes());
    Operands there(device_);
    const RowShape many{kMany, columns, dtype(), there.queue()};
    const NormWeights weights = norm.on(there);
    void* const overwritten = there.result(in_place);
    rows().layer_norm(many, there.in(x), nullptr, weights, there.result(out));
    rows().layer_norm(many, overwritten, nullptr, weights, overwritten);
    rows().layer_norm(many, there.in(x), there.in(zeros), weights, there.result(with_zeros));
    RowShape backwards = many;
    backwards.queue.backwards = true;
    rows().layer_norm(backwards, there.in(x), nullptr, weights, there.result(turned));
    there.finish();
    for (const std::int64_t row : {std::int64_t{0}, std::int64_t{1}, kMany / 2, kMany - 1}) {
      std::vector<double> want;
      for (std::int64_t c = 0; c < columns; ++c) want.push_back(element(x, row * columns + c));
      normalise(want, norm);
      expect_row(out, row, want, 2e-5);
    }
    EXPECT_EQ(std::memcmp(out.data(), with_zeros.data(), out.bytes()), 0) << columns << " columns";
    EXPECT_EQ(std::memcmp(out.data(), in_place.data(), out.bytes()), 0) << columns << " columns";
    EXPECT_EQ(std::memcmp(out.data(), turned.data(), out.bytes()), 0) << columns << " columns";
  }
}

TEST_P(RowOperationsOf, LayerNormMayOverwriteItsInput) {
  std::mt19937 random(3);
  for (const std::int64_t columns : {77, 96, 1100}) {
    const Tensor x = random_tensor(dtype(), {kRows, columns}, random);
    const Tensor residual = random_tensor(dtype(), {kRows, columns}, random);
    const Norm norm(columns, random);
    const Tensor out(dtype(), {kRows, columns});
    Operands there(device_);
    const NormWeights weights = norm.on(there);
    void* const overwritten = there.result(residual);
    rows().layer_norm(shape(columns, there), there.in(x), overwritten, weights, there.result(out));
    rows().layer_norm(shape(columns, there), there.in(x), overwritten, weights, overwritten);
    there.finish();
    for (std::int64_t i = 0; i < out.size(); ++i) ASSERT_EQ(element(out, i), element(residual, i));
  }
}

TEST_P(RowOperationsOf, AddTakesRowsABiasOrNothing) {
  std::mt19937 random(4);
  enum class Second { none, bias, rows };
  // A GPU's CTA has 128 columns, or 128 vectors.
  for (const std::int64_t columns : {1, 3, 16, 17, 64, 100, 129, 1032, 1500, 3072})
    for (const Activation activation : kActivations)
      for (const Second second : {Second::none, Second::bias, Second::rows}) {
        const Tensor x = random_tensor(dtype(), {kRows, columns}, random, 0.f, 3.f);
        const Tensor y = second == Second::bias ? random_tensor(DType::f32, {columns}, random)
                                                : random_tensor(dtype(), {kRows, columns}, random);
        const Tensor out(dtype(), {kRows, columns});
        Operands there(device_);
        const Tensor in_place(dtype(), {kRows, columns});
        std::memcpy(in_place.data(), x.data(), x.bytes());
        void* const other = there.in(second == Second::none ? nullptr : &y);
        void* const overwritten = there.result(in_place);
        rows().add(shape(columns, there), there.in(x), {other, second == Second::bias}, activation, there.result(out));
        rows().add(shape(columns, there), overwritten, {other, second == Second::bias}, activation, overwritten);
        there.finish();
        EXPECT_EQ(std::memcmp(out.data(), in_place.data(), out.bytes()), 0);
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

TEST_P(RowOperationsOf, GateMultipliesTheHalves) {
  std::mt19937 random(9);
  for (const std::int64_t columns : {1, 3, 16, 17, 64, 100})
    for (const Activation activation : kActivations) {
      const Tensor x = random_tensor(dtype(), {kRows, 2 * columns}, random, 0.f, 3.f);
      const Tensor out(dtype(), {kRows, columns});
      Operands there(device_);
      rows().gate(shape(columns, there), there.in(x), activation, there.result(out));
      there.finish();
      for (std::int64_t row = 0; row < kRows; ++row) {
        std::vector<double> want;
        for (std::int64_t c = 0; c < columns; ++c)
          want.push_back(reference_activation(activation, element(x, row * 2 * columns + c)) *
                         element(x, (row * 2 + 1) * columns + c));
        expect_row(out, row, want, 6e-6);
      }
    }
}

TEST_P(RowOperationsOf, NaNStaysInItsRow) {
  std::mt19937 random(5);
  for (const std::int64_t columns : {1, 16, 33}) {
    const Tensor x = random_tensor(dtype(), {kRows, columns}, random);
    set_element(x, 2 * columns + columns / 2, std::numeric_limits<float>::quiet_NaN());
    const Norm norm(columns, random);
    const Tensor normalised(dtype(), {kRows, columns}), added(dtype(), {kRows, columns}),
        kept(dtype(), {kRows, columns});
    Operands there(device_);
    const RowShape these = shape(columns, there);
    rows().layer_norm(these, there.in(x), nullptr, norm.on(there), there.result(normalised));
    rows().add(these, there.in(x), {}, Activation::gelu, there.result(added));
    rows().add(these, there.in(x), {}, Activation::relu, there.result(kept));
    there.finish();
    for (std::int64_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(std::isnan(element(normalised, i)), i / columns == 2) << "columns " << columns;
      ASSERT_EQ(std::isnan(element(added, i)), i == 2 * columns + columns / 2) << "columns " << columns;
    }
    EXPECT_TRUE(std::isnan(element(kept, 2 * columns + columns / 2)));
  }
}

// In one pass, the squares of a thousand would leave nothing of a variance of one third.
TEST_P(RowOperationsOf, KeepTheVarianceOfRowsFarFromZero) {
  if (dtype() != DType::f32) GTEST_SKIP() << "16 bits hold no thirds near a thousand";
  std::mt19937 random(6);
  for (const std::int64_t columns : {384, 1100}) {
    const Tensor x = random_tensor(DType::f32, {kRows, columns}, random, 1000.f, 1.f);
    const Norm norm(columns, random);
    const Tensor out(DType::f32, {kRows, columns});
    Operands there(device_);
    rows().layer_norm(shape(columns, there), there.in(x), nullptr, norm.on(there), there.result(out));
    there.finish();
    for (std::int64_t row = 0; row < kRows; ++row) {
      std::vector<double> want;
      for (std::int64_t c = 0; c < columns; ++c) want.push_back(element(x, row * columns + c));
      normalise(want, norm);
      expect_row(out, row, want, 1e-3);
    }
  }
}

// The definition, of rows [first, first + count) of one text.
std::vector<double> pooled(const Tensor& hidden, std::int64_t first, std::int64_t count, Pooling pooling) {
  const std::int64_t columns = hidden.shape()[1];
  std::vector<double> out(static_cast<std::size_t>(columns), 0);
  for (std::int64_t r = 0; r < count; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      double& to = out[static_cast<std::size_t>(c)];
      const double x = element(hidden, (first + r) * columns + c);
      if (r == 0 || pooling == Pooling::last) to = x;
      else if (pooling == Pooling::mean) to += x;
      else if (pooling == Pooling::max) to = std::max(to, x);
    }
  if (pooling == Pooling::mean && count > 0)
    for (double& x : out) x /= static_cast<double>(count);
  return out;
}

void divide_by_length(std::vector<double>& row) {
  double squares = 0;
  for (const double x : row) squares += x * x;
  for (double& x : row) x = squares > 0 ? x / std::sqrt(squares) : 0;
}

TEST_P(RowOperationsOf, PoolTexts) {
  if (rows().pool == nullptr) GTEST_SKIP() << "the host pools (tests/runtime/session_test.cpp)";
  std::mt19937 random(7);
  const std::vector<std::int32_t> starts{0, 7, 7, 8, 29}, lengths{7, 0, 1, 20, 3};
  for (const std::int64_t columns : {1, 24, 63, 64, 384, 700})
    for (const Pooling pooling : {Pooling::cls, Pooling::last, Pooling::mean, Pooling::max})
      for (const bool normalize : {false, true}) {
        const Tensor hidden = random_tensor(dtype(), {32, columns}, random);
        const Tensor out(DType::f32, {std::ssize(starts), columns});
        Operands there(device_);
        rows().pool({.rows = {32, columns, dtype(), there.queue()},
                     .hidden = there.in(hidden),
                     .starts = there.in(starts),
                     .lengths = there.in(lengths),
                     .pooling = pooling,
                     .normalize = normalize,
                     .out = static_cast<float*>(there.result(out))});
        there.finish();
        for (std::size_t text = 0; text < starts.size(); ++text) {
          std::vector<double> want = pooled(hidden, starts[text], lengths[text], pooling);
          if (normalize) divide_by_length(want);
          expect_row(out, static_cast<std::int64_t>(text), want, 2e-6);
        }
      }
}

}  // namespace
}  // namespace stof
