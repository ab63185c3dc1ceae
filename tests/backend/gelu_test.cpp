// SPDX-License-Identifier: Apache-2.0
// Gelu as the epilogues on a GPU compute it, by its approximate tanh: of every number of 16 bits, and of the inputs
// that models have, against the definitions in double and beside what rounding the result costs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <tuple>

#include "tests/backend/operands.h"
#include "tests/backend/random_tensor.h"
#include "tests/worst.h"

namespace stof {
namespace {

constexpr std::int64_t kRows = 1024, kColumns = 64;  // 2^16 values
constexpr const char* kSettings[] = {"wgmma 64x64 k64 s6 w1 t1 split1", "mma 64x64 k32 s4 w2 t1 split1"};

struct Errors {
  double of_all = 0;  // relative, by Frobenius's norm
  double rounding_of_all = 0;
  double beyond_rounding = 0;  // the greatest
};

class Gelu : public testing::TestWithParam<std::tuple<DType, Activation>> {
 protected:
  void SetUp() override {
    STOF_SKIP_WITHOUT_DEVICE(std::string("cuda"));
    device_ = open_device("cuda");
    if (device_.caps.arch != 90) GTEST_SKIP() << "the GEMM kernel is for compute capability 9.0";
  }

  // By a matmul with ones on the diagonal.
  Tensor activated(const Tensor& x, const char* setting_text) const {
    Tensor weight(DType::f32, {kColumns, kColumns}), out(dtype_, x.shape());
    for (std::int64_t i = 0; i < weight.size(); ++i) weight.as<float>()[i] = i % kColumns == i / kColumns ? 1.f : 0.f;
    const PackedLinear packed = device_.backend->matmul.pack(
        {.weight = {weight.view()}, .bias = {}, .activation = activation_, .dtype = dtype_, .device = &device_});
    const MatmulSetting setting = matmul_setting_of(setting_text);
    Operands there(device_);
    device_.backend->matmul.run(
        packed,
        {.x = there.in(x), .out = there.result(out), .rows = kRows, .queue = there.queue(), .setting = &setting});
    there.finish();
    return out;
  }

  Errors errors(const Tensor& x, const char* setting) const {
    const Tensor got = activated(x, setting), rounded(dtype_, x.shape());
    Errors errors;
    double norm = 0, square = 0, of_rounding = 0;
    for (std::int64_t i = 0; i < x.size(); ++i) {
      const double want = reference_activation(activation_, element(x, i));
      set_element(rounded, i, static_cast<float>(want));
      const double off = element(got, i) - want, rounding_off = element(rounded, i) - want;
      norm += want * want, square += off * off, of_rounding += rounding_off * rounding_off;
      keep_worst(errors.beyond_rounding, std::abs(off) - std::abs(rounding_off));
    }
    errors.of_all = std::sqrt(square / norm), errors.rounding_of_all = std::sqrt(of_rounding / norm);
    return errors;
  }

  Device device_;
  DType dtype_ = std::get<0>(GetParam());
  Activation activation_ = std::get<1>(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Each, Gelu,
                         testing::Combine(testing::Values(DType::f16, DType::bf16),
                                          testing::Values(Activation::gelu, Activation::gelu_tanh)),
                         [](const auto& test) {
                           return std::string(name_of(std::get<1>(test.param))) + "_" +
                                  std::string(name_of(std::get<0>(test.param)));
                         });

// Of every finite one of f16; bf16's greater ones are no activations, and gelu is not made for all of them.
TEST_P(Gelu, OfEveryNumberIsWithinWhatTanhIsOff) {
  const Tensor x(dtype_, {kRows, kColumns});
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    std::memcpy(x.as<std::byte>() + 2 * i, &bits, 2);
    if (!(std::abs(element(x, i)) <= 65504)) set_element(x, i, 0.f);
  }
  for (const char* setting : kSettings) {
    const Errors off = errors(x, setting);
    std::printf("%s: %.1e beyond rounding\n", setting, off.beyond_rounding);
    EXPECT_LE(off.beyond_rounding, activation_ == Activation::gelu ? 1e-4 : 3e-5) << setting;
  }
}

TEST_P(Gelu, OfAModelsInputsIsAsGoodAsRounded) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const Tensor x(dtype_, {kRows, kColumns});
  for (std::int64_t i = 0; i < x.size(); ++i) set_element(x, i, normal(random));
  for (const char* setting : kSettings) {
    const Errors off = errors(x, setting);
    std::printf("%s: %.2e, by rounding alone %.2e\n", setting, off.of_all, off.rounding_of_all);
    EXPECT_LE(off.of_all, 1.05 * off.rounding_of_all) << setting;
  }
}

}  // namespace
}  // namespace stof
