// SPDX-License-Identifier: Apache-2.0
// A matmul with everything that may follow it, on the host: operands, and the definition in double.
#pragma once
#include <cmath>
#include <limits>

#include "src/backend/contract.h"
#include "tests/backend/random_tensor.h"

namespace stof {

struct GemmCase {
  std::int64_t rows, columns, inner;
  DType dtype = DType::f16;
  Activation activation = Activation::none;
  bool bias = true, residual = false, x_norm = false, residual_norm = false, moments = false, gate = false;
  TurnedHeads turned = {};
  bool few_rows = false, own_norm = false, own_shift = false;  // a norm that the matmul computes
  float mean = 0.3f;                                           // of rows that have a norm; their deviation is about 1
};

// Of each row, by pieces: what LinearCall::moments describes.
inline Tensor moments_of(const Tensor& values, std::int64_t rows, std::int64_t columns) {
  const std::int64_t pieces = moment_pieces(columns);
  Tensor moments(DType::f32, {rows, pieces, 2});
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      const std::int64_t begin = piece * kMomentColumns, end = std::min(begin + kMomentColumns, columns);
      double sum = 0, squares = 0;
      for (std::int64_t i = begin; i < end; ++i) sum += element(values, row * columns + i);
      const double mean = sum / static_cast<double>(end - begin);
      for (std::int64_t i = begin; i < end; ++i) squares += std::pow(element(values, row * columns + i) - mean, 2);
      moments.as<float>()[(row * pieces + piece) * 2] = static_cast<float>(mean);
      moments.as<float>()[(row * pieces + piece) * 2 + 1] = static_cast<float>(squares);
    }
  return moments;
}

class GemmProblem {
 public:
  // Rows past those of the case, up to the capacity, hold NaN in x and in the residual.
  GemmProblem(const GemmCase& the, unsigned seed) : the_(the), random_(seed) {
    const float scale = 1.f / std::sqrt(static_cast<float>(the.inner));
    const std::int64_t halves = the.gate ? 2 : 1;
    weight = random_tensor(DType::f32, {halves * the.columns, the.inner}, random_, 0.f, 2 * scale);
    bias = random_tensor(DType::f32, {halves * the.columns}, random_);
    x_scale = random_tensor(DType::f32, {the.inner}, random_, 1.f, 0.5f);
    x_shift = random_tensor(DType::f32, {the.inner}, random_, 0.f, 0.5f);
    scale_ = random_tensor(DType::f32, {the.columns}, random_, 1.f, 0.5f);
    shift_ = random_tensor(DType::f32, {the.columns}, random_, 0.f, 0.5f);
    x = rows_of(the.inner, the.x_norm || the.own_norm ? the.mean : 0.f);
    residual = rows_of(the.columns, the.residual_norm ? the.mean : 0.f);
    x_moments = moments_of(x, the.rows, the.inner);
    residual_moments = moments_of(residual, the.rows, the.columns);
    if (the.turned.heads > 0) draw_turns();
    compute();
  }

  LinearSpec spec(const Device& device) const {
    LinearSpec spec{.weight = {weight.view()},
                    .bias = {},
                    .activation = the_.activation,
                    .gate = the_.gate,
                    .residual = the_.residual,
                    .turned = the_.turned.heads > 0 ? std::optional(the_.turned) : std::nullopt,
                    .few_rows = the_.few_rows,
                    .moments = the_.moments,
                    .dtype = the_.dtype,
                    .device = &device};
    if (the_.bias) spec.bias = {bias.view()};
    if (the_.own_norm) spec.own_norm = OwnNorm{x_scale.view(), std::nullopt, kEpsilon};
    if (the_.own_shift) spec.own_norm->shift = x_shift.view();
    if (the_.x_norm) spec.x_norm = DeferredNorm{x_scale.view(), x_shift.view(), kEpsilon};
    if (the_.residual_norm) spec.residual_norm = DeferredNorm{scale_.view(), shift_.view(), kEpsilon};
    return spec;
  }

  static constexpr std::int32_t kPositions = 50;
  Tensor weight, bias, x_scale, x_shift, x, residual, x_moments, residual_moments;
  Tensor angles;                        // of turned heads, as a matmul reads them
  std::vector<std::int32_t> positions;  // of rows, in no order
  std::vector<double> want;             // [rows, columns]

 private:
  static constexpr float kEpsilon = 1e-5f;

  Tensor rows_of(std::int64_t columns, float mean) {
    Tensor tensor = random_tensor(the_.dtype, {row_capacity(the_.rows), columns}, random_, mean, 1.7f);
    for (std::int64_t i = the_.rows * columns; i < tensor.size(); ++i)
      set_element(tensor, i, std::numeric_limits<float>::quiet_NaN());
    return tensor;
  }

  static void normalise(double* row, std::int64_t columns, const Tensor& scale, const Tensor& shift) {
    double mean = 0, variance = 0;
    for (std::int64_t i = 0; i < columns; ++i) mean += row[i] / static_cast<double>(columns);
    for (std::int64_t i = 0; i < columns; ++i) variance += (row[i] - mean) * (row[i] - mean);
    const double factor = 1 / std::sqrt(variance / static_cast<double>(columns) + kEpsilon);
    for (std::int64_t i = 0; i < columns; ++i)
      row[i] = (row[i] - mean) * factor * scale.as<float>()[i] + shift.as<float>()[i];
  }

  void divide_by_root_mean_square(std::vector<double>& row) const {
    double squares = 0;
    for (const double value : row) squares += value * value;
    const double factor = 1 / std::sqrt(squares / static_cast<double>(the_.inner) + kEpsilon);
    for (std::size_t i = 0; i < row.size(); ++i) row[i] *= factor * x_scale.as<float>()[i];
  }

  void draw_turns() {
    angles = random_tensor(DType::f32, {kPositions, the_.turned.head_dim / 2, 2}, random_);
    for (std::int64_t row = 0; row < the_.rows; ++row)
      positions.push_back(static_cast<std::int32_t>(random_() % kPositions));
  }

  // Heads of one row, turned and in the order in which they are stored.
  void turn(double* row, std::int32_t position) const {
    const std::int64_t head_dim = the_.turned.head_dim, half = head_dim / 2;
    const float* const angle = angles.as<float>() + position * head_dim;
    for (std::int64_t head = 0; head < the_.turned.heads; ++head, row += head_dim) {
      const std::vector<double> before(row, row + head_dim);
      for (std::int64_t i = 0; i < half; ++i) {
        const double a = before[static_cast<std::size_t>(i)], b = before[static_cast<std::size_t>(half + i)];
        row[paired_column(i, head_dim)] = a * angle[2 * i] - b * angle[2 * i + 1];
        row[paired_column(half + i, head_dim)] = b * angle[2 * i] + a * angle[2 * i + 1];
      }
    }
  }

  void compute() {
    want.resize(static_cast<std::size_t>(the_.rows * the_.columns));
#pragma omp parallel for
    for (std::int64_t r = 0; r < the_.rows; ++r) {
      std::vector<double> in(static_cast<std::size_t>(the_.inner)), added(static_cast<std::size_t>(the_.columns));
      for (std::int64_t i = 0; i < the_.inner; ++i) in[static_cast<std::size_t>(i)] = element(x, r * the_.inner + i);
      if (the_.x_norm || the_.own_shift) normalise(in.data(), the_.inner, x_scale, x_shift);
      else if (the_.own_norm) divide_by_root_mean_square(in);
      for (std::int64_t c = 0; c < the_.columns; ++c)
        added[static_cast<std::size_t>(c)] = the_.residual ? element(residual, r * the_.columns + c) : 0.0;
      if (the_.residual_norm) normalise(added.data(), the_.columns, scale_, shift_);
      for (std::int64_t c = 0; c < the_.columns; ++c) {
        const auto product = [&](std::int64_t column) {
          double sum = the_.bias ? bias.as<float>()[column] : 0.0;
          const float* const w = weight.as<float>() + column * the_.inner;
          for (std::int64_t i = 0; i < the_.inner; ++i) sum += in[static_cast<std::size_t>(i)] * w[i];
          return sum;
        };
        want[static_cast<std::size_t>(r * the_.columns + c)] =
            reference_activation(the_.activation, product(c)) * (the_.gate ? product(the_.columns + c) : 1.0) +
            added[static_cast<std::size_t>(c)];
      }
      if (the_.turned.heads > 0) turn(want.data() + r * the_.columns, positions[static_cast<std::size_t>(r)]);
    }
  }

  GemmCase the_;
  std::mt19937 random_;
  Tensor scale_, shift_;
};

}  // namespace stof
