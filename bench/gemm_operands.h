// SPDX-License-Identifier: Apache-2.0
// Operands of one linear on a GPU for timing: values like those of an encoder, as many copies as shall not fit the L2.
#pragma once
#include <string_view>
#include <vector>

#include "src/backend/contract.h"
#include "src/backend/cuda/driver/device_memory.h"

namespace stof::cuda {

// What follows a product: nothing; bias, activation and residual of an encoder; the layer norm after them too, by a row
// kernel; or norms deferred to where their results are used, by the GEMM kernel alone.
enum class Pack { plain, epilogue, encoder, deferred };
constexpr Pack kPacks[] = {Pack::plain, Pack::epilogue, Pack::encoder, Pack::deferred};
std::string_view name_of(Pack pack);
Pack pack_called(std::string_view name);

struct LinearShape {
  std::string_view name;
  std::int64_t columns, inner;
  Activation activation;
  bool residual;  // and a layer norm after it
};

// Of a layer of BERT-base.
constexpr LinearShape kEncoderLinears[] = {{"qkv", 2304, 768, Activation::none, false},
                                           {"attention_out", 768, 768, Activation::none, true},
                                           {"up", 3072, 768, Activation::gelu, false},
                                           {"down", 768, 3072, Activation::none, true}};
LinearShape linear_called(std::string_view name);

// What settings depend on: shapes, no values.
LinearSpec described(const Device& device, const LinearShape& shape, Pack pack);

class GemmOperands {
 public:
  GemmOperands(const Device& device, const LinearShape& shape, std::int64_t rows, std::int64_t copies);

  // With the weights of every copy packed.
  std::vector<PackedLinear> pack(Pack pack) const;
  LinearSpec spec(Pack pack) const;
  LinearCall call(std::int64_t copy) const;
  // The layer norm that a row kernel does, in place; and before: that of x or of the residual, out of place.
  void norm_output(const LinearCall& call) const;
  LinearCall normalised(const LinearCall& call) const;
  std::vector<float> output(std::int64_t copy) const;
  void poison() const;  // what the first copy's calls write, with NaN
  // Of the moments that a call of the first copy has written, the furthest from those of its output: the difference
  // over 1 + what it should be, or NaN.
  double moments_error() const;
  std::int64_t bytes() const;  // of one copy

 private:
  std::vector<std::uint16_t> stored_output(std::int64_t copy) const;
  RowShape rows_of(std::int64_t columns, const LinearCall& call) const;

  const Device& device_;
  LinearShape shape_;
  std::int64_t rows_;
  Tensor weight_, bias_, x_scale_, x_shift_, scale_, shift_;
  std::vector<DeviceMemory> x_, residual_, out_, moments_;
  DeviceMemory x_moments_, residual_moments_, normal_x_, normal_residual_, workspace_;
  DeviceMemory device_x_scale_, device_x_shift_, device_scale_, device_shift_;
};

}  // namespace stof::cuda
