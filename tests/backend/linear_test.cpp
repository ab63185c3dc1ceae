// SPDX-License-Identifier: Apache-2.0
// The CPU's own matmul on every instruction set that it is built for and this processor has: deep and ragged problems
// against the definition in double, and what its activations are off by.
#include "kernels/cpu/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "src/backend/contract.h"
#include "src/backend/cpu/matmul.h"
#include "src/base/threads.h"
#include "src/tensor/copy.h"
#include "tests/backend/random_tensor.h"
#include "tests/only_target.h"
#include "tests/room_for_memory.h"

namespace stof {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct InstructionSet {
  std::string name;
  std::int64_t target;
  int panel;  // columns
};

class LinearOn : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    if ((hwy::SupportedTargets() & GetParam().target) == 0) GTEST_SKIP() << "not of this processor";
    only_.emplace(GetParam().target);
  }

 private:
  std::optional<OnlyTarget> only_;
};
INSTANTIATE_TEST_SUITE_P(Targets, LinearOn,
                         testing::Values(InstructionSet{"SSE4", HWY_SSE4, 8}, InstructionSet{"AVX2", HWY_AVX2, 16},
                                         InstructionSet{"AVX512", HWY_AVX3, 32}),
                         [](const auto& test) { return test.param.name; });

TEST_P(LinearOn, TakesPanelsOfItsVectors) { EXPECT_EQ(cpu::linear_tiling().panel, GetParam().panel); }

struct Sizes {
  std::int64_t in, out, rows;
};

// The kernel itself, also where oneDNN multiplies bf16.
using Words = cpu::Bf16Words;
PackedLinear panels_of(const LinearSpec& spec, Words words) { return cpu::pack_panels(spec, words); }
bool has_pairs() { return open_device("cpu").caps.bf16_dot; }

void expect_definition(const Sizes& sizes, DType dtype, Words words = Words::widened) {
  SCOPED_TRACE(testing::Message() << sizes.rows << " rows, in " << sizes.in << ", out " << sizes.out << ", "
                                  << name_of(dtype));
  std::mt19937 random(3);
  const Tensor weight = random_tensor(DType::f32, {sizes.out, sizes.in}, random),
               bias = random_tensor(DType::f32, {sizes.out}, random),
               x = random_tensor(dtype, {sizes.rows, sizes.in}, random),
               residual = random_tensor(dtype, {sizes.rows, sizes.out}, random), out(dtype, {sizes.rows, sizes.out});
  std::memset(out.data(), 0xFF, out.bytes());
  const PackedLinear packed =
      panels_of({.weight = {weight.view()}, .bias = {bias.view()}, .residual = true, .dtype = dtype}, words);
  cpu_backend.matmul.run(packed, {.x = x.data(), .out = out.data(), .residual = residual.data(), .rows = sizes.rows});
  const Tensor used = converted(converted(weight.view(), dtype).view(), DType::f32);
  for (std::int64_t row = 0; row < sizes.rows; ++row)
    for (std::int64_t column = 0; column < sizes.out; ++column) {
      double sum = element(bias, column), magnitude = 1;
      for (std::int64_t i = 0; i < sizes.in; ++i) {
        const double term = element(x, row * sizes.in + i) * used.as<float>()[column * sizes.in + i];
        sum += term;
        magnitude += std::abs(term);
      }
      const double want = sum + element(residual, row * sizes.out + column);
      ASSERT_NEAR(element(out, row * sizes.out + column), want,
                  1e-6 * magnitude + 2 * rounding(dtype) * (1 + std::abs(want)))
          << "row " << row << " column " << column;
    }
}

TEST_P(LinearOn, EqualsItsDefinition) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (std::int64_t rows = 1; rows <= 30; ++rows) expect_definition({.in = 17, .out = 37, .rows = rows}, dtype);
    for (const std::int64_t rows : {127, 128, 129, 300}) expect_definition({.in = 9, .out = 33, .rows = rows}, dtype);
    // Around the slices of depth, and more panels than a task takes.
    for (const std::int64_t in : {767, 768, 769, 1537, 2400})
      expect_definition({.in = in, .out = 35, .rows = 14}, dtype);
    expect_definition({.in = 770, .out = 1100, .rows = 3}, dtype);
  }
}

TEST(Linear, EqualsItsDefinitionInPairs) {
  if (!has_pairs()) GTEST_SKIP() << "no dot product of bf16";
  for (std::int64_t rows = 1; rows <= 30; ++rows)
    expect_definition({.in = 17, .out = 37, .rows = rows}, DType::bf16, Words::pairs);
  for (const std::int64_t in : {1535, 1536, 1537, 1539, 3100})
    expect_definition({.in = in, .out = 35, .rows = 14}, DType::bf16, Words::pairs);
  expect_definition({.in = 1540, .out = 1100, .rows = 3}, DType::bf16, Words::pairs);
}

// Two weights stacked, cut elsewhere than between the gate and what it lets through.
void expect_gate(const Sizes& sizes, DType dtype, bool with_bias, Words words = Words::widened) {
  SCOPED_TRACE(testing::Message() << sizes.rows << " rows, in " << sizes.in << ", out " << sizes.out << ", "
                                  << name_of(dtype));
  std::mt19937 random(4);
  const std::int64_t both = 2 * sizes.out, first = both / 3;
  const Tensor weight = random_tensor(DType::f32, {both, sizes.in}, random),
               bias = random_tensor(DType::f32, {both}, random),
               x = random_tensor(dtype, {sizes.rows, sizes.in}, random), out(dtype, {sizes.rows, sizes.out});
  std::memset(out.data(), 0xFF, out.bytes());
  LinearSpec spec{.weight = {view_of(weight.data(), DType::f32, {first, sizes.in}),
                             view_of(weight.as<float>() + first * sizes.in, DType::f32, {both - first, sizes.in})},
                  .bias = {},
                  .activation = Activation::relu,
                  .gate = true,
                  .dtype = dtype};
  if (with_bias) spec.bias = {bias.view()};
  const PackedLinear packed = panels_of(spec, words);
  cpu_backend.matmul.run(packed, {.x = x.data(), .out = out.data(), .rows = sizes.rows});
  const Tensor used = converted(converted(weight.view(), dtype).view(), DType::f32);
  const auto product = [&](std::int64_t row, std::int64_t column) {
    double sum = with_bias ? element(bias, column) : 0;
    for (std::int64_t i = 0; i < sizes.in; ++i)
      sum += element(x, row * sizes.in + i) * used.as<float>()[column * sizes.in + i];
    return sum;
  };
  for (std::int64_t row = 0; row < sizes.rows; ++row)
    for (std::int64_t column = 0; column < sizes.out; ++column) {
      const double gate = product(row, column), other = product(row, sizes.out + column);
      const double want = std::max(gate, 0.0) * other;
      ASSERT_NEAR(element(out, row * sizes.out + column), want,
                  2e-6 * static_cast<double>(sizes.in) * (1 + std::abs(gate) + std::abs(other)) +
                      2 * rounding(dtype) * (1 + std::abs(want)))
          << "row " << row << " column " << column;
    }
}

TEST_P(LinearOn, MultipliesAGateWithWhatItLetsThrough) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t out : {1, 3, 4, 5, 8, 15, 16, 17, 31, 32, 33, 70})
      for (const bool with_bias : {false, true}) expect_gate({.in = 19, .out = out, .rows = 14}, dtype, with_bias);
    expect_gate({.in = 770, .out = 1100, .rows = 3}, dtype, true);
  }
}

TEST(Linear, MultipliesAGateInPairs) {
  if (!has_pairs()) GTEST_SKIP() << "no dot product of bf16";
  expect_gate({.in = 19, .out = 37, .rows = 14}, DType::bf16, true, Words::pairs);
  expect_gate({.in = 1540, .out = 70, .rows = 3}, DType::bf16, false, Words::pairs);
}

// oneDNN may like the weight in one order with this epilogue and in another with that.
TEST(OneDnnLinear, TakesAMatrixThatWasPackedForAnotherEpilogue) {
  std::mt19937 random(9);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    if (dtype == DType::bf16 && !open_device("cpu").caps.bf16_dot) continue;
    const Tensor weight = random_tensor(DType::f32, {70, 40}, random), bias = random_tensor(DType::f32, {70}, random),
                 x = random_tensor(dtype, {12, 40}, random), residual = random_tensor(dtype, {12, 70}, random),
                 own(dtype, {12, 70}), shared(dtype, {12, 70});
    LinearSpec spec{.weight = {weight.view()}, .bias = {}, .dtype = dtype};
    const PackedMatrix matrix = cpu::pack_onednn(spec)->matrix();
    spec.bias = {bias.view()}, spec.activation = Activation::gelu, spec.residual = true;
    const LinearCall call{.x = x.data(), .out = own.data(), .residual = residual.data(), .rows = 12};
    cpu::pack_onednn(spec)->run(call);
    spec.matrix = matrix;
    LinearCall again = call;
    again.out = shared.data();
    cpu::pack_onednn(spec)->run(again);
    EXPECT_EQ(std::memcmp(shared.data(), own.data(), own.bytes()), 0) << name_of(dtype);
  }
}

// What a session asks for: no processor is left without bf16.
TEST_P(LinearOn, TakesBf16WithAGateWhereThereAreNoMatrixRegisters) {
  EXPECT_EQ(cpu_backend.matmul.takes({.weight = {}, .bias = {}, .gate = true, .dtype = DType::bf16}),
            !open_device("cpu").caps.bf16_matrix);
  const Tensor weight(DType::f32, {8, 8});
  EXPECT_NE(cpu_backend.matmul.pack({.weight = {weight.view()}, .bias = {}, .dtype = DType::bf16}), nullptr);
}

// Of every value, through a matmul by 1.
Tensor activated(Activation activation, const Tensor& values) {
  const Tensor one(DType::f32, {1, 1});
  Tensor out(DType::f32, values.shape());
  *one.as<float>() = 1;
  const PackedLinear packed = cpu_backend.matmul.pack({.weight = {one.view()}, .bias = {}, .activation = activation});
  cpu_backend.matmul.run(packed, {.x = values.data(), .out = out.data(), .rows = values.shape()[0]});
  return out;
}

// gelu by a polynomial: what its comment promises, plus the rounding of the result.
TEST_P(LinearOn, GeluIsAccurate) {
  constexpr std::int64_t kValues = 40001;
  const Tensor values(DType::f32, {kValues, 1});
  for (std::int64_t i = 0; i < kValues; ++i) values.as<float>()[i] = static_cast<float>(i - kValues / 2) * 5e-4f;
  const Tensor out = activated(Activation::gelu, values);
  for (std::int64_t i = 0; i < kValues; ++i) {
    const double x = values.as<float>()[i], want = 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    ASSERT_NEAR(out.as<float>()[i], want, 3.4e-7 + 0x1p-24 * std::abs(want)) << x;
    if (x < 0 && x > -4) {
      ASSERT_NEAR(out.as<float>()[i] / want, 1, 6e-5) << x;
    }
  }
}

TEST_P(LinearOn, TanhIsAccurate) {
  constexpr std::int64_t kValues = 40001;
  const Tensor values(DType::f32, {kValues, 1});
  for (std::int64_t i = 0; i < kValues; ++i) values.as<float>()[i] = static_cast<float>(i - kValues / 2) * 5e-4f;
  values.as<float>()[0] = -kInfinity, values.as<float>()[kValues - 1] = kInfinity;
  const Tensor out = activated(Activation::tanh, values);
  for (std::int64_t i = 0; i < kValues; ++i) {
    const double want = std::tanh(double{values.as<float>()[i]});
    ASSERT_NEAR(out.as<float>()[i], want, 5e-7 * std::abs(want)) << values.as<float>()[i];
  }
  values.as<float>()[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(activated(Activation::tanh, values).as<float>()[1]));
}

TEST_P(LinearOn, ActivationsOfWhatIsFarOut) {
  const std::vector<float> far{-kInfinity, -1e30f, -100.f, 0.f, 100.f, 1e30f, kInfinity};
  const Tensor values(DType::f32, {static_cast<std::int64_t>(far.size()), 1});
  std::copy(far.begin(), far.end(), values.as<float>());
  for (const Activation activation : {Activation::gelu, Activation::relu}) {
    const Tensor out = activated(activation, values);
    for (std::size_t i = 0; i < far.size(); ++i) {
      if (far[i] > 0) EXPECT_EQ(out.as<float>()[i], far[i]) << name_of(activation);
      else EXPECT_NEAR(out.as<float>()[i], 0, 1e-11) << name_of(activation) << " " << far[i];
    }
  }
}

// More than one slice of depth, several panels and blocks of rows.
TEST(Linear, BitsDoNotDependOnThreadsOrOtherRows) {
  constexpr std::int64_t kRows = 290, kIn = 1700, kOut = 300;
  struct Stored {
    DType dtype;
    Words words;
  };
  for (const auto [dtype, words] :
       {Stored{DType::f32, Words::widened}, Stored{DType::bf16, Words::widened}, Stored{DType::bf16, Words::pairs}}) {
    if (words == Words::pairs && !has_pairs()) continue;
    std::mt19937 random(9);
    const Tensor weight = random_tensor(DType::f32, {kOut, kIn}, random),
                 x = random_tensor(dtype, {kRows, kIn}, random);
    const Tensor all(dtype, {kRows, kOut}), part(dtype, {kRows, kOut});
    const PackedLinear packed = panels_of({.weight = {weight.view()}, .bias = {}, .dtype = dtype}, words);
    cpu_backend.matmul.run(packed, {.x = x.data(), .out = all.data(), .rows = kRows});
    const auto row_of = [](const Tensor& tensor, std::int64_t row) {
      return tensor.as<std::byte>() + static_cast<std::size_t>(row * tensor.shape()[1]) * size_of(tensor.dtype());
    };
    for (const int threads : {1, 3, 8})
      for (const std::int64_t rows : {1, 7, 131, 290}) {
        const ThreadCount count(threads);
        const std::int64_t first = kRows - rows;
        cpu_backend.matmul.run(packed, {.x = row_of(x, first), .out = part.data(), .rows = rows});
        EXPECT_EQ(std::memcmp(part.data(), row_of(all, first), part.bytes() / kRows * static_cast<std::size_t>(rows)),
                  0)
            << threads << " threads, " << rows << " rows, " << name_of(dtype);
      }
  }
}

// Checkpoints come in 16 bits, and GPT-2's transposed.
TEST(Linear, ReadsWeightsOfEveryDtypeAsTheyLie) {
  constexpr std::int64_t kIn = 77, kOut = 70, kRows = 3;
  for (const DType stored : {DType::f32, DType::f16, DType::bf16})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const Words words : {Words::widened, Words::pairs}) {
        if (words == Words::pairs && (dtype != DType::bf16 || !has_pairs())) continue;
        std::mt19937 random(11);
        const Tensor weight = random_tensor(stored, {kOut, kIn}, random),
                     x = random_tensor(dtype, {kRows, kIn}, random), exact = converted(weight.view(), DType::f32),
                     turned(stored, {kIn, kOut});
        TensorView transposed = turned.view();
        transposed.shape = {kOut, kIn}, transposed.strides = {1, kOut};
        copy(weight.view(), transposed);
        const auto product = [&](const TensorView& matrix) {
          Tensor out(dtype, {kRows, kOut});
          const PackedLinear packed = panels_of({.weight = {matrix}, .bias = {}, .dtype = dtype}, words);
          cpu_backend.matmul.run(packed, {.x = x.data(), .out = out.data(), .rows = kRows});
          return std::vector<std::byte>(out.as<std::byte>(), out.as<std::byte>() + out.bytes());
        };
        EXPECT_EQ(product(weight.view()), product(exact.view())) << name_of(stored) << " for " << name_of(dtype);
        EXPECT_EQ(product(transposed), product(exact.view())) << name_of(stored) << " for " << name_of(dtype);
      }
}

// The same of what packs by itself in another order.
TEST(OneDnnLinear, ReadsWeightsOfEveryDtype) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const DType stored : {DType::f32, DType::f16, DType::bf16}) {
      if (dtype == DType::bf16 && !open_device("cpu").caps.bf16_dot) continue;
      std::mt19937 random(12);
      const Tensor above = random_tensor(stored, {40, 24}, random), below = random_tensor(stored, {30, 24}, random),
                   x = random_tensor(dtype, {12, 24}, random), out(dtype, {12, 70}), want(dtype, {12, 70}),
                   exact_above = converted(above.view(), DType::f32), exact_below = converted(below.view(), DType::f32);
      const LinearCall call{.x = x.data(), .out = out.data(), .rows = 12};
      cpu::pack_onednn({.weight = {above.view(), below.view()}, .bias = {}, .dtype = dtype})->run(call);
      const PackedLinear exact =
          panels_of({.weight = {exact_above.view(), exact_below.view()}, .bias = {}, .dtype = dtype}, Words::widened);
      cpu_backend.matmul.run(exact, {.x = x.data(), .out = want.data(), .rows = 12});
      for (std::int64_t i = 0; i < out.size(); ++i)
        ASSERT_NEAR(element(out, i), element(want, i), 4 * rounding(dtype) * (1 + std::abs(element(want, i))))
            << name_of(stored) << " for " << name_of(dtype) << ", element " << i;
    }
}

#ifndef STOF_SANITIZED
// A vocabulary's matrix of 256,000 rows of 8192 has 4 GB in 16 bits: there is no room for it in fp32 besides.
constexpr std::int64_t kWide = 2048;
Tensor wide_zeros(std::int64_t rows) {
  Tensor weight(DType::bf16, {rows, kWide});
  std::memset(weight.data(), 0, weight.bytes());
  return weight;
}

TEST(Linear, PacksAMatrixInTheMemoryThatItTakes) {
  constexpr std::int64_t kOut = 16384;
  constexpr std::size_t kPacked = std::size_t{4} * kWide * kOut, kBeside = std::size_t{32} << 20;
  const auto packed = [](const Tensor& weight) {
    return panels_of({.weight = {weight.view()}, .bias = {}, .dtype = DType::f32}, Words::widened);
  };
  packed(wide_zeros(64));  // threads have their stacks
  const Tensor weight = wide_zeros(kOut);
  const RoomForMemory room(kPacked + kBeside);
  EXPECT_NE(packed(weight), nullptr);
}

TEST(OneDnnLinear, PacksAMatrixInTheMemoryThatItTakes) {
  if (!open_device("cpu").caps.bf16_dot) GTEST_SKIP() << "no dot product of bf16";
  constexpr std::int64_t kOut = 65536;
  // Code is written where 64 MB are found to be free.
  constexpr std::size_t kPacked = std::size_t{2} * kWide * kOut, kBeside = std::size_t{128} << 20;
  const auto packed = [](const Tensor& weight) {
    return cpu::pack_onednn({.weight = {weight.view()}, .bias = {}, .dtype = DType::bf16});
  };
  packed(wide_zeros(64));
  const Tensor weight = wide_zeros(kOut);
  const RoomForMemory room(2 * kPacked + kBeside);
  EXPECT_NE(packed(weight), nullptr);
}
#endif

}  // namespace
}  // namespace stof
