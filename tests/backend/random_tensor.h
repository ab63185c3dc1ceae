// SPDX-License-Identifier: Apache-2.0
// Tensors of random values in any float dtype, and one element of any of them as double.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "src/backend/operations.h"
#include "src/tensor/convert.h"
#include "src/tensor/half.h"
#include "stof/tensor.h"

namespace stof {

inline Tensor random_tensor(DType dtype, Shape shape, std::mt19937& random, float center = 0.f, float spread = 1.f) {
  Tensor values(DType::f32, std::move(shape));
  std::uniform_real_distribution<float> uniform(center - spread, center + spread);
  for (std::int64_t i = 0; i < values.size(); ++i) values.as<float>()[i] = uniform(random);
  return converted(values.view(), dtype);
}

inline double element(const Tensor& tensor, std::int64_t i) {
  switch (tensor.dtype()) {
    case DType::f16: return float_of_f16(tensor.as<std::uint16_t>()[i]);
    case DType::bf16: return float_of_bf16(tensor.as<std::uint16_t>()[i]);
    default: return tensor.as<float>()[i];
  }
}

inline void set_element(const Tensor& tensor, std::int64_t i, float value) {
  switch (tensor.dtype()) {
    case DType::f16: tensor.as<std::uint16_t>()[i] = f16_of_float(value); return;
    case DType::bf16: tensor.as<std::uint16_t>()[i] = bf16_of_float(value); return;
    default: tensor.as<float>()[i] = value;
  }
}

// Half a unit in the last place, relative.
constexpr double rounding(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-9 : dtype == DType::f16 ? 0x1p-12 : 0x1p-24;
}

inline constexpr std::array kActivations{Activation::none, Activation::gelu, Activation::gelu_tanh,
                                         Activation::silu, Activation::relu, Activation::tanh};

inline double reference_activation(Activation activation, double x) {
  switch (activation) {
    case Activation::none: return x;
    case Activation::gelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case Activation::silu: return x / (1 + std::exp(-x));
    case Activation::relu: return std::isnan(x) ? x : std::max(x, 0.0);
    case Activation::tanh: return std::tanh(x);
  }
  return x;
}

}  // namespace stof
