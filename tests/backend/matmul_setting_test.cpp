// SPDX-License-Identifier: Apache-2.0
// Settings of matmul as text and as a list for a problem: needs no device.
#include "src/backend/matmul_setting.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/backend/contract.h"
#include "tests/expect_error.h"

namespace stof {
namespace {

TEST(MatmulSetting, IsReadBackFromItsText) {
  for (const char* text : {"cublaslt", "wgmma 128x192 k64 s4 w2 t1 split1", "wgmma 64x64 k64 s6 w1 t2 split8",
                           "wgmma 128x192 k64 s4 w1 t2 split1 share2", "mma 128x128 k32 s4 w8 t1 split1", "gemv 16"}) {
    EXPECT_EQ(text_of(matmul_setting_of(text)), text);
  }
  EXPECT_EQ(matmul_setting_of("cublaslt"), MatmulSetting{});
  EXPECT_EQ(matmul_setting_of("wgmma 128x192 k64 s4 w2 t1 split5"),
            (MatmulSetting{.kernel = MatmulSetting::Kernel::wgmma,
                           .rows = 128,
                           .columns = 192,
                           .depth = 64,
                           .stages = 4,
                           .warpgroups = 2,
                           .teams = 1,
                           .split = 5}));
}

TEST(MatmulSetting, RefusesOtherText) {
  for (const char* text : {"", "cublas", "cublaslt ", "wgmma", "wgmma 128x192", "wgmma 128x192 k64 s4 w2 t1 split0",
                           "wgmma 128x192 k64 s4 w2 t1 split1 ", "wgmma 128x192 k64 s4 w2 t1 split-1",
                           "wgmma  128x192 k64 s4 w2 t1 split1", "wgmma 128x99999999999 k64 s4 w2 t1 split1", "mma",
                           "mm 128x128 k32 s4 w8 t1 split1", "wgmma 128x192 k64 s4 w2 t1 split1 share1",
                           "wgmma 128x192 k64 s4 w2 t1 split1 share", "gemv", "gemv 0", "gemv 16 ",
                           "wgmma 128x192 k64 s4 w2 t1 split1 share2 "})
    EXPECT_ERROR(matmul_setting_of(text), ErrorKind::invalid_argument,
                 "matmul setting '" + std::string(text) +
                     "'; accepted: cublaslt, or one like 'wgmma 128x192 k64 s4 w2 t1 split1', with ' share2' behind it "
                     "or not, 'mma 128x128 k32 s4 w8 t1 split1', or 'gemv 16'");
}

// A problem of BERT-base; nothing looks at the weights themselves.
LinearSpec spec_on(const Device& device) {
  LinearSpec spec{.weight = {}, .bias = {}, .dtype = DType::f16, .device = &device};
  spec.weight.push_back(view_of(nullptr, DType::f16, {768, 3072}));
  return spec;
}

TEST(MatmulSettings, HoldCublasltWhereItDoesWhatIsAskedFor) {
  const MatmulOperations& matmul = cuda_backend.matmul;
  for (const char* name : {"cuda:h200", "cuda:a100"}) {
    const Device device = open_device(name);
    LinearSpec spec = spec_on(device);
    const auto holds = [&] {
      for (const MatmulChoice& choice : matmul.settings(spec, 128))
        if (choice.setting == MatmulSetting{}) return true;
      return false;
    };
    EXPECT_TRUE(holds());
    EXPECT_EQ(matmul.refuses(spec, 128, {}), std::nullopt);
    spec.moments = true;
    EXPECT_FALSE(holds());
    EXPECT_EQ(matmul.refuses(spec, 128, {}), "cublaslt has no layer norm of operands and no moments");
    spec.moments = false, spec.residual = true, spec.activation = Activation::silu;
    EXPECT_FALSE(holds());
    EXPECT_EQ(matmul.refuses(spec, 128, {}), "cublaslt has no matmul with both silu and a residual");
  }
}

TEST(MatmulSettings, AreOfCublasltAloneWithTanh) {
  const Device device = open_device("cuda:h200");
  LinearSpec spec = spec_on(device);
  spec.activation = Activation::tanh;
  const std::vector<MatmulChoice> choices = cuda_backend.matmul.settings(spec, 128);
  ASSERT_EQ(choices.size(), 1);
  EXPECT_EQ(choices[0].setting, MatmulSetting{});
  for (const char* setting : {"wgmma 128x192 k64 s4 w2 t1 split1", "mma 128x128 k32 s4 w8 t1 split1", "gemv 16"})
    EXPECT_EQ(cuda_backend.matmul.refuses(spec, 4, matmul_setting_of(setting)),
              std::string(setting).substr(0, std::string(setting).find(' ')) + " has no tanh after a product");
}

TEST(MatmulSettings, OfNothingCostALaunch) {
  const MatmulOperations& matmul = cuda_backend.matmul;
  const Device device = open_device("cuda:h200");
  LinearSpec spec = spec_on(device);
  const auto expect_a_launch = [&](std::int64_t rows) {
    const std::vector<MatmulChoice> choices = matmul.settings(spec, rows);
    EXPECT_FALSE(choices.empty());
    for (const MatmulChoice& choice : choices) {
      EXPECT_GT(choice.predicted_us, 0) << text_of(choice.setting);
      EXPECT_LT(choice.predicted_us, 2) << text_of(choice.setting);
    }
  };
  expect_a_launch(0);
  spec.weight = {view_of(nullptr, DType::f16, {0, 3072})};
  EXPECT_TRUE(matmul.takes(spec));
  expect_a_launch(128);
  spec.weight = {view_of(nullptr, DType::f16, {768, 0})};
  EXPECT_FALSE(matmul.takes(spec));
  EXPECT_EQ(matmul.refuses(spec, 128, {}), "cublaslt takes an inner dimension from 1 on; in is 0");
}

TEST(MatmulSettings, RefuseByName) {
  const MatmulOperations& matmul = cuda_backend.matmul;
  const Device device = open_device("cuda:h200"), older = open_device("cuda:a100");
  const auto why_not = [&](const LinearSpec& spec, const char* setting) {
    return matmul.refuses(spec, 128, matmul_setting_of(setting)).value_or("taken");
  };
  LinearSpec spec = spec_on(device);
  const char* const kTurns = "wgmma 128x192 k64 s4 w1 t2 split1";
  EXPECT_EQ(why_not(spec, kTurns), "taken");
  EXPECT_EQ(why_not(spec, "wgmma 128x192 k64 s9 w1 t2 split1"),
            "there is no kernel for 'wgmma 128x192 k64 s9 w1 t2 split1'");
  EXPECT_EQ(why_not(spec_on(older), kTurns), "wgmma needs compute capability 9.0; NVIDIA A100 (described) has 8.0");
  spec.moments = true;
  EXPECT_EQ(why_not(spec, kTurns), "taken");
  EXPECT_EQ(why_not(spec, "wgmma 128x72 k64 s7 w2 t1 split1"),
            "moments are of 64 columns, which the tiles of 'wgmma 128x72 k64 s7 w2 t1 split1' cut");
  spec.moments = false;
  spec.weight = {view_of(nullptr, DType::f16, {768, 128})};
  EXPECT_EQ(why_not(spec, "wgmma 64x64 k64 s4 w1 t1 split4"), "4 CTAs cannot share the 2 steps of 128 values");
  spec.weight = {view_of(nullptr, DType::f16, {768, 100})};
  EXPECT_EQ(why_not(spec, kTurns), "wgmma takes multiples of 8 from 8 on; in is 100");
  spec.dtype = DType::f32, spec.moments = true;
  EXPECT_EQ(why_not(spec, kTurns), "wgmma multiplies f16 and bf16, not f32");
  EXPECT_ERROR(matmul.pack(spec), ErrorKind::unsupported,
               "no matmul on CUDA takes this:\n  cublaslt has no layer norm of operands and no moments\n  wgmma "
               "multiplies f16 and bf16, not f32");
  spec = spec_on(device), spec.device = nullptr, spec.dtype = DType::f32, spec.moments = true;
  EXPECT_ERROR(cpu_backend.matmul.pack(spec), ErrorKind::unsupported,
               "no matmul with a layer norm of its operands on the CPU; accepted: none");
}

// Any tile has whole pairs, and any part of an inner dimension; columns find their angle by a mask.
TEST(MatmulSettings, OfTurnedHeadsAreOurs) {
  const MatmulOperations& matmul = cuda_backend.matmul;
  const Device device = open_device("cuda:h200");
  LinearSpec spec = spec_on(device);
  spec.weight = {view_of(nullptr, DType::f16, {2304, 768})};
  spec.turned = TurnedHeads{24, 64};
  const auto why_not = [&](const char* setting) {
    return matmul.refuses(spec, 128, matmul_setting_of(setting)).value_or("taken");
  };
  for (const char* setting : {"wgmma 128x72 k64 s7 w2 t1 split1", "wgmma 128x192 k64 s4 w1 t2 split1 share2",
                              "wgmma 64x64 k64 s4 w1 t1 split4", "mma 64x64 k32 s4 w2 t1 split1"})
    EXPECT_EQ(why_not(setting), "taken") << setting;
  EXPECT_EQ(why_not("cublaslt"), "cublaslt turns no heads");
  const char* const kTile = "wgmma 64x64 k64 s6 w1 t1 split1";
  for (const std::int64_t head_dim : {32, 96}) {
    spec.turned->head_dim = head_dim;
    EXPECT_EQ(why_not(kTile), fmt::format("wgmma turns heads of 64, 128, 256, ... columns, not {}", head_dim));
  }
  EXPECT_FALSE(matmul.takes(spec));
  spec.turned = TurnedHeads{24, 128};
  EXPECT_EQ(why_not(kTile), "24 heads of 128 columns are more than the product's 2304");
  spec.turned = TurnedHeads{12, 128};
  EXPECT_EQ(why_not(kTile), "taken");
  spec.residual = true;
  EXPECT_EQ(why_not(kTile), "wgmma has nothing after heads that are turned: no gate, activation, residual, moments");
  spec.residual = false, spec.device = nullptr, spec.dtype = DType::f32;
  EXPECT_FALSE(cpu_backend.matmul.takes(spec));
  EXPECT_ERROR(cpu_backend.matmul.pack(spec), ErrorKind::unsupported,
               "no matmul that turns heads on the CPU; accepted: none turned");
  spec.turned = std::nullopt, spec.paired = true;
  EXPECT_FALSE(cpu_backend.matmul.takes(spec));
  EXPECT_ERROR(cpu_backend.matmul.pack(spec), ErrorKind::unsupported,
               "no matmul with paired halves on the CPU; accepted: one after the other");
}

TEST(MatmulSettings, OfAGateAreThoseWhoseTilesHoldBothHalves) {
  const MatmulOperations& matmul = cuda_backend.matmul;
  const Device device = open_device("cuda:h200");
  LinearSpec spec = spec_on(device);  // 384 columns
  spec.gate = true, spec.activation = Activation::silu;
  const auto why_not = [&](const char* setting) {
    return matmul.refuses(spec, 128, matmul_setting_of(setting)).value_or("taken");
  };
  EXPECT_EQ(why_not("wgmma 64x64 k64 s6 w1 t1 split1"), "taken");
  EXPECT_EQ(why_not("mma 64x64 k32 s4 w2 t1 split1"), "taken");
  EXPECT_EQ(why_not("cublaslt"), "cublaslt has no product of a gate with what it lets through");
  EXPECT_EQ(why_not("wgmma 64x64 k64 s4 w1 t1 split4"),
            "the tiles of 'wgmma 64x64 k64 s4 w1 t1 split4' do not hold a gate and what it lets through");
  EXPECT_EQ(why_not("wgmma 128x72 k64 s7 w2 t1 split1"),
            "the tiles of 'wgmma 128x72 k64 s7 w2 t1 split1' do not hold a gate and what it lets through");
  EXPECT_FALSE(matmul.settings(spec, 128).empty());
  spec.residual = true;
  EXPECT_EQ(why_not("wgmma 64x64 k64 s6 w1 t1 split1"),
            "wgmma has nothing after the product of a gate: no residual, no moments");
  spec.residual = false, spec.weight = {view_of(nullptr, DType::f16, {24, 768})};
  EXPECT_EQ(why_not("wgmma 64x64 k64 s6 w1 t1 split1"), "wgmma takes multiples of 8 from 8 on; out is 12");
  spec.device = nullptr, spec.dtype = DType::f32, spec.residual = true;
  EXPECT_FALSE(cpu_backend.matmul.takes(spec));
  EXPECT_ERROR(cpu_backend.matmul.pack(spec), ErrorKind::unsupported,
               "no matmul with a gate and a residual in f32 on this CPU; accepted: no residual");
}

// The twin for compute capability 8.0 and later.
TEST(MatmulSettings, RefuseMmaByName) {
  const MatmulOperations& matmul = cuda_backend.matmul;
  const Device device = open_device("cuda:a100"), newer = open_device("cuda:h200");
  const MatmulSetting tile = matmul_setting_of("mma 128x128 k32 s4 w8 t1 split1");
  LinearSpec spec = spec_on(device);
  EXPECT_EQ(matmul.refuses(spec, 128, tile), std::nullopt);
  EXPECT_EQ(matmul.refuses(spec_on(newer), 128, tile), std::nullopt);
  for (const MatmulChoice& choice : matmul.settings(spec, 128)) EXPECT_EQ(choice.setting, MatmulSetting{});
  EXPECT_EQ(matmul.refuses(spec, 128, matmul_setting_of("mma 128x128 k32 s9 w8 t1 split1")),
            "there is no kernel for 'mma 128x128 k32 s9 w8 t1 split1'");
  Device old = device;
  old.caps.arch = 75;
  EXPECT_EQ(matmul.refuses(spec_on(old), 128, tile),
            "mma needs compute capability 8.0; NVIDIA A100 (described) has 7.5");
  spec.dtype = DType::f32;
  EXPECT_EQ(matmul.refuses(spec, 128, tile), "mma multiplies f16 and bf16, not f32");
  spec.dtype = DType::f16, spec.weight = {view_of(nullptr, DType::f16, {100, 768})};
  EXPECT_EQ(matmul.refuses(spec, 128, tile), "mma takes multiples of 8 from 8 on; out is 100");
}

// What no device has been seen to gain by runs by name alone.
TEST(MatmulSettings, AreChosenFromThoseThatWereMeasured) {
  const MatmulOperations& matmul = cuda_backend.matmul;
  const Device device = open_device("cuda:h200");
  const LinearSpec spec = spec_on(device);
  const auto listed = [&](const char* text) {
    for (const MatmulChoice& choice : matmul.settings(spec, 512))
      if (choice.setting == matmul_setting_of(text)) return true;
    return false;
  };
  EXPECT_TRUE(listed("wgmma 128x72 k64 s7 w2 t1 split1"));
  const char* const kTwin = "mma 128x128 k32 s4 w8 t1 split1";
  EXPECT_FALSE(listed(kTwin));
  EXPECT_EQ(matmul.refuses(spec, 512, matmul_setting_of(kTwin)), std::nullopt);
}

// A tile that is good for many rows leaves most of the GPU idle with few.
TEST(MatmulSettings, FitTheNumberOfRows) {
  const Device device = open_device("cuda:h200");
  LinearSpec spec = spec_on(device);
  spec.moments = true;  // cuBLASLt does not take it
  const auto first = [&](std::int64_t rows) { return cuda_backend.matmul.settings(spec, rows).front(); };
  EXPECT_EQ(first(128).setting.rows * first(128).setting.columns, 64 * 64) << text_of(first(128).setting);
  EXPECT_GE(first(4096).setting.rows * first(4096).setting.columns, 128 * 192) << text_of(first(4096).setting);
  EXPECT_LT(first(128).predicted_us, first(4096).predicted_us);
  EXPECT_NEAR(first(32768).predicted_us / first(4096).predicted_us, 8, 2);
}

// Three tiles below each other are four CTAs where two share the weight.
TEST(MatmulSettings, CountCtasWithoutRows) {
  const Device device = open_device("cuda:h200");
  const auto us = [&](const char* setting, std::int64_t rows) {
    for (const MatmulChoice& choice : cuda_backend.matmul.settings(spec_on(device), rows))
      if (choice.setting == matmul_setting_of(setting)) return choice.predicted_us;
    return 0.0;
  };
  const char* const kShared = "wgmma 128x64 k64 s8 w2 t1 split1 share2";
  EXPECT_EQ(us(kShared, 384), us(kShared, 512));
  EXPECT_GT(us(kShared, 384), 0);
}

TEST(MatmulSettings, ComeWithTheShortestPredictedTimeFirst) {
  const Device device = open_device("cuda:h200");
  for (const std::int64_t rows : {1, 128, 4096, 32768}) {
    double last = 0;
    for (const MatmulChoice& choice : cuda_backend.matmul.settings(spec_on(device), rows)) {
      EXPECT_GT(choice.predicted_us, 0);
      EXPECT_GE(choice.predicted_us, last) << text_of(choice.setting);
      last = choice.predicted_us;
    }
  }
}

}  // namespace
}  // namespace stof
