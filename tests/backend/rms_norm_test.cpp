// SPDX-License-Identifier: Apache-2.0
// Root mean square norms, which have no shift, against their definition in double, on every device that is there: rows
// of each number of a GPU's vectors, at addresses that take them and at others.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "stof/session.h"
#include "tests/backend/random_tensor.h"
#include "tests/backend/row_operations_of.h"

namespace stof {
namespace {

constexpr float kEpsilon = 1e-5f;
constexpr double kBound = 2e-5;  // as of layer norms (rows_test.cpp)

class RmsNormOf : public RowOperationsOf {
 protected:
  RowShape these(std::int64_t rows, std::int64_t columns, const Operands& there) const {
    return {rows, columns, dtype(), there.queue()};
  }
};
INSTANTIATE_TEST_SUITE_P(Dtypes, RmsNormOf, kPlaces, name_of_place);

// Of one row, in place.
void normalise(std::vector<double>& row, const Tensor& scale, double epsilon) {
  double squares = 0;
  for (const double x : row) squares += x * x / static_cast<double>(row.size());
  for (std::size_t c = 0; c < row.size(); ++c) row[c] *= scale.as<float>()[c] / std::sqrt(squares + epsilon);
}

// Every row of x + residual; residual may be null.
void expect_norms(const Tensor& out, const Tensor& x, const Tensor* residual, const Tensor& scale,
                  double epsilon = double{kEpsilon}) {
  const std::int64_t rows = x.shape()[0], columns = x.shape()[1];
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<double> want;
    for (std::int64_t i = row * columns; i < (row + 1) * columns; ++i)
      want.push_back(element(x, i) + (residual != nullptr ? element(*residual, i) : 0));
    normalise(want, scale, epsilon);
    expect_row(out, row, want, kBound);
  }
}

Tensor copy_of(const Tensor& tensor) {
  Tensor copy(tensor.dtype(), tensor.shape());
  std::memcpy(copy.data(), tensor.data(), tensor.bytes());
  return copy;
}

void expect_same_bits(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.bytes()), 0) << a.size() << " elements";
}

struct Size {
  std::int64_t rows, columns;
};
const std::vector<Size> kSizes{{5, 1},    {5, 7},    {5, 64},   {5, 384},  {1, 896},   {70, 896},  {5, 1024}, {5, 1032},
                               {5, 2048}, {5, 3584}, {1, 4096}, {5, 4096}, {70, 4096}, {1, 8192},  {5, 8192}, {5, 8200},
                               {1, 5000}, {70, 64},  {70, 7},   {3, 5120}, {3, 16384}, {2, 16392}, {2, 20000}};

// And over x, over the residual, from the last row on: the same bits.
TEST_P(RmsNormOf, RowsAndSums) {
  std::mt19937 random(21);
  for (const auto& [rows, columns] : kSizes)
    for (const bool with_residual : {false, true}) {
      const Tensor x = random_tensor(dtype(), {rows, columns}, random),
                   added = random_tensor(dtype(), {rows, columns}, random),
                   scale = random_tensor(DType::f32, {columns}, random);
      const Tensor out(dtype(), {rows, columns}), turned(dtype(), {rows, columns}), over_x = copy_of(x),
                                                                                    over_residual = copy_of(added);
      const Tensor* const residual = with_residual ? &added : nullptr;
      Operands there(device_);
      const NormWeights weights{.scale = there.floats(scale), .epsilon = kEpsilon};
      RowShape shape = these(rows, columns, there);
      void *const of_x = there.result(over_x), *const of_residual = there.result(over_residual);
      this->rows().layer_norm(shape, there.in(x), there.in(residual), weights, there.result(out));
      this->rows().layer_norm(shape, of_x, there.in(residual), weights, of_x);
      if (with_residual) this->rows().layer_norm(shape, there.in(x), of_residual, weights, of_residual);
      shape.queue.backwards = true;
      this->rows().layer_norm(shape, there.in(x), there.in(residual), weights, there.result(turned));
      there.finish();
      expect_norms(out, x, residual, scale);
      expect_same_bits(out, over_x);
      expect_same_bits(out, turned);
      if (with_residual) expect_same_bits(out, over_residual);
    }
}

// On a GPU in 16 bits other kernels norm many rows than few: the same bits, over x and from the last row on, too.
TEST_P(RmsNormOf, ManyRowsAreNormalisedAsFewAre) {
  std::mt19937 random(27);
  constexpr std::int64_t kMany = 4099, kFew = 3;
  for (const std::int64_t columns : {8, 256, 264, 640, 768, 1024, 1032, 1152, 1536, 1544, 2048}) {
    const Tensor x = random_tensor(dtype(), {kMany, columns}, random),
                 scale = random_tensor(DType::f32, {columns}, random);
    const Tensor out(dtype(), {kMany, columns}), turned(dtype(), {kMany, columns}), few(dtype(), {kFew, columns}),
        over_x = copy_of(x);
    Operands there(device_);
    const NormWeights weights{.scale = there.floats(scale), .epsilon = kEpsilon};
    RowShape shape = these(kMany, columns, there);
    void* const of_x = there.result(over_x);
    this->rows().layer_norm(shape, there.in(x), nullptr, weights, there.result(out));
    this->rows().layer_norm(shape, of_x, nullptr, weights, of_x);
    this->rows().layer_norm(these(kFew, columns, there), there.in(x), nullptr, weights, there.result(few));
    shape.queue.backwards = true;
    this->rows().layer_norm(shape, there.in(x), nullptr, weights, there.result(turned));
    there.finish();
    expect_norms(out, x, nullptr, scale);
    expect_same_bits(out, over_x);
    expect_same_bits(out, turned);
    EXPECT_EQ(std::memcmp(out.data(), few.data(), few.bytes()), 0) << columns << " columns";
  }
}

// Over x, over what is added, from the last row on: the same bits.
TEST_P(RmsNormOf, IsAddedTo) {
  std::mt19937 random(22);
  for (const auto& [rows, columns] : kSizes) {
    const Tensor x = random_tensor(dtype(), {rows, columns}, random),
                 y = random_tensor(dtype(), {rows, columns}, random),
                 scale = random_tensor(DType::f32, {columns}, random);
    const Tensor out(dtype(), {rows, columns}), turned(dtype(), {rows, columns}), over_x = copy_of(x),
                                                                                  over_y = copy_of(y);
    Operands there(device_);
    const NormWeights weights{.scale = there.floats(scale), .epsilon = kEpsilon};
    RowShape shape = these(rows, columns, there);
    void *const of_x = there.result(over_x), *const of_y = there.result(over_y);
    this->rows().norm_add(shape, there.in(x), weights, there.in(y), there.result(out));
    this->rows().norm_add(shape, of_x, weights, there.in(y), of_x);
    this->rows().norm_add(shape, there.in(x), weights, of_y, of_y);
    shape.queue.backwards = true;
    this->rows().norm_add(shape, there.in(x), weights, there.in(y), there.result(turned));
    there.finish();
    for (std::int64_t row = 0; row < rows; ++row) {
      std::vector<double> want;
      for (std::int64_t i = row * columns; i < (row + 1) * columns; ++i) want.push_back(element(x, i));
      normalise(want, scale, double{kEpsilon});
      for (std::int64_t c = 0; c < columns; ++c) want[static_cast<std::size_t>(c)] += element(y, row * columns + c);
      expect_row(out, row, want, kBound);
    }
    for (const Tensor* const same : {&over_x, &over_y, &turned}) expect_same_bits(out, *same);
  }
}

TEST_P(RmsNormOf, SumsOfWhatIsLookedUp) {
  std::mt19937 random(22);
  const std::vector<std::vector<std::int32_t>> indices{{0, 8, 3, 3, 5}, {1, 1, 0, 2, 8}, {8, 7, 6, 5, 4}};
  for (const std::int64_t columns : {7, 64, 896, 1032, 2048, 4096})
    for (const std::size_t count : {1u, 2u, 3u}) {
      std::vector<Tensor> tables;
      std::vector<LookupTable> lookups;
      Operands there(device_);
      for (std::size_t t = 0; t < count; ++t) {
        tables.push_back(random_tensor(table_dtypes()[t], {9, columns}, random));
        lookups.push_back({.table = view_of(there.in(tables[t]), tables[t].dtype(), tables[t].shape()),
                           .indices = there.in(indices[t])});
      }
      const Tensor scale = random_tensor(DType::f32, {columns}, random), out(dtype(), {kRows, columns});
      const NormWeights weights{.scale = there.floats(scale), .epsilon = kEpsilon};
      rows().lookup(shape(columns, there), lookups, &weights, there.result(out));
      there.finish();
      for (std::int64_t row = 0; row < kRows; ++row) {
        std::vector<double> want(static_cast<std::size_t>(columns), 0);
        for (std::size_t t = 0; t < count; ++t)
          for (std::int64_t c = 0; c < columns; ++c)
            want[static_cast<std::size_t>(c)] +=
                element(tables[t], indices[t][static_cast<std::size_t>(row)] * columns + c);
        normalise(want, scale, double{kEpsilon});
        expect_row(out, row, want, kBound);
      }
    }
}

// Each operand by itself an element behind an address that vectors take; nothing is written beside the rows.
TEST_P(RmsNormOf, AnyAddress) {
  std::mt19937 random(23);
  enum Operand { kX, kResidual, kScale, kOut, kNone };
  for (const std::int64_t columns : {64, 1024, 4096})
    for (const Operand moved : {kX, kResidual, kScale, kOut, kNone}) {
      const std::int64_t size = kRows * columns;
      const auto behind = [moved](Operand operand) { return std::int64_t{operand == moved}; };
      const Tensor x = random_tensor(dtype(), {size + 1}, random),
                   residual = random_tensor(dtype(), {size + 1}, random),
                   scale = random_tensor(DType::f32, {columns + 1}, random),
                   out = random_tensor(dtype(), {size + 2}, random), before = copy_of(out);
      Operands there(device_);
      const auto at = [&](void* base, Operand operand) {
        return static_cast<std::byte*>(base) + static_cast<std::size_t>(behind(operand)) * size_of(dtype());
      };
      rows().layer_norm(shape(columns, there), at(there.in(x), kX), at(there.in(residual), kResidual),
                        {.scale = there.floats(scale) + behind(kScale), .epsilon = kEpsilon},
                        at(there.result(out), kOut));
      there.finish();
      for (std::int64_t row = 0; row < kRows; ++row) {
        double squares = 0;
        const auto sum = [&](std::int64_t c) {
          const std::int64_t i = row * columns + c;
          return element(x, behind(kX) + i) + element(residual, behind(kResidual) + i);
        };
        for (std::int64_t c = 0; c < columns; ++c) squares += sum(c) * sum(c);
        const double size_of_row = std::sqrt(squares / static_cast<double>(columns) + double{kEpsilon});
        for (std::int64_t c = 0; c < columns; ++c) {
          const double want = sum(c) / size_of_row * scale.as<float>()[behind(kScale) + c];
          ASSERT_NEAR(element(out, behind(kOut) + row * columns + c), want,
                      kBound + 2 * rounding(dtype()) * std::abs(want))
              << columns << " columns, operand " << moved << " moved";
        }
      }
      for (const std::int64_t beside : {behind(kOut) == 1 ? 0 : size, size + 1})
        EXPECT_EQ(element(out, beside), element(before, beside));
    }
}

TEST_P(RmsNormOf, SmallRowsAreAsEpsilonSays) {
  std::mt19937 random(24);
  for (const std::int64_t columns : {7, 896, 8192})
    for (const float epsilon : {1e-5f, 1e-6f, 1e-2f}) {
      const Tensor x = random_tensor(dtype(), {kRows, columns}, random, 0.f, 3e-3f),
                   scale = random_tensor(DType::f32, {columns}, random), out(dtype(), {kRows, columns});
      for (std::int64_t c = 0; c < columns; ++c) set_element(x, 3 * columns + c, 0.f);
      Operands there(device_);
      rows().layer_norm(shape(columns, there), there.in(x), nullptr, {.scale = there.floats(scale), .epsilon = epsilon},
                        there.result(out));
      there.finish();
      expect_norms(out, x, nullptr, scale, double{epsilon});
      for (std::int64_t c = 0; c < columns; ++c) ASSERT_EQ(element(out, 3 * columns + c), 0);
    }
}

TEST_P(RmsNormOf, NaNStaysInItsRow) {
  std::mt19937 random(25);
  for (const std::int64_t columns : {1, 33, 896, 4096}) {
    const Tensor x = random_tensor(dtype(), {kRows, columns}, random),
                 scale = random_tensor(DType::f32, {columns}, random), out(dtype(), {kRows, columns});
    set_element(x, 2 * columns + columns / 2, std::numeric_limits<float>::quiet_NaN());
    Operands there(device_);
    rows().layer_norm(shape(columns, there), there.in(x), nullptr, {.scale = there.floats(scale), .epsilon = kEpsilon},
                      there.result(out));
    there.finish();
    for (std::int64_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(std::isnan(element(out, i)), i / columns == 2) << "columns " << columns;
  }
}

TEST_P(RmsNormOf, NoRowsAreNothing) {
  std::mt19937 random(26);
  const Tensor x = random_tensor(dtype(), {1, 896}, random), scale = random_tensor(DType::f32, {896}, random),
               out = copy_of(x);
  Operands there(device_);
  rows().layer_norm(these(0, 896, there), there.in(x), nullptr, {.scale = there.floats(scale)}, there.result(out));
  there.finish();
  expect_same_bits(out, x);
}

}  // namespace
}  // namespace stof
